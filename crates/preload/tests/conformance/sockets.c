/* What POSIX and Linux promise of calls on sockets that wait for a limited time. Each case may also
 * be in a job of `rowlock prun`. */
#include "lab.h"
#include "../common/sockets.h"
#include <setjmp.h>

static void close_sockets(void) {
    CHECK(close(sockets.near) == 0 && close(sockets.far) == 0);
    if (sockets.filler >= 0) CHECK(close(sockets.filler) == 0);
    sockets.filler = -1;
}
static void tell(int result) {
    printf("%d %s\n", result, strerrorname_np(errno));
}

/* After its time, and as soon as it can go on. A success leaves `errno`. */
static void results(void) {
    for (int i = 0; i < SOCKET_CALL_COUNT; i++) {
        const SocketCall *call = &socket_calls[i];
        make_sockets(call->kind, 3);
        tell(call->make());
        close_sockets();
        make_sockets(call->kind, 60000);
        let_go_on(call->kind);
        errno = ENOTTY;
        tell(call->make());
        close_sockets();
    }
}

static void errors(void) {
    int pipes[2];
    struct timeval wrong = {0, -1};
    CHECK(pipe(pipes) == 0);
    make_sockets(RECEIVE, 60000);
    tell(setsockopt(sockets.near, SOL_SOCKET, SO_RCVTIMEO, &wrong, sizeof wrong));
    tell(setsockopt(pipes[0], SOL_SOCKET, SO_RCVTIMEO, &wrong, sizeof wrong));
    tell(recv(sockets.near, &wrong, 1, MSG_DONTWAIT));
    CHECK(send(sockets.far, "", 1, 0) == 1);
    tell(recv(sockets.near, NULL, 1, 0));
    close_sockets();
    sockets.near = -1;
    for (int i = 0; i < SOCKET_CALL_COUNT; i++) {
        tell(socket_calls[i].make());
        sockets.near = pipes[socket_calls[i].kind == SEND];
        CHECK(write(pipes[1], "x", 1) == 1);
        tell(socket_calls[i].make());
        sockets.near = -1;
    }
}

/* The time ends a call that has received or sent a part. */
static void parts(void) {
    char bytes[2] = "";
    static char many[1 << 24];
    struct iovec part = {bytes, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}, messages[2] = {message, message};
    struct timeval little = {0, 3000};
    make_sockets(RECEIVE, 3);
    CHECK(send(sockets.far, "", 1, 0) == 1);
    tell(recvmmsg(sockets.near, messages, 2, 0, NULL));
    tell(sendmmsg(sockets.near, messages, 2, 0));
    close_sockets();
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &little, sizeof little) == 0);
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &little, sizeof little) == 0);
    CHECK(send(pair[1], "", 1, 0) == 1);
    tell(recv(pair[0], bytes, 2, MSG_WAITALL));
    ssize_t sent = write(pair[0], many, sizeof many);
    CHECK(sent > 0 && sent < (ssize_t)sizeof many);
}

static volatile int is_over;
static __thread int is_handled_here;
static void notice(int signal) {
    (void)signal;
    is_handled_here = 1;
}
static void *interrupt_until_it_is_over(void *thread) {
    while (!is_over) {
        pthread_kill((pthread_t)thread, SIGUSR2);
        pause_up_to(200);
    }
    return NULL;
}
static void handlers_end_calls(void) {
    struct sigaction action = {.sa_handler = notice, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    for (int i = 0; i < SOCKET_CALL_COUNT; i++) {
        make_sockets(socket_calls[i].kind, 60000);
        is_over = is_handled_here = 0;
        pthread_t thread = begin(interrupt_until_it_is_over, (void *)pthread_self());
        int result = socket_calls[i].make(), error = errno;
        is_over = 1;
        end(thread);
        printf("%d %s %d\n", result, strerrorname_np(error), is_handled_here);
        close_sockets();
    }
}

static void *wait_until_cancelled(void *call) {
    for (;;) ((const SocketCall *)call)->make();
    return NULL;
}
static void cancel(void) {
    for (int i = 0; i < SOCKET_CALL_COUNT; i++) {
        for (long round = rounds(3); round > 0; round--) {
            make_sockets(socket_calls[i].kind, 60000);
            pthread_t thread = begin(wait_until_cancelled, (void *)&socket_calls[i]);
            pause_up_to(100);
            OK(pthread_cancel(thread));
            end_cancelled(thread);
            close_sockets();
        }
    }
}

static sigjmp_buf back;
static void leave(int signal) {
    siglongjmp(back, signal);
}
static void handlers_leave_by_jumps(void) {
    CHECK(signal(SIGALRM, leave) == note);
    for (volatile int i = 0; i < SOCKET_CALL_COUNT; i++) {
        make_sockets(socket_calls[i].kind, 60000);
        int came = sigsetjmp(back, 1);
        if (!came) {
            ualarm(1000, 1000);
            for (;;) socket_calls[i].make();
        }
        ualarm(0, 0);
        printf("%d\n", came);
        close_sockets();
    }
}

IN_A_JOB(results)
IN_A_JOB(errors)
IN_A_JOB(parts)
IN_A_JOB(handlers_end_calls)
IN_A_JOB(handlers_leave_by_jumps)
IN_A_JOB(cancel)

static const Case cases[] = {
    CASE(results), CASE(errors), CASE(parts), CASE(handlers_end_calls), CASE(handlers_leave_by_jumps), CASE(cancel),
    CASE(results_in_a_job), CASE(errors_in_a_job), CASE(parts_in_a_job), CASE(handlers_end_calls_in_a_job),
    CASE(handlers_leave_by_jumps_in_a_job), CASE(cancel_in_a_job),
};

int main(int count, char **arguments) {
    (void)count;
    return CHOOSE(cases, arguments);
}
