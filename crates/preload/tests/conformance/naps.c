/* Preloaded behind the library: a thread sleeps before or after a call of the C library that NAP
 * names, as in `pthread_cond_wait:before`. This stands for a preemption at that step. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *chosen;

static void nap(const char *step) {
    if (!chosen || strcmp(chosen, step)) return;
    int before = errno;
    struct timespec time = {0, 300000};
    /* Not a cancellation point. */
    syscall(SYS_nanosleep, &time, NULL);
    errno = before;
}

#ifdef __x86_64__
#define FIND(name) (dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2") ?: dlsym(RTLD_NEXT, name))
#else
#define FIND(name) dlsym(RTLD_NEXT, name)
#endif
#define WRAP(name, parameters, arguments)       \
    static int(*next_##name) parameters;        \
    int name parameters {                       \
        if (!next_##name) next_##name = FIND(#name); \
        nap(#name ":before");                   \
        int result = next_##name arguments;     \
        nap(#name ":after");                    \
        return result;                          \
    }

WRAP(pthread_cond_wait, (pthread_cond_t *condition, pthread_mutex_t *mutex), (condition, mutex))
WRAP(pthread_cond_clockwait,
     (pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until),
     (condition, mutex, clock, until))
WRAP(pthread_cond_signal, (pthread_cond_t *condition), (condition))
WRAP(pthread_cond_broadcast, (pthread_cond_t *condition), (condition))
WRAP(pthread_cond_destroy, (pthread_cond_t *condition), (condition))
WRAP(pthread_mutex_lock, (pthread_mutex_t *mutex), (mutex))
WRAP(pthread_mutex_trylock, (pthread_mutex_t *mutex), (mutex))
WRAP(pthread_mutex_unlock, (pthread_mutex_t *mutex), (mutex))
WRAP(sem_wait, (sem_t *semaphore), (semaphore))
WRAP(sem_trywait, (sem_t *semaphore), (semaphore))
WRAP(sem_post, (sem_t *semaphore), (semaphore))
WRAP(pthread_barrier_init, (pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes, unsigned count),
     (barrier, attributes, count))
WRAP(pthread_barrier_wait, (pthread_barrier_t *barrier), (barrier))
WRAP(pthread_barrier_destroy, (pthread_barrier_t *barrier), (barrier))

__attribute__((constructor)) static void choose(void) {
    chosen = getenv("NAP");
}
