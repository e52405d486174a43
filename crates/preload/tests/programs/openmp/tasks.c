// Tasks and cancellation, in which waiting threads take part. Always prints the same with
// OMP_CANCELLATION=true. With -DLIBOMP it omits what LLVM's library fails at: it asserts when a
// dynamic loop is cancelled, and hangs when a region is.
#include <omp.h>
#include <stdio.h>

static long fibonacci(int n) {
    if (n < 2) return n;
    long before, last;
#pragma omp task shared(before)
    before = fibonacci(n - 2);
#pragma omp task shared(last)
    last = fibonacci(n - 1);
#pragma omp taskwait
    return before + last;
}

int main(void) {
    omp_set_dynamic(0);
    long missed = 0, done = 0, result = 0, chain = 0, grouped = 0, looped = 0, reduced = 0, found = 0, left = 0;
    for (int time = 0; time < 20; time++) {
        done = 0;
#pragma omp parallel num_threads(2 + time % 3)
        {
            // All tasks must be complete after the barrier.
#pragma omp single nowait
            for (int i = 0; i < 100; i++)
#pragma omp task
#pragma omp atomic
                done++;
#pragma omp barrier
            if (done != 100)
#pragma omp atomic
                missed++;
#pragma omp barrier
            // So must those that each thread creates before the end of a loop.
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 50; i++)
#pragma omp task
#pragma omp atomic
                done++;
            if (done != 150)
#pragma omp atomic
                missed++;
#pragma omp barrier
#pragma omp single
            result += fibonacci(12);
#pragma omp single
            for (int i = 0; i < 20; i++)
#pragma omp task depend(inout : chain)
                chain = chain * 3 % 1001 + i;
#pragma omp master
            {
#pragma omp taskgroup
                for (int i = 0; i < 20; i++)
#pragma omp task
#pragma omp atomic
                    grouped += i;
#pragma omp taskloop grainsize(3)
                for (int i = 0; i < 50; i++)
#pragma omp atomic
                    looped += i;
            }
#pragma omp barrier
#pragma omp single
#pragma omp taskgroup task_reduction(+ : reduced)
            for (int i = 0; i < 20; i++)
#pragma omp task in_reduction(+ : reduced)
                reduced += i;
#pragma omp barrier
#ifdef LIBOMP
#pragma omp for schedule(static)
#else
#pragma omp for schedule(dynamic)
#endif
            for (int i = 0; i < 1000; i++) {
                if (i == 500) {
#pragma omp atomic write
                    found = i;
#pragma omp cancel for
                }
#pragma omp cancellation point for
            }
#pragma omp barrier
#ifndef LIBOMP
            if (omp_get_thread_num() == 1) {
#pragma omp atomic
                left++;
#pragma omp cancel parallel
            }
            // No thread passes before all have arrived, and one never does.
#pragma omp barrier
#pragma omp atomic
            missed++;
#endif
        }
    }
    printf("missed %ld done %ld result %ld chain %ld grouped %ld looped %ld reduced %ld found %ld left %ld\n",
           omp_get_cancellation() ? missed : 0, done, result, chain, grouped, looped, reduced, found, left);
    return 0;
}
