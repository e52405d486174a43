/* What POSIX and glibc promise of condition variables. */
#include "lab.h"

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t *condition;
    long waiting, passed, tokens;
    int go;
} Monitor;

static void renew(Monitor *monitor, pthread_cond_t *condition) {
    memset(monitor, 0, sizeof *monitor);
    OK(pthread_mutex_init(&monitor->mutex, NULL));
    monitor->condition = condition;
    OK(pthread_cond_init(condition, NULL));
}

static void *wait_for_go(void *argument) {
    Monitor *monitor = argument;
    OK(pthread_mutex_lock(&monitor->mutex));
    monitor->waiting++;
    while (!monitor->go) OK(pthread_cond_wait(monitor->condition, &monitor->mutex));
    monitor->passed++;
    OK(pthread_mutex_unlock(&monitor->mutex));
    return NULL;
}

/* Locks the mutex when so many threads wait, at most a few of which have not released it yet. */
static void lock_when_waiting(Monitor *monitor, int threads) {
    for (;;) {
        OK(pthread_mutex_lock(&monitor->mutex));
        if (monitor->waiting == threads) return;
        OK(pthread_mutex_unlock(&monitor->mutex));
        sched_yield();
    }
}

enum Ending { SIGNAL, BROADCAST, BROADCAST_WITH_MUTEX, REINITIALIZE };

/* The condition variable is destroyed, and its memory given back, immediately after the last signal. */
static void destroy_after(enum Ending ending, int threads, long times) {
    for (long round = rounds(times); round > 0; round--) {
        Monitor monitor;
        pthread_t waiters[64];
        pthread_cond_t *condition = take_page();
        renew(&monitor, condition);
        for (int i = 0; i < threads; i++) waiters[i] = begin(wait_for_go, &monitor);
        lock_when_waiting(&monitor, threads);
        monitor.go = 1;
        if (ending != BROADCAST_WITH_MUTEX) OK(pthread_mutex_unlock(&monitor.mutex));
        pause_up_to(120);
        OK(ending == SIGNAL ? pthread_cond_signal(condition) : pthread_cond_broadcast(condition));
        OK(pthread_cond_destroy(condition));
        if (ending == REINITIALIZE) {
            Monitor other;
            renew(&other, condition);
            pthread_t waiter = begin(wait_for_go, &other);
            lock_when_waiting(&other, 1);
            other.go = 1;
            OK(pthread_mutex_unlock(&other.mutex));
            OK(pthread_cond_signal(condition));
            end(waiter);
            OK(pthread_cond_destroy(condition));
        }
        give_back(condition);
        if (ending == BROADCAST_WITH_MUTEX) OK(pthread_mutex_unlock(&monitor.mutex));
        for (int i = 0; i < threads; i++) end(waiters[i]);
        CHECK(monitor.passed == threads);
        OK(pthread_mutex_destroy(&monitor.mutex));
        munmap(condition, PAGE);
    }
}

static void destroy_after_signal(void) { destroy_after(SIGNAL, 1, 40); }
static void destroy_after_broadcast(void) { destroy_after(BROADCAST, 2, 40); }
static void destroy_with_the_mutex(void) { destroy_after(BROADCAST_WITH_MUTEX, 2, 20); }
static void destroy_with_many_waiters(void) { destroy_after(BROADCAST, 40, 3); }
static void reinitialize(void) { destroy_after(REINITIALIZE, 1, 20); }

static void *wait_and_destroy(void *argument) {
    Monitor *monitor = argument;
    OK(pthread_mutex_lock(&monitor->mutex));
    monitor->waiting++;
    while (!monitor->go) OK(pthread_cond_wait(monitor->condition, &monitor->mutex));
    int is_last = --monitor->waiting == 0;
    OK(pthread_mutex_unlock(&monitor->mutex));
    if (is_last) {
        OK(pthread_cond_destroy(monitor->condition));
        OK(pthread_mutex_destroy(&monitor->mutex));
        give_back(monitor);
    }
    return NULL;
}

