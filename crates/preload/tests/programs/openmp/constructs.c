// All OpenMP constructs by which threads meet, except for tasks and cancellation: in teams of
// several sizes, nested ones, and those of two independent threads. Always prints the same. With
// -DLIBOMP it omits a loop whose iterations wait for each other, at which LLVM's library crashes in
// programs compiled by gcc.
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 8

static int private_to_each;
#pragma omp threadprivate(private_to_each)

/// Each thread writes, meets, reads what the others wrote, and meets again.
static long barriers(int threads, int rounds) {
    int written[MOST] = {0};
    long wrong = 0;
#pragma omp parallel num_threads(threads) reduction(+ : wrong)
    {
        int own = omp_get_thread_num();
        for (int round = 1; round <= rounds; round++) {
            written[own] = round;
#pragma omp barrier
            for (int other = 0; other < omp_get_num_threads(); other++) wrong += written[other] != round;
#pragma omp barrier
        }
    }
    return wrong;
}

/// Loops that are distributed within a function without a team of its own.
static void loops(long *sums, long length) {
#pragma omp for schedule(static)
    for (long i = 0; i < length; i++)
#pragma omp atomic
        sums[0] += i;
#pragma omp for schedule(static, 1)
    for (long i = 0; i < length; i++)
#pragma omp atomic
        sums[1] += sums[0] - i;
#pragma omp for schedule(dynamic, 3)
    for (long i = 0; i < length; i++)
#pragma omp atomic
        sums[2] += sums[1] % 1000 + i;
#pragma omp for schedule(guided)
    for (long i = 0; i < length; i++)
#pragma omp atomic
        sums[3] += sums[2] % 1000 + i;
#pragma omp for schedule(runtime)
    for (long i = 0; i < length; i++)
#pragma omp atomic
        sums[4] += sums[3] % 1000 + i;
#pragma omp for schedule(dynamic) nowait
    for (long i = 0; i < length; i++)
#pragma omp atomic
        sums[5] += i;
#pragma omp for schedule(dynamic) collapse(2)
    for (long i = 0; i < 7; i++)
        for (long j = 0; j < length / 8; j++)
#pragma omp atomic
            sums[6] += sums[4] % 1000 + i * j;
}

static long shares(int threads) {
    long sums[7] = {0}, order = 0, disorder = 0, once = 0, copied = 0, parts = 0, seen = 0, chain[40] = {0};
    double reduced = 0, product = 1;
#pragma omp parallel num_threads(threads)
    {
        loops(sums, 500);
#pragma omp barrier
#pragma omp for ordered schedule(dynamic)
        for (long i = 0; i < 100; i++) {
#pragma omp ordered
            {
                disorder += order != i;
                order++;
            }
        }
#pragma omp for ordered schedule(static, 2) reduction(+ : reduced)
        for (long i = 0; i < 100; i++) {
            reduced += i;
#pragma omp ordered
            order++;
        }
#ifndef LIBOMP
#pragma omp for ordered(1) schedule(dynamic)
        for (long i = 1; i < 40; i++) {
#pragma omp ordered depend(sink : i - 1)
            chain[i] = chain[i - 1] + i;
#pragma omp ordered depend(source)
        }
#endif
#pragma omp single
        once += order;
        long own = 0;
#pragma omp single copyprivate(own)
        own = once;
#pragma omp atomic
        copied += own;
#pragma omp barrier
#pragma omp sections reduction(+ : parts)
        {
#pragma omp section
            parts += copied;
#pragma omp section
            parts += copied * 2;
#pragma omp section
            parts += copied * 3;
        }
#pragma omp master
        seen = parts;
#pragma omp barrier
#pragma omp critical
        once += seen;
#pragma omp for reduction(* : product)
        for (int i = 0; i < 30; i++) product *= 1 + i % 2;
    }
    long total = disorder + order + once + copied + parts + (long)reduced + (long)product + chain[39];
    for (int i = 0; i < 7; i++) total += sums[i];
    return total;
}

