/* Barriers, locks and signals whose waits go by a waiting rule: spin, yield or block, as the machine's load has it.
 *
 * Functions return 0, or a number as <errno.h> has them; rowlock_strerror() tells its meaning, and rowlock_message() what was
 * wrong. What a function leaves in an argument, it leaves only if it returns 0, unless its comment says otherwise. Handles are
 * const, since only the library changes what they point to; any thread may use them.
 *
 * A rule is a text as the command `rowlock policies` lists them: "adaptive" (which NULL stands for), "always-block", "2cs+",
 * "44 us" and others.
 *
 * This file is made from the library's sources. Licence: Apache-2.0 OR MIT. */

#ifndef ROWLOCK_WAIT_H
#define ROWLOCK_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

// The most parties that a barrier can have.
#define ROWLOCK_BARRIER_MAX_PARTIES 1048576

// A place where a team of threads meets: each waits there until all have arrived, again and again.
//
// All that happened before a party's arrival is visible to all parties after that round's wait.
struct rowlock_barrier;

// Threads that have a mutex wait at it until they are told that what they wait for may have come.
//
// A wait may end without a cause; whoever waits looks again, in a loop.
struct rowlock_condvar;

// Threads wait at it until it is set.
struct rowlock_event;

// Threads wait at it until it has been counted down to zero, once; then it is open, and everybody passes.
struct rowlock_latch;

// One thread has it at a time. All that a thread did while it had it is visible to who has it later.
struct rowlock_mutex;

// Many threads have it at a time as readers, or one alone as a writer.
struct rowlock_rwlock;

// A number of permits, which threads take and give back. A function that changes the number returns what it is
// after that, of the very moment.
struct rowlock_semaphore;