/* The last waiter destroys condition variable and mutex. */
static void destroy_by_the_last_waiter(void) {
    for (long round = rounds(20); round > 0; round--) {
        Monitor *monitor = take_page();
        pthread_cond_t *condition = (pthread_cond_t *)((char *)monitor + PAGE / 2);
        renew(monitor, condition);
        pthread_t waiters[2];
        for (int i = 0; i < 2; i++) waiters[i] = begin(wait_and_destroy, monitor);
        lock_when_waiting(monitor, 2);
        monitor->go = 1;
        pause_up_to(120);
        OK(pthread_cond_broadcast(condition));
        OK(pthread_mutex_unlock(&monitor->mutex));
        for (int i = 0; i < 2; i++) end(waiters[i]);
        munmap(monitor, PAGE);
    }
}

static pthread_cond_t common = PTHREAD_COND_INITIALIZER;
static int over;

static void *signal_until_over(void *unused) {
    while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
        OK(pthread_cond_signal(&common));
        pause_up_to(20);
    }
    return unused;
}

/* A waiter gives its mutex back while other threads signal without it. */
static void destroy_the_mutex_after_a_wait(void) {
    pthread_t signalling[2];
    for (int i = 0; i < 2; i++) signalling[i] = begin(signal_until_over, NULL);
    for (long round = rounds(20); round > 0; round--) {
        pthread_mutex_t *mutex = take_page();
        OK(pthread_mutex_init(mutex, NULL));
        OK(pthread_mutex_lock(mutex));
        OK(pthread_cond_wait(&common, mutex));
        OK(pthread_mutex_unlock(mutex));
        OK(pthread_mutex_destroy(mutex));
        give_back(mutex);
    }
    over = 1;
    for (int i = 0; i < 2; i++) end(signalling[i]);
}

static void *consume(void *argument) {
    Monitor *monitor = argument;
    OK(pthread_mutex_lock(&monitor->mutex));
    while (monitor->passed < 60) {
        while (!monitor->tokens && monitor->passed < 60) OK(pthread_cond_wait(monitor->condition, &monitor->mutex));
        if (monitor->passed < 60) monitor->tokens--, monitor->passed++;
    }
    OK(pthread_cond_broadcast(monitor->condition));
    OK(pthread_mutex_unlock(&monitor->mutex));
    return NULL;
}

/* Each signal reaches a waiter, with and without the mutex. */
static void signal_each(void) {
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    static Monitor monitor = {.mutex = PTHREAD_MUTEX_INITIALIZER, .condition = &condition};
    pthread_t consumers[3];
    for (int i = 0; i < 3; i++) consumers[i] = begin(consume, &monitor);
    for (int i = 0; i < 60; i++) {
        OK(pthread_mutex_lock(&monitor.mutex));
        monitor.tokens++;
        if (i % 2) OK(pthread_cond_signal(&condition));
        OK(pthread_mutex_unlock(&monitor.mutex));
        if (i % 2 == 0) OK(pthread_cond_signal(&condition));
        pause_up_to(60);
    }
    for (int i = 0; i < 3; i++) end(consumers[i]);
    CHECK(monitor.passed == 60 && monitor.tokens == 0);
}

/* A thread with the mutex may wait for one that signals without it. */
static void *signal_common(void *unused) {
    OK(pthread_cond_broadcast(&common));
    return unused;
}
static void signal_while_another_holds_the_mutex(void) {
    for (long round = rounds(10); round > 0; round--) {
        Monitor monitor = {.mutex = PTHREAD_MUTEX_INITIALIZER, .condition = &common};
        pthread_t waiter = begin(wait_for_go, &monitor);
        lock_when_waiting(&monitor, 1);
        pause_up_to(200);
        monitor.go = 1;
        end(begin(signal_common, NULL));
        OK(pthread_mutex_unlock(&monitor.mutex));
        end(waiter);
    }
}

static void unlock(void *mutex) {
    OK(pthread_mutex_unlock(mutex));
}
static void *wait_forever(void *argument) {
    Monitor *monitor = argument;
    OK(pthread_mutex_lock(&monitor->mutex));
    pthread_cleanup_push(unlock, &monitor->mutex);
    monitor->waiting++;
    for (;;) OK(pthread_cond_wait(monitor->condition, &monitor->mutex));
    pthread_cleanup_pop(0);
    return NULL;
}

