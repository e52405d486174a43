/* A library that is loaded late: its threads and locks meet those of the program. */
#define LIBRARY /* Its handlers would go with it. */
#include "check.h"

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static long counter;

/* Changes what is waited for in the program, under the program's lock. */
void set_and_signal(pthread_mutex_t *mutex, pthread_cond_t *condition, long *value, long to);
void set_and_signal(pthread_mutex_t *mutex, pthread_cond_t *condition, long *value, long to) {
    OK(pthread_mutex_lock(mutex));
    *value = to;
    OK(pthread_cond_broadcast(condition));
    OK(pthread_mutex_unlock(mutex));
}

void await(pthread_mutex_t *mutex, pthread_cond_t *condition, long *value, long what);
void await(pthread_mutex_t *mutex, pthread_cond_t *condition, long *value, long what) {
    OK(pthread_mutex_lock(mutex));
    while (*value != what) OK(pthread_cond_wait(condition, mutex));
    OK(pthread_mutex_unlock(mutex));
}

static void *work(void *barrier) {
    for (int i = 0; i < 500; i++) {
        OK(pthread_mutex_lock(&own));
        counter++;
        OK(pthread_mutex_unlock(&own));
        pthread_barrier_wait(barrier);
    }
    return NULL;
}

/* Threads of its own, at a barrier of its own. */
long count(void);
long count(void) {
    pthread_barrier_t barrier;
    pthread_t threads[3];
    counter = 0;
    OK(pthread_barrier_init(&barrier, NULL, 3));
    for (int i = 0; i < 3; i++) OK(pthread_create(&threads[i], NULL, work, &barrier));
    for (int i = 0; i < 3; i++) OK(pthread_join(threads[i], NULL));
    OK(pthread_barrier_destroy(&barrier));
    return counter;
}
