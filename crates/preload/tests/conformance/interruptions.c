/* What POSIX and Linux promise of handlers, and of calls that a stop may end. Each case may also
 * be in a job of `rowlock prun`. Naps end there: their handler would be counted at a step. */
#include "lab.h"
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <setjmp.h>

typedef int (*Call)(const struct timespec *);

static int epoll, pipes[2], semaphores, handled;
static __thread int is_handled_here;

static void count_one(int signal) {
    (void)signal;
    handled++;
    is_handled_here = 1;
}
static void handle_with_info(int signal, siginfo_t *info, void *context) {
    CHECK(info->si_signo == signal && info->si_value.sival_int == 7 && context);
    handled++;
}

static int millis(const struct timespec *timeout) {
    return timeout ? timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000 : -1;
}
static int wait_for_events(const struct timespec *timeout) {
    struct epoll_event event;
    return epoll_wait(epoll, &event, 1, millis(timeout));
}
static int wait_with_mask(const struct timespec *timeout) {
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    return epoll_pwait(epoll, &event, 1, millis(timeout), &none);
}
static int wait_precisely(const struct timespec *timeout) {
    struct epoll_event event;
    return epoll_pwait2(epoll, &event, 1, timeout, NULL);
}
static int take(const struct timespec *timeout) {
    struct sembuf one = {0, -1, 0};
    return timeout ? semtimedop(semaphores, &one, 1, timeout) : semop(semaphores, &one, 1);
}
static int take_signal(const struct timespec *timeout) {
    sigset_t signals;
    siginfo_t info;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    int result = timeout ? sigtimedwait(&signals, &info, timeout) : sigwaitinfo(&signals, &info);
    CHECK(result < 0 || info.si_signo == SIGUSR1);
    return result;
}
static const Call calls[] = {wait_for_events, wait_with_mask, wait_precisely, take, take_signal};
enum { CALLS = sizeof calls / sizeof *calls };

static void prepare(void) {
    struct epoll_event in = {.events = EPOLLIN};
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    OK(pthread_sigmask(SIG_BLOCK, &usr1, NULL));
    CHECK(pipe(pipes) == 0 && (epoll = epoll_create1(0)) >= 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &in) == 0);
    CHECK((semaphores = semget(IPC_PRIVATE, 1, 0600)) >= 0);
}
static void clean_up(void) {
    CHECK(semctl(semaphores, 0, IPC_RMID) == 0);
}

static void tell(int result) {
    printf("%d %s\n", result, strerrorname_np(errno));
}
static void results(void) {
    prepare();
    struct timespec none = {0, 0}, little = {0, 3000000}, wrong = {0, -1};
    struct sembuf two[] = {{0, -1, 0}, {0, -1, IPC_NOWAIT}}, one = {0, 1, 0};
    for (int i = 0; i < CALLS; i++) {
        int before = calls[i](&none), after = calls[i](&little);
        printf("%d %d %s\n", before, after, strerrorname_np(errno));
    }
    CHECK(write(pipes[1], "x", 1) == 1 && kill(getpid(), SIGUSR1) == 0);
    for (int i = 0; i < CALLS; i++) {
        CHECK(semop(semaphores, &one, 1) == 0);
        errno = ENOTTY;
        tell(calls[i](NULL));
        if (calls[i] == take_signal) CHECK(kill(getpid(), SIGUSR1) == 0);
        printf("%d\n", calls[i](&little));
    }
    tell(semop(semaphores, two, 2));
    tell(epoll_pwait2(epoll, NULL, 0, NULL, NULL));
    tell(epoll_wait(-1, &(struct epoll_event){0}, 1, -1));
    tell(semtimedop(semaphores, &one, 1, &wrong));
    tell(sigtimedwait(&(sigset_t){0}, NULL, &wrong));
    clean_up();
}

