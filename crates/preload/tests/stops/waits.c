/* Waits in one call, and prints its result. `waits CALL TIMEOUT [OPTION]`: the timeout is in
 * milliseconds, and -1 is none. For sockets it is a long one then, because stops end their calls
 * only if there is one. A line on standard input ends the wait. SIGUSR2 has a handler, if the
 * option is one of these:
 * - `counted`: it is installed by `sigaction`, and others have been there before;
 * - `once`: it is installed by `sysv_signal`, so it is gone when it has run;
 * - `unseen`: it is installed by a system call;
 * - `forked`: as `counted`, and a child of the process waits. */
#include "../programs/sources/check.h"
#include "../common/sockets.h"
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/syscall.h>

static const char *call;
/* If it is a call on a socket. */
static const SocketCall *socket_call;
static int event, epoll, semaphores, handled;
static volatile int is_told;

static void count(int signal) {
    CHECK(signal == SIGUSR2);
    handled++;
}

static void other(int signal) {
    (void)signal;
    abort();
}

static int is(const char *name) {
    return strcmp(call, name) == 0;
}

static void install(const char *option) {
    struct sigaction action = {.sa_handler = other, .sa_flags = SA_NODEFER}, before;
    if (strcmp(option, "unseen") == 0) {
        struct { void (*handler)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; } kernel;
        /* The C library knows how to return from a handler. */
        action.sa_handler = count;
        CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
        CHECK(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &kernel, 8) == 0);
        kernel.handler = count;
        CHECK(syscall(SYS_rt_sigaction, SIGUSR2, &kernel, NULL, 8) == 0);
        return;
    }
    CHECK(sigaction(SIGUSR2, &action, &before) == 0 && before.sa_handler == note);
    CHECK(signal(SIGUSR2, SIG_IGN) == other && signal(SIGUSR2, other) == SIG_IGN);
    if (strcmp(option, "once") == 0) {
        CHECK(sysv_signal(SIGUSR2, count) == other);
        return;
    }
    action.sa_handler = count;
    CHECK(sigaction(SIGUSR2, &action, &before) == 0 && before.sa_handler == other);
    CHECK(sigaction(SIGUSR2, NULL, &before) == 0 && before.sa_handler == count && before.sa_flags & SA_NODEFER);
}

static void *end_the_wait(void *unused) {
    char byte;
    uint64_t one = 1;
    struct sembuf post = {0, 1, 0};
    if (read(STDIN_FILENO, &byte, 1) == 1) {
        is_told = 1;
        if (is("semop") || is("semtimedop")) CHECK(semop(semaphores, &post, 1) == 0);
        else if (is("sigwaitinfo") || is("sigtimedwait")) CHECK(kill(getpid(), SIGUSR1) == 0);
        else if (socket_call) let_go_on(socket_call->kind);
        else CHECK(write(event, &one, sizeof one) == sizeof one);
    }
    return unused;
}

static int wait_for_it(int timeout) {
    struct timespec time = {timeout / 1000, timeout % 1000 * 1000000L}, *limit = timeout < 0 ? NULL : &time;
    struct epoll_event events[2];
    struct sembuf take = {0, -1, 0};
    sigset_t usr1, none;
    sigemptyset(&none);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    errno = 0;
    if (socket_call) return socket_call->make();
    if (is("epoll_wait")) return epoll_wait(epoll, events, 2, timeout);
    if (is("epoll_pwait")) return epoll_pwait(epoll, events, 2, timeout, &none);
    if (is("epoll_pwait2")) return epoll_pwait2(epoll, events, 2, limit, &none);
    if (is("semop")) return semop(semaphores, &take, 1);
    if (is("semtimedop")) return semtimedop(semaphores, &take, 1, limit);
    if (is("sigwaitinfo")) return sigwaitinfo(&usr1, NULL);
    CHECK(is("sigtimedwait"));
    return sigtimedwait(&usr1, NULL, limit);
}

int main(int words, char **arguments) {
    CHECK(words == 4);
    call = arguments[1];
    install(arguments[3]);
    sigset_t signals, after;
    sigfillset(&signals);
    OK(pthread_sigmask(SIG_SETMASK, &signals, NULL));
    if (strcmp(arguments[3], "forked") == 0) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child) {
            printf("%d\n", child);
            fflush(stdout);
            reap(child);
            return 0;
        }
    } else {
        printf("%d\n", getpid());
        fflush(stdout);
    }
    struct epoll_event wanted = {.events = EPOLLIN};
    CHECK((event = eventfd(0, 0)) >= 0 && (epoll = epoll_create1(0)) >= 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted) == 0);
    CHECK((semaphores = semget(IPC_PRIVATE, 1, 0600)) >= 0);
    int timeout = atoi(arguments[2]);
    for (int i = 0; i < SOCKET_CALL_COUNT; i++) if (is(socket_calls[i].name)) socket_call = &socket_calls[i];
    if (socket_call) make_sockets(socket_call->kind, timeout < 0 ? 1000000 : timeout);
    pthread_t thread;
    OK(pthread_create(&thread, NULL, end_the_wait, NULL));
    /* With a mask, the signal arrives only in the call. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    if (is("epoll_pwait") || is("epoll_pwait2")) sigaddset(&signals, SIGUSR2);
    OK(pthread_sigmask(SIG_SETMASK, &signals, NULL));
    struct timespec until = after_ms(CLOCK_MONOTONIC, timeout);
    int result = wait_for_it(timeout), error = errno;
    int is_early = timeout >= 0 && !is_told && !is_past(CLOCK_MONOTONIC, until);
    OK(pthread_sigmask(SIG_SETMASK, NULL, &after));
    CHECK(sigismember(&after, SIGUSR1) && sigismember(&after, SIGUSR2) == sigismember(&signals, SIGUSR2));
    CHECK(!sigismember(&after, SIGHUP) && !sigismember(&after, SIGTERM));
    CHECK(semctl(semaphores, 0, IPC_RMID) == 0);
    printf("%d %s, %d handled%s\n", result, strerrorname_np(error), handled, is_early ? ", early" : "");
    fflush(stdout);
    _exit(0);
}
