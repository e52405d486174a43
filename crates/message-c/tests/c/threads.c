/* Ranks that are threads: messages under several rules, and lengths that do not fit together. */

#include "check.h"

enum { RANKS = 3, ROUNDS = 200 };

static struct rowlock_communicator *worlds[RANKS];

/* A token goes around, and every rank adds its number. */
static void *pass_on(void *argument) {
    int rank = (int)(long)argument;
    struct rowlock_communicator *world = worlds[rank];
    long token = 0;

    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            OK(rowlock_communicator_send(world, 1, round, &token, sizeof token));
        }
        OK(rowlock_communicator_receive(world, (rank + RANKS - 1) % RANKS, round, &token, sizeof token, NULL));
        token += rank;
        if (rank != 0) {
            OK(rowlock_communicator_send(world, (rank + 1) % RANKS, round, &token, sizeof token));
        }
    }
    CHECK(rank != 0 || token == ROUNDS * RANKS * (RANKS - 1) / 2);
    return NULL;
}

/* The root has more than the others expect. */
static void *disagree(void *argument) {
    int rank = (int)(long)argument;
    char bytes[4] = {0};

    if (rank == 0) {
        OK(rowlock_communicator_broadcast(worlds[0], 0, bytes, 4));
    } else {
        CHECK(rowlock_communicator_broadcast(worlds[rank], 0, bytes, rank == 1 ? 2 : 4) == (rank == 1 ? EMSGSIZE : 0));
    }
    return NULL;
}

static void run(void *(*work)(void *)) {
    pthread_t threads[RANKS];
    for (long i = 0; i < RANKS; i++) {
        OK(pthread_create(&threads[i], NULL, work, (void *)i));
    }
    for (int i = 0; i < RANKS; i++) {
        OK(pthread_join(threads[i], NULL));
    }
}

int main(void) {
    static const char *const rules[] = {NULL, "adaptive", "always-block", "always-yield", "2cs+", "20 us"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        OK(rowlock_message_threads(worlds, RANKS, rules[i]));
        run(pass_on);
        run(disagree);
        for (int rank = 0; rank < RANKS; rank++) {
            rowlock_communicator_free(&worlds[rank]);
        }
    }
    puts("done");
    return 0;
}
