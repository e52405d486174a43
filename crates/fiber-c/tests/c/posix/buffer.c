/* Producers and consumers share a small buffer. A consumer that gets nothing for a while gives up. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PRODUCERS = 3, CONSUMERS = 2, EACH = 2000, SPACE = 8 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    int items[SPACE], first, many, closed;
} buffer = { .lock = PTHREAD_MUTEX_INITIALIZER, .not_full = PTHREAD_COND_INITIALIZER };

static void check(int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "%s: error %d\n", what, status);
        exit(1);
    }
}

static void *produce(void *argument)
{
    for (int i = 1; i <= EACH; i++) {
        check(pthread_mutex_lock(&buffer.lock), "lock");
        while (buffer.many == SPACE)
            check(pthread_cond_wait(&buffer.not_full, &buffer.lock), "wait");
        buffer.items[(buffer.first + buffer.many++) % SPACE] = i;
        check(pthread_cond_signal(&buffer.not_empty), "signal");
        check(pthread_mutex_unlock(&buffer.lock), "unlock");
    }
    return argument;
}

static void *consume(void *argument)
{
    long *sum = argument;
    for (;;) {
        check(pthread_mutex_lock(&buffer.lock), "lock");
        while (buffer.many == 0 && !buffer.closed)
            check(pthread_cond_wait(&buffer.not_empty, &buffer.lock), "wait");
        if (buffer.many == 0)
            break;
        *sum += buffer.items[buffer.first];
        buffer.first = (buffer.first + 1) % SPACE;
        buffer.many--;
        check(pthread_cond_signal(&buffer.not_full), "signal");
        check(pthread_mutex_unlock(&buffer.lock), "unlock");
    }
    check(pthread_mutex_unlock(&buffer.lock), "unlock");
    pthread_exit(sum);
}

int main(void)
{
    pthread_t producers[PRODUCERS], consumers[CONSUMERS];
    long sums[CONSUMERS] = { 0 }, sum = 0;
    pthread_condattr_t attr;
    struct timespec until;

    check(pthread_condattr_init(&attr), "attributes");
    check(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC), "clock");
    check(pthread_cond_init(&buffer.not_empty, &attr), "condition variable");
    check(pthread_condattr_destroy(&attr), "attributes");
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000)
        until.tv_sec++, until.tv_nsec -= 1000000000;
    check(pthread_mutex_lock(&buffer.lock), "lock");
    int status = 0;
    while (buffer.many == 0 && status == 0)
        status = pthread_cond_timedwait(&buffer.not_empty, &buffer.lock, &until);
    check(pthread_mutex_unlock(&buffer.lock), "unlock");
    printf("nothing yet: %s\n", status == ETIMEDOUT ? "timed out" : "what?");

    for (int i = 0; i < CONSUMERS; i++)
        check(pthread_create(&consumers[i], NULL, consume, &sums[i]), "create");
    for (int i = 0; i < PRODUCERS; i++)
        check(pthread_create(&producers[i], NULL, produce, NULL), "create");
    for (int i = 0; i < PRODUCERS; i++)
        check(pthread_join(producers[i], NULL), "join");
    check(pthread_mutex_lock(&buffer.lock), "lock");
    buffer.closed = 1;
    check(pthread_cond_broadcast(&buffer.not_empty), "broadcast");
    check(pthread_mutex_unlock(&buffer.lock), "unlock");
    for (int i = 0; i < CONSUMERS; i++) {
        void *result;
        check(pthread_join(consumers[i], &result), "join");
        sum += *(long *)result;
    }
    printf("sum %ld\n", sum);
    check(pthread_cond_destroy(&buffer.not_empty), "destroy");
    check(pthread_cond_destroy(&buffer.not_full), "destroy");
    check(pthread_mutex_destroy(&buffer.lock), "destroy");
    return 0;
}