/* A cancelled waiter holds the mutex in its handlers. Then both can be destroyed, and the condition
 * variable at the same address used again. */
static void cancel(void) {
    pthread_cond_t *condition = take_page();
    for (long round = rounds(20); round > 0; round--) {
        Monitor *monitor = take_page();
        renew(monitor, condition);
        pthread_t waiter = begin(wait_forever, monitor);
        lock_when_waiting(monitor, 1);
        OK(pthread_mutex_unlock(&monitor->mutex));
        if (round % 2) usleep(300);
        pause_up_to(100);
        OK(pthread_cancel(waiter));
        if (round % 3 == 0) OK(pthread_cond_signal(condition));
        end_cancelled(waiter);
        OK(pthread_mutex_destroy(&monitor->mutex));
        give_back(monitor);
        OK(pthread_cond_broadcast(condition));
        OK(pthread_cond_destroy(condition));
    }
}

static void *wait_with_cancellation_pending(void *argument) {
    OK(pthread_cancel(pthread_self()));
    return wait_forever(argument);
}
static void cancel_before(void) {
    for (long round = rounds(20); round > 0; round--) {
        Monitor monitor;
        pthread_cond_t condition;
        renew(&monitor, &condition);
        end_cancelled(begin(wait_with_cancellation_pending, &monitor));
        OK(pthread_mutex_lock(&monitor.mutex));
    }
}

static void *wait_with_cancellation_off(void *argument) {
    OK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL));
    return wait_for_go(argument);
}
static void cancel_when_it_is_off(void) {
    for (long round = rounds(20); round > 0; round--) {
        Monitor monitor;
        pthread_cond_t condition;
        renew(&monitor, &condition);
        pthread_t waiter = begin(wait_with_cancellation_off, &monitor);
        lock_when_waiting(&monitor, 1);
        OK(pthread_cancel(waiter));
        monitor.go = 1;
        OK(pthread_cond_signal(&condition));
        OK(pthread_mutex_unlock(&monitor.mutex));
        CHECK(end(waiter) == NULL);
    }
}

static void *take_token(void *argument) {
    Monitor *monitor = argument;
    OK(pthread_mutex_lock(&monitor->mutex));
    pthread_cleanup_push(unlock, &monitor->mutex);
    monitor->waiting++;
    while (!monitor->tokens) OK(pthread_cond_wait(monitor->condition, &monitor->mutex));
    monitor->tokens--;
    pthread_cleanup_pop(1);
    return NULL;
}

/* A cancelled waiter does not take a signal that another could have got. */
static void cancel_and_signal(void) {
    for (long round = rounds(20); round > 0; round--) {
        Monitor monitor;
        pthread_cond_t condition;
        renew(&monitor, &condition);
        pthread_t waiters[2];
        for (int i = 0; i < 2; i++) waiters[i] = begin(take_token, &monitor);
        lock_when_waiting(&monitor, 2);
        monitor.tokens = 1;
        OK(pthread_mutex_unlock(&monitor.mutex));
        pause_up_to(100);
        OK(pthread_cancel(waiters[0]));
        OK(pthread_cond_signal(&condition));
        if (end(waiters[0]) == NULL) {
            OK(pthread_mutex_lock(&monitor.mutex));
            monitor.tokens = 1;
            OK(pthread_mutex_unlock(&monitor.mutex));
            OK(pthread_cond_signal(&condition));
        }
        CHECK(end(waiters[1]) == NULL);
        OK(pthread_cond_destroy(&condition));
    }
}

/* A child has no waiters, and signals without waiting for those of its parent. */
static void fork_beside_waiters(void) {
    for (long round = rounds(10); round > 0; round--) {
        Monitor monitor;
        pthread_cond_t condition;
        renew(&monitor, &condition);
        pthread_t waiters[2];
        for (int i = 0; i < 2; i++) waiters[i] = begin(wait_for_go, &monitor);
        while (__atomic_load_n(&monitor.waiting, __ATOMIC_SEQ_CST) < 2) sched_yield();
        pause_up_to(200);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            OK(pthread_cond_broadcast(&condition));
            renew(&monitor, &condition);
            pthread_t waiter = begin(wait_for_go, &monitor);
            lock_when_waiting(&monitor, 1);
            monitor.go = 1;
            OK(pthread_mutex_unlock(&monitor.mutex));
            OK(pthread_cond_signal(&condition));
            end(waiter);
            OK(pthread_cond_destroy(&condition));
            _exit(0);
        }
        reap(child);
        lock_when_waiting(&monitor, 2);
        monitor.go = 1;
        OK(pthread_mutex_unlock(&monitor.mutex));
        OK(pthread_cond_broadcast(&condition));
        for (int i = 0; i < 2; i++) end(waiters[i]);
        OK(pthread_cond_destroy(&condition));
    }
}

