/* A program with threads forks, and the children use their own locks, barriers and threads. */
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, own = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static long counter;
static int over, prepared;

static void prepare(void) {
    OK(pthread_mutex_lock(&mutex));
    prepared++;
}

static void release(void) {
    OK(pthread_mutex_unlock(&mutex));
}

/* Keeps the locks and the allocator busy while others fork. */
static void *busy(void *unused) {
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        OK(pthread_mutex_lock(&mutex));
        free(malloc(100 + counter % 1000));
        counter++;
        OK(pthread_mutex_unlock(&mutex));
        if (counter % 16 == 0) sched_yield();
    }
    return unused;
}

static void *in_child(void *argument) {
    long number = (long)argument;
    for (int i = 0; i < 50; i++) {
        free(malloc(64 + i));
        OK(pthread_mutex_lock(&own));
        counter++;
        OK(pthread_mutex_unlock(&own));
        pthread_barrier_wait(&barrier);
        OK(pthread_mutex_lock(&own));
        while (counter < (i + 1) * 3) OK(pthread_cond_wait(&condition, &own));
        OK(pthread_cond_signal(&condition));
        OK(pthread_mutex_unlock(&own));
        while (sem_wait(&semaphore)) {}
        OK(sem_post(&semaphore));
        pthread_barrier_wait(&barrier);
    }
    return (void *)number;
}

static void child(void) {
    pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
    condition = fresh;
    OK(pthread_mutex_lock(&mutex));
    counter = 0;
    OK(pthread_mutex_unlock(&mutex));
    OK(pthread_barrier_init(&barrier, NULL, 3));
    OK(sem_init(&semaphore, 0, 1));
    run(3, in_child);
    CHECK(counter == 150);
    OK(pthread_barrier_destroy(&barrier));
}

/* Forks a child that forks another. */
static void generations(int left) {
    pid_t next = fork();
    CHECK(next >= 0);
    if (next) {
        reap(next);
        return;
    }
    child();
    if (left) generations(left - 1);
    _exit(0);
}

int main(void) {
    OK(pthread_atfork(prepare, release, release));
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) OK(pthread_create(&threads[i], NULL, busy, NULL));
    for (int i = 0; i < 60; i++) {
        generations(2);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) OK(pthread_join(threads[i], NULL));
    printf("forked %d times\n", prepared);
    return 0;
}