static volatile int is_over;
static void *interrupt_until_it_is_over(void *thread) {
    while (!is_over) {
        pthread_kill((pthread_t)thread, SIGUSR2);
        pause_up_to(200);
    }
    return NULL;
}
static void handlers_end_calls(void) {
    prepare();
    struct timespec minute = {60, 0};
    struct sigaction action = {.sa_handler = count_one, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    for (int i = 0; i < CALLS; i++) {
        is_over = is_handled_here = 0;
        pthread_t thread = begin(interrupt_until_it_is_over, (void *)pthread_self());
        int forever = calls[i](NULL), first = errno, once = calls[i](&minute), second = errno;
        is_over = 1;
        end(thread);
        printf("%d %s %d %s %d\n", forever, strerrorname_np(first), once, strerrorname_np(second), is_handled_here);
    }
    clean_up();
}

static void *wait_until_cancelled(void *call) {
    for (;;) ((Call)call)(NULL);
    return NULL;
}
static void cancel(void) {
    prepare();
    for (int i = 0; i < CALLS; i++) {
        if (calls[i] == take) continue;
        for (long round = rounds(10); round > 0; round--) {
            pthread_t thread = begin(wait_until_cancelled, calls[i]);
            pause_up_to(100);
            OK(pthread_cancel(thread));
            end_cancelled(thread);
        }
    }
    clean_up();
}

/* A program sees its own handlers, whoever installs them, and they get their arguments. */
static void handlers(void) {
    struct sigaction action = {.sa_handler = count_one, .sa_flags = SA_NODEFER}, seen;
    sigaddset(&action.sa_mask, SIGHUP);
    CHECK(sigaction(SIGUSR1, &action, &seen) == 0 && seen.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGUSR1, NULL, &seen) == 0 && seen.sa_handler == count_one);
    CHECK(seen.sa_flags & SA_NODEFER && sigismember(&seen.sa_mask, SIGHUP));
    raise(SIGUSR1);
    action.sa_sigaction = handle_with_info;
    action.sa_flags = SA_SIGINFO | SA_RESETHAND;
    CHECK(sigaction(SIGUSR1, &action, &seen) == 0 && seen.sa_handler == count_one);
    CHECK(sigqueue(getpid(), SIGUSR1, (union sigval){7}) == 0);
    CHECK(sigaction(SIGUSR1, NULL, &seen) == 0 && seen.sa_handler == SIG_DFL);
    CHECK(signal(SIGUSR1, count_one) == SIG_DFL && signal(SIGUSR1, SIG_IGN) == count_one);
    CHECK(sysv_signal(SIGUSR1, count_one) == SIG_IGN);
    raise(SIGUSR1);
    CHECK(__sysv_signal(SIGUSR1, count_one) == SIG_DFL);
    raise(SIGUSR1);
    CHECK(signal(SIGKILL, count_one) == SIG_ERR && errno == EINVAL);
    CHECK(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);
    CHECK(sigaction(10000, NULL, &seen) == -1 && errno == EINVAL);
    printf("%d\n", handled);
}

static sigjmp_buf back;
static void leave(int signal) {
    siglongjmp(back, signal);
}
static void handlers_leave_by_jumps(void) {
    prepare();
    CHECK(signal(SIGALRM, leave) == note);
    for (int i = 0; i < CALLS; i++) {
        int came = sigsetjmp(back, 1);
        if (!came) {
            ualarm(1000, 1000);
            for (;;) calls[i](NULL);
        }
        ualarm(0, 0);
        printf("%d\n", came);
    }
    clean_up();
}

static void handle_in_a_child(void) {
    CHECK(signal(SIGUSR1, count_one) == SIG_DFL);
    pid_t child = fork();
    if (child == 0) {
        CHECK(signal(SIGUSR1, count_one) == count_one);
        raise(SIGUSR1);
        _exit(handled != 1);
    }
    reap(child);
    printf("%d\n", handled);
}

IN_A_JOB(results)
IN_A_JOB(handlers_end_calls)
IN_A_JOB(cancel)
IN_A_JOB(handlers)
IN_A_JOB(handlers_leave_by_jumps)
IN_A_JOB(handle_in_a_child)

static const Case cases[] = {
    CASE(results), CASE(handlers_end_calls), CASE(cancel), CASE(handlers), CASE(handlers_leave_by_jumps),
    CASE(handle_in_a_child), CASE(results_in_a_job), CASE(handlers_end_calls_in_a_job), CASE(cancel_in_a_job),
    CASE(handlers_in_a_job), CASE(handlers_leave_by_jumps_in_a_job), CASE(handle_in_a_child_in_a_job),
};

int main(int count, char **arguments) {
    (void)count;
    return CHOOSE(cases, arguments);
}