// What the waits at an object have come to so far. Waits that are under way count as waits, but what they have done is
// added when they are over.
struct rowlock_statistics {
  // At a barrier all arrivals; elsewhere the waits that were not over at once.
  uint64_t waits;
  // Waits in which the thread spun.
  uint64_t spins;
  // Those of them that ended while the thread was spinning.
  uint64_t successful_spins;
  // Running time spent spinning, in nanoseconds.
  uint64_t spin_nanoseconds;
  // How often a thread yielded its CPU.
  uint64_t yields;
  // How often a thread went to sleep until woken.
  uint64_t blocks;
  // How often a thread found that giving way cost the others too much, and turned them to another way of waiting.
  uint64_t strikes;
  // How often a thread went over to another CPU.
  uint64_t moves;
  // Time from going to sleep to running again, in nanoseconds.
  uint64_t block_nanoseconds;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What a number that a function of this library returns means, in a few words. Never NULL; the text stays for ever.
const char *rowlock_strerror(int code);

// What the last call of this thread that failed found wrong, with names and numbers; empty if none has failed. Never
// NULL; the text stays until the next call of this thread that fails.
const char *rowlock_message(void);

// Makes a barrier for so many threads, that wait by this rule (NULL: "adaptive").
//
// Returns 0, or EINVAL if `barrier` is NULL, `parties` is 0 or more than ROWLOCK_BARRIER_MAX_PARTIES, or `rule` is not a
// rule; then `*barrier` is NULL.
int rowlock_barrier_create(struct rowlock_barrier **barrier,
                           uint32_t parties,
                           const char *rule);

// As `rowlock_barrier_create`. In each round the last thread to arrive calls `completion` with `argument`, before the
// others are let go; it must neither throw nor use this barrier.
int rowlock_barrier_create_with_completion(struct rowlock_barrier **barrier,
                                           uint32_t parties,
                                           const char *rule,
                                           void (*completion)(void *argument),
                                           void *argument);

// Frees a barrier that no thread will come to any more. Threads that it has let go may still be on their way out. NULL is
// fine.
void rowlock_barrier_destroy(struct rowlock_barrier *barrier);

// Arrives, and waits until as many threads as there are parties have arrived. For one of them, the last to arrive, `*leads`
// is true, for the others it is false; it may be NULL.
//
// Returns 0, or EINVAL if `barrier` is NULL.
int rowlock_barrier_wait(const struct rowlock_barrier *barrier,
                         bool *leads);

// As `rowlock_barrier_wait`, but waits no longer than until `CLOCK_MONOTONIC` is at `deadline`. If that has passed, the
// arrival counts all the same; its number goes to `*arrival`, unless that is NULL, and the thread can go on waiting for its round by
// `rowlock_barrier_complete`.
//
// Returns 0, ETIMEDOUT, or EINVAL, which is no arrival.
int rowlock_barrier_wait_until(const struct rowlock_barrier *barrier,
                               const struct timespec *deadline,
                               bool *leads,
                               uint64_t *arrival);

// As `rowlock_barrier_wait_until`, with a timeout in nanoseconds that begins now.
int rowlock_barrier_wait_timeout(const struct rowlock_barrier *barrier,
                                 uint64_t nanoseconds,
                                 bool *leads,
                                 uint64_t *arrival);

// Arrives so many times in one round (mostly 1), and does not wait. The number of the arrival goes to `*arrival`, for
// `rowlock_barrier_complete`.
//
// Returns 0, or EINVAL, which is no arrival, if `barrier` or `arrival` is NULL, or `count` is 0 or more than there are parties. With
// more arrivals than are missing the rest counts for the next round, and the number is the last one's.
int rowlock_barrier_arrive(const struct rowlock_barrier *barrier,
                           uint32_t count,
                           uint64_t *arrival);

// Arrives for the last time, and does not wait: later rounds do without the calling thread.
//
// Returns 0, or EINVAL if `barrier` is NULL or as many have left as there are parties. A thread that has left must not come again.
int rowlock_barrier_arrive_and_drop(const struct rowlock_barrier *barrier);

// Waits until all have arrived in the round of the arrival with this number, by whatever thread. `*leads` is as for
// `rowlock_barrier_wait`.
//
// Returns 0, or EINVAL if `barrier` is NULL or there has been no such arrival.
int rowlock_barrier_complete(const struct rowlock_barrier *barrier, uint64_t arrival, bool *leads);

// As `rowlock_barrier_complete`, but does not wait.
//
// Returns 0, EBUSY if somebody is missing, or EINVAL.
int rowlock_barrier_trycomplete(const struct rowlock_barrier *barrier, uint64_t arrival);

// As `rowlock_barrier_complete`, but waits no longer than until `CLOCK_MONOTONIC` is at `deadline`. If that has passed, the
// number can be used again.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_barrier_complete_until(const struct rowlock_barrier *barrier,
                                   uint64_t arrival,
                                   const struct timespec *deadline,
                                   bool *leads);

// As `rowlock_barrier_complete_until`, with a timeout in nanoseconds that begins now.
int rowlock_barrier_complete_timeout(const struct rowlock_barrier *barrier,
                                     uint64_t arrival,
                                     uint64_t nanoseconds,
                                     bool *leads);

// What waiting at it has come to goes to `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_barrier_statistics(const struct rowlock_barrier *barrier, struct rowlock_statistics *statistics);

// Makes a mutex that nobody has, whose waiters go by this rule (NULL: "adaptive").
//
// Returns 0, or EINVAL if `mutex` is NULL or `rule` is not a rule; then `*mutex` is NULL.
int rowlock_mutex_create(struct rowlock_mutex **mutex, const char *rule);

// Frees a mutex that no thread has or waits for. NULL is fine.
void rowlock_mutex_destroy(struct rowlock_mutex *mutex);

// Waits until the calling thread has the mutex. It waits for ever if it has it already.
//
// Returns 0, or EINVAL if `mutex` is NULL.
int rowlock_mutex_lock(const struct rowlock_mutex *mutex);

// Takes the mutex if nobody has it, and does not wait.
//
// Returns 0, EBUSY if somebody has it, or EINVAL.
int rowlock_mutex_trylock(const struct rowlock_mutex *mutex);

// As `rowlock_mutex_lock`, but waits no longer than until `CLOCK_MONOTONIC` is at `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_mutex_lock_until(const struct rowlock_mutex *mutex, const struct timespec *deadline);

