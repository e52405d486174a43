// Measures how often the threads of an OpenMP program synchronize per second: at barriers, at the
// ends of dynamic loops, or in parallel regions. Arguments: barrier|loop|region|serial, threads,
// seconds, nanoseconds of work between two waits. Prints synchronizations per second. `serial` is
// like `region`, but the main thread works between two regions as long as all threads do inside.
#define _GNU_SOURCE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static double turns_a_nanosecond;

static void work(double nanoseconds) {
    for (volatile long turn = (long)(nanoseconds * turns_a_nanosecond); turn > 0; turn--) {
    }
}

/// The best of several measurements, because preemption only makes a turn slower.
static void calibrate(void) {
    for (int attempt = 0; attempt < 20; attempt++) {
        long turns = 100000;
        double begin = now();
        for (volatile long turn = turns; turn > 0; turn--) {
        }
        double found = turns / (now() - begin) * 1e-9;
        if (found > turns_a_nanosecond) turns_a_nanosecond = found;
    }
}

static double meet(const char *what, int threads, long times, double nanoseconds) {
    double begin = now();
    if (!strcmp(what, "region") || !strcmp(what, "serial")) {
        for (long time = 0; time < times; time++) {
            if (*what == 's') work(nanoseconds);
#pragma omp parallel num_threads(threads)
            work(nanoseconds);
        }
    } else if (!strcmp(what, "loop")) {
#pragma omp parallel num_threads(threads)
        for (long time = 0; time < times; time++) {
#pragma omp for schedule(dynamic)
            for (int part = 0; part < threads; part++) work(nanoseconds);
        }
    } else {
#pragma omp parallel num_threads(threads)
        for (long time = 0; time < times; time++) {
            work(nanoseconds);
#pragma omp barrier
        }
    }
    return now() - begin;
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    const char *what = arguments[1];
    int threads = atoi(arguments[2]);
    double seconds = atof(arguments[3]), nanoseconds = atof(arguments[4]);
    calibrate();
    meet(what, threads, 10, nanoseconds);
    long times = 16, done = 0;
    double begin = now(), spent = 0;
    while (spent < seconds) {
        double took = meet(what, threads, times, nanoseconds);
        done += times;
        spent = now() - begin;
        if (took < seconds / 16) times *= 2;
    }
    printf("%.0f\n", done / spent);
    return 0;
}
