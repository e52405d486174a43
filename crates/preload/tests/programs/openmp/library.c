// A library that uses OpenMP: `work` opens its own teams, and with -DORPHANED takes part in that of
// its caller. With -DTASKS it creates tasks.
#include <omp.h>

#ifdef ORPHANED
static long share;

long work(void) {
    long wrong = 0;
    // The barrier of the caller's team, if there is one.
#pragma omp barrier
#pragma omp single
    share = 0;
#ifdef TASKS
#pragma omp single nowait
    for (int i = 0; i < 20; i++)
#pragma omp task
#pragma omp atomic
        share++;
#else
#pragma omp for schedule(dynamic)
    for (int i = 0; i < 20; i++)
#pragma omp atomic
        share++;
#endif
#pragma omp barrier
    wrong = share != 20;
#pragma omp barrier
    return wrong * 1000 + 1;
}
#else
long work(void) {
    long total = 0;
    for (int time = 0; time < 6; time++) {
        int written[4] = {0};
        long wrong = 0, sum = 0;
#pragma omp parallel num_threads(2 + time % 3) reduction(+ : wrong)
        {
            for (int round = 1; round < 6; round++) {
                written[omp_get_thread_num()] = round;
#pragma omp barrier
                for (int other = 0; other < omp_get_num_threads(); other++) wrong += written[other] != round;
#pragma omp for schedule(dynamic)
                for (int i = 0; i < 10; i++)
#pragma omp atomic
                    sum += i;
            }
        }
        total += sum + 1000000 * wrong;
    }
    return total;
}
#endif