// As `rowlock_mutex_lock`, but waits no longer than so many nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_mutex_lock_timeout(const struct rowlock_mutex *mutex, uint64_t nanoseconds);

// Gives the mutex back. The calling thread must have it.
//
// Returns 0, EPERM if nobody has it, or EINVAL.
int rowlock_mutex_unlock(const struct rowlock_mutex *mutex);

// What waiting for it has come to goes to `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_mutex_statistics(const struct rowlock_mutex *mutex, struct rowlock_statistics *statistics);

// Makes a condition variable, whose waiters go by this rule (NULL: "adaptive").
//
// Returns 0, or EINVAL if `condvar` is NULL or `rule` is not a rule; then `*condvar` is NULL.
int rowlock_condvar_create(struct rowlock_condvar **condvar, const char *rule);

// Frees a condition variable that no thread uses any more: all calls have returned. NULL is fine.
void rowlock_condvar_destroy(struct rowlock_condvar *condvar);

// Gives the mutex back, which the calling thread must have, waits until it is told to go on, and takes the mutex again.
//
// Returns 0, EPERM if nobody has the mutex, or EINVAL if an argument is NULL.
int rowlock_condvar_wait(const struct rowlock_condvar *condvar, const struct rowlock_mutex *mutex);

// As `rowlock_condvar_wait`, but waits no longer than until `CLOCK_MONOTONIC` is at `deadline`. The calling thread has the mutex
// again in either case, however long that takes.
//
// Returns 0, ETIMEDOUT, EPERM, or EINVAL.
int rowlock_condvar_wait_until(const struct rowlock_condvar *condvar,
                               const struct rowlock_mutex *mutex,
                               const struct timespec *deadline);

// As `rowlock_condvar_wait_until`, with a timeout in nanoseconds that begins now.
int rowlock_condvar_wait_timeout(const struct rowlock_condvar *condvar,
                                 const struct rowlock_mutex *mutex,
                                 uint64_t nanoseconds);

// Lets one of the waiting threads go on. Never waits.
//
// Returns 0, or EINVAL if `condvar` is NULL.
int rowlock_condvar_signal(const struct rowlock_condvar *condvar);

// Lets all waiting threads go on. Never waits.
//
// Returns 0, or EINVAL if `condvar` is NULL.
int rowlock_condvar_broadcast(const struct rowlock_condvar *condvar);

// What waiting at it has come to goes to `*statistics`, without the waits for the mutex.
//
// Returns 0, or EINVAL.
int rowlock_condvar_statistics(const struct rowlock_condvar *condvar, struct rowlock_statistics *statistics);

// Makes a lock that nobody has, whose waiters go by this rule (NULL: "adaptive").
//
// Returns 0, or EINVAL if `rwlock` is NULL or `rule` is not a rule; then `*rwlock` is NULL.
int rowlock_rwlock_create(struct rowlock_rwlock **rwlock, const char *rule);

// Frees a lock that no thread has or waits for. NULL is fine.
void rowlock_rwlock_destroy(struct rowlock_rwlock *rwlock);

// Waits until the calling thread has the lock as a reader.
//
// Returns 0, or EINVAL if `rwlock` is NULL.
int rowlock_rwlock_rdlock(const struct rowlock_rwlock *rwlock);

// Takes the lock as a reader if that can be at once, and does not wait.
//
// Returns 0, EBUSY if it cannot be, or EINVAL.
int rowlock_rwlock_tryrdlock(const struct rowlock_rwlock *rwlock);

// As `rowlock_rwlock_rdlock`, but waits no longer than until `CLOCK_MONOTONIC` is at `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_rwlock_rdlock_until(const struct rowlock_rwlock *rwlock, const struct timespec *deadline);

// As `rowlock_rwlock_rdlock`, but waits no longer than so many nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_rwlock_rdlock_timeout(const struct rowlock_rwlock *rwlock, uint64_t nanoseconds);

// Gives the lock back, which the calling thread must have as a reader.
//
// Returns 0, EPERM if nobody has it as a reader, or EINVAL.
int rowlock_rwlock_rdunlock(const struct rowlock_rwlock *rwlock);

