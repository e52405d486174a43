/* A library whose constructor starts threads and waits for them, like thread pools of C++
 * libraries. */
#define LIBRARY
#include "check.h"

static sem_t begun, told;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int value;

/* Each of these calls may be this thread's first of its kind, or the first of all. */
static void *work(void *nothing) {
    CHECK(sem_post(&begun) == 0);
    CHECK(sem_wait(&told) == 0);
    OK(pthread_mutex_lock(&mutex));
    value = 1;
    OK(pthread_cond_broadcast(&changed));
    while (value != 2) OK(pthread_cond_wait(&changed, &mutex));
    value = 3;
    OK(pthread_cond_signal(&changed));
    OK(pthread_mutex_unlock(&mutex));
    pthread_barrier_wait(&barrier);
    return nothing;
}

__attribute__((constructor)) static void construct(void) {
    pthread_t thread;
    CHECK(sem_init(&begun, 0, 0) == 0 && sem_init(&told, 0, 0) == 0);
    OK(pthread_barrier_init(&barrier, NULL, 2));
    OK(pthread_create(&thread, NULL, work, NULL));
    CHECK(sem_wait(&begun) == 0);
    CHECK(sem_post(&told) == 0);
    OK(pthread_mutex_lock(&mutex));
    while (value != 1) OK(pthread_cond_wait(&changed, &mutex));
    value = 2;
    OK(pthread_cond_signal(&changed));
    while (value != 3) OK(pthread_cond_wait(&changed, &mutex));
    OK(pthread_mutex_unlock(&mutex));
    pthread_barrier_wait(&barrier);
    OK(pthread_join(thread, NULL));
}
