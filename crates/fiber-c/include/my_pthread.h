/* User-level threads under a feedback queue: the names of a user-level thread library, which mean
 * the same as their namesakes in POSIX. my_pthread_port.h gives them the names of POSIX.
 *
 * The first call makes the main thread of the program the first of these threads. All of them run on
 * that one kernel thread, and calls from others fail (EPERM). Threads take turns when they wait,
 * yield or end, and when they have used up their running time: a thread is interrupted anywhere, as
 * by a kernel. A system call that blocks stops all threads.
 *
 * Each thread has an errno and thread-local variables, whose first values may be those that an earlier
 * thread has left, and may have floating-point modes; a new one has the modes of its creator. Signal
 * handlers must not call this library.
 *
 * Functions return 0, or an error number from <errno.h>; those whose names begin with my_sem_, and
 * my_usleep, my_nanosleep and my_sched_yield, return -1 and set errno. EINVAL means a null pointer,
 * an invalid argument, or an object that is destroyed, copied or of another kind; ENOMEM, that
 * there is no memory for the first call. Signals do not interrupt waits (EINTR). A wait with a
 * deadline returns ETIMEDOUT when CLOCK_REALTIME reaches `until`, and EINVAL if `until` is invalid
 * and the thread would have to wait. When all threads wait for each other, the process aborts, with
 * a message that names them. When main returns, the process ends.
 *
 * License: Apache-2.0 OR MIT. */
#ifndef MY_PTHREAD_H
#define MY_PTHREAD_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets how many levels the queue has (1 to 1024; the default is 10), and how many microseconds a
 * thread may run at each (the default is 10000). Must be the first call, otherwise EBUSY. */
int my_pthread_configure(unsigned int levels, unsigned int running_time_us);

/* Threads */

/* A thread: never 0, and never that of an earlier thread. */
typedef uint64_t my_pthread_t;

/* The attributes of a new thread; zeros are the defaults. */
typedef struct my_pthread_attr {
    size_t stack_size; /* in bytes; the default is 256 KiB */
    const char *name;  /* for messages */
    int detached;      /* not 0: it cannot be joined */
} my_pthread_attr_t;

#define MY_PTHREAD_CREATE_JOINABLE 0
#define MY_PTHREAD_CREATE_DETACHED 1

static inline int my_pthread_attr_init(my_pthread_attr_t *attr)
{
    return attr == NULL ? EINVAL : (attr->stack_size = 0, attr->name = NULL, attr->detached = 0);
}

static inline int my_pthread_attr_destroy(my_pthread_attr_t *attr)
{
    return attr == NULL ? EINVAL : (attr->detached = -1, 0);
}

static inline int my_pthread_attr_setdetachstate(my_pthread_attr_t *attr, int detached)
{
    return attr == NULL || (detached != 0 && detached != 1) ? EINVAL : (attr->detached = detached, 0);
}

static inline int my_pthread_attr_getdetachstate(const my_pthread_attr_t *attr, int *detached)
{
    return attr == NULL || detached == NULL ? EINVAL : (*detached = attr->detached, 0);
}

/* EINVAL if it is less than 16 KiB. */
static inline int my_pthread_attr_setstacksize(my_pthread_attr_t *attr, size_t size)
{
    return attr == NULL || size < 16384 ? EINVAL : (attr->stack_size = size, 0);
}

static inline int my_pthread_attr_getstacksize(const my_pthread_attr_t *attr, size_t *size)
{
    return attr == NULL || size == NULL ? EINVAL : (*size = attr->stack_size == 0 ? 262144 : attr->stack_size, 0);
}

/* Creates a thread that calls `function` with `argument`. `attr` may be NULL. EAGAIN if there is no
 * room for another thread. */
int my_pthread_create(my_pthread_t *thread, const my_pthread_attr_t *attr, void *(*function)(void *), void *argument);

/* Ends the calling thread, as if its function had returned `value`. In the main thread, the process
 * ends when all other threads have ended. In a destructor of a key, that ends. */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void my_pthread_exit(void *value);

/* Waits until the thread has ended, and stores its result in `*value` unless `value` is NULL. ESRCH
 * if there is no such thread, EINVAL if it is detached (also if it has ended, until later threads
 * need its place) or the main thread or another thread joins it, EDEADLK if it is the calling
 * thread, or waits for that one (it is detached then), EAGAIN if it never ran because there was no
 * stack for it. */
int my_pthread_join(my_pthread_t thread, void **value);

/* Detaches the thread: it cannot be joined any more. ESRCH, EINVAL as above. */
int my_pthread_detach(my_pthread_t thread);

/* The calling thread; 0 on another kernel thread. */
my_pthread_t my_pthread_self(void);

