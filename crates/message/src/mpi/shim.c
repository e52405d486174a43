/*
 * The calls of MPI that the transport makes.
 *
 * Libraries define the handles and constants of MPI as they like, as numbers or as addresses, often
 * by macros. Only their own compiler knows them. So this file uses them, and Rust sees numbers.
 *
 * Each function returns a code of MPI, which is zero for success, or one of these.
 */
#include <mpi.h>
#include <stdint.h>
#include <string.h>

enum { HAS_ENDED = -1, NO_THREADS = -2, FEW_THREADS = -3 };

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits into a word");
_Static_assert(sizeof(MPI_Message) <= sizeof(uint64_t), "a message fits into a word");

/* All processes, in a context of its own: other messages of the program never match. */
static MPI_Comm all;
/* Whether MPI was not initialized before. */
static int is_own;

int rowlock_mpi_join(int *rank, int *ranks)
{
    int has_begun, has_ended, level, code;

    MPI_Finalized(&has_ended);
    if (has_ended)
        return HAS_ENDED;
    MPI_Initialized(&has_begun);
    is_own = !has_begun;
    code = is_own ? MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) : MPI_Query_thread(&level);
    if (code != MPI_SUCCESS)
        return code;
    /* Others that have initialized MPI call it, too. */
    if (level < (is_own ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE))
        return is_own ? NO_THREADS : FEW_THREADS;
    code = MPI_Comm_dup(MPI_COMM_WORLD, &all);
    if (code != MPI_SUCCESS)
        return code;
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    MPI_Comm_rank(all, rank);
    return MPI_Comm_size(all, ranks);
}

/* Begins to send bytes, which must neither change nor move until the request is complete. */
int rowlock_mpi_send(const void *bytes, int length, int to, int tag, uint64_t *request)
{
    MPI_Request begun;
    int code = MPI_Isend(bytes, length, MPI_BYTE, to, tag, all, &begun);

    memcpy(request, &begun, sizeof begun);
    return code;
}

/* Not to be called again after a request is complete. */
int rowlock_mpi_test(uint64_t *request, int *is_complete)
{
    MPI_Request begun;
    int code;

    memcpy(&begun, request, sizeof begun);
    code = MPI_Test(&begun, is_complete, MPI_STATUS_IGNORE);
    memcpy(request, &begun, sizeof begun);
    return code;
}

/* Looks for a message that arrives, which only rowlock_mpi_receive can receive then. */
int rowlock_mpi_probe(int *is_there, int *from, int *tag, int *length, uint64_t *message)
{
    MPI_Status status;
    MPI_Message found;
    int code = MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, all, is_there, &found, &status);

    if (code != MPI_SUCCESS || !*is_there)
        return code;
    memcpy(message, &found, sizeof found);
    *from = status.MPI_SOURCE;
    *tag = status.MPI_TAG;
    return MPI_Get_count(&status, MPI_BYTE, length);
}

/* Begins to receive a message that was found, into bytes that must neither be used nor move until the
 * request is complete: the content of a long one may be yet to come. */
int rowlock_mpi_receive(void *bytes, int length, uint64_t message, uint64_t *request)
{
    MPI_Message found;
    MPI_Request begun;
    int code;

    memcpy(&found, &message, sizeof found);
    code = MPI_Imrecv(bytes, length, MPI_BYTE, &found, &begun);
    memcpy(request, &begun, sizeof begun);
    return code;
}

/* Writes the text of an error, and a zero behind it. */
void rowlock_mpi_text(int code, char *text, int room)
{
    char whole[MPI_MAX_ERROR_STRING + 1] = "";
    int length;

    MPI_Error_string(code, whole, &length);
    strncpy(text, whole, room - 1);
    text[room - 1] = 0;
}

int rowlock_mpi_leave(void)
{
    int code = MPI_Comm_free(&all);

    return code != MPI_SUCCESS || !is_own ? code : MPI_Finalize();
}
