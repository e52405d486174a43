// The programs of programs.rs for Argobots and, with -DMASSIVETHREADS, for MassiveThreads:
// PROGRAM NUMBER... Results go to standard output, one name and number per line. Neither has
// channels. Both run on one kernel thread.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <time.h>

#ifdef MASSIVETHREADS
#include <myth/myth.h>
typedef myth_thread_t Thread;
typedef void *Result;
#define RETURN return NULL
static myth_mutex_t locks[2], turns;
static myth_cond_t changed;
static void begin(void) {
    setenv("MYTH_NUM_WORKERS", "1", 1);
    myth_init();
    myth_mutex_init(&locks[0], NULL); myth_mutex_init(&locks[1], NULL); myth_mutex_init(&turns, NULL);
    myth_cond_init(&changed, NULL);
}
static Thread spawn(Result (*function)(void *), long number) { return myth_create(function, (void *)number); }
static void join(Thread thread) { myth_join(thread, NULL); }
static void yield(void) { myth_yield(); }
#define lock(mutex) myth_mutex_lock(&(mutex))
#define unlock(mutex) myth_mutex_unlock(&(mutex))
#define await(condition, mutex) myth_cond_wait(&(condition), &(mutex))
#define notify(condition) myth_cond_signal(&(condition))
#else
#include <abt.h>
typedef ABT_thread Thread;
typedef void Result;
#define RETURN return
static ABT_mutex locks[2], turns;
static ABT_cond changed;
static ABT_pool pool;
static void begin(void) {
    ABT_xstream self;
    ABT_init(0, NULL);
    ABT_xstream_self(&self);
    ABT_xstream_get_main_pools(self, 1, &pool);
    ABT_mutex_create(&locks[0]); ABT_mutex_create(&locks[1]); ABT_mutex_create(&turns);
    ABT_cond_create(&changed);
}
static Thread spawn(Result (*function)(void *), long number) {
    Thread thread;
    if (ABT_thread_create(pool, function, (void *)number, ABT_THREAD_ATTR_NULL, &thread) != ABT_SUCCESS) {
        fprintf(stderr, "no thread can be created\n");
        exit(1);
    }
    return thread;
}
static void join(Thread thread) { ABT_thread_free(&thread); }
static void yield(void) { ABT_thread_yield(); }
#define lock(mutex) ABT_mutex_lock(mutex)
#define unlock(mutex) ABT_mutex_unlock(mutex)
#define await(condition, mutex) ABT_cond_wait(condition, mutex)
#define notify(condition) ABT_cond_signal(condition)
#endif

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static volatile uint64_t words[2][16];
static Thread *threads;

static Result edit(void *argument) {
    long number = (long)argument;
    lock(locks[number % 2]);
    for (int word = 0; word < 16; word++) words[number % 2][word] += number;
    unlock(locks[number % 2]);
    if (number % 16 == 15) join(threads[number - 1]);
    RETURN;
}

// Microseconds.
static double once(long count) {
    memset((void *)words, 0, sizeof words);
    double began = now();
    for (long number = 0; number < count; number++) threads[number] = spawn(edit, number);
    for (long number = 0; number < count; number++)
        if (number % 16 != 14 || number + 1 == count) join(threads[number]);
    double took = now() - began;
    for (int which = 0; which < 2; which++) {
        uint64_t sum = 0;
        for (long number = which; number < count; number += 2) sum += number;
        for (int word = 0; word < 16; word++)
            if (words[which][word] != sum) { fprintf(stderr, "wrong sums\n"); exit(1); }
    }
    return took / 1e3;
}

static long times;
static volatile long turn;

static Result nothing(void *argument) { (void)argument; RETURN; }
static Result yields(void *argument) { (void)argument; for (long i = 0; i < times; i++) yield(); RETURN; }
static Result take_turns(void *me) {
    lock(turns);
    for (long i = 0; i < times; i++) {
        while (turn != (long)me) await(changed, turns);
        turn = 1 - (long)me;
        notify(changed);
    }
    unlock(turns);
    RETURN;
}
static void two(Result (*function)(void *)) {
    Thread one = spawn(function, 0), other = spawn(function, 1);
    join(one);
    join(other);
}
static void create_join(void) { for (long i = 0; i < times; i++) join(spawn(nothing, 0)); }
static void create_many(void) {
    for (long i = 0; i < (times + 999) / 1000; i++) {
        for (int k = 0; k < 1000; k++) threads[k] = spawn(nothing, 0);
        for (int k = 0; k < 1000; k++) join(threads[k]);
    }
}
static void two_yield(void) { two(yields); }
static void locked(void) {
    for (long i = 0; i < 10 * times; i++) {
        lock(locks[1]);
        words[1][0] += 1;
        unlock(locks[1]);
    }
}
static void hand_off(void) { two(take_turns); }

static int ascending(const void *one, const void *other) {
    double a = *(double *)one, b = *(double *)other;
    return (a > b) - (a < b);
}
static void sample(const char *name, long count, void (*run)(void)) {
    double samples[7];
    for (int i = 0; i < 7; i++) {
        double began = now();
        run();
        samples[i] = (now() - began) / count;
    }
    qsort(samples, 7, sizeof *samples, ascending);
    printf("%s %.3f\n", name, samples[3]);
}

static double bytes(const char *path, const char *key) {
    FILE *file = fopen(path, "r");
    char line[256];
    double value = 0;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key))) value = atof(line + strlen(key)) * 1024;
    if (file) fclose(file);
    return value;
}

static volatile long started;
static Result blocks(void *argument) {
    (void)argument;
    started++;
    lock(locks[0]);
    unlock(locks[0]);
    RETURN;
}
static void blocked(long count) {
    const char *own = "/proc/self/status";
    lock(locks[0]);
    double resident = bytes(own, "VmRSS:"), space = bytes(own, "VmSize:"), free = bytes("/proc/meminfo", "MemFree:");
    double began = now();
    for (long number = 0; number < count; number++) threads[number] = spawn(blocks, 0);
    while (started < count) yield();
    double took = now() - began;
    printf("resident %.3f\n", (bytes(own, "VmRSS:") - resident) / count);
    printf("virtual %.3f\n", (bytes(own, "VmSize:") - space) / count);
    printf("machine %.3f\n", (free - bytes("/proc/meminfo", "MemFree:")) / count);
    printf("started %.3f\n", took / 1e6);
    unlock(locks[0]);
    for (long number = 0; number < count; number++) join(threads[number]);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    double start = now();
    begin();
    long number = times = atol(arguments[2]);
    threads = calloc(number < 1000 ? 1000 : number, sizeof *threads);
    if (!strcmp(arguments[1], "study")) {
        once(number);
        printf("cold %.3f\n", (now() - start) / 1e3);
        for (int again = atoi(arguments[3]); again > 0; again--) printf("warm %.3f\n", once(number));
    } else if (!strcmp(arguments[1], "operations")) {
        sample("create-join", times, create_join);
        sample("create-many", (times + 999) / 1000 * 1000, create_many);
        sample("yield", 2 * times, two_yield);
        sample("lock-unlock", 10 * times, locked);
        sample("condvar", 2 * times, hand_off);
    } else blocked(number);
    fflush(stdout);
    _Exit(0);
}
