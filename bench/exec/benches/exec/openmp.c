/* OpenMP threads that alternate between computing and waiting, at a barrier or a region's end.
 * Arguments: threads, rounds, additions between two rounds, "barrier" or "region". */
#include <stdlib.h>
#include <string.h>
#include "work.h"

int main(int count, char **arguments) {
    if (count != 5) return 2;
    int threads = atoi(arguments[1]);
    long rounds = atol(arguments[2]), additions = atol(arguments[3]);
    double start = now();
    if (strcmp(arguments[4], "region") == 0) {
        for (long round = 0; round < rounds; round++) {
#pragma omp parallel num_threads(threads)
            work(additions);
        }
        tell(start);
        return 0;
    }
#pragma omp parallel num_threads(threads)
    for (long round = 0; round < rounds; round++) {
        work(additions);
#pragma omp barrier
    }
    tell(start);
    return 0;
}