/* Nonzero if both are the same thread. */
int my_pthread_equal(my_pthread_t one, my_pthread_t other);

/* Let other threads run. */
int my_pthread_yield(void);
int my_sched_yield(void);

/* Let other threads run for a time. Only the calling thread sleeps, and nothing wakes it earlier. */
unsigned int my_sleep(unsigned int seconds);
int my_usleep(unsigned int microseconds);
int my_nanosleep(const struct timespec *time, struct timespec *rest);

/* Mutexes: NORMAL, the default, and ERRORCHECK mean the same. */

typedef struct my_pthread_mutex { uint64_t words[16]; } my_pthread_mutex_t;
typedef struct my_pthread_mutexattr { int type; } my_pthread_mutexattr_t;
#define MY_PTHREAD_MUTEX_INITIALIZER { { 0 } }
#define MY_PTHREAD_RECURSIVE_MUTEX_INITIALIZER { { 0, MY_PTHREAD_MUTEX_RECURSIVE } }
#define MY_PTHREAD_MUTEX_NORMAL 0
#define MY_PTHREAD_MUTEX_RECURSIVE 1
#define MY_PTHREAD_MUTEX_ERRORCHECK 2
#define MY_PTHREAD_MUTEX_DEFAULT MY_PTHREAD_MUTEX_NORMAL

static inline int my_pthread_mutexattr_init(my_pthread_mutexattr_t *attr)
{
    return attr == NULL ? EINVAL : (attr->type = 0);
}

static inline int my_pthread_mutexattr_destroy(my_pthread_mutexattr_t *attr)
{
    return attr == NULL ? EINVAL : (attr->type = -1, 0);
}

static inline int my_pthread_mutexattr_settype(my_pthread_mutexattr_t *attr, int type)
{
    return attr == NULL || type < MY_PTHREAD_MUTEX_NORMAL || type > MY_PTHREAD_MUTEX_ERRORCHECK ? EINVAL : (attr->type = type, 0);
}

static inline int my_pthread_mutexattr_gettype(const my_pthread_mutexattr_t *attr, int *type)
{
    return attr == NULL || type == NULL ? EINVAL : (*type = attr->type, 0);
}

/* `attr` may be NULL. */
int my_pthread_mutex_init(my_pthread_mutex_t *mutex, const my_pthread_mutexattr_t *attr);

/* EDEADLK if the calling thread has locked it already and it is not recursive, or if a thread has
 * ended that had locked it. */
int my_pthread_mutex_lock(my_pthread_mutex_t *mutex);
int my_pthread_mutex_timedlock(my_pthread_mutex_t *mutex, const struct timespec *until);

/* EBUSY if it is locked. */
int my_pthread_mutex_trylock(my_pthread_mutex_t *mutex);

/* EPERM if the calling thread has not locked it. */
int my_pthread_mutex_unlock(my_pthread_mutex_t *mutex);

/* EBUSY if it is locked. No thread may wait at a condition variable with it. */
int my_pthread_mutex_destroy(my_pthread_mutex_t *mutex);

/* Condition variables */

typedef struct my_pthread_cond { uint64_t words[16]; } my_pthread_cond_t;
typedef struct my_pthread_condattr { int clock; } my_pthread_condattr_t;
#define MY_PTHREAD_COND_INITIALIZER { { 0 } }

/* The clock of deadlines is 0 or 1: CLOCK_REALTIME, which is the default, or CLOCK_MONOTONIC. */
static inline int my_pthread_condattr_init(my_pthread_condattr_t *attr)
{
    return attr == NULL ? EINVAL : (attr->clock = 0);
}

static inline int my_pthread_condattr_destroy(my_pthread_condattr_t *attr)
{
    return attr == NULL ? EINVAL : (attr->clock = -1, 0);
}

static inline int my_pthread_condattr_setclock(my_pthread_condattr_t *attr, int clock)
{
    return attr == NULL || (clock != 0 && clock != 1) ? EINVAL : (attr->clock = clock, 0);
}

static inline int my_pthread_condattr_getclock(const my_pthread_condattr_t *attr, int *clock)
{
    return attr == NULL || clock == NULL ? EINVAL : (*clock = attr->clock, 0);
}

/* `attr` may be NULL. */
int my_pthread_cond_init(my_pthread_cond_t *cond, const my_pthread_condattr_t *attr);

/* No thread may wait at it. */
int my_pthread_cond_destroy(my_pthread_cond_t *cond);

/* EPERM if the calling thread has not locked the mutex. A recursive mutex is unlocked meanwhile,
 * however often it is locked. */
