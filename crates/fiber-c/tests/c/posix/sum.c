/* Threads add up parts of an array, round by round, with sums of their own and a barrier. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, WORDS = 40000, ROUNDS = 10 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t barrier;
static pthread_key_t key;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static long words[WORDS], total, freed;
static int prepared;

static void put_back(void *value)
{
    pthread_mutex_lock(&lock);
    freed += *(long *)value;
    pthread_mutex_unlock(&lock);
    free(value);
}

static void prepare(void)
{
    pthread_key_create(&key, put_back);
    for (long i = 0; i < WORDS; i++)
        words[i] = i;
    prepared++;
}

static void add(long number)
{
    long *sum = pthread_getspecific(key);
    if (sum == NULL) {
        sum = calloc(1, sizeof *sum);
        pthread_setspecific(key, sum);
    }
    *sum += number;
}

static void *work(void *argument)
{
    long number = (long)argument;
    int serial = 0;
    pthread_once(&once, prepare);
    for (int round = 0; round < ROUNDS; round++) {
        long sum = 0;
        for (long i = number; i < WORDS; i += THREADS)
            sum += words[i];
        add(sum);
        pthread_mutex_lock(&lock);
        pthread_mutex_lock(&lock);
        total += sum;
        pthread_mutex_unlock(&lock);
        pthread_mutex_unlock(&lock);
        serial += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        if (total != (long)WORDS * (WORDS - 1) / 2 * (round + 1))
            abort();
        serial += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
    }
    return (void *)(long)serial;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_attr_t attr;
    long serial = 0;
    void *result;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 1 << 17);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], &attr, work, (void *)i) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        serial += (long)result;
    }
    pthread_attr_destroy(&attr);
    printf("total %ld, in parts %ld\n", total, freed);
    printf("prepared %d time, %ld serial threads\n", prepared, serial);
    return pthread_barrier_destroy(&barrier) + pthread_key_delete(key);
}
