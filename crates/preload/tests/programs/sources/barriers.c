/* Barriers as programs use them, up to the limits of the standard. */
#include "check.h"

enum { PARTIES = 4 };

static pthread_barrier_t barrier;
static pthread_barrier_t *current;
static long leaders, phase[PARTIES];

static void count_leader(int result) {
    CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    if (result) __atomic_fetch_add(&leaders, 1, __ATOMIC_RELAXED);
}

static void *in_step(void *argument) {
    long number = (long)argument, times = rounds(3000);
    for (long i = 1; i <= times; i++) {
        phase[number] = i;
        count_leader(pthread_barrier_wait(&barrier));
        for (int other = 0; other < PARTIES; other++) CHECK(phase[other] == i);
        count_leader(pthread_barrier_wait(&barrier));
    }
    return NULL;
}

/* The leader destroys the barrier immediately, while the others are leaving, and creates the next
 * one in its place. */
static void *renewing(void *unused) {
    (void)unused;
    static pthread_barrier_t others;
    static int ready;
    long times = rounds(1000);
    if (__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST) == 0) {
        OK(pthread_barrier_init(&others, NULL, PARTIES));
        __atomic_store_n(&ready, 100, __ATOMIC_SEQ_CST);
    }
    while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < 100) sched_yield();
    for (long i = 0; i < times; i++) {
        int result = pthread_barrier_wait(current);
        count_leader(result);
        if (result) {
            OK(pthread_barrier_destroy(current));
            memset(current, 0xa5, sizeof *current);
            free(current);
            current = malloc(sizeof *current);
            OK(pthread_barrier_init(current, NULL, PARTIES));
        }
        pthread_barrier_wait(&others);
    }
    return NULL;
}

static void *once(void *at) {
    count_leader(pthread_barrier_wait(at));
    return NULL;
}

static void *once_at_barrier(void *unused) {
    (void)unused;
    return once(&barrier);
}

static void on_a_stack(int parties) {
    pthread_barrier_t here;
    pthread_t threads[8];
    OK(pthread_barrier_init(&here, NULL, parties));
    for (int i = 1; i < parties; i++) OK(pthread_create(&threads[i], NULL, once, &here));
    count_leader(pthread_barrier_wait(&here));
    for (int i = 1; i < parties; i++) OK(pthread_join(threads[i], NULL));
    OK(pthread_barrier_destroy(&here));
}

/* The memory of the process, in pages. */
static long resident(void) {
    long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &size, &resident) == 2);
    fclose(file);
    return resident;
}

static void abandoned(int parties) {
    pthread_barrier_t here;
    OK(pthread_barrier_init(&here, NULL, parties));
    if (parties == 1) count_leader(pthread_barrier_wait(&here));
}

int main(void) {
    RETURNS(EINVAL, pthread_barrier_init(&barrier, NULL, 0));
    OK(pthread_barrier_init(&barrier, NULL, PARTIES));
    run(PARTIES, in_step);
    printf("%ld leaders in step\n", leaders);

    /* More threads than parties, in the same rounds and over time. */
    leaders = 0;
    for (int i = 0; i < 20; i++) run(PARTIES * 4, once_at_barrier);
    OK(pthread_barrier_destroy(&barrier));
    printf("%ld leaders of many\n", leaders);

    leaders = 0;
    CHECK((current = malloc(sizeof *current)));
    OK(pthread_barrier_init(current, NULL, PARTIES));
    run(PARTIES, renewing);
    OK(pthread_barrier_destroy(current));
    free(current);
    printf("%ld leaders that destroyed\n", leaders);

    leaders = 0;
    for (int i = 0; i < 300; i++) on_a_stack(1 + i % 8);
    printf("%ld leaders on stacks\n", leaders);

    /* Barriers that are initialized again without being destroyed take no memory. */
    leaders = 0;
    long before = 0;
    for (long i = 0; i < 40000; i++) {
        abandoned(1 + i % 2);
        if (i == 10000) before = resident();
    }
    CHECK(resident() - before < 1000);
    printf("%ld leaders of forgotten barriers\n", leaders);

    /* Very many barriers at the same time. */
    leaders = 0;
    enum { MANY = 6000 };
    pthread_barrier_t *many = malloc(MANY * sizeof *many);
    CHECK(many);
    for (int i = 0; i < MANY; i++) OK(pthread_barrier_init(&many[i], NULL, 1));
    for (int i = 0; i < MANY; i++) count_leader(pthread_barrier_wait(&many[i]));
    for (int i = 0; i < MANY; i++) OK(pthread_barrier_destroy(&many[i]));
    free(many);
    printf("%ld leaders of many barriers\n", leaders);
    return 0;
}
