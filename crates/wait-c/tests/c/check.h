/* Common code of the test programs. */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rowlock_wait.h>

/* Ends the program if the condition is false. */
#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "%s:%d: false: %s [%s]\n", __FILE__, __LINE__, #condition, rowlock_message()); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

#define OK(call) CHECK((call) == 0)

/* A deadline that has passed. */
static const struct timespec past = {0, 0};
/* A deadline that is never reached. */
static const struct timespec future = {1L << 40, 0};

/* Runs `count` threads with their numbers until they end. */
static inline void run(int count, void *(*work)(void *)) {
    pthread_t threads[16];
    for (long i = 0; i < count; i++) {
        OK(pthread_create(&threads[i], NULL, work, (void *)i));
    }
    for (int i = 0; i < count; i++) {
        OK(pthread_join(threads[i], NULL));
    }
}