// Waits until the calling thread has the lock as a writer. It waits for ever if it has it already.
//
// Returns 0, or EINVAL if `rwlock` is NULL.
int rowlock_rwlock_wrlock(const struct rowlock_rwlock *rwlock);

// Takes the lock as a writer if that can be at once, and does not wait.
//
// Returns 0, EBUSY if it cannot be, or EINVAL.
int rowlock_rwlock_trywrlock(const struct rowlock_rwlock *rwlock);

// As `rowlock_rwlock_wrlock`, but waits no longer than until `CLOCK_MONOTONIC` is at `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_rwlock_wrlock_until(const struct rowlock_rwlock *rwlock, const struct timespec *deadline);

// As `rowlock_rwlock_wrlock`, but waits no longer than so many nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_rwlock_wrlock_timeout(const struct rowlock_rwlock *rwlock, uint64_t nanoseconds);

// Gives the lock back, which the calling thread must have as a writer.
//
// Returns 0, EPERM if nobody has it as a writer, or EINVAL.
int rowlock_rwlock_wrunlock(const struct rowlock_rwlock *rwlock);

// What waiting for it has come to goes to `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_rwlock_statistics(const struct rowlock_rwlock *rwlock, struct rowlock_statistics *statistics);

// Makes a semaphore with so many permits, whose waiters go by this rule (NULL: "adaptive").
//
// Returns 0, or EINVAL if `semaphore` is NULL or `rule` is not a rule; then `*semaphore` is NULL.
int rowlock_semaphore_create(struct rowlock_semaphore **semaphore, uint32_t permits, const char *rule);

// Frees a semaphore that no thread uses any more: all calls have returned. NULL is fine.
void rowlock_semaphore_destroy(struct rowlock_semaphore *semaphore);

// Takes a permit, waiting until there is one. How many are left goes to `*left`, unless that is NULL.
//
// Returns 0, or EINVAL if `semaphore` is NULL.
int rowlock_semaphore_down(const struct rowlock_semaphore *semaphore, uint32_t *left);

// As `rowlock_semaphore_down`, but does not wait.
//
// Returns 0, EBUSY if there is no permit, or EINVAL.
int rowlock_semaphore_trydown(const struct rowlock_semaphore *semaphore, uint32_t *left);

// As `rowlock_semaphore_down`, but waits no longer than until `CLOCK_MONOTONIC` is at `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_semaphore_down_until(const struct rowlock_semaphore *semaphore,
                                 const struct timespec *deadline,
                                 uint32_t *left);

// As `rowlock_semaphore_down`, but waits no longer than so many nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_semaphore_down_timeout(const struct rowlock_semaphore *semaphore, uint64_t nanoseconds, uint32_t *left);

// Adds a permit. How many there are goes to `*permits`, unless that is NULL.
//
// Returns 0, EOVERFLOW if there are UINT32_MAX, or EINVAL.
int rowlock_semaphore_up(const struct rowlock_semaphore *semaphore, uint32_t *permits);

// As `rowlock_semaphore_up`, with so many permits at once; all or none are added.
int rowlock_semaphore_up_by(const struct rowlock_semaphore *semaphore, uint32_t more, uint32_t *permits);

// How many permits there are goes to `*permits`; there may be others when the caller looks.
//
// Returns 0, or EINVAL.
int rowlock_semaphore_value(const struct rowlock_semaphore *semaphore, uint32_t *permits);

// What waiting at it has come to goes to `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_semaphore_statistics(const struct rowlock_semaphore *semaphore, struct rowlock_statistics *statistics);

// Makes an event that is not set, whose waiters go by this rule (NULL: "adaptive"). If `manual_reset` is false, the first
// thread that passes resets it; else `rowlock_event_reset` does, and until then all threads pass.
//
// Returns 0, or EINVAL if `event` is NULL or `rule` is not a rule; then `*event` is NULL.
int rowlock_event_create(struct rowlock_event **event,
                         bool manual_reset,
                         const char *rule);

