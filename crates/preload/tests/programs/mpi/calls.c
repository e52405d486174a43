/* Waiting calls of all kinds: their results, data and statuses, printed in the order of ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static char log_[1 << 16];
static size_t logged;

/* The output of this rank, printed at the end. */
#define SAY(...) (logged += (size_t)snprintf(log_ + logged, sizeof log_ - logged, __VA_ARGS__))

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static void say_status(const char *what, const MPI_Status *status, MPI_Datatype type) {
    int count, cancelled;
    MPI_Get_count(status, type, &count);
    MPI_Test_cancelled(status, &cancelled);
    SAY("%s: source %d tag %d count %d cancelled %d error %d\n", what, status->MPI_SOURCE, status->MPI_TAG, count, cancelled,
        status->MPI_ERROR);
}

static void point_to_point(MPI_Comm comm, int n, int me) {
    int left = (me + n - 1) % n, right = (me + 1) % n;
    MPI_Status status;
    memset(&status, 0, sizeof status);
    status.MPI_ERROR = 4711; /* Calls with a single status do not change it. */
    for (int length = 1; length <= 1 << 18; length *= 64) {
        int *out = malloc(sizeof(int) * (size_t)length), *in = calloc((size_t)length, sizeof(int));
        for (int i = 0; i < length; i++) out[i] = me * 1000003 + i;
        if (n == 1) {
            /* A blocking send to itself would never be received. */
        } else if (me % 2 == 0) {
            MPI_Send(out, length, MPI_INT, right, length, comm);
            MPI_Recv(in, length, MPI_INT, left, length, comm, &status);
        } else {
            MPI_Recv(in, length, MPI_INT, left, MPI_ANY_TAG, comm, &status);
            MPI_Ssend(out, length, MPI_INT, right, length, comm);
        }
        say_status("recv", &status, MPI_INT);
        long sum = 0;
        for (int i = 0; i < length; i++) sum += in[i] % 97;
        SAY("sum %ld\n", sum);
        MPI_Sendrecv(out, length, MPI_INT, left, 5, in, length, MPI_INT, right, 5, comm, &status);
        say_status("sendrecv", &status, MPI_INT);
        SAY("first %d last %d\n", in[0], in[length - 1]);
        MPI_Sendrecv_replace(out, length, MPI_INT, right, 6, left, 6, comm, &status);
        SAY("replaced %d\n", out[0]);
        free(out), free(in);
    }
    /* The null process. */
    MPI_Recv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, comm, &status);
    say_status("recv from nobody", &status, MPI_INT);
    SAY("send to nobody %d\n", MPI_Send(&me, 1, MPI_INT, MPI_PROC_NULL, 0, comm));
    MPI_Probe(MPI_PROC_NULL, MPI_ANY_TAG, comm, &status);
    say_status("probe of nobody", &status, MPI_INT);
    MPI_Sendrecv(&me, 1, MPI_INT, MPI_PROC_NULL, 0, NULL, 0, MPI_INT, MPI_PROC_NULL, 0, comm, &status);
    say_status("sendrecv with nobody", &status, MPI_INT);
}

