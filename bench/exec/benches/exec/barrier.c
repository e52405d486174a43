/* Threads that alternate between computing and waiting at a pthread barrier.
 * Arguments: threads, rounds, additions between two rounds. */
#include <pthread.h>
#include <stdlib.h>
#include "work.h"

static pthread_barrier_t barrier;
static long rounds, additions;

static void *member(void *nothing) {
    for (long round = 0; round < rounds; round++) {
        work(additions);
        pthread_barrier_wait(&barrier);
    }
    return nothing;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    int threads = atoi(arguments[1]);
    rounds = atol(arguments[2]);
    additions = atol(arguments[3]);
    pthread_t others[64];
    if (threads < 1 || threads > 64) return 2;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int other = 1; other < threads; other++) pthread_create(&others[other], NULL, member, NULL);
    double start = now();
    member(NULL);
    tell(start);
    for (int other = 1; other < threads; other++) pthread_join(others[other], NULL);
    return pthread_barrier_destroy(&barrier);
}
