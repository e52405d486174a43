/* A rank that joins by a name, or by the environment without one, and makes all calls once:
 * ranks PATH RANK RANKS PART. */

#define _POSIX_C_SOURCE 200809L

#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { LONG = 100000 };

static struct rowlock_communicator *world;
static int rank, ranks;

/* Each rank sends to the next one, and receives from the one before. */
static void send_and_receive(void) {
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    int number = 100 + rank, received = 0;
    static char sent[LONG], got[LONG];
    struct rowlock_status status;

    OK(rowlock_communicator_send(world, next, 7, &number, sizeof number));
    OK(rowlock_communicator_probe(world, before, 7, &status));
    CHECK(status.source == before && status.tag == 7 && status.length == sizeof number);
    OK(rowlock_communicator_receive(world, ROWLOCK_ANY_SOURCE, ROWLOCK_ANY_TAG, &received, sizeof received, &status));
    CHECK(status.source == before && status.tag == 7 && status.length == sizeof number);
    CHECK(received == 100 + before);

    memset(sent, rank + 1, LONG);
    OK(rowlock_communicator_send_receive(world, next, UINT32_MAX, sent, LONG, before, UINT32_MAX, got, LONG, &status));
    CHECK(status.source == before && status.tag == UINT32_MAX && status.length == LONG);
    CHECK(got[0] == before + 1 && memcmp(got, got + 1, LONG - 1) == 0);

    /* A message without content. */
    OK(rowlock_communicator_send(world, next, 0, NULL, 0));
    OK(rowlock_communicator_receive(world, before, 0, NULL, 0, NULL));
    CHECK(rowlock_communicator_iprobe(world, ROWLOCK_ANY_SOURCE, 0, &status) == EBUSY);
}

static void requests(void) {
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    static char message[LONG], got[LONG];
    struct rowlock_send_request *sent;
    struct rowlock_receive_request *received;
    struct rowlock_status status;
    int result;

    OK(rowlock_communicator_ireceive(world, before, 8, &received));
    CHECK(rowlock_receive_request_test(received, &status) == EBUSY || ranks > 1);
    memset(message, 'a' + rank, LONG);
    OK(rowlock_communicator_isend(world, next, 8, message, LONG, &sent));
    /* The request has a copy. */
    memset(message, '?', LONG);
    while ((result = rowlock_receive_request_test(received, &status)) != 0) {
        CHECK(result == EBUSY);
    }
    CHECK(status.source == before && status.tag == 8 && status.length == LONG);
    OK(rowlock_receive_request_wait(&received, got, LONG, &status));
    CHECK(status.length == LONG && got[0] == 'a' + before && memcmp(got, got + 1, LONG - 1) == 0);
    CHECK(received == NULL);
    while ((result = rowlock_send_request_test(sent)) != 0) {
        CHECK(result == EBUSY);
    }
    OK(rowlock_send_request_wait(&sent));
    CHECK(sent == NULL);

    /* A request that is freed leaves its message to others. */
    OK(rowlock_communicator_isend(world, next, 9, "word", 4, &sent));
    rowlock_send_request_free(&sent);
    OK(rowlock_communicator_ireceive(world, before, 9, &received));
    while (rowlock_receive_request_test(received, NULL) != 0) {
    }
    CHECK(rowlock_communicator_iprobe(world, before, 9, NULL) == EBUSY);
    rowlock_receive_request_free(&received);
    CHECK(sent == NULL && received == NULL);
    OK(rowlock_communicator_iprobe(world, before, 9, &status));
    OK(rowlock_communicator_receive(world, before, 9, got, LONG, NULL));
    CHECK(memcmp(got, "word", 4) == 0);
}