static void requests(MPI_Comm comm, int n, int me) {
    enum { HALO = 3000 };
    static int out[4][HALO], in[4][HALO];
    int left = (me + n - 1) % n, right = (me + 1) % n;
    for (int step = 0; step < 20; step++) {
        MPI_Request all[5];
        MPI_Status statuses[5];
        memset(statuses, 0, sizeof statuses);
        for (int i = 0; i < HALO; i++) out[0][i] = out[1][i] = me + step * i;
        MPI_Irecv(in[0], HALO, MPI_INT, left, 1, comm, &all[0]);
        MPI_Irecv(in[1], HALO, MPI_INT, right, 2, comm, &all[1]);
        all[2] = MPI_REQUEST_NULL;
        MPI_Isend(out[0], HALO, MPI_INT, right, 1, comm, &all[3]);
        MPI_Isend(out[1], HALO, MPI_INT, left, 2, comm, &all[4]);
        int result = MPI_Waitall(5, all, step % 2 ? statuses : MPI_STATUSES_IGNORE);
        SAY("halo %d: %d, %d %d\n", step, result, in[0][HALO - 1], in[1][HALO - 1]);
        for (int i = 0; i < 5; i++) SAY("%d", all[i] == MPI_REQUEST_NULL);
        SAY("\n");
        if (step % 2) say_status("left", &statuses[0], MPI_INT), say_status("right", &statuses[1], MPI_INT);
        if (step % 2) say_status("none", &statuses[2], MPI_INT);
    }
    /* Persistent requests: inactive after a wait, but not freed. */
    MPI_Request lasting[2];
    MPI_Status status;
    memset(&status, 0, sizeof status);
    int sent, received = -1;
    MPI_Send_init(&sent, 1, MPI_INT, right, 3, comm, &lasting[0]);
    MPI_Recv_init(&received, 1, MPI_INT, left, 3, comm, &lasting[1]);
    for (int round = 0; round < 5; round++) {
        sent = me * 10 + round;
        MPI_Startall(2, lasting);
        if (round % 2) {
            MPI_Status both[2];
            MPI_Waitall(2, lasting, both);
            say_status("both", &both[1], MPI_INT);
        } else {
            MPI_Wait(&lasting[1], &status);
            say_status("persistent", &status, MPI_INT);
            MPI_Wait(&lasting[0], MPI_STATUS_IGNORE);
        }
        SAY("persistent %d %d\n", received, lasting[0] == MPI_REQUEST_NULL || lasting[1] == MPI_REQUEST_NULL);
    }
    MPI_Wait(&lasting[1], &status);
    say_status("inactive", &status, MPI_INT);
    MPI_Request_free(&lasting[0]);
    MPI_Request_free(&lasting[1]);
    MPI_Request nothing = MPI_REQUEST_NULL;
    MPI_Wait(&nothing, &status);
    say_status("null", &status, MPI_INT);
    /* Any and some: their order is open, but not their sums. */
    MPI_Request any[8];
    int values[8], out_values[8], index, sum = 0;
    for (int i = 0; i < 8; i++) MPI_Irecv(&values[i], 1, MPI_INT, left, 10 + i, comm, &any[i]);
    for (int i = 7; i >= 0; i--) out_values[i] = i * me, MPI_Send(&out_values[i], 1, MPI_INT, right, 10 + i, comm);
    for (int i = 0; i < 4; i++) {
        MPI_Waitany(8, any, &index, &status);
        sum += values[index] + status.MPI_TAG;
    }
    int some = 0, indices[8];
    MPI_Status statuses[8];
    for (int done = 4; done < 8; done += some) {
        MPI_Waitsome(8, any, &some, indices, statuses);
        for (int i = 0; i < some; i++) sum += values[indices[i]] + statuses[i].MPI_TAG;
    }
    MPI_Waitany(8, any, &index, &status);
    MPI_Waitsome(8, any, &some, indices, statuses);
    SAY("any and some: %d, then %d %d\n", sum, index == MPI_UNDEFINED, some == MPI_UNDEFINED);
    /* Cancelled requests. */
    MPI_Irecv(&received, 1, MPI_INT, left, 99, comm, &nothing);
    MPI_Cancel(&nothing);
    MPI_Wait(&nothing, &status);
    int cancelled;
    MPI_Test_cancelled(&status, &cancelled);
    SAY("cancelled %d\n", cancelled);
}

static void probes(MPI_Comm comm, int n, int me) {
    MPI_Status status;
    MPI_Barrier(comm);
    if (me == 0) {
        long sum = 0;
        for (int i = 0; i < 2 * (n - 1); i++) {
            int count;
            MPI_Message message;
            if (i % 2)
                MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
            else
                MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, &status);
            MPI_Get_count(&status, MPI_INT, &count);
            int *in = malloc(sizeof(int) * (size_t)count);
            if (i % 2)
                MPI_Recv(in, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, comm, &status);
            else
                MPI_Mrecv(in, count, MPI_INT, &message, &status);
            for (int j = 0; j < count; j++) sum += in[j];
            sum += status.MPI_TAG;
            free(in);
        }
        SAY("probed %ld\n", sum);
    } else {
        enum { MOST_RANKS = 16, MOST = 100 * MOST_RANKS };
        int out[MOST];
        for (int i = 0; i < MOST; i++) out[i] = me * i;
        MPI_Send(out, 100 * me, MPI_INT, 0, me, comm);
        MPI_Send(out, 50 * me, MPI_INT, 0, 1000 + me, comm);
    }
}

static void collectives(MPI_Comm comm, int n, int me) {
    enum { MOST = 64 };
    int one = me * me + 1, all[MOST], counts[MOST], displacements[MOST], many[4 * MOST];
    double sum, tenth = 0.1 * (me + 1);
    for (int i = 0; i < 50; i++) MPI_Barrier(comm);
    for (int length = 1; length < 100000; length *= 30) {
        int *data = calloc((size_t)length, sizeof(int));
        if (me == n - 1)
            for (int i = 0; i < length; i++) data[i] = i ^ 77;
        MPI_Bcast(data, length, MPI_INT, n - 1, comm);
        SAY("bcast %d %d\n", data[0], data[length - 1]);
        free(data);
    }
    for (int i = 0; i < n; i++) counts[i] = 1, displacements[i] = n - 1 - i;
    MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (int i = 0; i < n; i++) SAY("%d ", all[i]);
    MPI_Allgatherv(&one, 1, MPI_INT, all, counts, displacements, MPI_INT, comm);
    for (int i = 0; i < n; i++) SAY("%d ", all[i]);
    MPI_Alltoall(all, 1, MPI_INT, many, 1, MPI_INT, comm);
    for (int i = 0; i < n; i++) SAY("%d ", many[i]);
    MPI_Gather(&one, 1, MPI_INT, all, 1, MPI_INT, 0, comm);
    if (me == 0)
        for (int i = 0; i < n; i++) SAY("%d ", all[i]);
    MPI_Scatter(all, 1, MPI_INT, &one, 1, MPI_INT, 0, comm);
    SAY("scattered %d\n", one);
    MPI_Allreduce(&tenth, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    SAY("allreduce %a\n", sum);
    MPI_Scan(&tenth, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    SAY("scan %a\n", sum);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, comm);
    SAY("in place %d\n", all[n - 1]);
}

static int handled, handled_class;
static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    handled++, handled_class = class_of(*code);
}

