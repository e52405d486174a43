// A team of two threads, which compute and meet again and again. Arguments: the way to meet,
// nanoseconds of computation between two meetings, and the begin and the end of a window in seconds
// of CLOCK_MONOTONIC. Prints the meetings in the window, and in phases of sleep the computations.
//
// `spin` waits by its own loop, which no library can change; `bound` does so on a CPU for each
// thread, as ranks do; `poll` does so for 50 us and then blocks; `barrier` waits by a barrier of
// pthreads and `openmp` by one of OpenMP; `block` computes for a third of the time in one thread
// and sleeps for the rest. `alternate:PERIOD` is `bound` for so many seconds and then `block` for as
// many, again and again; `opposite:PERIOD` begins the window with `block`.
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

// All jobs compute the same, on whatever machine.
#define TURNS_A_NANOSECOND 0.5

static const char *kind;
static double begin, end;
static long nanoseconds, turns;
static pthread_barrier_t barrier;
static _Alignas(64) atomic_long arrived;
static _Alignas(64) atomic_int generation;
static _Alignas(64) atomic_int sleepers;
static _Alignas(64) atomic_int over;
// The first thread sleeps now and then, and the other one waits for that to end.
static _Alignas(64) atomic_int is_resting;
// The length of a phase in seconds, or 0 without phases, and whether the first one is of sleep.
static double period;
static int begins_with_rest;

static void compute(void) {
    for (volatile long turn = turns; turn > 0; turn--) {
    }
}

// How long `poll` spins, in seconds.
#define POLL 50e-6

static void await(int seen) {
    double until = atomic_load(&is_resting) ? now() : strcmp(kind, "poll") ? 0 : now() + POLL;
    while (atomic_load(&generation) == seen) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (until && now() >= until) {
            atomic_fetch_add(&sleepers, 1);
            syscall(SYS_futex, &generation, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0);
            atomic_fetch_sub(&sleepers, 1);
        }
    }
}

static void meet(void) {
    if (!strcmp(kind, "barrier")) {
        pthread_barrier_wait(&barrier);
    } else if (!strcmp(kind, "openmp")) {
#pragma omp barrier
    } else {
        int seen = atomic_load(&generation);
        if (atomic_fetch_add(&arrived, 1) == 1) {
            atomic_store(&arrived, 0);
            atomic_store(&generation, seen + 1);
            if (atomic_load(&sleepers)) syscall(SYS_futex, &generation, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
        } else {
            await(seen);
        }
    }
}

// Binds this thread to the first of the CPUs that it may use, or to the last one.
static void bind(int to_first) {
    cpu_set_t all, one;
    int bound = -1;
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && (bound < 0 || !to_first)) bound = cpu;
    }
    CPU_ZERO(&one);
    CPU_SET(bound, &one);
    sched_setaffinity(0, sizeof one, &one);
}

// A job starts less than so many phases before the window.
#define PHASES_BEFORE 1000

static int rests_at(double time) {
    return period && ((long)((time - begin) / period + PHASES_BEFORE) + begins_with_rest) % 2;
}

// Computes for a third of the time in this thread and sleeps for the rest, in one phase if there
// are any. Returns the computations in the window.
static long sleep_and_compute(void) {
    long computations = 0;
    struct timespec rest = {0, 2 * nanoseconds};
    for (double time = now(); time < end && (!period || rests_at(time)); time = now()) {
        compute();
        clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, 0);
        computations += time >= begin;
    }
    return computations;
}

static void *run(void *is_first) {
    long meetings = 0, computations = 0;
    if (!strcmp(kind, "bound") || period) bind(is_first != 0);
    for (;;) {
        compute();
        if (is_first) {
            double time = now();
            meetings += time >= begin && time < end;
            if (time >= end) atomic_store(&over, 1);
            atomic_store(&is_resting, rests_at(time));
        }
        // The first one decides before the meeting, so both see it after the same one.
        meet();
        if (atomic_load(&over)) break;
        if (is_first && atomic_load(&is_resting)) computations += sleep_and_compute();
        // A second meeting keeps the first thread from deciding anew before the other has looked.
        meet();
    }
    if (is_first) printf(period ? "%ld %ld\n" : "%ld\n", meetings, computations);
    return 0;
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    kind = arguments[1];
    nanoseconds = atol(arguments[2]);
    begin = atof(arguments[3]), end = atof(arguments[4]);
    turns = (long)(nanoseconds * TURNS_A_NANOSECOND);
    const char *phase = strchr(kind, ':');
    period = phase ? atof(phase + 1) : 0;
    begins_with_rest = !strncmp(kind, "opposite", 8);
    if (!strcmp(kind, "block")) {
        printf("%ld\n", sleep_and_compute());
        return 0;
    }
    if (!strcmp(kind, "openmp")) {
#pragma omp parallel num_threads(2)
        run(omp_get_thread_num() == 0 ? (void *)1 : 0);
        return 0;
    }
    pthread_barrier_init(&barrier, 0, 2);
    pthread_t other;
    if (pthread_create(&other, 0, run, 0)) return 1;
    run((void *)1);
    pthread_join(other, 0);
    return 0;
}