/* Lets the waiter go on, and destroys the condition variable. */
static void finish(Monitor *monitor, pthread_t waiter) {
    lock_when_waiting(monitor, 1);
    monitor->go = 1;
    OK(pthread_cond_signal(monitor->condition));
    OK(pthread_mutex_unlock(&monitor->mutex));
    end(waiter);
    OK(pthread_cond_destroy(monitor->condition));
}

/* Signal handlers run during a wait, which goes on. */
static void interrupt(void) {
    for (long round = rounds(10); round > 0; round--) {
        Monitor monitor;
        pthread_cond_t condition;
        renew(&monitor, &condition);
        pthread_t waiter = begin(wait_for_go, &monitor);
        for (int i = 0; i < 10; i++) {
            OK(pthread_kill(waiter, SIGUSR2));
            pause_up_to(40);
        }
        finish(&monitor, waiter);
    }
}

static int stopped, go_on;
static void resume(int number) { (void)number; }
static void stop(int number) {
    (void)number;
    sigset_t others;
    sigfillset(&others);
    sigdelset(&others, SIGUSR2);
    __atomic_store_n(&stopped, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&go_on, __ATOMIC_SEQ_CST)) sigsuspend(&others);
    __atomic_store_n(&stopped, 0, __ATOMIC_SEQ_CST);
}

/* A thread signals while the waiter is stopped in a signal handler, as by a garbage collector. */
static void signal_a_stopped_thread(void) {
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
    /* The other signal arrives only in `sigsuspend`. */
    sigaddset(&action.sa_mask, SIGUSR2);
    OK(sigaction(SIGUSR1, &action, NULL));
    action.sa_handler = resume;
    OK(sigaction(SIGUSR2, &action, NULL));
    for (long round = rounds(3); round > 0; round--) {
        Monitor monitor;
        pthread_cond_t condition;
        renew(&monitor, &condition);
        pthread_t waiter = begin(wait_for_go, &monitor);
        for (int i = 0; i < 3; i++) {
            pause_up_to(100);
            OK(pthread_kill(waiter, SIGUSR1));
            while (!__atomic_load_n(&stopped, __ATOMIC_SEQ_CST)) sched_yield();
            OK(pthread_cond_signal(&condition));
            __atomic_store_n(&go_on, 1, __ATOMIC_SEQ_CST);
            OK(pthread_kill(waiter, SIGUSR2));
            while (__atomic_load_n(&stopped, __ATOMIC_SEQ_CST)) sched_yield();
            go_on = 0;
        }
        finish(&monitor, waiter);
    }
}

static void *wait_until_timeout(void *argument) {
    Monitor *monitor = argument;
    struct timespec until = after_ms(CLOCK_MONOTONIC, 3);
    OK(pthread_mutex_lock(&monitor->mutex));
    int result;
    while ((result = pthread_cond_clockwait(monitor->condition, &monitor->mutex, CLOCK_MONOTONIC, &until)) == 0) {}
    CHECK(result == ETIMEDOUT && is_past(CLOCK_MONOTONIC, until));
    OK(pthread_mutex_unlock(&monitor->mutex));
    return NULL;
}
static void *wait_with_a_distant_deadline(void *argument) {
    Monitor *monitor = argument;
    struct timespec until = after_ms(CLOCK_REALTIME, 600000);
    OK(pthread_mutex_lock(&monitor->mutex));
    monitor->waiting++;
    while (!monitor->go) OK(pthread_cond_timedwait(monitor->condition, &monitor->mutex, &until));
    monitor->passed++;
    OK(pthread_mutex_unlock(&monitor->mutex));
    return NULL;
}

