/* Threads are cancelled while they wait. Their handlers run, with the mutex if they held it. Also
 * compiled as C++. */
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore, gone;
static long cleaned;
static int waiting;

#ifdef __cplusplus
struct Cleanup {
    ~Cleanup() { cleaned += 100; }
};
#define CLEANUP Cleanup cleanup
#else
#define CLEANUP
#endif

static void clean(void *with_mutex) {
    cleaned++;
    if (with_mutex) OK(pthread_mutex_unlock(&mutex));
    OK(sem_post(&gone));
}

static void *at_condition(void *unused) {
    CLEANUP;
    OK(pthread_mutex_lock(&mutex));
    pthread_cleanup_push(clean, &mutex);
    __atomic_store_n(&waiting, 1, __ATOMIC_SEQ_CST);
    for (;;) OK(pthread_cond_wait(&condition, &mutex));
    pthread_cleanup_pop(0);
    return unused;
}

static void *at_semaphore(void *unused) {
    CLEANUP;
    pthread_cleanup_push(clean, NULL);
    __atomic_store_n(&waiting, 1, __ATOMIC_SEQ_CST);
    for (;;) while (sem_wait(&semaphore)) {}
    pthread_cleanup_pop(0);
    return unused;
}

/* Repeatedly acquires a free semaphore. The standard says that this can be cancelled
 * nevertheless. */
static void *at_free_semaphore(void *unused) {
    CLEANUP;
    pthread_cleanup_push(clean, NULL);
    __atomic_store_n(&waiting, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        OK(sem_wait(&semaphore));
        OK(sem_post(&semaphore));
    }
    pthread_cleanup_pop(0);
    return unused;
}

/* Is signalled all the time, and must be cancelled nevertheless. */
static void *at_busy_condition(void *unused) {
    return at_condition(unused);
}

static void *with_cancelling_off(void *unused) {
    int before;
    OK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before));
    __atomic_store_n(&waiting, 1, __ATOMIC_SEQ_CST);
    while (sem_wait(&semaphore)) {}
    cleaned += 10;
    OK(sem_post(&gone));
    OK(pthread_setcancelstate(before, NULL));
    pthread_testcancel();
    CHECK(!"cancelled");
    return unused;
}

static pthread_t begin(void *(*work)(void *)) {
    pthread_t thread;
    waiting = 0;
    OK(pthread_create(&thread, NULL, work, NULL));
    while (!__atomic_load_n(&waiting, __ATOMIC_SEQ_CST)) sched_yield();
    return thread;
}

static void end(pthread_t thread) {
    void *result;
    while (sem_wait(&gone)) {}
    OK(pthread_join(thread, &result));
    CHECK(result == PTHREAD_CANCELED);
    /* The mutex was released. */
    OK(pthread_mutex_lock(&mutex));
    OK(pthread_mutex_unlock(&mutex));
}

int main(void) {
    OK(sem_init(&semaphore, 0, 0));
    OK(sem_init(&gone, 0, 0));
    for (int i = 0; i < 200; i++) {
        /* Immediately, or when it sleeps. */
        int pause = i % 3 == 0 ? 0 : i % 3 == 1 ? 30 : 3000;
        pthread_t thread = begin(at_condition);
        usleep(pause);
        OK(pthread_cancel(thread));
        end(thread);
        thread = begin(at_semaphore);
        usleep(pause);
        OK(pthread_cancel(thread));
        end(thread);
    }
    for (int i = 0; i < 50; i++) {
        pthread_t thread = begin(with_cancelling_off);
        OK(pthread_cancel(thread));
        OK(sem_post(&semaphore));
        end(thread);

        thread = begin(at_busy_condition);
        OK(pthread_cancel(thread));
        while (sem_trywait(&gone)) OK(pthread_cond_signal(&condition));
        OK(sem_post(&gone));
        end(thread);

        OK(sem_post(&semaphore));
        thread = begin(at_free_semaphore);
        OK(pthread_cancel(thread));
        end(thread);
        while (sem_trywait(&semaphore) == 0) {}
    }
    printf("cleaned %ld\n", cleaned);
    return 0;
}
