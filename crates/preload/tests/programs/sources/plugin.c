/* A library that is loaded late. Its threads and locks are used together with those of the
 * program. */
#define LIBRARY /* Its handlers would be unloaded with it. */
#include "check.h"

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static long counter;

/* Changes the program's value under the program's lock. */
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

/* Its own threads, at its own barrier. */
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
