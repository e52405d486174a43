/* The work between two waits: dependent additions, so time off the CPU does not count as work. */
static inline void work(long additions) {
    unsigned long sum = 0;
    for (long addition = 0; addition < additions; addition++) {
        sum += (unsigned long)addition;
        __asm__ volatile("" : "+r"(sum));
    }
}

#include <stdio.h>
#include <time.h>

static inline double now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* Prints the duration of all rounds in seconds, without the start and the end of the program. */
static inline void tell(double since) { printf("%.9f\n", now() - since); }
