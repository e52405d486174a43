/* Threads at user level, under a feedback queue: the names of a user-level thread library, with the meaning that their namesakes have in POSIX.
 *
 * The first call makes the main thread of the program the first of these threads; all of them run on that one kernel thread, which calls from others
 * may not come from (EPERM). Threads take turns when they wait, yield or end, and at each call of this library when they have used up their
 * running time; a thread that calls nothing is not interrupted. Each may have floating-point modes of its own; a new one has its maker's.
 *
 * Functions return 0, or a number as <errno.h> has them; EINVAL is returned for null pointers and for objects that are destroyed or none. When all threads wait
 * for each other the process aborts, and says who waits for whom. When main returns the process ends.
 *
 * Licence: Apache-2.0 OR MIT. */
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

/* What is asked for with a new thread; zero stands for what is usual. */
typedef struct my_pthread_attr {
    size_t stack_size; /* in bytes; usually 64 KiB */
    const char *name;  /* for messages */
    int detached;      /* not 0: nobody joins it */
} my_pthread_attr_t;

/* Zeros are a mutex that nobody has, and a condition variable. */
typedef struct my_pthread_mutex { uint64_t words[16]; } my_pthread_mutex_t;
typedef struct my_pthread_cond { uint64_t words[16]; } my_pthread_cond_t;
#define MY_PTHREAD_MUTEX_INITIALIZER { { 0 } }
#define MY_PTHREAD_COND_INITIALIZER { { 0 } }

/* How many levels the queue has (1 to 1024; usually 10), and how many microseconds a thread may run at each (usually 100). Before any other call, else EBUSY. */
int my_pthread_configure(unsigned int levels, unsigned int running_time_us);

/* Makes a thread that runs `function`, which gets `argument`. `attr` may be NULL. EAGAIN if there is no room for another one. */
int my_pthread_create(my_pthread_t *thread, const my_pthread_attr_t *attr, void *(*function)(void *), void *argument);

/* Lets others run. */
int my_pthread_yield(void);

/* Ends the calling thread, as if its function had returned `value`. In the main thread: the process ends when all other threads have ended. */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void my_pthread_exit(void *value);

/* Waits until the thread has ended; what it returned goes to `*value` unless that is NULL. ESRCH if there is no such thread, EINVAL if it is detached or another
 * one waits for it, EDEADLK if it is the calling thread, or waits for that one (it is detached then), EAGAIN if it never ran, as there was no stack for it. */
int my_pthread_join(my_pthread_t thread, void **value);

/* Leaves the thread to itself: nobody will join it. ESRCH, EINVAL as above. */
int my_pthread_detach(my_pthread_t thread);

/* The calling thread; 0 on a kernel thread that runs none. */
my_pthread_t my_pthread_self(void);

/* Not 0 if both are the same thread. */
int my_pthread_equal(my_pthread_t one, my_pthread_t other);

/* `attr` is not used, and NULL. */
int my_pthread_mutex_init(my_pthread_mutex_t *mutex, const void *attr);

/* EDEADLK if the calling thread has it already. */
int my_pthread_mutex_lock(my_pthread_mutex_t *mutex);

/* EBUSY if somebody has it. */
int my_pthread_mutex_trylock(my_pthread_mutex_t *mutex);

/* EPERM if the calling thread does not have it. */
int my_pthread_mutex_unlock(my_pthread_mutex_t *mutex);

/* EBUSY if somebody has it. */
int my_pthread_mutex_destroy(my_pthread_mutex_t *mutex);

int my_pthread_cond_init(my_pthread_cond_t *cond, const void *attr);
int my_pthread_cond_destroy(my_pthread_cond_t *cond);

/* EPERM if the calling thread does not have the mutex. */
int my_pthread_cond_wait(my_pthread_cond_t *cond, my_pthread_mutex_t *mutex);

/* The same until CLOCK_REALTIME is at `until`; ETIMEDOUT then. */
int my_pthread_cond_timedwait(my_pthread_cond_t *cond, my_pthread_mutex_t *mutex, const struct timespec *until);

int my_pthread_cond_signal(my_pthread_cond_t *cond);
int my_pthread_cond_broadcast(my_pthread_cond_t *cond);

#ifdef __cplusplus
}
#endif

#endif
