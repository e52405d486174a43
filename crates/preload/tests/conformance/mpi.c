/* What MPI promises of the calls that are replaced. Two ranks. */
#define main print_all
#include "../programs/mpi/calls.c"
#undef main
#include "lab.h"
#include <arpa/inet.h>
#include <sys/socket.h>

#ifdef MPICH_VERSION
/* No longer in the header, but in the library. */
int MPI_Errhandler_set(MPI_Comm, MPI_Errhandler);
#endif

static char **arguments_;
static MPI_Comm world;

static void begin_ranks(void) {
    MPI_Init(NULL, NULL);
    world = MPI_COMM_WORLD;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    CHECK(size == 2);
}

/* Exchanges a number with the only rank on the other side. */
static void meet(MPI_Comm other, int number, int expected) {
    int received = -1;
    MPI_Sendrecv(&number, 1, MPI_INT, 0, 7, &received, 1, MPI_INT, 0, 7, other, MPI_STATUS_IGNORE);
    CHECK(received == expected);
    MPI_Barrier(other);
}

static void all_calls(void) {
    print_all(1, arguments_);
}

static void vectors(void) {
    begin_ranks();
    for (long round = rounds(5); round > 0; round--) {
        int counts[] = {1, 2}, places[] = {0, 1}, own[] = {rank, rank + 10}, all[4] = {-1, -1, -1, -1};
        MPI_Gatherv(own, 1 + rank, MPI_INT, all, counts, places, MPI_INT, 0, world);
        CHECK(rank || (all[0] == 0 && all[1] == 1 && all[2] == 11));
        int part[2] = {-1, -1};
        MPI_Scatterv(all, counts, places, MPI_INT, part, 1 + rank, MPI_INT, 0, world);
        CHECK(part[0] == rank && part[rank] == 11 * rank);
        int ones[] = {1, 1}, bytes[] = {0, sizeof(int)}, from[2] = {-1, -1};
        MPI_Datatype types[] = {MPI_INT, MPI_INT};
        MPI_Alltoallv(own, ones, places, MPI_INT, from, ones, places, MPI_INT, world);
        CHECK(from[0] == 10 * rank && from[1] == 1 + 10 * rank);
        from[0] = from[1] = -1;
        MPI_Alltoallw(own, ones, bytes, types, from, ones, bytes, types, world);
        CHECK(from[0] == 10 * rank && from[1] == 1 + 10 * rank);
        /* A receive is ready before a ready send begins. */
        MPI_Request request;
        if (rank == 0) MPI_Irecv(all, 1, MPI_INT, 1, 3, world, &request);
        MPI_Barrier(world);
        if (rank == 1) MPI_Rsend(&own[1], 1, MPI_INT, 0, 3, world);
        if (rank == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(rank || all[0] == 11);
    }
    MPI_Finalize();
}

static void reductions(void) {
    begin_ranks();
    for (long round = rounds(5); round > 0; round--) {
        int own[] = {rank + 1, 10 * (rank + 1)}, sum[2] = {-1, -1}, ones[] = {1, 1};
        MPI_Reduce(own, sum, 2, MPI_INT, MPI_SUM, 0, world);
        CHECK(rank || (sum[0] == 3 && sum[1] == 30));
        MPI_Allreduce(own, sum, 2, MPI_INT, MPI_SUM, world);
        CHECK(sum[0] == 3 && sum[1] == 30);
        MPI_Reduce_scatter(own, sum, ones, MPI_INT, MPI_SUM, world);
        CHECK(sum[0] == (rank ? 30 : 3));
        MPI_Reduce_scatter_block(own, sum, 1, MPI_INT, MPI_SUM, world);
        CHECK(sum[0] == (rank ? 30 : 3));
        MPI_Scan(own, sum, 1, MPI_INT, MPI_SUM, world);
        CHECK(sum[0] == (rank ? 3 : 1));
        MPI_Exscan(own, sum, 1, MPI_INT, MPI_SUM, world);
        CHECK(!rank || sum[0] == 1);
    }
    MPI_Finalize();
}

static int query(void *unused, MPI_Status *status) {
    (void)unused;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}
static int release(void *unused) {
    (void)unused;
    return MPI_SUCCESS;
}
static int ignore(void *unused, int complete) {
    (void)unused, (void)complete;
    return MPI_SUCCESS;
}
static void *complete_later(void *request) {
    usleep(2000);
    MPI_Grequest_complete(*(MPI_Request *)request);
    return NULL;
}
/* A thread of the program completes a request at which another one waits. */
static void own_requests(void) {
    int level;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    CHECK(level == MPI_THREAD_MULTIPLE);
    for (long round = rounds(5); round > 0; round--) {
        MPI_Request request, copy;
        MPI_Grequest_start(query, release, ignore, NULL, &request);
        copy = request;
        pthread_t thread = begin(complete_later, &copy);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(request == MPI_REQUEST_NULL);
        end(thread);
    }
    MPI_Finalize();
}

static void spawned(void) {
    MPI_Comm parents;
    MPI_Init(NULL, NULL);
    MPI_Comm_get_parent(&parents);
    CHECK(parents != MPI_COMM_NULL);
    meet(parents, 2, 1);
    MPI_Comm_disconnect(&parents);
    MPI_Finalize();
}
/* A rank begins another program, alone and as one of several. Some installations cannot do that. */
static void spawn(void) {
    char *own[] = {"spawned", NULL}, **all[] = {own}, *program[] = {arguments_[0]};
    int one[] = {1};
    MPI_Info info[] = {MPI_INFO_NULL};
    MPI_Comm child;
    begin_ranks();
    MPI_Comm_get_parent(&child);
    CHECK(child == MPI_COMM_NULL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int way = 0; rank == 0 && way < 2; way++) {
        int result = way ? MPI_Comm_spawn_multiple(1, program, all, one, info, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE)
                         : MPI_Comm_spawn(program[0], own, 1, info[0], 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE);
        printf("spawned %d: %d\n", way, class_of(result));
        if (result) continue;
        meet(child, 1, 2);
        MPI_Comm_disconnect(&child);
    }
    MPI_Barrier(world);
    MPI_Finalize();
}

/* The ranks meet as if they were of two jobs, unless this installation cannot do that. */
static void meet_if_connected(int result, MPI_Comm other) {
    printf("connected: %d\n", class_of(result));
    if (result == 0) {
        meet(other, rank, 1 - rank);
        MPI_Comm_disconnect(&other);
    }
    MPI_Barrier(world);
    MPI_Finalize();
}
static void connect_(void) {
    char port[MPI_MAX_PORT_NAME] = "none";
    MPI_Comm other;
    begin_ranks();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
#ifdef MPICH_VERSION
    MPI_Errhandler_set(world, MPI_ERRORS_RETURN);
#endif
    if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, world);
    int result = rank ? MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other)
                      : MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    meet_if_connected(result, other);
}
static void join(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    MPI_Comm other;
    begin_ranks();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    int connection = socket(AF_INET, SOCK_STREAM, 0), listening = connection;
    if (rank == 0) {
        CHECK(bind(listening, (struct sockaddr *)&address, length) == 0 && listen(listening, 1) == 0);
        CHECK(getsockname(listening, (struct sockaddr *)&address, &length) == 0);
    }
    MPI_Bcast(&address, sizeof address, MPI_CHAR, 0, world);
    if (rank == 0) connection = accept(listening, NULL, NULL);
    else CHECK(connect(connection, (struct sockaddr *)&address, length) == 0);
    CHECK(connection >= 0);
    int result = MPI_Comm_join(connection, &other);
    meet_if_connected(result, other);
}

static const Case cases[] = {
    CASE(all_calls), CASE(vectors), CASE(reductions), CASE(own_requests), CASE(spawn), {"connect", connect_}, CASE(join),
};

int main(int count, char **arguments) {
    arguments_ = arguments;
    if (count > 1 && strcmp(arguments[1], "spawned") == 0) {
        spawned();
        return 0;
    }
    return CHOOSE(cases, arguments);
}