static void collective_calls(void) {
    int root = ranks - 1;
    int value = rank == root ? 42 : 0, part[2] = {rank, -rank}, all[2 * ROWLOCK_MAX_RANKS];
    double sum = rank + 0.5;
    int64_t least[2] = {-rank, rank};
    uint32_t bits = 1u << rank;

    OK(rowlock_communicator_barrier(world));
    OK(rowlock_communicator_broadcast(world, root, &value, sizeof value));
    CHECK(value == 42);

    OK(rowlock_communicator_gather(world, root, part, rank == root ? all : NULL, sizeof part));
    for (int i = 0; rank == root && i < ranks; i++) {
        CHECK(all[2 * i] == i && all[2 * i + 1] == -i);
        all[2 * i] *= 10;
    }
    OK(rowlock_communicator_scatter(world, root, rank == root ? all : NULL, part, sizeof part));
    CHECK(part[0] == 10 * rank && part[1] == -rank);

    OK(rowlock_communicator_all_gather(world, part, all, sizeof part));
    for (int i = 0; i < ranks; i++) {
        CHECK(all[2 * i] == 10 * i && all[2 * i + 1] == -i);
    }

    int parts[ROWLOCK_MAX_RANKS], received[ROWLOCK_MAX_RANKS];
    for (int i = 0; i < ranks; i++) {
        parts[i] = 1000 * rank + i;
    }
    OK(rowlock_communicator_all_to_all(world, parts, received, sizeof(int)));
    for (int i = 0; i < ranks; i++) {
        CHECK(received[i] == 1000 * i + rank);
    }

    OK(rowlock_communicator_reduce(world, root, &sum, 1, ROWLOCK_TYPE_DOUBLE, ROWLOCK_OPERATION_SUM));
    CHECK(rank != root || sum == ranks * (ranks - 1) / 2 + 0.5 * ranks);
    OK(rowlock_communicator_all_reduce(world, least, 2, ROWLOCK_TYPE_INT64, ROWLOCK_OPERATION_MINIMUM));
    CHECK(least[0] == 1 - ranks && least[1] == 0);
    OK(rowlock_communicator_all_reduce(world, &bits, 1, ROWLOCK_TYPE_UINT32, ROWLOCK_OPERATION_BIT_OR));
    CHECK(bits == (1u << ranks) - 1);
}

/* Two halves, in reverse order, and then parts that some ranks are not in. */
static void split(void) {
    struct rowlock_communicator *half, *first;
    int number, count, own, sum = rank;

    OK(rowlock_communicator_split(world, rank % 2, -rank, &half));
    OK(rowlock_communicator_rank(half, &number));
    OK(rowlock_communicator_ranks(half, &count));
    CHECK(count == (ranks + 1 - rank % 2) / 2 && number == count - 1 - rank / 2);
    OK(rowlock_communicator_split(world, rank == 0 ? 5 : ROWLOCK_NO_COLOR, 0, &first));
    CHECK((first != NULL) == (rank == 0));
    if (first != NULL) {
        OK(rowlock_communicator_rank(first, &own));
        CHECK(own == 0);
    }
    OK(rowlock_communicator_all_reduce(half, &sum, 1, ROWLOCK_TYPE_INT32, ROWLOCK_OPERATION_SUM));
    CHECK(sum == count * (rank % 2) + count * (count - 1));
    rowlock_communicator_free(&half);
    rowlock_communicator_free(&first);
    CHECK(half == NULL && first == NULL);
}