// Frees an event that no thread uses any more: all calls have returned. NULL is fine.
void rowlock_event_destroy(struct rowlock_event *event);

// Sets it, if it is not set. Never waits.
//
// Returns 0, or EINVAL if `event` is NULL.
int rowlock_event_set(const struct rowlock_event *event);

// Resets it. Whether it was set goes to `*was_set`, unless that is NULL. Never waits.
//
// Returns 0, or EINVAL if `event` is NULL.
int rowlock_event_reset(const struct rowlock_event *event, bool *was_set);

// Waits until the event is set.
//
// Returns 0, or EINVAL if `event` is NULL.
int rowlock_event_wait(const struct rowlock_event *event);

// Passes if the event is set, and does not wait.
//
// Returns 0, EBUSY if it is not set, or EINVAL.
int rowlock_event_trywait(const struct rowlock_event *event);

// As `rowlock_event_wait`, but no longer than until `CLOCK_MONOTONIC` is at `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_event_wait_until(const struct rowlock_event *event, const struct timespec *deadline);

// As `rowlock_event_wait`, but no longer than so many nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_event_wait_timeout(const struct rowlock_event *event, uint64_t nanoseconds);

// What waiting at it has come to goes to `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_event_statistics(const struct rowlock_event *event, struct rowlock_statistics *statistics);

// Makes a latch that opens after so many counts, whose waiters go by this rule (NULL: "adaptive").
//
// Returns 0, or EINVAL if `latch` is NULL or `rule` is not a rule; then `*latch` is NULL.
int rowlock_latch_create(struct rowlock_latch **latch, uint32_t count, const char *rule);

// Frees a latch that no thread uses any more: all calls have returned. NULL is fine.
void rowlock_latch_destroy(struct rowlock_latch *latch);

// Counts so many down, at most as many as are missing. How many still are goes to `*missing`, unless that is NULL. Never
// waits.
//
// Returns 0, or EINVAL if `latch` is NULL.
int rowlock_latch_count_down(const struct rowlock_latch *latch,
                             uint32_t count,
                             uint32_t *missing);

// Waits until the latch is open.
//
// Returns 0, or EINVAL if `latch` is NULL.
int rowlock_latch_wait(const struct rowlock_latch *latch);

// Counts one down, and waits until the latch is open.
//
// Returns 0, or EINVAL if `latch` is NULL.
int rowlock_latch_arrive_and_wait(const struct rowlock_latch *latch);

// Passes if the latch is open, and does not wait.
//
// Returns 0, EBUSY if it is not open, or EINVAL.
int rowlock_latch_trywait(const struct rowlock_latch *latch);

// As `rowlock_latch_wait`, but no longer than until `CLOCK_MONOTONIC` is at `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_latch_wait_until(const struct rowlock_latch *latch, const struct timespec *deadline);

// As `rowlock_latch_wait`, but no longer than so many nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_latch_wait_timeout(const struct rowlock_latch *latch, uint64_t nanoseconds);

// What waiting at it has come to goes to `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_latch_statistics(const struct rowlock_latch *latch, struct rowlock_statistics *statistics);

// Waits by the adaptive rule until `*at` has another value than `expected`; the value that it has goes to `*value`, unless
// that is NULL. What was done before that value was stored with release is then visible. Whoever changes the word, by
// atomic operations only, must call `rowlock_word_wake` afterwards.
//
// Returns 0, or EINVAL.
int rowlock_word_wait(uint32_t *at,
                      uint32_t expected,
                      uint32_t *value);

// As `rowlock_word_wait`, but no longer than until `CLOCK_MONOTONIC` is at `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_word_wait_until(uint32_t *at, uint32_t expected, const struct timespec *deadline, uint32_t *value);

// As `rowlock_word_wait`, but no longer than so many nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_word_wait_timeout(uint32_t *at, uint32_t expected, uint64_t nanoseconds, uint32_t *value);

// Wakes one of the threads that sleep until `*at` has another value, or all of them, after the caller has changed it.
//
// Returns 0, or EINVAL.
int rowlock_word_wake(uint32_t *at, bool all);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ROWLOCK_WAIT_H */
