/* Processes compute an integral together. Each has a part, and rank 0 prints the sum of all.
 *
 *     ./integral                          starts four ranks
 *     rowlock prun -n 4 -- ./integral     is a job that takes turns with others
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rowlock_message.h>

enum { RANKS = 4, STEPS = 1000000 };

static void check(int status) {
    if (status != 0) {
        fprintf(stderr, "%s: %s\n", rowlock_message_strerror(status), rowlock_message_error_text());
        exit(1);
    }
}

static void compute(struct rowlock_communicator *world) {
    int rank, ranks;
    double sum = 0;

    check(rowlock_communicator_rank(world, &rank));
    check(rowlock_communicator_ranks(world, &ranks));
    for (int step = rank; step < STEPS; step += ranks) {
        double x = (step + 0.5) / STEPS;
        sum += 4 / (1 + x * x) / STEPS;
    }
    check(rowlock_communicator_reduce(world, 0, &sum, 1, ROWLOCK_TYPE_DOUBLE, ROWLOCK_OPERATION_SUM));
    if (rank == 0) {
        printf("pi is %.6f, by %d ranks\n", sum, ranks);
    }
    rowlock_communicator_free(&world);
}

int main(void) {
    struct rowlock_communicator *world;
    char name[64];
    pid_t processes[RANKS];
    int failed = 0, status;

    if (getenv("ROWLOCK_RANK") != NULL) {
        check(rowlock_message_join(&world, "2cs+"));
        compute(world);
        return 0;
    }
    snprintf(name, sizeof name, "/dev/shm/integral-%ld", (long)getpid());
    for (int rank = 0; rank < RANKS; rank++) {
        processes[rank] = fork();
        if (processes[rank] < 0) {
            perror("fork");
            /* The others would wait for it. */
            while (rank > 0) kill(processes[--rank], SIGTERM);
            unlink(name);
            return 1;
        }
        if (processes[rank] == 0) {
            check(rowlock_message_join_named(&world, name, rank, RANKS, "2cs+"));
            compute(world);
            return 0;
        }
    }
    while (wait(&status) > 0) {
        failed |= status;
    }
    return failed != 0;
}
