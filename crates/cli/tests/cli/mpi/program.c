/* An MPI program that does what its first argument says. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* The rest of standard input, as rank 0 reads it, at all ranks. */
static void pass_input(void) {
    char text[256] = "";
    if (rank == 0 && !fgets(text, sizeof text, stdin)) exit(2);
    MPI_Bcast(text, sizeof text, MPI_CHAR, 0, MPI_COMM_WORLD);
    int all = 0, own = (int)strlen(text);
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == size - 1) printf("%d bytes at %d ranks: %s", all, size, text);
}

/* Calls that need another launcher. Their errors are returned. */
static void call_for_more(void) {
    MPI_Comm others;
    char port[MPI_MAX_PORT_NAME] = "port";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int spawned = MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &others, MPI_ERRCODES_IGNORE);
    int published = MPI_Publish_name("service", MPI_INFO_NULL, port);
    int found = MPI_Lookup_name("service", MPI_INFO_NULL, port);
    if (rank == 0) printf("spawned %d published %d found %d\n", !spawned, !published, !found);
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    int code = count > 2 ? atoi(words[2]) : 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int is_last = rank == size - 1;
    if (!strcmp(mode, "abort") && is_last) MPI_Abort(MPI_COMM_WORLD, code);
    if (!strcmp(mode, "leave") && is_last) _exit(code);
    if (!strcmp(mode, "kill") && is_last) abort();
    if (!strcmp(mode, "input")) pass_input();
    if (!strcmp(mode, "more")) call_for_more();
    if (!strcmp(mode, "meet")) {
        if (rank == 0) puts("begun"), fflush(stdout);
        for (;;) MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return !strcmp(mode, "exit") && is_last ? code : 0;
}
