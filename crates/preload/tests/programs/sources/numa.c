/* Memory on nodes by libnuma, and threads that work on nodes. */
#include "check.h"
#include <numa.h>

enum { THREADS = 3, WORDS = 1 << 18 };

static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long *words, sum;

static void *work(void *argument) {
    long number = (long)argument;
    CHECK(numa_run_on_node(0) == 0);
    long *own = numa_alloc_onnode(WORDS / THREADS * sizeof(long), 0);
    CHECK(own);
    for (int round = 0; round < 20; round++) {
        for (long i = number; i < WORDS; i += THREADS) words[i] += i * round;
        pthread_barrier_wait(&barrier);
        long mine = 0;
        for (long i = 0; i < WORDS / THREADS; i++) own[i] = words[(i * THREADS + number + 1) % WORDS];
        for (long i = 0; i < WORDS / THREADS; i++) mine += own[i];
        OK(pthread_mutex_lock(&mutex));
        sum += mine;
        OK(pthread_mutex_unlock(&mutex));
        pthread_barrier_wait(&barrier);
    }
    numa_free(own, WORDS / THREADS * sizeof(long));
    return NULL;
}

int main(void) {
    CHECK(numa_available() >= 0);
    CHECK((words = numa_alloc_interleaved(WORDS * sizeof(long))));
    memset(words, 0, WORDS * sizeof(long));
    OK(pthread_barrier_init(&barrier, NULL, THREADS));
    run(THREADS, work);
    printf("%ld\n", sum);
    numa_free(words, WORDS * sizeof(long));
    return 0;
}
