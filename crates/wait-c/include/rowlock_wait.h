/* Barriers, locks and signals whose threads wait by a rule: spin, yield or block, depending on the load.
 *
 * Functions return 0 or an error number of <errno.h>. rowlock_strerror() describes the number, and
 * rowlock_message() the failed call. A function stores values in its output arguments only if it
 * returns 0, unless its comment says otherwise. Handles are const, since only the library changes the
 * objects. Any thread may use them. An argument that is a pointer is NULL or valid during the call, and
 * a text ends with a null character.
 *
 * A rule is a text as listed by the command `rowlock policies`: "adaptive" (the meaning of NULL),
 * "always-block", "2cs+", "44 us" and others.
 *
 * This file is generated from the library's sources. Licence: Apache-2.0 OR MIT. */

#ifndef ROWLOCK_WAIT_H
#define ROWLOCK_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

// The maximum number of parties of a barrier.
#define ROWLOCK_BARRIER_MAX_PARTIES 1048576

// A barrier, at which a team of threads meets repeatedly.
//
// All that happened before a party's arrival is visible to all parties after the wait of that
// round.
struct rowlock_barrier;

// A condition variable: threads that hold a mutex wait until they are notified of a change.
//
// A wait may end spuriously, so a thread must check its condition in a loop.
struct rowlock_condvar;

// An event, at which threads wait until it is set.
struct rowlock_event;

// A latch, at which threads wait until it has been counted down to zero. Then it is open, and all
// threads pass.
struct rowlock_latch;

// A mutex, held by one thread at a time. All that a thread did while it held the mutex is visible
// to later holders.
struct rowlock_mutex;

// A reader-writer lock, held by many threads as readers or by one as a writer.
struct rowlock_rwlock;

// A number of permits, which threads acquire and release. A function that changes the number
// returns the result of that same atomic step.
struct rowlock_semaphore;