static void windows(void) {
    struct rowlock_window *window;
    uint64_t *own, words[2] = {0x100 + (uint64_t)rank, 7}, got[2], before;
    size_t count;

    /* Each rank chooses the length of its part. */
    OK(rowlock_communicator_window(world, 4 + (size_t)rank, &window));
    OK(rowlock_window_own(window, &own, &count));
    CHECK(count == 4 + (size_t)rank && own[0] == 0 && own[count - 1] == 0);
    OK(rowlock_window_fence(window));
    OK(rowlock_window_put(window, (rank + 1) % ranks, 2, words, 2));
    OK(rowlock_window_add(window, 0, 0, 5, NULL));
    OK(rowlock_window_fence(window));
    CHECK(own[2] == 0x100 + (uint64_t)((rank + ranks - 1) % ranks) && own[3] == 7);
    OK(rowlock_window_get(window, rank, 2, got, 2));
    CHECK(got[0] == own[2] && got[1] == 7);
    OK(rowlock_window_fence(window));
    if (rank == ranks - 1) {
        OK(rowlock_window_add(window, 0, 0, (uint64_t)-1, &before));
        CHECK(before == 5 * (uint64_t)ranks);
    }
    OK(rowlock_window_fence(window));
    OK(rowlock_window_get(window, 0, 0, got, 1));
    CHECK(got[0] == 5 * (uint64_t)ranks - 1);

    FAILS(ERANGE, "beyond", rowlock_window_put(window, rank, count - 1, words, 2));
    FAILS(ERANGE, "beyond", rowlock_window_add(window, rank, SIZE_MAX, 1, NULL));
    FAILS(EINVAL, "overlap", rowlock_window_put(window, rank, 0, own + 1, 1));
    FAILS(EINVAL, "overlap", rowlock_window_get(window, rank, 0, own, 1));
    FAILS(EINVAL, "aligned", rowlock_window_get(window, rank, 0, (uint64_t *)(void *)((char *)got + 1), 1));
    FAILS(EINVAL, "rank", rowlock_window_put(window, ranks, 0, words, 1));
    OK(rowlock_window_fence(window));
    rowlock_window_free(&window);
    CHECK(window == NULL);
}

/* The child of a fork frees what it has from its parent. That stays in the job. */
static void fork_and_free(void) {
    struct rowlock_receive_request *request;
    struct rowlock_window *window;
    char word;
    int status;

    OK(rowlock_communicator_window(world, 1, &window));
    OK(rowlock_communicator_ireceive(world, rank, 10, &request));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        rowlock_receive_request_free(&request);
        rowlock_window_free(&window);
        rowlock_communicator_free(&world);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(rowlock_communicator_send(world, rank, 10, "x", 1));
    OK(rowlock_receive_request_wait(&request, &word, 1, NULL));
    OK(rowlock_window_fence(window));
    rowlock_window_free(&window);
}

/* Waits in collective calls until one fails. */
static void wait_in_vain(void) {
    int status;

    puts("ready");
    fflush(stdout);
    while ((status = rowlock_communicator_barrier(world)) == 0) {
    }
    printf("%d %s: %s\n", status == EOWNERDEAD, rowlock_message_strerror(status), rowlock_message_error_text());
    rowlock_communicator_free(&world);
    exit(0);
}

/* Sends back what comes. */
static void echo(void) {
    uint64_t words[16];
    struct rowlock_status status;

    OK(rowlock_communicator_receive(world, ROWLOCK_ANY_SOURCE, ROWLOCK_ANY_TAG, words, sizeof words, &status));
    OK(rowlock_communicator_send(world, status.source, status.tag, words, status.length));
    OK(rowlock_communicator_barrier(world));
}

int main(int count, char **arguments) {
    struct rowlock_message_statistics statistics;
    int number;

    CHECK(count == 5);
    rank = atoi(arguments[2]);
    ranks = atoi(arguments[3]);
    if (strcmp(arguments[1], "") == 0) {
        OK(rowlock_message_join(&world, NULL));
    } else {
        OK(rowlock_message_join_named(&world, arguments[1], rank, ranks, "2cs+"));
    }
    OK(rowlock_communicator_rank(world, &number));
    CHECK(number == rank);
    OK(rowlock_communicator_ranks(world, &number));
    CHECK(number == ranks);
    if (strcmp(arguments[4], "wait") == 0) {
        wait_in_vain();
    }
    if (strcmp(arguments[4], "sleep") == 0) {
        puts("ready");
        fflush(stdout);
        pause();
    }
    if (strcmp(arguments[4], "echo") == 0) {
        echo();
    } else {
        send_and_receive();
        requests();
        collective_calls();
        split();
        windows();
        fork_and_free();
        OK(rowlock_communicator_statistics(world, &statistics));
        CHECK(statistics.spins <= statistics.waits);
    }
    rowlock_communicator_free(&world);
    CHECK(world == NULL);
    puts("done");
    return 0;
}
