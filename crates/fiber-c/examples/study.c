/* The program that the study of the library times: threads lock one of two mutexes alternately, and
 * every 16th joins the one before it.
 *
 * cc -O2 study.c -I ../include -L ... -lmy_pthread && ./a.out [THREADS [LEVELS [RUNNING TIME IN MICROSECONDS]]] */
#define _POSIX_C_SOURCE 200809L
#include <my_pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORDS = 16 };

static struct {
    my_pthread_mutex_t lock;
    long memory[WORDS];
} even, odd;

static my_pthread_t *threads;

static void *edit(void *argument)
{
    long number = (long)argument;
    my_pthread_mutex_t *lock = number % 2 == 0 ? &even.lock : &odd.lock;
    long *memory = number % 2 == 0 ? even.memory : odd.memory;
    my_pthread_mutex_lock(lock);
    for (int word = 0; word < WORDS; word++)
        memory[word] += number;
    my_pthread_mutex_unlock(lock);
    if (number % 16 == 15)
        my_pthread_join(threads[number - 1], NULL);
    my_pthread_exit(argument);
}

int main(int count, char **arguments)
{
    long many = count > 1 ? atol(arguments[1]) : 2000;
    unsigned int levels = count > 2 ? (unsigned int)atoi(arguments[2]) : 10;
    unsigned int running_time = count > 3 ? (unsigned int)atoi(arguments[3]) : 100;
    struct timespec began, ended;
    threads = calloc((size_t)many, sizeof *threads);
    if (threads == NULL || my_pthread_configure(levels, running_time) != 0) {
        fprintf(stderr, "usage: %s [THREADS [LEVELS [RUNNING TIME IN MICROSECONDS]]]\n", arguments[0]);
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (long number = 0; number < many; number++) {
        if (my_pthread_create(&threads[number], NULL, edit, (void *)number) != 0)
            return 1;
    }
    for (long number = 0; number < many; number++) {
        if (number % 16 != 14 || number + 1 == many)
            my_pthread_join(threads[number], NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("sum %ld\n", even.memory[0] + odd.memory[WORDS - 1]);
    fprintf(stderr, "%ld threads: %.1f us\n", many,
            (double)(ended.tv_sec - began.tv_sec) * 1e6 + (double)(ended.tv_nsec - began.tv_nsec) / 1e3);
    free(threads);
    return 0;
}
