/* What POSIX and glibc promise of barriers. */
#include "lab.h"

enum { TEAM = 3 };

static pthread_barrier_t common;
static long arrived, leaders;

/* Whether this thread is the one that POSIX calls serial. */
static int meet(pthread_barrier_t *barrier) {
    int result = pthread_barrier_wait(barrier);
    CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    return result != 0;
}

static void *meet_often(void *unused) {
    for (int i = 1; i <= 30; i++) {
        __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
        pause_up_to(60);
        if (meet(&common)) __atomic_fetch_add(&leaders, 1, __ATOMIC_SEQ_CST);
        CHECK(__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) == TEAM * i);
        meet(&common);
    }
    return unused;
}
static void all_meet_and_one_leads(void) {
    OK(pthread_barrier_init(&common, NULL, TEAM));
    run(TEAM, meet_often);
    CHECK(leaders == 30);
    OK(pthread_barrier_destroy(&common));
}

/* Successive teams use one barrier. */
static void teams_succeed_each_other(void) {
    OK(pthread_barrier_init(&common, NULL, TEAM));
    for (long round = rounds(5); round > 0; round--) {
        arrived = 0;
        run(TEAM, meet_often);
    }
    OK(pthread_barrier_destroy(&common));
}

static void *meet_and_destroy(void *barrier) {
    pause_up_to(60);
    if (meet(barrier)) {
        OK(pthread_barrier_destroy(barrier));
        give_back(barrier);
    }
    return NULL;
}
/* One thread destroys the barrier while the others are leaving. */
static void destroy_by_the_leader(void) {
    for (long round = rounds(40); round > 0; round--) {
        pthread_barrier_t *barrier = take_page();
        OK(pthread_barrier_init(barrier, NULL, TEAM));
        pthread_t threads[TEAM];
        for (int i = 0; i < TEAM; i++) threads[i] = begin(meet_and_destroy, barrier);
        for (int i = 0; i < TEAM; i++) end(threads[i]);
        munmap(barrier, PAGE);
    }
}

static void *meet_once(void *barrier) {
    meet(barrier);
    return NULL;
}
/* The memory becomes another barrier while threads are leaving. */
static void reinitialize(void) {
    pthread_barrier_t barrier;
    for (long round = rounds(40); round > 0; round--) {
        OK(pthread_barrier_init(&barrier, NULL, 2));
        pthread_t first = begin(meet_once, &barrier);
        meet(&barrier);
        OK(pthread_barrier_destroy(&barrier));
        OK(pthread_barrier_init(&barrier, NULL, 2));
        pthread_t second = begin(meet_once, &barrier);
        meet(&barrier);
        OK(pthread_barrier_destroy(&barrier));
        end(first);
        end(second);
    }
}

/* `wait` is not a point of cancellation. */
static void cancel(void) {
    for (long round = rounds(20); round > 0; round--) {
        OK(pthread_barrier_init(&common, NULL, 2));
        pthread_t waiter = begin(meet_once, &common);
        pause_up_to(200);
        OK(pthread_cancel(waiter));
        meet(&common);
        CHECK(end(waiter) == NULL);
        OK(pthread_barrier_destroy(&common));
    }
}

/* Handlers run while a thread waits, and the wait goes on. */
static void interrupt(void) {
    OK(pthread_barrier_init(&common, NULL, 2));
    for (long round = rounds(10); round > 0; round--) {
        pthread_t waiter = begin(meet_once, &common);
        for (int i = 0; i < 10; i++) {
            OK(pthread_kill(waiter, SIGUSR2));
            pause_up_to(40);
        }
        errno = ENOTTY;
        meet(&common);
        CHECK(errno == ENOTTY);
        end(waiter);
    }
    OK(pthread_barrier_destroy(&common));
}

/* A child makes its own barrier in the place of one at which a thread of its parent waits. */
static void fork_beside_a_waiter(void) {
    OK(pthread_barrier_init(&common, NULL, 2));
    pthread_t waiter = begin(meet_once, &common);
    pause_up_to(200);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        memset(&common, 0, sizeof common);
        OK(pthread_barrier_init(&common, NULL, 2));
        pthread_t own = begin(meet_once, &common);
        meet(&common);
        end(own);
        OK(pthread_barrier_destroy(&common));
        _exit(0);
    }
    reap(child);
    meet(&common);
    end(waiter);
    OK(pthread_barrier_destroy(&common));
}
static void fork_beside_waiters(void) {
    for (long round = rounds(10); round > 0; round--) fork_beside_a_waiter();
}
/* Each time in a new process, so that the waiter is the first one of its process. */
static void fork_beside_the_first_waiter(void) {
    for (long round = rounds(20); round > 0; round--) {
        pause_up_to(20);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            fork_beside_a_waiter();
            _exit(0);
        }
        reap(child);
    }
}

static void share(void) {
    struct {
        pthread_barrier_t barrier;
        long leaders;
    } *shared = shared_memory(sizeof *shared);
    pthread_barrierattr_t attributes;
    OK(pthread_barrierattr_init(&attributes));
    OK(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    OK(pthread_barrier_init(&shared->barrier, &attributes, 2));
    pid_t child = fork();
    CHECK(child >= 0);
    for (int i = 0; i < 30; i++)
        if (meet(&shared->barrier)) __atomic_fetch_add(&shared->leaders, 1, __ATOMIC_SEQ_CST);
    if (child == 0) _exit(0);
    reap(child);
    CHECK(shared->leaders == 30);
    OK(pthread_barrier_destroy(&shared->barrier));
}

static void limits(void) {
    RETURNS(EINVAL, pthread_barrier_init(&common, NULL, 0));
    OK(pthread_barrier_init(&common, NULL, 1));
    CHECK(meet(&common));
    OK(pthread_barrier_destroy(&common));
    int shared;
    pthread_barrierattr_t attributes;
    OK(pthread_barrierattr_init(&attributes));
    OK(pthread_barrierattr_getpshared(&attributes, &shared));
    CHECK(shared == PTHREAD_PROCESS_PRIVATE);
    RETURNS(EINVAL, pthread_barrierattr_setpshared(&attributes, 42));
}

static const Case cases[] = {
    CASE(all_meet_and_one_leads), CASE(teams_succeed_each_other), CASE(destroy_by_the_leader), CASE(reinitialize),
    CASE(cancel), CASE(interrupt), CASE(fork_beside_waiters),
    CASE(fork_beside_the_first_waiter), CASE(share), CASE(limits),
};

int main(int count, char **arguments) {
    (void)count;
    return CHOOSE(cases, arguments);
}
