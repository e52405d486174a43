/* What POSIX and glibc promise of semaphores. */
#include "lab.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/time.h>

static void *take(void *semaphore) {
    while (sem_wait(semaphore)) CHECK(errno == EINTR);
    return NULL;
}

/* The waiter destroys the semaphore as soon as its wait is over. */
static void *take_and_destroy(void *semaphore) {
    take(semaphore);
    OK(sem_destroy(semaphore));
    give_back(semaphore);
    return NULL;
}
static void destroy_after_a_wait(void) {
    for (long round = rounds(40); round > 0; round--) {
        sem_t *semaphore = take_page();
        OK(sem_init(semaphore, 0, 0));
        pthread_t waiter = begin(take_and_destroy, semaphore);
        pause_up_to(120);
        OK(sem_post(semaphore));
        end(waiter);
        munmap(semaphore, PAGE);
    }
}

/* The memory is used for another semaphore at once. */
static void reinitialize(void) {
    sem_t semaphore;
    for (long round = rounds(40); round > 0; round--) {
        OK(sem_init(&semaphore, 0, 0));
        pthread_t waiter = begin(take, &semaphore);
        pause_up_to(120);
        OK(sem_post(&semaphore));
        end(waiter);
        OK(sem_destroy(&semaphore));
        OK(sem_init(&semaphore, 0, 1));
        OK(sem_wait(&semaphore));
        CHECK(sem_trywait(&semaphore) < 0 && errno == EAGAIN);
        OK(sem_destroy(&semaphore));
    }
}

static sem_t common, reply;
static long taken;

static void *take_many(void *unused) {
    for (int i = 0; i < 20; i++) {
        take(&common);
        __atomic_fetch_add(&taken, 1, __ATOMIC_SEQ_CST);
    }
    return unused;
}
static void each_post_lets_one_pass(void) {
    OK(sem_init(&common, 0, 0));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) threads[i] = begin(take_many, NULL);
    for (int i = 0; i < 60; i++) {
        pause_up_to(60);
        OK(sem_post(&common));
    }
    for (int i = 0; i < 3; i++) end(threads[i]);
    int value;
    OK(sem_getvalue(&common, &value));
    CHECK(taken == 60 && value == 0);
}

static void *take_until_cancelled(void *unused) {
    OK(sem_post(&reply));
    for (;;) take(&common);
    return unused;
}
/* A cancelled waiter takes nothing. */
static void cancel(void) {
    for (long round = rounds(20); round > 0; round--) {
        OK(sem_init(&common, 0, 0));
        OK(sem_init(&reply, 0, 0));
        pthread_t waiter = begin(take_until_cancelled, NULL);
        take(&reply);
        pause_up_to(200);
        OK(pthread_cancel(waiter));
        end_cancelled(waiter);
        OK(sem_post(&common));
        OK(sem_trywait(&common));
        OK(sem_destroy(&common));
    }
}

static void *take_with_cancellation_pending(void *unused) {
    OK(pthread_cancel(pthread_self()));
    take(&common);
    return unused;
}
/* Even if the semaphore is free. */
static void cancel_before(void) {
    OK(sem_init(&common, 0, 1));
    for (long round = rounds(20); round > 0; round--) end_cancelled(begin(take_with_cancellation_pending, NULL));
    int value;
    OK(sem_getvalue(&common, &value));
    CHECK(value == 1);
}

static void *take_with_cancellation_off(void *unused) {
    OK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL));
    OK(sem_post(&reply));
    take(&common);
    return unused;
}
static void cancel_when_it_is_off(void) {
    OK(sem_init(&common, 0, 0));
    OK(sem_init(&reply, 0, 0));
    for (long round = rounds(20); round > 0; round--) {
        pthread_t waiter = begin(take_with_cancellation_off, NULL);
        take(&reply);
        OK(pthread_cancel(waiter));
        OK(sem_post(&common));
        CHECK(end(waiter) == NULL);
    }
}