// Counts of the waits at an object so far. An unfinished wait counts as a wait, but its other
// counts are added at its end.
struct rowlock_statistics {
  // At a barrier the number of arrivals. Elsewhere the number of waits that did not succeed
  // immediately.
  uint64_t waits;
  // Waits in which the thread spun.
  uint64_t spins;
  // Waits that ended while the thread was spinning.
  uint64_t successful_spins;
  // Running time spent spinning, in nanoseconds.
  uint64_t spin_nanoseconds;
  // How often a thread yielded its CPU.
  uint64_t yields;
  // How often a thread blocked.
  uint64_t blocks;
  // How often a thread found that yielding cost the others too much, and switched them to
  // another way of waiting.
  uint64_t strikes;
  // How often a thread migrated to another CPU.
  uint64_t moves;
  // Time from blocking to running again, in nanoseconds.
  uint64_t block_nanoseconds;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// A short description of a number that a function of this library returns. Never NULL. The text
// remains valid forever.
const char *rowlock_strerror(int code);

// A message about the last failed call of this thread, with names and numbers. Empty if no call
// has failed. Never NULL. The text remains valid until the next failed call of this thread.
const char *rowlock_message(void);

// Creates a barrier for `parties` threads that wait by this rule (NULL: "adaptive").
//
// Returns 0, or EINVAL if `barrier` is NULL, `parties` is 0 or more than
// ROWLOCK_BARRIER_MAX_PARTIES, or `rule` is not a rule; then `*barrier` is NULL.
int rowlock_barrier_create(struct rowlock_barrier **barrier, uint32_t parties, const char *rule);

// Like `rowlock_barrier_create`. In each round the last thread to arrive calls `completion` with
// `argument` before the others are released. The function must neither throw nor use this barrier.
int rowlock_barrier_create_with_completion(struct rowlock_barrier **barrier,
                                           uint32_t parties,
                                           const char *rule,
                                           void (*completion)(void *argument),
                                           void *argument);

// Frees a barrier that no thread will use any more. Threads that it has released may still be
// leaving. NULL is allowed.
void rowlock_barrier_destroy(struct rowlock_barrier *barrier);

// Arrives, and waits until as many threads as there are parties have arrived. `*leads` is true for
// the last one to arrive and false for the others. `leads` may be NULL.
//
// Returns 0, or EINVAL if `barrier` is NULL.
int rowlock_barrier_wait(const struct rowlock_barrier *barrier, bool *leads);

// Like `rowlock_barrier_wait`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`. After
// a timeout the arrival still counts. Its number is stored in `*arrival`, unless that is NULL, and
// the thread can continue to wait for its round by `rowlock_barrier_complete`.
//
// Returns 0, ETIMEDOUT, or EINVAL, which is no arrival.
int rowlock_barrier_wait_until(const struct rowlock_barrier *barrier,
                               const struct timespec *deadline,
                               bool *leads,
                               uint64_t *arrival);

// Like `rowlock_barrier_wait_until`, with a timeout in nanoseconds that begins now.
int rowlock_barrier_wait_timeout(const struct rowlock_barrier *barrier,
                                 uint64_t nanoseconds,
                                 bool *leads,
                                 uint64_t *arrival);

// Arrives `count` times in one round (usually 1) without waiting. Stores the number of the arrival
// in `*arrival`, for `rowlock_barrier_complete`.
//
// Returns 0, or EINVAL, which is no arrival, if `barrier` or `arrival` is NULL, or `count` is 0 or
// more than the number of parties. Additional arrivals count for the next round; then the number
// is that of the last one.
int rowlock_barrier_arrive(const struct rowlock_barrier *barrier, uint32_t count, uint64_t *arrival);

// Arrives for the last time without waiting: later rounds do not wait for the calling thread.
//
// Returns 0, or EINVAL if `barrier` is NULL or all parties have left. A thread that has left must
// not use the barrier again.
int rowlock_barrier_arrive_and_drop(const struct rowlock_barrier *barrier);

// Waits until all have arrived in the round of the arrival with this number, made by any thread.
// `*leads` is as for `rowlock_barrier_wait`.
//
// Returns 0, or EINVAL if `barrier` is NULL or there has been no such arrival.
int rowlock_barrier_complete(const struct rowlock_barrier *barrier, uint64_t arrival, bool *leads);

// Like `rowlock_barrier_complete`, but does not wait.
//
// Returns 0, EBUSY if a party is missing, or EINVAL.
int rowlock_barrier_trycomplete(const struct rowlock_barrier *barrier, uint64_t arrival);

// Like `rowlock_barrier_complete`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
// After a timeout the number can be used again.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_barrier_complete_until(const struct rowlock_barrier *barrier,
                                   uint64_t arrival,
                                   const struct timespec *deadline,
                                   bool *leads);

// Like `rowlock_barrier_complete_until`, with a timeout in nanoseconds that begins now.
int rowlock_barrier_complete_timeout(const struct rowlock_barrier *barrier,
                                     uint64_t arrival,
                                     uint64_t nanoseconds,
                                     bool *leads);

// Stores the counts of all waits so far in `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_barrier_statistics(const struct rowlock_barrier *barrier, struct rowlock_statistics *statistics);

// Creates a free mutex, whose threads wait by this rule (NULL: "adaptive").
//
// Returns 0, or EINVAL if `mutex` is NULL or `rule` is not a rule; then `*mutex` is NULL.
int rowlock_mutex_create(struct rowlock_mutex **mutex, const char *rule);

// Frees a mutex that no thread holds or waits for. NULL is allowed.
void rowlock_mutex_destroy(struct rowlock_mutex *mutex);

// Waits until the calling thread holds the mutex. Waits forever if it holds the mutex already.
//
// Returns 0, or EINVAL if `mutex` is NULL.
int rowlock_mutex_lock(const struct rowlock_mutex *mutex);

// Acquires the mutex if it is free, without waiting.
//
// Returns 0, EBUSY if it is not free, or EINVAL.
int rowlock_mutex_trylock(const struct rowlock_mutex *mutex);

// Like `rowlock_mutex_lock`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_mutex_lock_until(const struct rowlock_mutex *mutex, const struct timespec *deadline);

