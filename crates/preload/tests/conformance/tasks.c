/* What OpenMP promises of tasks: all of them are complete when a thread passes a barrier. */
#include "lab.h"
#include <omp.h>

enum { TEAM = 3, TASKS = 20 };

static void tasks_end_at_barriers(void) {
    for (long round = rounds(10); round > 0; round--) {
        int done = 0;
#pragma omp parallel num_threads(TEAM)
        for (int time = 1; time <= 4; time++) {
            for (int i = 0; i < TASKS; i++)
#pragma omp task
#pragma omp atomic
                done++;
#pragma omp barrier
            CHECK(done == TEAM * TASKS * time);
#pragma omp barrier
        }
    }
}

static void tasks_end_with_loops(void) {
    for (long round = rounds(10); round > 0; round--) {
        int done = 0;
#pragma omp parallel num_threads(TEAM)
        for (int time = 1; time <= 4; time++) {
#pragma omp for schedule(dynamic)
            for (int i = 0; i < TASKS; i++)
#pragma omp task
#pragma omp atomic
                done++;
            CHECK(done == TASKS * time);
#pragma omp barrier
        }
    }
}

static void loops_become_tasks(void) {
    for (long round = rounds(10); round > 0; round--) {
        long signed_sum = 0, unsigned_sum = 0;
        /* Too large for a signed type. */
        unsigned long long end = -1ull - (unsigned long long)round, first = end - TASKS;
#pragma omp parallel num_threads(TEAM)
        {
#pragma omp single nowait
            {
#pragma omp taskloop grainsize(2) nogroup
                for (long i = 0; i < TASKS; i++)
#pragma omp atomic
                    signed_sum += i;
#pragma omp taskloop grainsize(2) nogroup
                for (unsigned long long i = first; i < end; i++)
#pragma omp atomic
                    unsigned_sum += (long)(i - first);
            }
#pragma omp barrier
            CHECK(signed_sum == TASKS * (TASKS - 1) / 2 && unsigned_sum == signed_sum);
        }
    }
}

/* A cancelled thread leaves its region, and the others do not wait for it. */
static void cancelled_threads_leave(void) {
#ifndef __clang__ /* Its library hangs. */
    for (long round = rounds(10); round > 0; round--) {
        int passed = 0;
#pragma omp parallel num_threads(TEAM)
        {
            if (omp_get_thread_num() == 1) {
#pragma omp cancel parallel
            }
#pragma omp barrier
#pragma omp atomic
            passed++;
        }
        CHECK(passed == 0 || !omp_get_cancellation());
    }
#endif
}

static const Case cases[] = {
    CASE(tasks_end_at_barriers), CASE(tasks_end_with_loops), CASE(loops_become_tasks), CASE(cancelled_threads_leave),
};

int main(int count, char **arguments) {
    (void)count;
    omp_set_dynamic(0);
    return CHOOSE(cases, arguments);
}