static void post_common(int signal) {
    int before = errno;
    (void)signal;
    if (sem_post(&common)) _exit(1);
    errno = before;
}
/* A handler posts, and an interrupted wait fails with EINTR and takes nothing. */
static void interrupt(void) {
    struct sigaction action = {.sa_handler = post_common};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    OK(sem_init(&common, 0, 0));
    for (long round = rounds(20); round > 0; round--) {
        pthread_t waiter = begin(take, &common);
        pause_up_to(120);
        OK(pthread_kill(round % 2 ? waiter : pthread_self(), SIGUSR1));
        end(waiter);
    }
    struct itimerval soon = {.it_value = {.tv_usec = 3000}, .it_interval = {.tv_usec = 3000}};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    CHECK(sem_wait(&common) < 0 && errno == EINTR);
    memset(&soon, 0, sizeof soon);
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    int value;
    OK(sem_getvalue(&common, &value));
    CHECK(value == 0);
}

/* Waits and posts that succeed keep errno. */
static void errno_is_kept(void) {
    OK(sem_init(&common, 0, 2));
    errno = ENOTTY;
    OK(sem_wait(&common));
    OK(sem_wait(&common));
    CHECK(errno == ENOTTY);
    pthread_t waiter = begin(take, &common);
    errno = ENOTTY;
    OK(sem_post(&common));
    CHECK(errno == ENOTTY);
    end(waiter);
}

static void wait_with_deadlines(void) {
    OK(sem_init(&common, 0, 0));
    struct timespec until = after_ms(CLOCK_REALTIME, 3);
    CHECK(sem_timedwait(&common, &until) < 0 && errno == ETIMEDOUT && is_past(CLOCK_REALTIME, until));
    until.tv_nsec = -1;
    CHECK(sem_timedwait(&common, &until) < 0 && errno == EINVAL);
    until.tv_nsec = 0;
    OK(sem_post(&common));
    OK(sem_timedwait(&common, &until));
    pthread_t waiter = begin(take, &common);
    pause_up_to(100);
    OK(sem_post(&common));
    end(waiter);
}

/* The value and the waits in a child are its own. */
static void fork_beside_waiters(void) {
    OK(sem_init(&common, 0, 0));
    pthread_t waiter = begin(take, &common);
    for (long round = rounds(10); round > 0; round--) {
        pause_up_to(100);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            OK(sem_init(&reply, 0, 0));
            pthread_t own = begin(take, &reply);
            pause_up_to(100);
            OK(sem_post(&reply));
            end(own);
            _exit(0);
        }
        reap(child);
    }
    OK(sem_post(&common));
    end(waiter);
}

/* Between processes, unnamed and named. */
static void take_turns(sem_t *first, sem_t *second) {
    pid_t child = fork();
    CHECK(child >= 0);
    for (int i = 0; i < 40; i++) {
        if (child) OK(sem_post(first));
        take(child ? second : first);
        if (!child) OK(sem_post(second));
    }
    if (child == 0) _exit(0);
    reap(child);
}
static void share(void) {
    sem_t *shared = shared_memory(2 * sizeof *shared);
    for (int i = 0; i < 2; i++) OK(sem_init(&shared[i], 1, 0));
    take_turns(&shared[0], &shared[1]);
    for (int i = 0; i < 2; i++) OK(sem_destroy(&shared[i]));
}
static void share_by_name(void) {
    sem_t *named[2];
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "/rowlock-lab-%d-%d", (int)getpid(), i);
        named[i] = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
        CHECK(named[i] != SEM_FAILED);
        CHECK(sem_unlink(name) == 0);
    }
    take_turns(named[0], named[1]);
    for (int i = 0; i < 2; i++) OK(sem_close(named[i]));
}

static void limits(void) {
    sem_t semaphore;
    CHECK(sem_init(&semaphore, 0, (unsigned)SEM_VALUE_MAX + 1) < 0 && errno == EINVAL);
    OK(sem_init(&semaphore, 0, SEM_VALUE_MAX));
    CHECK(sem_post(&semaphore) < 0 && errno == EOVERFLOW);
    OK(sem_wait(&semaphore));
    OK(sem_post(&semaphore));
}

static const Case cases[] = {
    CASE(destroy_after_a_wait), CASE(reinitialize), CASE(each_post_lets_one_pass), CASE(cancel), CASE(cancel_before),
    CASE(cancel_when_it_is_off), CASE(interrupt), CASE(errno_is_kept), CASE(wait_with_deadlines),
    CASE(fork_beside_waiters), CASE(share), CASE(share_by_name), CASE(limits),
};

int main(int count, char **arguments) {
    (void)count;
    return CHOOSE(cases, arguments);
}