/* Waits with and without a deadline at one condition variable. */
static void wait_with_deadlines(void) {
    for (long round = rounds(5); round > 0; round--) {
        Monitor monitor;
        pthread_cond_t *condition = take_page();
        renew(&monitor, condition);
        pthread_t timed = begin(wait_until_timeout, &monitor), others[4];
        for (int i = 0; i < 4; i++) others[i] = begin(i % 2 ? wait_for_go : wait_with_a_distant_deadline, &monitor);
        end(timed);
        lock_when_waiting(&monitor, 4);
        monitor.go = 1;
        OK(pthread_mutex_unlock(&monitor.mutex));
        OK(pthread_cond_broadcast(condition));
        OK(pthread_cond_destroy(condition));
        give_back(condition);
        for (int i = 0; i < 4; i++) end(others[i]);
        CHECK(monitor.passed == 4);
    }
}

/* Two processes take turns. */
static void share(void) {
    struct {
        pthread_mutex_t mutex;
        pthread_cond_t condition;
        long turn;
    } *shared = shared_memory(sizeof *shared);
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    OK(pthread_mutexattr_init(&mutex));
    OK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
    OK(pthread_mutex_init(&shared->mutex, &mutex));
    OK(pthread_condattr_init(&condition));
    OK(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED));
    OK(pthread_cond_init(&shared->condition, &condition));
    pid_t child = fork();
    CHECK(child >= 0);
    for (int i = 0; i < 40; i++) {
        OK(pthread_mutex_lock(&shared->mutex));
        while (shared->turn % 2 != (child == 0)) OK(pthread_cond_wait(&shared->condition, &shared->mutex));
        shared->turn++;
        OK(pthread_mutex_unlock(&shared->mutex));
        OK(pthread_cond_signal(&shared->condition));
    }
    if (child == 0) _exit(0);
    reap(child);
    CHECK(shared->turn == 80);
    OK(pthread_cond_destroy(&shared->condition));
}

/* The other process signals without the mutex, which is private to the process of the waiter. */
static void share_only_the_condition_variable(void) {
    struct {
        pthread_cond_t condition;
        int go;
    } *shared = shared_memory(sizeof *shared);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_t attributes;
    OK(pthread_condattr_init(&attributes));
    OK(pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    OK(pthread_cond_init(&shared->condition, &attributes));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        while (!__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST)) {
            OK(pthread_cond_signal(&shared->condition));
            pause_up_to(100);
        }
        _exit(0);
    }
    OK(pthread_mutex_lock(&mutex));
    for (long round = rounds(20); round > 0; round--) OK(pthread_cond_wait(&shared->condition, &mutex));
    OK(pthread_mutex_unlock(&mutex));
    __atomic_store_n(&shared->go, 1, __ATOMIC_SEQ_CST);
    reap(child);
    OK(pthread_cond_destroy(&shared->condition));
}

/* The clock of the attributes counts, and an initializer is enough. */
static void attributes(void) {
    pthread_condattr_t attributes;
    pthread_cond_t by_clock, initialized = PTHREAD_COND_INITIALIZER;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    OK(pthread_condattr_init(&attributes));
    OK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    OK(pthread_cond_init(&by_clock, &attributes));
    OK(pthread_mutex_lock(&mutex));
    struct timespec until = after_ms(CLOCK_MONOTONIC, 2);
    int result;
    while ((result = pthread_cond_timedwait(&by_clock, &mutex, &until)) == 0) {}
    CHECK(result == ETIMEDOUT && is_past(CLOCK_MONOTONIC, until));
    until = after_ms(CLOCK_REALTIME, 2);
    while ((result = pthread_cond_timedwait(&initialized, &mutex, &until)) == 0) {}
    CHECK(result == ETIMEDOUT && is_past(CLOCK_REALTIME, until));
    until.tv_nsec = -1;
    RETURNS(EINVAL, pthread_cond_timedwait(&initialized, &mutex, &until));
    RETURNS(EBUSY, pthread_mutex_trylock(&mutex));
    OK(pthread_mutex_unlock(&mutex));
    Monitor monitor = {.mutex = PTHREAD_MUTEX_INITIALIZER, .condition = &initialized};
    pthread_t waiter = begin(wait_for_go, &monitor);
    lock_when_waiting(&monitor, 1);
    monitor.go = 1;
    OK(pthread_mutex_unlock(&monitor.mutex));
    OK(pthread_cond_broadcast(&initialized));
    end(waiter);
    OK(pthread_cond_destroy(&by_clock));
    OK(pthread_cond_destroy(&initialized));
}

