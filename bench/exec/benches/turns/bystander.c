// A program that takes no part in turns. Arguments: compute|sleep, and the begin and the end of a
// window in seconds of CLOCK_MONOTONIC.
//
// `compute` prints the nanoseconds that it ran in the window. `sleep` sleeps for 1 ms again and
// again, and prints how late it woke in nanoseconds, at the 99th percentile.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long nanoseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static int by_size(const void *one, const void *other) {
    long a = *(const long *)one, b = *(const long *)other;
    return (a > b) - (a < b);
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    long begin = atof(arguments[2]) * 1e9, end = atof(arguments[3]) * 1e9;
    if (!strcmp(arguments[1], "compute")) {
        while (nanoseconds(CLOCK_MONOTONIC) < begin) {
        }
        long before = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
        while (nanoseconds(CLOCK_MONOTONIC) < end) {
        }
        printf("%ld\n", nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - before);
        return 0;
    }
    static long late[1000000];
    size_t sleeps = 0;
    for (long now = nanoseconds(CLOCK_MONOTONIC); now < end; now = nanoseconds(CLOCK_MONOTONIC)) {
        long wanted = now + 1000000;
        struct timespec until = {wanted / 1000000000L, wanted % 1000000000L};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0);
        if (now >= begin && sleeps < sizeof late / sizeof *late) late[sleeps++] = nanoseconds(CLOCK_MONOTONIC) - wanted;
    }
    if (!sleeps) return 1;
    qsort(late, sleeps, sizeof *late, by_size);
    printf("%ld\n", late[sleeps * 99 / 100]);
    return 0;
}