/// Teams within teams, each of which meets separately.
static long nested(int outer, int inner) {
    long total = 0;
#pragma omp parallel num_threads(outer) reduction(+ : total)
    {
        for (int round = 0; round < 5; round++) {
            int written[MOST] = {0}, wrong = 0;
            long begun = 0;
#pragma omp parallel num_threads(inner) reduction(+ : wrong)
            {
                for (int turn = 1; turn <= 5 + omp_get_ancestor_thread_num(1); turn++) {
                    written[omp_get_thread_num()] = turn;
#pragma omp barrier
                    for (int other = 0; other < omp_get_num_threads(); other++) wrong += written[other] != turn;
#pragma omp for schedule(dynamic)
                    for (int i = 0; i < 10; i++)
#pragma omp atomic
                        begun += i;
                }
            }
            total += begun + 1000000L * wrong;
#pragma omp barrier
#pragma omp parallel for schedule(dynamic) num_threads(inner) reduction(+ : total)
            for (int i = 0; i < 20; i++) total += i;
#pragma omp parallel sections num_threads(inner)
            {
#pragma omp section
#pragma omp atomic
                total++;
#pragma omp section
#pragma omp atomic
                total++;
            }
#pragma omp for schedule(static)
            for (int i = 0; i < 16; i++) total += i;
        }
    }
    return total;
}

/// Threads keep their private variables across teams, and values may be copied in.
static long kept(int threads) {
    long total = 0;
    private_to_each = 7;
#pragma omp parallel num_threads(threads) copyin(private_to_each) reduction(+ : total)
    {
        private_to_each += omp_get_thread_num();
#pragma omp barrier
        total += private_to_each;
    }
#pragma omp parallel num_threads(threads) reduction(+ : total)
    total += private_to_each;
    return total;
}

/// Constructs outside of any team meet no other threads.
static long orphans(void) {
    long total = 0;
#pragma omp barrier
#pragma omp for schedule(dynamic)
    for (int i = 0; i < 10; i++) total += i;
#pragma omp sections
    {
#pragma omp section
        total++;
#pragma omp section
        total++;
    }
#pragma omp single
    total++;
#pragma omp parallel num_threads(1)
    {
#pragma omp barrier
        total++;
    }
    return total;
}

static void *root(void *number) {
    long total = 0;
    for (int time = 0; time < 20; time++) {
        int threads = 2 + (time + (int)(size_t)number) % 3;
        total += barriers(threads, 20);
        total += shares(threads);
    }
    omp_set_max_active_levels(3);
    total += nested(2, 2);
    return (void *)total;
}

int main(void) {
    omp_set_dynamic(0);
    omp_set_max_active_levels(3);
    printf("orphans %ld\n", orphans());
    for (int threads = 1; threads <= 5; threads++) {
        printf("%d: barriers %ld\n", threads, barriers(threads, 200));
        printf("%d: shares %ld\n", threads, shares(threads));
        printf("%d: kept %ld\n", threads, kept(threads));
    }
    for (int inner = 1; inner <= 3; inner++) printf("nested %d: %ld %ld\n", inner, nested(2, inner), nested(3, inner));
    for (int time = 0; time < 10; time++) {
        omp_set_num_threads(1 + time % 4);
        long total = 0;
#pragma omp parallel reduction(+ : total)
        {
#pragma omp barrier
            total += omp_get_num_threads();
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 10; i++) total += i;
        }
        printf("set %d: %ld\n", 1 + time % 4, total);
    }
    for (int time = 0; time < 2; time++) {
        pthread_t roots[3];
        for (size_t number = 0; number < 3; number++) pthread_create(&roots[number], NULL, root, (void *)number);
        for (int number = 0; number < 3; number++) {
            void *total;
            pthread_join(roots[number], &total);
            printf("root %d: %ld\n", number, (long)total);
        }
    }
    printf("at the end: %ld\n", barriers(4, 50));
    return 0;
}