static void errors(MPI_Comm parent, int n, int me) {
    MPI_Comm comm;
    if (n == 1) return; /* The error of a message to itself depends on timing. */
    MPI_Comm_dup(parent, &comm);
    int right = (me + 1) % n, left = (me + n - 1) % n, data[4] = {1, 2, 3, 4}, one[2] = {-1, -1};
    MPI_Status status;
    MPI_Errhandler own;
    MPI_Comm_create_errhandler(handler, &own);
    /* Some libraries look up the error handler there for all requests. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int which = 0; which < 2; which++) {
        MPI_Comm_set_errhandler(comm, which ? own : MPI_ERRORS_RETURN);
        handled = 0;
        /* Truncated messages, received in each way. */
        for (int way = 0; way < 3; way++) {
            MPI_Request request;
            int result = 0;
            MPI_Isend(data, 4, MPI_INT, right, 7, comm, &request);
            if (way == 0) result = MPI_Recv(one, 1, MPI_INT, left, 7, comm, &status);
            if (way == 1) {
                MPI_Request receipt;
                MPI_Irecv(one, 1, MPI_INT, left, 7, comm, &receipt);
                result = MPI_Wait(&receipt, &status);
                SAY("freed %d ", receipt == MPI_REQUEST_NULL);
            }
            if (way == 2) result = MPI_Sendrecv(data, 1, MPI_INT, MPI_PROC_NULL, 0, one, 1, MPI_INT, left, 7, comm, &status);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            SAY("truncated %d: class %d, handled %d of class %d, source %d\n", way, class_of(result), handled, handled_class,
                status.MPI_SOURCE);
        }
        SAY("bad rank: %d ", class_of(MPI_Send(data, 1, MPI_INT, n + 5, 0, comm)));
        SAY("bad tag: %d ", class_of(MPI_Recv(data, 1, MPI_INT, 0, -77, comm, &status)));
        SAY("bad count: %d ", class_of(MPI_Recv(data, -1, MPI_INT, 0, 0, comm, &status)));
        SAY("bad type: %d ", class_of(MPI_Recv(data, 1, MPI_DATATYPE_NULL, 0, 0, comm, &status)));
        SAY("bad probe: %d ", class_of(MPI_Probe(n + 5, 0, comm, &status)));
        SAY("bad sendrecv: %d ", class_of(MPI_Sendrecv(data, 1, MPI_INT, n + 5, 0, one, 1, MPI_INT, left, 0, comm, &status)));
        SAY("bad root: %d ", class_of(MPI_Bcast(data, 1, MPI_INT, n + 5, comm)));
        SAY("handled %d\n", handled);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&own);
    MPI_Comm_free(&comm);
}

static void all_of(const char *name, MPI_Comm comm) {
    int n, me;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    SAY("-- %s: %d of %d\n", name, me, n);
    point_to_point(comm, n, me);
    requests(comm, n, me);
    probes(comm, n, me);
    collectives(comm, n, me);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    all_of("world", MPI_COMM_WORLD);
    all_of("self", MPI_COMM_SELF);
    MPI_Comm half, between, merged;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    all_of("half", half);
    if (size > 1) {
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? (size - 1) / 2 * 2 : size / 2 * 2 - 1, 5, &between);
        int there, value = rank, other = -1, peer;
        MPI_Comm_remote_size(between, &there);
        MPI_Comm_rank(half, &peer);
        for (int i = 0; i < 10; i++) MPI_Barrier(between);
        if (peer < there) {
            MPI_Sendrecv(&value, 1, MPI_INT, peer, 0, &other, 1, MPI_INT, peer, 0, between, MPI_STATUS_IGNORE);
        }
        SAY("on the other side: %d %d\n", there, other);
        int root = rank % 2 ? 0 : peer == 0 ? MPI_ROOT : MPI_PROC_NULL;
        MPI_Bcast(&value, 1, MPI_INT, root, between);
        SAY("from the other side: %d\n", value);
        MPI_Intercomm_merge(between, rank % 2, &merged);
        all_of("merged", merged);
        MPI_Comm_free(&merged), MPI_Comm_free(&between);
    }
    int members, member;
    MPI_Comm_size(half, &members), MPI_Comm_rank(half, &member);
    errors(half, members, member);
    errors(MPI_COMM_WORLD, size, rank);
    all_of("world, after errors", MPI_COMM_WORLD);
    MPI_Comm_free(&half);
    for (int i = 0; i < size; i++) {
        if (rank == 0) {
            if (i > 0) {
                MPI_Recv(log_, sizeof log_, MPI_CHAR, i, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
            printf("== rank %d\n%s", i, log_);
        } else if (rank == i) {
            MPI_Send(log_, (int)logged + 1, MPI_CHAR, 0, 4, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return 0;
}
