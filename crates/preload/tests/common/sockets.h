/* Calls on sockets, on which they wait until another thread lets them go on. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

/* What compilers call instead, if they know the size of the buffer. */
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
ssize_t __read_chk(int, void *, size_t, size_t);

typedef enum { RECEIVE, SEND, ACCEPT, CONNECT_UNIX, CONNECT_TCP } Kind;

typedef struct {
    const char *name;
    Kind kind;
    /* Makes the call. */
    int (*make)(void);
} SocketCall;

/* A call waits at the first until something happens at the second. The last one takes the room. */
static struct {
    int near, far, filler;
} sockets = {-1, -1, -1};
/* That of the socket that listens. */
static struct sockaddr_storage address;
static socklen_t address_length;

#define SOCKET_CALL(kind, name, call)                                                            \
    static int make_##name(void) {                                                               \
        int near = sockets.near;                                                                 \
        char byte = 0;                                                                           \
        struct iovec part = {&byte, 1};                                                          \
        struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};               \
        (void)message;                                                                           \
        return call;                                                                             \
    }
#define SOCKET_CALLS(X)                                                                          \
    X(RECEIVE, recv, recv(near, &byte, 1, 0))                                                    \
    X(RECEIVE, __recv_chk, __recv_chk(near, &byte, 1, 1, 0))                                     \
    X(RECEIVE, recvfrom, recvfrom(near, &byte, 1, 0, NULL, NULL))                                \
    X(RECEIVE, __recvfrom_chk, __recvfrom_chk(near, &byte, 1, 1, 0, NULL, NULL))                 \
    X(RECEIVE, recvmsg, recvmsg(near, &message.msg_hdr, 0))                                      \
    X(RECEIVE, recvmmsg, recvmmsg(near, &message, 1, 0, NULL))                                   \
    X(RECEIVE, read, read(near, &byte, 1))                                                       \
    X(RECEIVE, __read_chk, __read_chk(near, &byte, 1, 1))                                        \
    X(RECEIVE, readv, readv(near, &part, 1))                                                     \
    X(ACCEPT, accept, accept(near, NULL, NULL) < 0 ? -1 : 1)                                     \
    X(ACCEPT, accept4, accept4(near, NULL, NULL, SOCK_CLOEXEC) < 0 ? -1 : 1)                     \
    X(SEND, send, send(near, &byte, 1, 0))                                                       \
    X(SEND, sendto, sendto(near, &byte, 1, 0, NULL, 0))                                          \
    X(SEND, sendmsg, sendmsg(near, &message.msg_hdr, 0))                                         \
    X(SEND, sendmmsg, sendmmsg(near, &message, 1, 0))                                            \
    X(SEND, write, write(near, &byte, 1))                                                        \
    X(SEND, writev, writev(near, &part, 1))                                                      \
    X(CONNECT_UNIX, connect_to_unix, connect(near, (struct sockaddr *)&address, address_length)) \
    X(CONNECT_TCP, connect_to_tcp, connect(near, (struct sockaddr *)&address, address_length))
#define SOCKET_CALL_ROW(kind, name, call) {#name, kind, make_##name},

SOCKET_CALLS(SOCKET_CALL)
static const SocketCall socket_calls[] = {SOCKET_CALLS(SOCKET_CALL_ROW)};
enum { SOCKET_CALL_COUNT = sizeof socket_calls / sizeof *socket_calls };

/* A socket that listens at an address of its own, and has room for one connection. */
static inline int listening(int family) {
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    int result = socket(family, SOCK_STREAM, 0);
    CHECK(result >= 0);
    if (family == AF_INET) CHECK(bind(result, (struct sockaddr *)&loopback, sizeof loopback) == 0);
    else CHECK(bind(result, (struct sockaddr *)&any, sizeof any.sun_family) == 0);
    address_length = sizeof address;
    CHECK(getsockname(result, (struct sockaddr *)&address, &address_length) == 0 && listen(result, 0) == 0);
    return result;
}

/* Makes the sockets on which a call waits this long. */
static inline void make_sockets(Kind kind, long milliseconds) {
    int pair[2], family = kind == CONNECT_TCP ? AF_INET : AF_UNIX;
    struct timeval limit = {milliseconds / 1000, milliseconds % 1000 * 1000};
    if (kind == ACCEPT) {
        sockets.near = listening(AF_UNIX);
        CHECK((sockets.far = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
    } else if (kind == CONNECT_UNIX || kind == CONNECT_TCP) {
        sockets.far = listening(family);
        CHECK((sockets.near = socket(family, SOCK_STREAM, 0)) >= 0);
        CHECK((sockets.filler = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
        CHECK(connect(sockets.filler, (struct sockaddr *)&address, address_length) == 0 || errno == EINPROGRESS);
    } else {
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
        sockets.near = pair[0], sockets.far = pair[1];
        if (kind == SEND) while (send(sockets.near, "", 1, MSG_DONTWAIT) == 1) continue;
    }
    CHECK(setsockopt(sockets.near, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(setsockopt(sockets.near, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
}

/* Lets the call go on. */
static inline void let_go_on(Kind kind) {
    char byte;
    if (kind == RECEIVE) CHECK(send(sockets.far, "", 1, 0) == 1);
    else if (kind == SEND) while (recv(sockets.far, &byte, 1, MSG_DONTWAIT) == 1) continue;
    else if (kind == ACCEPT) CHECK(connect(sockets.far, (struct sockaddr *)&address, address_length) == 0);
    else CHECK(accept(sockets.far, NULL, NULL) >= 0);
}
