/* Barriers with several rules: rounds, leaders, split arrivals, deadlines, completions, leaving,
 * and early destruction. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

enum { PARTIES = 3, ROUNDS = 300 };

static struct rowlock_barrier *barrier;
static int begun[PARTIES];
static int leaders, completions;

/* No thread continues before all have begun the round. Only the barrier orders the accesses to
 * plain memory. */
static void *meet(void *number) {
    for (int round = 1; round <= ROUNDS; round++) {
        bool leads;
        begun[(long)number] = round;
        OK(rowlock_barrier_wait(barrier, &leads));
        for (int i = 0; i < PARTIES; i++) {
            CHECK(begun[i] == round);
        }
        if (leads) {
            leaders++;
        }
        OK(rowlock_barrier_wait(barrier, NULL));
    }
    return NULL;
}

static void *meet_split(void *number) {
    for (int round = 1; round <= ROUNDS; round++) {
        uint64_t arrival;
        int status;
        begun[(long)number] = round;
        OK(rowlock_barrier_arrive(barrier, 1, &arrival));
        switch (round % 3) {
        case 0:
            OK(rowlock_barrier_complete(barrier, arrival, NULL));
            break;
        case 1:
            while ((status = rowlock_barrier_complete_timeout(barrier, arrival, 1000, NULL)) != 0) {
                CHECK(status == ETIMEDOUT);
            }
            break;
        default:
            OK(rowlock_barrier_complete_until(barrier, arrival, &future, NULL));
        }
        OK(rowlock_barrier_trycomplete(barrier, arrival));
        for (int i = 0; i < PARTIES; i++) {
            CHECK(begun[i] == round);
        }
        OK(rowlock_barrier_wait_until(barrier, &future, NULL, NULL));
    }
    return NULL;
}

static void complete(void *argument) {
    CHECK(argument == &completions);
    completions++;
}

/* One thread leaves after the first round, and the others continue. */
static void *leave(void *number) {
    if ((long)number == 0) {
        OK(rowlock_barrier_arrive_and_drop(barrier));
        return NULL;
    }
    for (int round = 0; round < ROUNDS; round++) {
        OK(rowlock_barrier_wait(barrier, NULL));
    }
    return NULL;
}

static void *meet_once(void *unused) {
    OK(rowlock_barrier_wait(barrier, NULL));
    return unused;
}

int main(void) {
    static const char *const rules[] = {NULL, "adaptive", "always-block", "2cs+", "20 us"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct rowlock_statistics statistics;

        leaders = 0;
        OK(rowlock_barrier_create(&barrier, PARTIES, rules[i]));
        run(PARTIES, meet);
        CHECK(leaders == ROUNDS);
        OK(rowlock_barrier_statistics(barrier, &statistics));
        CHECK(statistics.waits == 2 * ROUNDS * PARTIES);
        /* Other threads arrive, in the slots that are free now. */
        run(PARTIES, meet_split);
        rowlock_barrier_destroy(barrier);

        completions = 0;
        OK(rowlock_barrier_create_with_completion(&barrier, PARTIES, rules[i], complete, &completions));
        run(PARTIES, leave);
        CHECK(completions == ROUNDS);
        rowlock_barrier_destroy(barrier);
    }

    /* A wait that times out is an arrival nevertheless. */
    uint64_t arrival, others;
    bool leads = true;
    OK(rowlock_barrier_create(&barrier, 3, NULL));
    CHECK(rowlock_barrier_wait_until(barrier, &past, &leads, &arrival) == ETIMEDOUT && arrival == 0);
    CHECK(rowlock_barrier_trycomplete(barrier, arrival) == EBUSY);
    CHECK(rowlock_barrier_wait_timeout(barrier, 1000, &leads, &others) == ETIMEDOUT && others == 1);
    OK(rowlock_barrier_wait(barrier, &leads));
    CHECK(leads);
    OK(rowlock_barrier_complete(barrier, arrival, &leads));
    CHECK(!leads);
    /* Several arrivals at once. */
    OK(rowlock_barrier_arrive(barrier, 3, &arrival));
    OK(rowlock_barrier_trycomplete(barrier, arrival));
    rowlock_barrier_destroy(barrier);

    /* A released thread may destroy the barrier while the other one is still leaving. */
    for (int i = 0; i < 200; i++) {
        pthread_t other;
        OK(rowlock_barrier_create(&barrier, 2, "always-block"));
        OK(pthread_create(&other, NULL, meet_once, NULL));
        OK(rowlock_barrier_wait(barrier, NULL));
        rowlock_barrier_destroy(barrier);
        OK(pthread_join(other, NULL));
    }
    puts("done");
    return 0;
}
