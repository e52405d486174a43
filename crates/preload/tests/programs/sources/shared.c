/* Shared objects of several processes: barriers, mutexes, condition variables and semaphores. */
#include "check.h"

enum { PROCESSES = 3 };

static struct {
    pthread_barrier_t barrier;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    sem_t semaphore;
    long counter, turn, serial, sums[PROCESSES];
} *shared;

static void work(long number, long times) {
    for (long i = 0; i < times; i++) {
        OK(pthread_mutex_lock(&shared->mutex));
        shared->counter++;
        OK(pthread_mutex_unlock(&shared->mutex));

        int result = pthread_barrier_wait(&shared->barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        CHECK(shared->counter == PROCESSES * (i + 1));
        if (result) __atomic_fetch_add(&shared->serial, 1, __ATOMIC_RELAXED);
        pthread_barrier_wait(&shared->barrier);

        OK(pthread_mutex_lock(&shared->mutex));
        while (shared->turn % PROCESSES != number) OK(pthread_cond_wait(&shared->condition, &shared->mutex));
        shared->turn++;
        OK(pthread_cond_broadcast(&shared->condition));
        OK(pthread_mutex_unlock(&shared->mutex));

        while (sem_wait(&shared->semaphore)) CHECK(errno == EINTR);
        shared->sums[number] += i;
        OK(sem_post(&shared->semaphore));
    }
}

int main(void) {
    long times = rounds(500);
    shared = shared_memory(sizeof *shared);
    pthread_barrierattr_t barrier;
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    OK(pthread_barrierattr_init(&barrier));
    OK(pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED));
    OK(pthread_barrier_init(&shared->barrier, &barrier, PROCESSES));
    OK(pthread_mutexattr_init(&mutex));
    OK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutex_init(&shared->mutex, &mutex));
    OK(pthread_condattr_init(&condition));
    OK(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED));
    OK(pthread_cond_init(&shared->condition, &condition));
    OK(sem_init(&shared->semaphore, 1, 2));
    pid_t children[PROCESSES];
    for (long number = 0; number < PROCESSES; number++) {
        children[number] = fork();
        CHECK(children[number] >= 0);
        if (children[number] == 0) {
            work(number, times);
            _exit(0);
        }
    }
    for (int number = 0; number < PROCESSES; number++) reap(children[number]);
    OK(pthread_barrier_destroy(&shared->barrier));
    OK(pthread_cond_destroy(&shared->condition));
    OK(pthread_mutex_destroy(&shared->mutex));
    printf("counter %ld, turns %ld, leaders %ld, sum %ld\n", shared->counter, shared->turn, shared->serial,
           shared->sums[0]);
    return 0;
}
