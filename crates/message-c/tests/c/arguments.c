/* Arguments that are not valid are errors, and have no other effect. */

#include "check.h"

#define INVALID(call) CHECK((call) == EINVAL)

static struct rowlock_communicator *worlds[2];

static void *no_pointer(void) { return NULL; }

static void joins(void) {
    struct rowlock_communicator *world = (struct rowlock_communicator *)&world;

    FAILS(ENOENT, "ROWLOCK_RANK", rowlock_message_join(&world, NULL));
    CHECK(world == NULL);
    FAILS(EINVAL, "world", rowlock_message_join(no_pointer(), NULL));
    FAILS(EINVAL, "cs+ or so", rowlock_message_join(&world, "2cs+ or so"));
    FAILS(EINVAL, "path", rowlock_message_join_named(&world, NULL, 0, 2, NULL));
    FAILS(EINVAL, "rank -1", rowlock_message_join_named(&world, "/dev/shm/no-such-job", -1, 2, NULL));
    FAILS(EINVAL, "-2 ranks", rowlock_message_join_named(&world, "/dev/shm/no-such-job", 0, -2, NULL));
    FAILS(EINVAL, "rank 2", rowlock_message_join_named(&world, "/dev/shm/no-such-job", 2, 2, NULL));
    FAILS(EINVAL, "257", rowlock_message_join_named(&world, "/dev/shm/no-such-job", 0, ROWLOCK_MAX_RANKS + 1, NULL));
    FAILS(ENOENT, "/no such folder", rowlock_message_join_named(&world, "/no such folder/job", 0, 2, NULL));
    CHECK(world == NULL);
    INVALID(rowlock_message_join_named(no_pointer(), "/dev/shm/no-such-job", 0, 2, NULL));
    INVALID(rowlock_message_threads(no_pointer(), 2, NULL));
    worlds[0] = NULL;
    FAILS(EINVAL, "this one has 0", rowlock_message_threads(worlds, 0, NULL));
    FAILS(EINVAL, "-1 ranks", rowlock_message_threads(worlds, -1, NULL));
    INVALID(rowlock_message_threads(worlds, 2, "\xff"));
    CHECK(worlds[0] == NULL);
}

/* Handles that are NULL, among them those that were freed. */
static void handles(void) {
    struct rowlock_communicator *communicator = NULL, *part;
    struct rowlock_send_request *sent = NULL;
    struct rowlock_receive_request *received = NULL;
    struct rowlock_window *window = NULL;
    struct rowlock_message_statistics statistics;
    struct rowlock_status status;
    uint64_t word = 0, *words;
    char byte = 0, other = 0;
    size_t count;
    int number;

    rowlock_communicator_free(NULL);
    rowlock_communicator_free(&communicator);
    rowlock_send_request_free(NULL);
    rowlock_send_request_free(&sent);
    rowlock_receive_request_free(NULL);
    rowlock_receive_request_free(&received);
    rowlock_window_free(NULL);
    rowlock_window_free(&window);

    INVALID(rowlock_communicator_rank(communicator, &number));
    INVALID(rowlock_communicator_ranks(communicator, &number));
    INVALID(rowlock_communicator_statistics(communicator, &statistics));
    INVALID(rowlock_communicator_split(communicator, 0, 0, &part));
    INVALID(rowlock_communicator_send(communicator, 0, 0, &byte, 1));
    INVALID(rowlock_communicator_receive(communicator, 0, 0, &byte, 1, &status));
    INVALID(rowlock_communicator_send_receive(communicator, 0, 0, &byte, 1, 0, 0, &other, 1, &status));
    INVALID(rowlock_communicator_probe(communicator, 0, 0, &status));
    INVALID(rowlock_communicator_iprobe(communicator, 0, 0, &status));
    INVALID(rowlock_communicator_isend(communicator, 0, 0, &byte, 1, &sent));
    INVALID(rowlock_communicator_ireceive(communicator, 0, 0, &received));
    INVALID(rowlock_communicator_barrier(communicator));
    INVALID(rowlock_communicator_broadcast(communicator, 0, &byte, 1));
    INVALID(rowlock_communicator_scatter(communicator, 0, &byte, &other, 1));
    INVALID(rowlock_communicator_gather(communicator, 0, &byte, &other, 1));
    INVALID(rowlock_communicator_all_gather(communicator, &byte, &other, 1));
    INVALID(rowlock_communicator_all_to_all(communicator, &byte, &other, 1));
    INVALID(rowlock_communicator_reduce(communicator, 0, &byte, 1, ROWLOCK_TYPE_INT8, ROWLOCK_OPERATION_SUM));
    INVALID(rowlock_communicator_all_reduce(communicator, &byte, 1, ROWLOCK_TYPE_INT8, ROWLOCK_OPERATION_SUM));
    INVALID(rowlock_communicator_window(communicator, 1, &window));
    FAILS(EINVAL, "request", rowlock_send_request_test(sent));
    FAILS(EINVAL, "request", rowlock_send_request_wait(&sent));
    INVALID(rowlock_send_request_wait(NULL));
    FAILS(EINVAL, "request", rowlock_receive_request_test(received, &status));
    FAILS(EINVAL, "request", rowlock_receive_request_wait(&received, &byte, 1, &status));
    INVALID(rowlock_receive_request_wait(NULL, &byte, 1, &status));
    FAILS(EINVAL, "window", rowlock_window_own(window, &words, &count));
    INVALID(rowlock_window_put(window, 0, 0, &word, 1));
    INVALID(rowlock_window_get(window, 0, 0, &word, 1));
    INVALID(rowlock_window_add(window, 0, 0, 1, &word));
    INVALID(rowlock_window_fence(window));
}