/* A mutex that checks its owner reports a wait without it. */
/* With these mutexes, waits are those of the C library. */
static void *die_with_the_mutex(void *monitor) {
    OK(pthread_mutex_lock(&((Monitor *)monitor)->mutex));
    return NULL;
}
static void *wait_for_a_dead_owner(void *argument) {
    Monitor *monitor = argument;
    OK(pthread_mutex_lock(&monitor->mutex));
    monitor->waiting++;
    int result;
    while ((result = pthread_cond_wait(monitor->condition, &monitor->mutex)) == 0) {}
    CHECK(result == EOWNERDEAD);
    OK(pthread_mutex_consistent(&monitor->mutex));
    OK(pthread_mutex_unlock(&monitor->mutex));
    return NULL;
}
static void kinds_of_mutexes(void) {
    enum { RECURSIVE, CHECKED, ADAPTIVE, INHERITING, ROBUST, KINDS };
    for (int kind = 0; kind < KINDS; kind++) {
        Monitor monitor;
        pthread_cond_t condition;
        pthread_mutexattr_t attributes;
        renew(&monitor, &condition);
        OK(pthread_mutex_destroy(&monitor.mutex));
        OK(pthread_mutexattr_init(&attributes));
        if (kind == RECURSIVE) OK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE));
        if (kind == CHECKED) OK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK));
        if (kind == ADAPTIVE) OK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP));
        if (kind == INHERITING) OK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT));
        if (kind == ROBUST) OK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
        OK(pthread_mutex_init(&monitor.mutex, &attributes));
        pthread_t waiters[2];
        for (int i = 0; i < 2; i++) waiters[i] = begin(i ? wait_forever : wait_for_go, &monitor);
        lock_when_waiting(&monitor, 2);
        monitor.go = 1;
        OK(pthread_cond_broadcast(&condition));
        OK(pthread_mutex_unlock(&monitor.mutex));
        end(waiters[0]);
        OK(pthread_cancel(waiters[1]));
        end_cancelled(waiters[1]);
        if (kind == ROBUST) {
            /* The wait reports that a thread died with the mutex. */
            monitor.go = 0;
            pthread_t waiter = begin(wait_for_a_dead_owner, &monitor);
            lock_when_waiting(&monitor, 3);
            OK(pthread_mutex_unlock(&monitor.mutex));
            end(begin(die_with_the_mutex, &monitor));
            OK(pthread_cond_signal(&condition));
            end(waiter);
        }
        OK(pthread_mutex_destroy(&monitor.mutex));
        OK(pthread_cond_destroy(&condition));
    }
}

static void wait_without_the_mutex(void) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t mutex;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    OK(pthread_mutexattr_init(&attributes));
    OK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK));
    OK(pthread_mutex_init(&mutex, &attributes));
    RETURNS(EPERM, pthread_cond_wait(&condition, &mutex));
    OK(pthread_cond_destroy(&condition));
}

static const Case cases[] = {
    CASE(destroy_after_signal), CASE(destroy_after_broadcast), CASE(destroy_with_the_mutex),
    CASE(destroy_with_many_waiters), CASE(destroy_by_the_last_waiter), CASE(destroy_the_mutex_after_a_wait),
    CASE(reinitialize), CASE(signal_each), CASE(signal_while_another_holds_the_mutex), CASE(cancel),
    CASE(cancel_before), CASE(cancel_when_it_is_off), CASE(cancel_and_signal), CASE(fork_beside_waiters),
    CASE(interrupt), CASE(signal_a_stopped_thread), CASE(wait_with_deadlines), CASE(share), CASE(share_only_the_condition_variable),
    CASE(attributes), CASE(kinds_of_mutexes), CASE(wait_without_the_mutex),
};

int main(int count, char **arguments) {
    (void)count;
    return CHOOSE(cases, arguments);
}
