/* Timed waits do not time out before their deadline, and those that need not wait do not. */
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;

static void *work(void *argument) {
    long number = (long)argument;
    for (int i = 0; i < 10; i++) {
        struct timespec until = after_ms(CLOCK_REALTIME, number % 3);
        OK(pthread_mutex_lock(&mutex));
        int result;
        while ((result = pthread_cond_timedwait(&condition, &mutex, &until)) == 0) {}
        CHECK(result == ETIMEDOUT && is_past(CLOCK_REALTIME, until));
        until = after_ms(CLOCK_MONOTONIC, number % 3);
        while ((result = pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until)) == 0) {}
        CHECK(result == ETIMEDOUT && is_past(CLOCK_MONOTONIC, until));
        OK(pthread_mutex_unlock(&mutex));

        until = after_ms(CLOCK_REALTIME, number % 3);
        while (sem_timedwait(&semaphore, &until) < 0 && errno == EINTR) {}
        CHECK(errno == ETIMEDOUT && is_past(CLOCK_REALTIME, until));
    }
    return NULL;
}

int main(void) {
    OK(sem_init(&semaphore, 0, 0));
    run(6, work);
    struct timespec past = after_ms(CLOCK_REALTIME, -1000);
    OK(pthread_mutex_lock(&mutex));
    RETURNS(ETIMEDOUT, pthread_cond_timedwait(&condition, &mutex, &past));
    RETURNS(EBUSY, pthread_mutex_trylock(&mutex));
    RETURNS(ETIMEDOUT, pthread_mutex_timedlock(&mutex, &past));
    OK(pthread_mutex_unlock(&mutex));
    OK(pthread_mutex_timedlock(&mutex, &past));
    OK(sem_post(&semaphore));
    OK(sem_timedwait(&semaphore, &past));
    CHECK(sem_trywait(&semaphore) < 0 && errno == EAGAIN);
    puts("done");
    return 0;
}
