/* A program whose first argument says what it does. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *action = argc > 1 ? argv[1] : "";
    int rank, ranks, sum, *number, is_set;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (strcmp(action, "sum") == 0) {
        int square = rank * rank;
        MPI_Comm here;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
        int ranks_here;
        MPI_Comm_size(here, &ranks_here);
        MPI_Allreduce(&square, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &is_set);
        printf("rank %d of %d, %d here: sum %d, application %d\n", rank, ranks, ranks_here, sum,
               is_set ? *number : -1);
        /* A window in shared memory, and one by messages. */
        int *window, *other;
        MPI_Win shared, created;
        MPI_Win_allocate_shared(4096, 1, MPI_INFO_NULL, here, &window, &shared);
        MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &other, &created);
        MPI_Win_free(&created);
        MPI_Win_free(&shared);
    } else if (strcmp(action, "abort") == 0) {
        if (rank == ranks - 1)
            MPI_Abort(MPI_COMM_WORLD, 42);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(action, "refused") == 0) {
        MPI_Comm children;
        char port[MPI_MAX_PORT_NAME];
        int error = MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                                   MPI_ERRCODES_IGNORE);
        printf("spawn: %s\n", error ? "error" : "success");
        error = MPI_Lookup_name("service", MPI_INFO_NULL, port);
        printf("lookup: %s\n", error ? "error" : "success");
        error = MPI_Publish_name("service", MPI_INFO_NULL, "port");
        printf("publish: %s\n", error ? "error" : "success");
    } else if (strcmp(action, "wait") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        printf("waiting %d %d\n", rank, getpid());
        fflush(stdout);
        /* The first rank does not come. */
        if (rank == 0)
            pause();
        MPI_Barrier(MPI_COMM_WORLD);
        pause();
    } else if (strcmp(action, "leave") == 0) {
        if (rank == 0)
            _exit(0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
