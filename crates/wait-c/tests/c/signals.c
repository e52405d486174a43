/* Semaphores, events, latches and words. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

enum { THREADS = 4, TURNS = 300 };

static struct rowlock_semaphore *semaphore;
static struct rowlock_event *event, *start;
static struct rowlock_latch *latch;
static uint32_t word;
static int turns;

static void *take_turns_by_semaphore(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        uint32_t permits;
        OK(rowlock_semaphore_down(semaphore, &permits));
        CHECK(permits == 0);
        turns++;
        OK(rowlock_semaphore_up(semaphore, &permits));
        CHECK(permits == 1);
    }
    return unused;
}

static void *take_turns_by_event(void *unused) {
    OK(rowlock_event_wait_until(start, &future));
    for (int i = 0; i < TURNS; i++) {
        OK(rowlock_event_wait(event));
        turns++;
        OK(rowlock_event_set(event));
    }
    OK(rowlock_latch_arrive_and_wait(latch));
    CHECK(turns == THREADS * TURNS);
    return unused;
}

static void *take_turns_by_word(void *number) {
    for (uint32_t i = 0; i < TURNS; i++) {
        uint32_t mine = THREADS * i + (uint32_t)(long)number;
        uint32_t seen = __atomic_load_n(&word, __ATOMIC_ACQUIRE);
        while (seen != mine) {
            OK(rowlock_word_wait(&word, seen, &seen));
        }
        turns++;
        __atomic_store_n(&word, mine + 1, __ATOMIC_RELEASE);
        OK(rowlock_word_wake(&word, true));
    }
    return NULL;
}

int main(void) {
    static const char *const rules[] = {NULL, "always-block", "cs"};
    struct rowlock_statistics statistics;
    uint32_t value = 99;
    bool was_set;

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        OK(rowlock_semaphore_create(&semaphore, 1, rules[i]));
        OK(rowlock_event_create(&event, false, rules[i]));
        OK(rowlock_event_create(&start, true, rules[i]));
        OK(rowlock_latch_create(&latch, THREADS, rules[i]));

        turns = 0;
        run(THREADS, take_turns_by_semaphore);
        CHECK(turns == THREADS * TURNS);

        turns = 0;
        OK(rowlock_event_set(event));
        OK(rowlock_event_set(start));
        run(THREADS, take_turns_by_event);

        rowlock_semaphore_destroy(semaphore);
        rowlock_event_destroy(event);
        rowlock_event_destroy(start);
        rowlock_latch_destroy(latch);
    }
    turns = 0;
    run(THREADS, take_turns_by_word);
    CHECK(turns == THREADS * TURNS);

    /* A wait times out if its event does not occur, but not if it has occurred. */
    OK(rowlock_semaphore_create(&semaphore, 0, "always-block"));
    CHECK(rowlock_semaphore_trydown(semaphore, &value) == EBUSY);
    CHECK(rowlock_semaphore_down_until(semaphore, &past, &value) == ETIMEDOUT);
    CHECK(rowlock_semaphore_down_timeout(semaphore, 1000, &value) == ETIMEDOUT && value == 99);
    OK(rowlock_semaphore_up_by(semaphore, 3, &value));
    CHECK(value == 3);
    OK(rowlock_semaphore_down_until(semaphore, &past, &value));
    OK(rowlock_semaphore_trydown(semaphore, &value));
    CHECK(value == 1);
    OK(rowlock_semaphore_value(semaphore, &value));
    CHECK(value == 1);
    OK(rowlock_semaphore_statistics(semaphore, &statistics));
    CHECK(statistics.waits == 2 && statistics.blocks >= 2 && statistics.spins == 0);
    rowlock_semaphore_destroy(semaphore);

    OK(rowlock_event_create(&event, false, NULL));
    CHECK(rowlock_event_trywait(event) == EBUSY);
    CHECK(rowlock_event_wait_until(event, &past) == ETIMEDOUT);
    CHECK(rowlock_event_wait_timeout(event, 1000) == ETIMEDOUT);
    OK(rowlock_event_set(event));
    OK(rowlock_event_wait_timeout(event, 0));
    OK(rowlock_event_reset(event, &was_set));
    CHECK(!was_set);
    OK(rowlock_event_statistics(event, &statistics));
    CHECK(statistics.waits == 2);
    rowlock_event_destroy(event);

    OK(rowlock_event_create(&event, true, NULL));
    OK(rowlock_event_set(event));
    OK(rowlock_event_wait(event));
    OK(rowlock_event_trywait(event));
    OK(rowlock_event_reset(event, &was_set));
    CHECK(was_set && rowlock_event_trywait(event) == EBUSY);
    rowlock_event_destroy(event);

    OK(rowlock_latch_create(&latch, 2, NULL));
    OK(rowlock_latch_count_down(latch, 1, &value));
    CHECK(value == 1 && rowlock_latch_trywait(latch) == EBUSY);
    CHECK(rowlock_latch_wait_until(latch, &past) == ETIMEDOUT);
    CHECK(rowlock_latch_wait_timeout(latch, 1000) == ETIMEDOUT);
    OK(rowlock_latch_count_down(latch, 5, &value));
    CHECK(value == 0);
    OK(rowlock_latch_wait(latch));
    OK(rowlock_latch_trywait(latch));
    OK(rowlock_latch_statistics(latch, &statistics));
    CHECK(statistics.waits == 2);
    rowlock_latch_destroy(latch);

    word = 7;
    CHECK(rowlock_word_wait_until(&word, 7, &past, &value) == ETIMEDOUT);
    CHECK(rowlock_word_wait_timeout(&word, 7, 1000, &value) == ETIMEDOUT);
    OK(rowlock_word_wait(&word, 8, &value));
    CHECK(value == 7);
    OK(rowlock_word_wake(&word, false));
    puts("done");
    return 0;
}
