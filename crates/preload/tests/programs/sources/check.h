/* Common code of the test programs. A correct run always prints the same. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Ends the program if the condition is false. */
#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: false: %s\n", __FILE__, __LINE__, #condition);  \
            _exit(1);                                                               \
        }                                                                           \
    } while (0)

/* Like CHECK, for calls that return an error number. */
#define RETURNS(expected, call)                                                                     \
    do {                                                                                            \
        int returned_ = (call);                                                                     \
        if (returned_ != (expected)) {                                                              \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, strerror(returned_));     \
            _exit(1);                                                                               \
        }                                                                                           \
    } while (0)
#define OK(call) RETURNS(0, call)

#ifndef LIBRARY
/* Interrupts system calls. */
static void note(int signal) {
    (void)signal;
}

__attribute__((constructor)) static void handle(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = note;
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
}
#endif

/* Runs `count` threads with their numbers until they end. */
static inline void run(int count, void *(*work)(void *)) {
    pthread_t threads[64];
    CHECK(count <= 64);
    for (long i = 0; i < count; i++) OK(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < count; i++) OK(pthread_join(threads[i], NULL));
}

/* Memory that processes share. */
static inline void *shared_memory(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* Waits for a child, which must succeed. */
static inline void reap(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A time some milliseconds from now, or ago. */
static inline struct timespec after_ms(clockid_t clock, long ms) {
    struct timespec at;
    clock_gettime(clock, &at);
    long nanos = at.tv_nsec + ms % 1000 * 1000000;
    at.tv_sec += ms / 1000;
    if (nanos >= 1000000000) at.tv_sec++, nanos -= 1000000000;
    if (nanos < 0) at.tv_sec--, nanos += 1000000000;
    at.tv_nsec = nanos;
    return at;
}

static inline int is_past(clockid_t clock, struct timespec at) {
    struct timespec now = after_ms(clock, 0);
    return now.tv_sec > at.tv_sec || (now.tv_sec == at.tv_sec && now.tv_nsec >= at.tv_nsec);
}

/* The number of repetitions, which is larger in long runs. */
static inline long rounds(long usual) {
    const char *factor = getenv("ROUNDS");
    return factor ? usual * atol(factor) : usual;
}
