/* Four threads add up a table in rounds: each computes its part, and all meet after each round. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <rowlock_wait.h>

enum { THREADS = 4, ROUNDS = 1000 };

static struct rowlock_barrier *barrier;
static long parts[THREADS];
static long total;

static void check(int status) {
    if (status != 0) {
        fprintf(stderr, "%s: %s\n", rowlock_strerror(status), rowlock_message());
        exit(1);
    }
}

static void *work(void *number) {
    long *part = &parts[(long)number];
    for (int round = 0; round < ROUNDS; round++) {
        bool leads;
        *part = round;
        check(rowlock_barrier_wait(barrier, &leads));
        /* All parts are complete, and no thread continues before the leader has added them up. */
        if (leads) {
            for (int i = 0; i < THREADS; i++) {
                total += parts[i];
            }
        }
        check(rowlock_barrier_wait(barrier, NULL));
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    struct rowlock_statistics statistics;

    check(rowlock_barrier_create(&barrier, THREADS, "adaptive"));
    for (long i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, (void *)i));
    }
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL));
    }
    check(rowlock_barrier_statistics(barrier, &statistics));
    rowlock_barrier_destroy(barrier);

    printf("total %ld, %llu waits\n", total, (unsigned long long)statistics.waits);
    return 0;
}
