// Many short teams of several roots, under signals of a timer and of other processes. Argument: the
// number of teams of each root.
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static volatile sig_atomic_t signals;

static void count(int signal) {
    (void)signal;
    signals++;
}

static long times;

static void *root(void *number) {
    long total = 0, state = 1 + (long)number;
    for (long time = 0; time < times; time++) {
        state = (state * 1103515245 + 12345) & 0x7fffffff;
        int threads = 1 + (state >> 8) % 4, rounds = (state >> 12) % 4, written[4] = {0};
        long wrong = 0, sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : wrong)
        {
            for (int round = 1; round <= rounds; round++) {
                written[omp_get_thread_num()] = round;
#pragma omp barrier
                for (int other = 0; other < omp_get_num_threads(); other++) wrong += written[other] != round;
#pragma omp for schedule(dynamic)
                for (int i = 0; i < 5; i++)
#pragma omp atomic
                    sum += i;
#pragma omp single
                sum++;
            }
            if ((state >> 16) % 16 == 0) {
                long within = 0;
#pragma omp parallel num_threads(2) reduction(+ : within)
                {
#pragma omp barrier
                    within++;
                }
                wrong += within != 2;
            }
        }
        total += sum + 1000000 * wrong;
    }
    return (void *)total;
}

int main(int arguments, char **argument) {
    times = arguments > 1 ? atol(argument[1]) : 1000;
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &timer, NULL);
    omp_set_dynamic(0);
    omp_set_max_active_levels(2);
    pthread_t roots[2];
    for (long number = 0; number < 2; number++) pthread_create(&roots[number], NULL, root, (void *)number);
    for (int number = 0; number < 2; number++) {
        void *total;
        pthread_join(roots[number], &total);
        printf("root %d: %ld\n", number, (long)total);
    }
    return 0;
}
