/* Ranks that alternate between computing and synchronizing, by a barrier or a message in a ring.
 * Arguments: rounds, additions between two rounds, "barrier" or "ring". */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include "work.h"

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    if (count != 4) MPI_Abort(MPI_COMM_WORLD, 2);
    long rounds = atol(arguments[1]), additions = atol(arguments[2]), token = 0;
    int rank, size, ring = strcmp(arguments[3], "ring") == 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    for (long round = 0; round < rounds; round++) {
        work(additions);
        if (!ring) {
            MPI_Barrier(MPI_COMM_WORLD);
            continue;
        }
        if (rank == 0) MPI_Send(&token, 1, MPI_LONG, next, 0, MPI_COMM_WORLD);
        MPI_Recv(&token, 1, MPI_LONG, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank != 0) MPI_Send(&token, 1, MPI_LONG, next, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) tell(start);
    return MPI_Finalize();
}
