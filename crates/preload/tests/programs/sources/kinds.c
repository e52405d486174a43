/* Special kinds of mutexes, and their answers to misuse. */
#include "check.h"

enum { THREADS = 4, TIMES = 500 };

static pthread_mutex_t mutex;
static long counter;

static void make(int type, int protocol, int robust, int shared) {
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_settype(&attributes, type));
    OK(pthread_mutexattr_setprotocol(&attributes, protocol));
    OK(pthread_mutexattr_setrobust(&attributes, robust));
    OK(pthread_mutexattr_setpshared(&attributes, shared));
    OK(pthread_mutex_init(&mutex, &attributes));
    OK(pthread_mutexattr_destroy(&attributes));
}

static void *count(void *unused) {
    (void)unused;
    for (int i = 0; i < TIMES; i++) {
        OK(pthread_mutex_lock(&mutex));
        long seen = counter;
        if (i % 32 == 0) sched_yield();
        counter = seen + 1;
        OK(pthread_mutex_unlock(&mutex));
    }
    return NULL;
}

static void *returns_busy(void *unused) {
    (void)unused;
    RETURNS(EBUSY, pthread_mutex_trylock(&mutex));
    struct timespec soon = after_ms(CLOCK_REALTIME, 3);
    RETURNS(ETIMEDOUT, pthread_mutex_timedlock(&mutex, &soon));
    CHECK(is_past(CLOCK_REALTIME, soon));
    return NULL;
}

static void *returns_not_owner(void *unused) {
    (void)unused;
    RETURNS(EPERM, pthread_mutex_unlock(&mutex));
    return NULL;
}

static void *dies_with_it(void *unused) {
    (void)unused;
    OK(pthread_mutex_lock(&mutex));
    return NULL;
}

static void *waits_for_the_dead(void *unused) {
    (void)unused;
    RETURNS(EOWNERDEAD, pthread_mutex_lock(&mutex));
    OK(pthread_mutex_consistent(&mutex));
    OK(pthread_mutex_unlock(&mutex));
    return NULL;
}

static void *dies_later(void *taken) {
    OK(pthread_mutex_lock(&mutex));
    pthread_barrier_wait(taken);
    usleep(2000);
    return NULL;
}

int main(void) {
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                                PTHREAD_MUTEX_ADAPTIVE_NP};
    for (int kind = 0; kind < 4 * 2 * 2 * 2; kind++) {
        int type = types[kind & 3];
        make(type, kind & 4 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE,
             kind & 8 ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED,
             kind & 16 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
        counter = 0;
        run(THREADS, count);
        CHECK(counter == THREADS * TIMES);

        OK(pthread_mutex_lock(&mutex));
        run(1, returns_busy);
        if (type == PTHREAD_MUTEX_RECURSIVE) {
            for (int depth = 0; depth < 3; depth++) OK(pthread_mutex_lock(&mutex));
            run(1, returns_busy);
            for (int depth = 0; depth < 3; depth++) OK(pthread_mutex_unlock(&mutex));
        }
        if (type == PTHREAD_MUTEX_ERRORCHECK) RETURNS(EDEADLK, pthread_mutex_lock(&mutex));
        if (type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE || kind & 8) run(1, returns_not_owner);
        OK(pthread_mutex_unlock(&mutex));

        if (kind & 8) {
            run(1, dies_with_it);
            run(1, waits_for_the_dead);
            run(3, count);
            /* The owner dies while others wait. */
            pthread_barrier_t taken;
            pthread_t owner;
            OK(pthread_barrier_init(&taken, NULL, 2));
            OK(pthread_create(&owner, NULL, dies_later, &taken));
            pthread_barrier_wait(&taken);
            run(1, waits_for_the_dead);
            OK(pthread_join(owner, NULL));
            OK(pthread_barrier_destroy(&taken));
            /* An owner that does not make it consistent makes it unusable. */
            run(1, dies_with_it);
            RETURNS(EOWNERDEAD, pthread_mutex_lock(&mutex));
            OK(pthread_mutex_unlock(&mutex));
            RETURNS(ENOTRECOVERABLE, pthread_mutex_lock(&mutex));
        }
        OK(pthread_mutex_destroy(&mutex));
        printf("kind %d\n", kind);
    }
    return 0;
}
