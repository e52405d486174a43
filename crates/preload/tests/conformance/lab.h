/* Common code of the cases. A case ends with its process, and prints what it observed. */
#include "../programs/sources/check.h"

enum { PAGE = 4096 };

typedef struct {
    const char *name;
    void (*run)(void);
} Case;

/* Runs the case that the argument names, or lists all. */
static inline int choose(const Case *cases, int count, char **arguments) {
    for (int i = 0; i < count; i++) {
        if (!arguments[1]) puts(cases[i].name);
        else if (strcmp(cases[i].name, arguments[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    return arguments[1] != NULL;
}
#define CASE(name) {#name, name}
#define CHOOSE(cases, arguments) choose(cases, sizeof cases / sizeof *cases, arguments)

/* Memory whose every use after `give_back` is a crash. */
static inline void *take_page(void) {
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}
static inline void give_back(void *page) {
    CHECK(mprotect(page, PAGE, PROT_NONE) == 0);
}

/* An object is overwritten when it is destroyed, so that any later use of its content shows. */
static inline int overwrite(int result, void *object, size_t size) {
    if (result == 0) memset(object, 0xa5, size);
    return result;
}
#define pthread_barrier_destroy(barrier) overwrite(pthread_barrier_destroy(barrier), barrier, sizeof(pthread_barrier_t))
#define pthread_cond_destroy(condition) overwrite(pthread_cond_destroy(condition), condition, sizeof(pthread_cond_t))
#define pthread_mutex_destroy(mutex) overwrite(pthread_mutex_destroy(mutex), mutex, sizeof(pthread_mutex_t))
#define sem_destroy(semaphore) overwrite(sem_destroy(semaphore), semaphore, sizeof(sem_t))

/* Up to this many microseconds, different from round to round. */
static inline void pause_up_to(int us) {
    static __thread unsigned state = 1;
    struct timespec now, until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += rand_r(&state) % (us * 1000 + 1);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - until.tv_sec) * 1000000000 + now.tv_nsec < until.tv_nsec);
}

static inline pthread_t begin(void *(*work)(void *), void *argument) {
    pthread_t thread;
    OK(pthread_create(&thread, NULL, work, argument));
    return thread;
}
static inline void *end(pthread_t thread) {
    void *result;
    OK(pthread_join(thread, &result));
    return result;
}
static inline void end_cancelled(pthread_t thread) {
    CHECK(end(thread) == PTHREAD_CANCELED);
}

/* The same case in a job of `rowlock prun`. Naps end there: their handler would be counted at a
 * step. */
static inline void in_a_job(const char *name) {
    CHECK(setenv("ROWLOCK_JOB", "1", 1) == 0 && unsetenv("NAPS") == 0);
    execl("/proc/self/exe", "case", name, NULL);
    CHECK(!"executed");
}
#define IN_A_JOB(name) static void name##_in_a_job(void) { in_a_job(#name); }