// Like `rowlock_mutex_lock`, but waits at most this number of nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_mutex_lock_timeout(const struct rowlock_mutex *mutex, uint64_t nanoseconds);

// Releases the mutex. The calling thread must hold it.
//
// Returns 0, EPERM if no thread holds it, or EINVAL.
int rowlock_mutex_unlock(const struct rowlock_mutex *mutex);

// Stores the counts of all waits so far in `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_mutex_statistics(const struct rowlock_mutex *mutex, struct rowlock_statistics *statistics);

// Creates a condition variable whose threads wait by this rule (NULL: "adaptive").
//
// Returns 0, or EINVAL if `condvar` is NULL or `rule` is not a rule; then `*condvar` is NULL.
int rowlock_condvar_create(struct rowlock_condvar **condvar, const char *rule);

// Frees a condition variable that no thread uses any more: all calls have returned. NULL is
// allowed.
void rowlock_condvar_destroy(struct rowlock_condvar *condvar);

// Releases the mutex, which the calling thread must hold, waits for a notification, and acquires
// the mutex again.
//
// Returns 0, EPERM if no thread holds the mutex, or EINVAL if an argument is NULL.
int rowlock_condvar_wait(const struct rowlock_condvar *condvar, const struct rowlock_mutex *mutex);

// Like `rowlock_condvar_wait`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`. The
// calling thread always acquires the mutex again, however long that takes.
//
// Returns 0, ETIMEDOUT, EPERM, or EINVAL.
int rowlock_condvar_wait_until(const struct rowlock_condvar *condvar,
                               const struct rowlock_mutex *mutex,
                               const struct timespec *deadline);

// Like `rowlock_condvar_wait_until`, with a timeout in nanoseconds that begins now.
int rowlock_condvar_wait_timeout(const struct rowlock_condvar *condvar,
                                 const struct rowlock_mutex *mutex,
                                 uint64_t nanoseconds);

// Wakes the thread that has waited longest. Waits for no other thread, except for one that begins
// or ends a wait, or notifies, in the same moment.
//
// Returns 0, or EINVAL if `condvar` is NULL.
int rowlock_condvar_signal(const struct rowlock_condvar *condvar);

// Wakes all waiting threads. Waits for no other thread, like `rowlock_condvar_signal`.
//
// Returns 0, or EINVAL if `condvar` is NULL.
int rowlock_condvar_broadcast(const struct rowlock_condvar *condvar);

// Stores the counts of all waits so far in `*statistics`, excluding the waits for the mutex.
//
// Returns 0, or EINVAL.
int rowlock_condvar_statistics(const struct rowlock_condvar *condvar, struct rowlock_statistics *statistics);

// Creates a free lock, whose threads wait by this rule (NULL: "adaptive").
//
// Returns 0, or EINVAL if `rwlock` is NULL or `rule` is not a rule; then `*rwlock` is NULL.
int rowlock_rwlock_create(struct rowlock_rwlock **rwlock, const char *rule);

// Frees a lock that no thread holds or waits for. NULL is allowed.
void rowlock_rwlock_destroy(struct rowlock_rwlock *rwlock);

// Waits until the calling thread holds the lock as a reader.
//
// Returns 0, or EINVAL if `rwlock` is NULL.
int rowlock_rwlock_rdlock(const struct rowlock_rwlock *rwlock);

// Acquires the lock as a reader if that is possible immediately, without waiting.
//
// Returns 0, EBUSY if it is not possible, or EINVAL.
int rowlock_rwlock_tryrdlock(const struct rowlock_rwlock *rwlock);

// Like `rowlock_rwlock_rdlock`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_rwlock_rdlock_until(const struct rowlock_rwlock *rwlock, const struct timespec *deadline);

// Like `rowlock_rwlock_rdlock`, but waits at most this number of nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_rwlock_rdlock_timeout(const struct rowlock_rwlock *rwlock, uint64_t nanoseconds);

// Releases the lock, which the calling thread must hold as a reader.
//
// Returns 0, EPERM if no thread holds it as a reader, or EINVAL.
int rowlock_rwlock_rdunlock(const struct rowlock_rwlock *rwlock);

