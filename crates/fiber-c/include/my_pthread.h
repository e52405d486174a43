/* User-level threads under a feedback queue: the names of a user-level thread library, which mean
 * the same as their namesakes in POSIX.
 *
 * The first call makes the main thread of the program the first of these threads. All of them run on
 * that one kernel thread, and calls from others fail (EPERM). Threads take turns when they wait,
 * yield or end, and at each call of this library when they have used up their running time; a thread
 * that calls nothing is not interrupted. Each thread may have floating-point modes of its own; a new
 * one has those of its creator.
 *
 * Functions return 0, or an error number from <errno.h>; EINVAL is returned for null pointers and for
 * objects that are destroyed or invalid. When all threads wait for each other, the process aborts,
 * with a message that names them. When main returns, the process ends.
 *
 * License: Apache-2.0 OR MIT. */
#ifndef MY_PTHREAD_H
#define MY_PTHREAD_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A thread: never 0, and never that of an earlier thread. */
typedef uint64_t my_pthread_t;

/* The attributes of a new thread; zero is the default. */
typedef struct my_pthread_attr {
    size_t stack_size; /* in bytes; the default is 64 KiB */
    const char *name;  /* for messages */
    int detached;      /* not 0: it cannot be joined */
} my_pthread_attr_t;

/* Zeros are an unlocked mutex, and a condition variable. */
typedef struct my_pthread_mutex { uint64_t words[16]; } my_pthread_mutex_t;
typedef struct my_pthread_cond { uint64_t words[16]; } my_pthread_cond_t;
#define MY_PTHREAD_MUTEX_INITIALIZER { { 0 } }
#define MY_PTHREAD_COND_INITIALIZER { { 0 } }

/* Sets how many levels the queue has (1 to 1024; the default is 10), and how many microseconds a
 * thread may run at each (the default is 100). Must be the first call, otherwise EBUSY. */
int my_pthread_configure(unsigned int levels, unsigned int running_time_us);

/* Creates a thread that calls `function` with `argument`. `attr` may be NULL. EAGAIN if there is no
 * room for another thread. */
int my_pthread_create(my_pthread_t *thread, const my_pthread_attr_t *attr, void *(*function)(void *), void *argument);

/* Lets other threads run. */
int my_pthread_yield(void);

/* Ends the calling thread, as if its function had returned `value`. In the main thread, the process
 * ends when all other threads have ended. */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void my_pthread_exit(void *value);

/* Waits until the thread has ended, and stores its result in `*value` unless `value` is NULL. ESRCH
 * if there is no such thread, EINVAL if it is detached or another thread joins it, EDEADLK if it is
 * the calling thread, or waits for that one (it is detached then), EAGAIN if it never ran because
 * there was no stack for it. */
int my_pthread_join(my_pthread_t thread, void **value);

/* Detaches the thread: it cannot be joined any more. ESRCH, EINVAL as above. */
int my_pthread_detach(my_pthread_t thread);

/* The calling thread; 0 on another kernel thread. */
my_pthread_t my_pthread_self(void);

/* Nonzero if both are the same thread. */
int my_pthread_equal(my_pthread_t one, my_pthread_t other);

/* `attr` is unused; pass NULL. */
int my_pthread_mutex_init(my_pthread_mutex_t *mutex, const void *attr);

/* EDEADLK if the calling thread has locked it already. */
int my_pthread_mutex_lock(my_pthread_mutex_t *mutex);

/* EBUSY if it is locked. */
int my_pthread_mutex_trylock(my_pthread_mutex_t *mutex);

/* EPERM if the calling thread has not locked it. */
int my_pthread_mutex_unlock(my_pthread_mutex_t *mutex);

/* EBUSY if it is locked. No thread may wait at a condition variable with it. */
int my_pthread_mutex_destroy(my_pthread_mutex_t *mutex);

int my_pthread_cond_init(my_pthread_cond_t *cond, const void *attr);

/* No thread may wait at it. */
int my_pthread_cond_destroy(my_pthread_cond_t *cond);

/* EPERM if the calling thread has not locked the mutex. */
int my_pthread_cond_wait(my_pthread_cond_t *cond, my_pthread_mutex_t *mutex);

/* The same, but ETIMEDOUT when CLOCK_REALTIME reaches `until`. */
int my_pthread_cond_timedwait(my_pthread_cond_t *cond, my_pthread_mutex_t *mutex, const struct timespec *until);

int my_pthread_cond_signal(my_pthread_cond_t *cond);
int my_pthread_cond_broadcast(my_pthread_cond_t *cond);

#ifdef __cplusplus
}
#endif

#endif
