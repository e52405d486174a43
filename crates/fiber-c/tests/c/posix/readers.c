/* Readers and writers of a pair that must stay equal. A watcher spins until a flag is set: only
 * preemption ends that on one kernel thread. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READERS 4
#define WRITERS 2
#define TIMES 500

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long one, other, unequal;
static volatile int finished;
static volatile unsigned long spins;

static void *reads(void *argument)
{
    long seen = 0;
    for (int i = 0; i < TIMES; i++) {
        pthread_rwlock_rdlock(&lock);
        if (one != other)
            unequal++;
        seen = one > seen ? one : seen;
        pthread_rwlock_unlock(&lock);
        if (i % 100 == 0)
            usleep(500);
    }
    return seen <= WRITERS * TIMES ? argument : NULL;
}

static void *writes(void *argument)
{
    for (int i = 0; i < TIMES; i++) {
        pthread_rwlock_wrlock(&lock);
        one++;
        if (i % 50 == 0)
            sched_yield();
        other++;
        pthread_rwlock_unlock(&lock);
    }
    return argument;
}

static void *watches(void *argument)
{
    while (!finished)
        spins++;
    return argument;
}

static void *finishes(void *argument)
{
    while (spins == 0)
        ;
    finished = 1;
    return argument;
}

static void *tries(void *argument)
{
    printf("try: %s", strerror(pthread_rwlock_tryrdlock(&lock)));
    printf(", %s\n", strerror(pthread_rwlock_trywrlock(&lock)));
    return argument;
}

int main(void)
{
    pthread_t threads[READERS + WRITERS], watcher, finisher, trier;
    void *result;
    int right = 0;

    pthread_create(&watcher, NULL, watches, &one);
    for (int i = 0; i < READERS + WRITERS; i++)
        pthread_create(&threads[i], NULL, i < READERS ? reads : writes, &lock);
    for (int i = 0; i < READERS + WRITERS; i++) {
        pthread_join(threads[i], &result);
        right += result == &lock;
    }
    pthread_create(&finisher, NULL, finishes, &other);
    pthread_join(watcher, &result);
    right += result == &one;
    pthread_join(finisher, &result);
    right += result == &other;
    printf("%d right, %ld unequal, %ld %ld\n", right, unequal, one, other);
    pthread_rwlock_wrlock(&lock);
    pthread_create(&trier, NULL, tries, NULL);
    pthread_join(trier, NULL);
    printf("twice: %d\n", pthread_rwlock_wrlock(&lock) == EDEADLK);
    pthread_rwlock_unlock(&lock);
    return pthread_rwlock_destroy(&lock);
}
