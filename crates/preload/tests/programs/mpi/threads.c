/* Two threads of each rank that wait at the same time, each in its own ring, under signals. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

static int rank, size;
static MPI_Comm rings[2];
static long sums[2];

static void *turn(void *number) {
    long which = (long)number;
    MPI_Comm ring = rings[which];
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int round = 0; round < 200; round++) {
        int out = rank * 1000 + round, in = -1;
        MPI_Request requests[2];
        MPI_Irecv(&in, 1, MPI_INT, left, round, ring, &requests[0]);
        MPI_Isend(&out, 1, MPI_INT, right, round, ring, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        sums[which] += in;
        MPI_Sendrecv(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, ring, MPI_STATUS_IGNORE);
        sums[which] += in;
        if (round % 10 == 0) MPI_Barrier(ring);
        int value = round * (which + 1);
        MPI_Bcast(&value, 1, MPI_INT, round % size, ring);
        sums[which] += value;
    }
    return NULL;
}

static volatile sig_atomic_t signals;
static void count(int number) {
    (void)number;
    signals++;
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &rings[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &rings[1]);
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    raise(SIGUSR1);
    pthread_t other;
    if (level == MPI_THREAD_MULTIPLE) {
        pthread_create(&other, NULL, turn, (void *)1);
        turn((void *)0);
        pthread_join(other, NULL);
    } else {
        turn((void *)0);
        turn((void *)1);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    long all[2];
    MPI_Reduce(sums, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%d ranks: %ld %ld\n", size, all[0], all[1]);
    MPI_Finalize();
    return 0;
}