/* Ranks, tags, types and buffers of a rank alone, which can also send to itself. */
static void calls(struct rowlock_communicator *alone) {
    struct rowlock_communicator *part;
    struct rowlock_send_request *sent;
    struct rowlock_receive_request *received;
    struct rowlock_window *window;
    struct rowlock_status status;
    uint64_t words[4] = {0};
    char bytes[8] = {0};

    INVALID(rowlock_communicator_rank(alone, NULL));
    INVALID(rowlock_communicator_ranks(alone, NULL));
    INVALID(rowlock_communicator_statistics(alone, NULL));

    FAILS(EINVAL, "no rank -1", rowlock_communicator_send(alone, -1, 0, bytes, 1));
    FAILS(EINVAL, "no rank 1:", rowlock_communicator_send(alone, 1, 0, bytes, 1));
    FAILS(EINVAL, "not -1", rowlock_communicator_send(alone, 0, -1, bytes, 1));
    FAILS(EINVAL, "not 4294967296", rowlock_communicator_send(alone, 0, (int64_t)1 << 32, bytes, 1));
    FAILS(EINVAL, "`message`", rowlock_communicator_send(alone, 0, 0, NULL, 1));
    FAILS(EINVAL, "longer than any memory", rowlock_communicator_send(alone, 0, 0, bytes, SIZE_MAX));
    FAILS(EINVAL, "no rank -2", rowlock_communicator_receive(alone, -2, 0, bytes, 8, &status));
    FAILS(EINVAL, "not -2", rowlock_communicator_receive(alone, 0, -2, bytes, 8, &status));
    FAILS(EINVAL, "`buffer`", rowlock_communicator_receive(alone, 0, 0, NULL, 8, &status));
    FAILS(EINVAL, "overlap", rowlock_communicator_send_receive(alone, 0, 0, bytes, 4, 0, 0, bytes + 3, 4, NULL));
    INVALID(rowlock_communicator_probe(alone, -2, 0, &status));
    INVALID(rowlock_communicator_iprobe(alone, 5, 0, &status));
    /* Nothing was sent. */
    CHECK(rowlock_communicator_iprobe(alone, ROWLOCK_ANY_SOURCE, ROWLOCK_ANY_TAG, NULL) == EBUSY);

    INVALID(rowlock_communicator_isend(alone, -1, 0, bytes, 1, &sent));
    INVALID(rowlock_communicator_isend(alone, 0, 0, NULL, 1, &sent));
    INVALID(rowlock_communicator_isend(alone, 0, 0, bytes, 1, NULL));
    CHECK(sent == NULL);
    INVALID(rowlock_communicator_ireceive(alone, -2, 0, &received));
    INVALID(rowlock_communicator_ireceive(alone, 0, 0, NULL));
    CHECK(received == NULL);

    /* A message that does not fit is kept. */
    OK(rowlock_communicator_send(alone, 0, 3, "message", 8));
    FAILS(EMSGSIZE, "8 bytes from rank 0 with tag 3", rowlock_communicator_receive(alone, 0, 3, bytes, 7, NULL));
    OK(rowlock_communicator_ireceive(alone, 0, 3, &received));
    INVALID(rowlock_receive_request_wait(&received, NULL, 8, NULL));
    CHECK(received != NULL);
    FAILS(EMSGSIZE, "8 bytes", rowlock_receive_request_wait(&received, bytes, 7, NULL));
    CHECK(received == NULL);
    FAILS(EINVAL, "request", rowlock_receive_request_wait(&received, bytes, 8, NULL));
    OK(rowlock_communicator_receive(alone, 0, 3, bytes, 8, &status));
    CHECK(status.length == 8 && strcmp(bytes, "message") == 0);

    INVALID(rowlock_communicator_broadcast(alone, -1, bytes, 1));
    INVALID(rowlock_communicator_broadcast(alone, 1, bytes, 1));
    INVALID(rowlock_communicator_broadcast(alone, 0, NULL, 1));
    FAILS(EINVAL, "`values`", rowlock_communicator_scatter(alone, 0, NULL, bytes, 1));
    FAILS(EINVAL, "`part`", rowlock_communicator_scatter(alone, 0, bytes, NULL, 1));
    FAILS(EINVAL, "overlap", rowlock_communicator_scatter(alone, 0, bytes, bytes, 1));
    FAILS(EINVAL, "overlap", rowlock_communicator_gather(alone, 0, bytes, bytes, 1));
    FAILS(EINVAL, "overlap", rowlock_communicator_all_gather(alone, bytes, bytes, 1));
    FAILS(EINVAL, "overlap", rowlock_communicator_all_to_all(alone, bytes, bytes, 1));
    INVALID(rowlock_communicator_all_to_all(alone, bytes, bytes + 1, SIZE_MAX));
    INVALID(rowlock_communicator_split(alone, -2, 0, &part));
    CHECK(part == NULL);
    INVALID(rowlock_communicator_split(alone, 0, 0, NULL));

    FAILS(EINVAL, "0 is no type", rowlock_communicator_all_reduce(alone, words, 1, 0, ROWLOCK_OPERATION_SUM));
    FAILS(EINVAL, "0 is no operation", rowlock_communicator_all_reduce(alone, words, 1, ROWLOCK_TYPE_INT8, 0));
    INVALID(rowlock_communicator_all_reduce(alone, words, 1, ROWLOCK_OPERATION_SUM, ROWLOCK_TYPE_INT8));
    FAILS(EINVAL, "for integers",
          rowlock_communicator_all_reduce(alone, words, 1, ROWLOCK_TYPE_FLOAT, ROWLOCK_OPERATION_BIT_AND));
    FAILS(EINVAL, "aligned",
          rowlock_communicator_all_reduce(alone, (char *)words + 1, 1, ROWLOCK_TYPE_INT16, ROWLOCK_OPERATION_SUM));
    INVALID(rowlock_communicator_all_reduce(alone, words, SIZE_MAX / 8, ROWLOCK_TYPE_INT64, ROWLOCK_OPERATION_SUM));
    INVALID(rowlock_communicator_reduce(alone, -1, words, 1, ROWLOCK_TYPE_INT64, ROWLOCK_OPERATION_SUM));
    INVALID(rowlock_communicator_reduce(alone, 1, words, 1, ROWLOCK_TYPE_INT64, ROWLOCK_OPERATION_SUM));

    CHECK(rowlock_communicator_window(alone, SIZE_MAX, &window) == EIO && window == NULL);
    INVALID(rowlock_communicator_window(alone, 1, NULL));

    /* A request and a window keep the rank in its job. */
    OK(rowlock_communicator_isend(alone, 0, 4, bytes, 8, &sent));
    OK(rowlock_communicator_ireceive(alone, 0, 4, &received));
    OK(rowlock_communicator_window(alone, 4, &window));
    rowlock_communicator_free(&worlds[0]);
    OK(rowlock_receive_request_wait(&received, bytes, 8, &status));
    OK(rowlock_send_request_wait(&sent));
    OK(rowlock_window_put(window, 0, 0, words, 4));
    FAILS(EINVAL, "-1", rowlock_window_put(window, -1, 0, words, 1));
    FAILS(ERANGE, "beyond", rowlock_window_get(window, 0, 1, words, 4));
    OK(rowlock_window_own(window, NULL, NULL));
    rowlock_window_free(&window);
}

int main(void) {
    const char *meaning = rowlock_message_strerror(EOWNERDEAD);

    CHECK(strcmp(rowlock_message_error_text(), "") == 0);
    joins();
    handles();
    OK(rowlock_message_threads(worlds, 1, NULL));
    calls(worlds[0]);

    /* Of two ranks, one leaves. */
    OK(rowlock_message_threads(worlds, 2, "always-block"));
    rowlock_communicator_free(&worlds[1]);
    FAILS(EPIPE, "rank 1 has left", rowlock_communicator_receive(worlds[0], 1, 0, NULL, 0, NULL));
    FAILS(EPIPE, "rank 1 has left", rowlock_communicator_barrier(worlds[0]));
    rowlock_communicator_free(&worlds[0]);
    CHECK(strcmp(meaning, "a rank has died") == 0 && strcmp(rowlock_message_strerror(0), "success") == 0);
    puts("done");
    return 0;
}