// Waits until the calling thread holds the lock as a writer. Waits forever if it holds the lock
// already.
//
// Returns 0, or EINVAL if `rwlock` is NULL.
int rowlock_rwlock_wrlock(const struct rowlock_rwlock *rwlock);

// Acquires the lock as a writer if that is possible immediately, without waiting.
//
// Returns 0, EBUSY if it is not possible, or EINVAL.
int rowlock_rwlock_trywrlock(const struct rowlock_rwlock *rwlock);

// Like `rowlock_rwlock_wrlock`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_rwlock_wrlock_until(const struct rowlock_rwlock *rwlock, const struct timespec *deadline);

// Like `rowlock_rwlock_wrlock`, but waits at most this number of nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_rwlock_wrlock_timeout(const struct rowlock_rwlock *rwlock, uint64_t nanoseconds);

// Releases the lock, which the calling thread must hold as a writer.
//
// Returns 0, EPERM if no thread holds it as a writer, or EINVAL.
int rowlock_rwlock_wrunlock(const struct rowlock_rwlock *rwlock);

// Stores the counts of all waits so far in `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_rwlock_statistics(const struct rowlock_rwlock *rwlock, struct rowlock_statistics *statistics);

// Creates a semaphore with `permits` permits, whose threads wait by this rule (NULL: "adaptive").
//
// Returns 0, or EINVAL if `semaphore` is NULL or `rule` is not a rule; then `*semaphore` is NULL.
int rowlock_semaphore_create(struct rowlock_semaphore **semaphore, uint32_t permits, const char *rule);

// Frees a semaphore that no thread uses any more: all calls have returned. NULL is allowed.
void rowlock_semaphore_destroy(struct rowlock_semaphore *semaphore);

// Waits for a permit and acquires it. Stores the number of permits left in `*left`, unless that is
// NULL.
//
// Returns 0, or EINVAL if `semaphore` is NULL.
int rowlock_semaphore_down(const struct rowlock_semaphore *semaphore, uint32_t *left);

// Like `rowlock_semaphore_down`, but does not wait.
//
// Returns 0, EBUSY if there is no permit, or EINVAL.
int rowlock_semaphore_trydown(const struct rowlock_semaphore *semaphore, uint32_t *left);

// Like `rowlock_semaphore_down`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_semaphore_down_until(const struct rowlock_semaphore *semaphore,
                                 const struct timespec *deadline,
                                 uint32_t *left);

// Like `rowlock_semaphore_down`, but waits at most this number of nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_semaphore_down_timeout(const struct rowlock_semaphore *semaphore, uint64_t nanoseconds, uint32_t *left);

// Adds a permit. Stores the number of permits in `*permits`, unless that is NULL.
//
// Returns 0, EOVERFLOW if there are UINT32_MAX, or EINVAL.
int rowlock_semaphore_up(const struct rowlock_semaphore *semaphore, uint32_t *permits);

// Like `rowlock_semaphore_up`, with `more` permits in one step. All or none are added.
int rowlock_semaphore_up_by(const struct rowlock_semaphore *semaphore, uint32_t more, uint32_t *permits);

// Stores the current number of permits in `*permits`. It may be out of date immediately.
//
// Returns 0, or EINVAL.
int rowlock_semaphore_value(const struct rowlock_semaphore *semaphore, uint32_t *permits);

// Stores the counts of all waits so far in `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_semaphore_statistics(const struct rowlock_semaphore *semaphore, struct rowlock_statistics *statistics);

// Creates an event that is not set, whose threads wait by this rule (NULL: "adaptive"). If
// `manual_reset` is false, the first thread that passes resets it. Otherwise all threads pass
// until `rowlock_event_reset` resets it.
//
// Returns 0, or EINVAL if `event` is NULL or `rule` is not a rule; then `*event` is NULL.
int rowlock_event_create(struct rowlock_event **event, bool manual_reset, const char *rule);

// Frees an event that no thread uses any more: all calls have returned. NULL is allowed.
void rowlock_event_destroy(struct rowlock_event *event);