int my_pthread_cond_wait(my_pthread_cond_t *cond, my_pthread_mutex_t *mutex);
int my_pthread_cond_timedwait(my_pthread_cond_t *cond, my_pthread_mutex_t *mutex, const struct timespec *until);
int my_pthread_cond_signal(my_pthread_cond_t *cond);
int my_pthread_cond_broadcast(my_pthread_cond_t *cond);

/* Reader-writer locks */

typedef struct my_pthread_rwlock { uint64_t words[32]; } my_pthread_rwlock_t;
#define MY_PTHREAD_RWLOCK_INITIALIZER { { 0 } }

/* `attr` is unused; pass NULL. */
int my_pthread_rwlock_init(my_pthread_rwlock_t *lock, const void *attr);

/* EBUSY if it is locked. */
int my_pthread_rwlock_destroy(my_pthread_rwlock_t *lock);

/* A reader waits if a writer waits, unless it reads already. EDEADLK if the calling thread writes. */
int my_pthread_rwlock_rdlock(my_pthread_rwlock_t *lock);
int my_pthread_rwlock_timedrdlock(my_pthread_rwlock_t *lock, const struct timespec *until);

/* EDEADLK if the calling thread reads or writes. */
int my_pthread_rwlock_wrlock(my_pthread_rwlock_t *lock);
int my_pthread_rwlock_timedwrlock(my_pthread_rwlock_t *lock, const struct timespec *until);

/* EBUSY if the thread would have to wait. */
int my_pthread_rwlock_tryrdlock(my_pthread_rwlock_t *lock);
int my_pthread_rwlock_trywrlock(my_pthread_rwlock_t *lock);

/* EPERM if the calling thread neither reads nor writes. */
int my_pthread_rwlock_unlock(my_pthread_rwlock_t *lock);

/* Barriers */

typedef struct my_pthread_barrier { uint64_t words[16]; } my_pthread_barrier_t;
#define MY_PTHREAD_BARRIER_INITIALIZER(count) { { 0, (count) } }
#define MY_PTHREAD_BARRIER_SERIAL_THREAD (-1)

/* `attr` is unused; pass NULL. EINVAL if `count` is 0. */
int my_pthread_barrier_init(my_pthread_barrier_t *barrier, const void *attr, unsigned int count);

/* EBUSY if threads wait there. */
int my_pthread_barrier_destroy(my_pthread_barrier_t *barrier);

/* Waits until `count` threads have arrived. Returns MY_PTHREAD_BARRIER_SERIAL_THREAD in one of them,
 * and 0 in the others. */
int my_pthread_barrier_wait(my_pthread_barrier_t *barrier);

/* Initialization that happens once */

typedef struct my_pthread_once { uint64_t words[16]; } my_pthread_once_t;
#define MY_PTHREAD_ONCE_INIT { { 0 } }

/* Calls `routine`, unless that has been done, or waits until another thread has done it. EDEADLK if
 * the routine itself calls this, or has left the thread by my_pthread_exit. */
int my_pthread_once(my_pthread_once_t *once, void (*routine)(void));

/* Values that each thread has of its own */

typedef unsigned int my_pthread_key_t;
#define MY_PTHREAD_KEYS_MAX 1024
#define MY_PTHREAD_DESTRUCTOR_ITERATIONS 4

/* A thread that ends calls `destructor`, which may be NULL, with its value if that is not NULL; and
 * again, in MY_PTHREAD_DESTRUCTOR_ITERATIONS rounds, if destructors set values. EAGAIN if there are
 * MY_PTHREAD_KEYS_MAX keys. */
int my_pthread_key_create(my_pthread_key_t *key, void (*destructor)(void *));

/* Calls no destructors. EINVAL if there is no such key. */
int my_pthread_key_delete(my_pthread_key_t key);

/* EINVAL if there is no such key. */
int my_pthread_setspecific(my_pthread_key_t key, const void *value);

/* NULL if the thread has set none, or there is no such key. */
void *my_pthread_getspecific(my_pthread_key_t key);

/* Semaphores */

typedef struct my_sem { uint64_t words[16]; } my_sem_t;
#define MY_SEM_INITIALIZER(value) { { 0, (value) } }

/* ENOSYS if `shared` is not 0: threads of other processes cannot use it. */
int my_sem_init(my_sem_t *semaphore, int shared, unsigned int value);

/* No thread may wait at it. */
int my_sem_destroy(my_sem_t *semaphore);
int my_sem_wait(my_sem_t *semaphore);
int my_sem_timedwait(my_sem_t *semaphore, const struct timespec *until);

/* EAGAIN if the value is 0. */
int my_sem_trywait(my_sem_t *semaphore);

/* EOVERFLOW if the value is INT_MAX. */
int my_sem_post(my_sem_t *semaphore);
int my_sem_getvalue(my_sem_t *semaphore, int *value);

#ifdef __cplusplus
}
#endif

#endif
