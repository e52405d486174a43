/* What POSIX and glibc promise of mutexes. */
#include "lab.h"

typedef struct {
    pthread_mutex_t mutex;
    long users, counter;
} Counted;

static void *count_and_destroy(void *argument) {
    Counted *counted = argument;
    OK(pthread_mutex_lock(&counted->mutex));
    counted->counter++;
    pause_up_to(40);
    int is_last = --counted->users == 0;
    OK(pthread_mutex_unlock(&counted->mutex));
    if (is_last) {
        OK(pthread_mutex_destroy(&counted->mutex));
        give_back(counted);
    }
    return NULL;
}

/* The last user destroys the mutex immediately after it has unlocked it. */
static void destroy_by_the_last_user(void) {
    for (long round = rounds(20); round > 0; round--) {
        Counted *counted = take_page();
        OK(pthread_mutex_init(&counted->mutex, NULL));
        counted->users = 3;
        pthread_t threads[3];
        for (int i = 0; i < 3; i++) threads[i] = begin(count_and_destroy, counted);
        for (int i = 0; i < 3; i++) end(threads[i]);
        munmap(counted, PAGE);
    }
}

static pthread_mutex_t common = PTHREAD_MUTEX_INITIALIZER;
static long counter;

static void *count(void *unused) {
    for (int i = 0; i < 20; i++) {
        OK(pthread_mutex_lock(&common));
        long before = counter;
        if (i % 4 == 0) pause_up_to(30);
        counter = before + 1;
        OK(pthread_mutex_unlock(&common));
    }
    return unused;
}
static void exclude(void) {
    run(4, count);
    CHECK(counter == 80);
}

static void reinitialize(void) {
    for (long round = rounds(5); round > 0; round--) {
        counter = 0;
        run(2, count);
        OK(pthread_mutex_destroy(&common));
        OK(pthread_mutex_init(&common, NULL));
    }
}

static void *lock_common(void *unused) {
    OK(pthread_mutex_lock(&common));
    counter++;
    OK(pthread_mutex_unlock(&common));
    return unused;
}
/* `lock` is not a point of cancellation. */
static void cancel(void) {
    for (long round = rounds(20); round > 0; round--) {
        OK(pthread_mutex_lock(&common));
        pthread_t waiter = begin(lock_common, NULL);
        pause_up_to(100);
        OK(pthread_cancel(waiter));
        OK(pthread_mutex_unlock(&common));
        CHECK(end(waiter) == NULL);
    }
    CHECK(counter == rounds(20));
}

/* Handlers run while a thread waits, and the wait goes on. */
static void interrupt(void) {
    for (long round = rounds(10); round > 0; round--) {
        OK(pthread_mutex_lock(&common));
        pthread_t waiter = begin(lock_common, NULL);
        for (int i = 0; i < 10; i++) {
            OK(pthread_kill(waiter, SIGUSR2));
            pause_up_to(40);
        }
        errno = ENOTTY;
        OK(pthread_mutex_unlock(&common));
        CHECK(errno == ENOTTY);
        end(waiter);
    }
}

static void lock_it(void) { OK(pthread_mutex_lock(&common)); }
static void unlock_it(void) { OK(pthread_mutex_unlock(&common)); }
static void *count_until_over(void *over) {
    while (!__atomic_load_n((int *)over, __ATOMIC_SEQ_CST)) count(NULL);
    return NULL;
}
/* A thread that holds the mutex forks, and the child unlocks it. */
static void fork_with_it(void) {
    int over = 0;
    OK(pthread_atfork(lock_it, unlock_it, unlock_it));
    pthread_t other = begin(count_until_over, &over);
    for (long round = rounds(10); round > 0; round--) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            counter = 0;
            run(2, count);
            _exit(counter == 40 ? 0 : 1);
        }
        reap(child);
    }
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    end(other);
}

static void share(void) {
    Counted *shared = shared_memory(sizeof *shared);
    pthread_mutexattr_t attributes;
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutex_init(&shared->mutex, &attributes));
    pid_t child = fork();
    CHECK(child >= 0);
    for (int i = 0; i < 40; i++) {
        OK(pthread_mutex_lock(&shared->mutex));
        long before = shared->counter;
        pause_up_to(20);
        shared->counter = before + 1;
        OK(pthread_mutex_unlock(&shared->mutex));
    }
    if (child == 0) _exit(0);
    reap(child);
    CHECK(shared->counter == 80);
}

static void *find_it_busy(void *mutex) {
    RETURNS(EBUSY, pthread_mutex_trylock(mutex));
    struct timespec until = after_ms(CLOCK_REALTIME, 2);
    RETURNS(ETIMEDOUT, pthread_mutex_timedlock(mutex, &until));
    CHECK(is_past(CLOCK_REALTIME, until));
    until = after_ms(CLOCK_MONOTONIC, 2);
    RETURNS(ETIMEDOUT, pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until));
    CHECK(is_past(CLOCK_MONOTONIC, until));
    return NULL;
}
static void *die_with_it(void *mutex) {
    OK(pthread_mutex_lock(mutex));
    return NULL;
}

/* Each kind answers misuse, deadlines and dead owners in its own way. */
static void kinds(void) {
    const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
    for (int i = 0; i < 4; i++) {
        for (int robust = 0; robust < 2; robust++) {
            pthread_mutexattr_t attributes;
            pthread_mutex_t mutex;
            OK(pthread_mutexattr_init(&attributes));
            OK(pthread_mutexattr_settype(&attributes, types[i]));
            OK(pthread_mutexattr_setrobust(&attributes, robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED));
            OK(pthread_mutex_init(&mutex, &attributes));
            OK(pthread_mutex_lock(&mutex));
            end(begin(find_it_busy, &mutex));
            if (types[i] == PTHREAD_MUTEX_ERRORCHECK) RETURNS(EDEADLK, pthread_mutex_lock(&mutex));
            if (types[i] == PTHREAD_MUTEX_RECURSIVE) {
                OK(pthread_mutex_lock(&mutex));
                OK(pthread_mutex_unlock(&mutex));
                end(begin(find_it_busy, &mutex));
            }
            OK(pthread_mutex_unlock(&mutex));
            if (robust) {
                end(begin(die_with_it, &mutex));
                RETURNS(EOWNERDEAD, pthread_mutex_lock(&mutex));
                OK(pthread_mutex_consistent(&mutex));
                OK(pthread_mutex_unlock(&mutex));
                end(begin(die_with_it, &mutex));
                RETURNS(EOWNERDEAD, pthread_mutex_lock(&mutex));
                OK(pthread_mutex_unlock(&mutex));
                RETURNS(ENOTRECOVERABLE, pthread_mutex_lock(&mutex));
            }
            OK(pthread_mutex_destroy(&mutex));
        }
    }
}

static const Case cases[] = {
    CASE(destroy_by_the_last_user), CASE(exclude), CASE(reinitialize), CASE(cancel), CASE(interrupt),
    CASE(fork_with_it), CASE(share), CASE(kinds),
};

int main(int count, char **arguments) {
    (void)count;
    return CHOOSE(cases, arguments);
}