// Sets the event. Never waits.
//
// Returns 0, or EINVAL if `event` is NULL.
int rowlock_event_set(const struct rowlock_event *event);

// Resets the event. Stores in `*was_set` whether it was set, unless that is NULL. Never waits.
//
// Returns 0, or EINVAL if `event` is NULL.
int rowlock_event_reset(const struct rowlock_event *event, bool *was_set);

// Waits until the event is set.
//
// Returns 0, or EINVAL if `event` is NULL.
int rowlock_event_wait(const struct rowlock_event *event);

// Passes if the event is set, without waiting.
//
// Returns 0, EBUSY if it is not set, or EINVAL.
int rowlock_event_trywait(const struct rowlock_event *event);

// Like `rowlock_event_wait`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_event_wait_until(const struct rowlock_event *event, const struct timespec *deadline);

// Like `rowlock_event_wait`, but waits at most this number of nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_event_wait_timeout(const struct rowlock_event *event, uint64_t nanoseconds);

// Stores the counts of all waits so far in `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_event_statistics(const struct rowlock_event *event, struct rowlock_statistics *statistics);

// Creates a latch that opens after `count` counts, whose threads wait by this rule (NULL:
// "adaptive").
//
// Returns 0, or EINVAL if `latch` is NULL or `rule` is not a rule; then `*latch` is NULL.
int rowlock_latch_create(struct rowlock_latch **latch, uint32_t count, const char *rule);

// Frees a latch that no thread uses any more: all calls have returned. NULL is allowed.
void rowlock_latch_destroy(struct rowlock_latch *latch);

// Counts down by `count`, or by the number of missing counts if that is less. Stores the number of
// counts that are still missing in `*missing`, unless that is NULL. Never waits.
//
// Returns 0, or EINVAL if `latch` is NULL.
int rowlock_latch_count_down(const struct rowlock_latch *latch, uint32_t count, uint32_t *missing);

// Waits until the latch is open.
//
// Returns 0, or EINVAL if `latch` is NULL.
int rowlock_latch_wait(const struct rowlock_latch *latch);

// Counts down by one, and waits until the latch is open.
//
// Returns 0, or EINVAL if `latch` is NULL.
int rowlock_latch_arrive_and_wait(const struct rowlock_latch *latch);

// Passes if the latch is open, without waiting.
//
// Returns 0, EBUSY if it is not open, or EINVAL.
int rowlock_latch_trywait(const struct rowlock_latch *latch);

// Like `rowlock_latch_wait`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_latch_wait_until(const struct rowlock_latch *latch, const struct timespec *deadline);

// Like `rowlock_latch_wait`, but waits at most this number of nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_latch_wait_timeout(const struct rowlock_latch *latch, uint64_t nanoseconds);

// Stores the counts of all waits so far in `*statistics`.
//
// Returns 0, or EINVAL.
int rowlock_latch_statistics(const struct rowlock_latch *latch, struct rowlock_statistics *statistics);

// Waits by the adaptive rule until `*at` differs from `expected`. Stores its value in `*value`,
// unless that is NULL. Everything done before a release store of that value is visible. A
// thread that changes the word must do so by atomic operations, and call `rowlock_word_wake`
// afterwards.
//
// Returns 0, or EINVAL.
int rowlock_word_wait(uint32_t *at, uint32_t expected, uint32_t *value);

// Like `rowlock_word_wait`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_word_wait_until(uint32_t *at, uint32_t expected, const struct timespec *deadline, uint32_t *value);

// Like `rowlock_word_wait`, but waits at most this number of nanoseconds.
//
// Returns 0, ETIMEDOUT, or EINVAL.
int rowlock_word_wait_timeout(uint32_t *at, uint32_t expected, uint64_t nanoseconds, uint32_t *value);

// Wakes one of the threads that sleep until `*at` changes, or all of them. The caller has changed
// it.
//
// Returns 0, or EINVAL.
int rowlock_word_wake(uint32_t *at, bool all);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ROWLOCK_WAIT_H */
