/* Ends of threads: small stacks, thread-specific destructors that wait, detached threads, and
 * errno. */
#include "check.h"
#include <limits.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static pthread_key_t key;
static long destroyed, turn, counter;

static void use_all(void) {
    errno = 1234;
    OK(pthread_mutex_lock(&mutex));
    CHECK(errno == 1234);
    counter++;
    OK(pthread_mutex_unlock(&mutex));
    pthread_barrier_wait(&barrier);
    CHECK(errno == 1234);
    while (sem_wait(&semaphore)) CHECK(errno == EINTR);
    CHECK(errno == 1234);
    OK(sem_post(&semaphore));
    /* In pairs. */
    OK(pthread_mutex_lock(&mutex));
    long arrived = turn++;
    OK(pthread_cond_broadcast(&condition));
    while (turn < (arrived | 1) + 1) OK(pthread_cond_wait(&condition, &mutex));
    CHECK(errno == 1234);
    OK(pthread_mutex_unlock(&mutex));
    CHECK(errno == 1234);
}

/* Waits at all objects again while the thread ends, also in the next round of destructors. */
static void destroy(void *round) {
    use_all();
    OK(pthread_mutex_lock(&mutex));
    destroyed++;
    OK(pthread_mutex_unlock(&mutex));
    if ((long)round == 1) OK(pthread_setspecific(key, (void *)2));
}

static void *work(void *unused) {
    OK(pthread_setspecific(key, (void *)1));
    for (int i = 0; i < 5; i++) use_all();
    return unused;
}

static void *detached(void *unused) {
    OK(pthread_detach(pthread_self()));
    OK(pthread_mutex_lock(&mutex));
    counter++;
    OK(pthread_cond_broadcast(&condition));
    OK(pthread_mutex_unlock(&mutex));
    pthread_exit(unused);
}

int main(void) {
    OK(pthread_key_create(&key, destroy));
    OK(sem_init(&semaphore, 0, 1));
    pthread_attr_t attributes;
    OK(pthread_attr_init(&attributes));
    OK(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN + 16384));
    enum { PAIRS = 2, THREADS = PAIRS * 2 };
    OK(pthread_barrier_init(&barrier, NULL, THREADS));
    for (int i = 0; i < 30; i++) {
        pthread_t threads[THREADS];
        for (int n = 0; n < THREADS; n++) OK(pthread_create(&threads[n], i % 2 ? &attributes : NULL, work, NULL));
        for (int n = 0; n < THREADS; n++) OK(pthread_join(threads[n], NULL));
    }
    printf("counted %ld, destroyed %ld\n", counter, destroyed);
    counter = 0;
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        OK(pthread_create(&thread, NULL, detached, NULL));
    }
    OK(pthread_mutex_lock(&mutex));
    while (counter < 200) OK(pthread_cond_wait(&condition, &mutex));
    OK(pthread_mutex_unlock(&mutex));
    printf("detached %ld\n", counter);
    return 0;
}
