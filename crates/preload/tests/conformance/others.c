/* What POSIX and glibc promise of other calls: yields, and libraries that are loaded later. */
#include "lab.h"
#include <dlfcn.h>
#include <math.h>

static int turn;

/* On one CPU, so that a thread that does not yield keeps the others waiting. */
static void *take_turns(void *number) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    for (int round = 0; round < 20; round++) {
        while (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) != (long)number) {
            errno = ENOTTY;
            OK(sched_yield());
            CHECK(errno == ENOTTY);
        }
        __atomic_store_n(&turn, 1 - (long)number, __ATOMIC_SEQ_CST);
    }
    return NULL;
}
static void yield(void) {
    for (long round = rounds(3); round > 0; round--) run(2, take_turns);
}

static void *yield_until_cancelled(void *unused) {
    for (;;) {
        OK(sched_yield());
        pthread_testcancel();
    }
    return unused;
}
/* `sched_yield` is not a point of cancellation, but a thread may be cancelled beside it. */
static void cancel(void) {
    for (long round = rounds(20); round > 0; round--) {
        pthread_t thread = begin(yield_until_cancelled, NULL);
        pause_up_to(100);
        OK(pthread_cancel(thread));
        end_cancelled(thread);
    }
}

static void *call_sqrt(void *library) {
    CHECK(library);
    double (*function)(double) = dlsym(library, "sqrt");
    CHECK(function && function(9) == 3);
    return library;
}
static void *load_often(void *unused) {
    for (long round = rounds(5); round > 0; round--) OK(dlclose(call_sqrt(dlopen("libm.so.6", RTLD_NOW))));
    return unused;
}
static void load(void) {
    void *program = dlopen(NULL, RTLD_NOW);
    CHECK(program && dlsym(program, "malloc"));
    run(3, load_often);
}

static void errors(void) {
    CHECK(!dlopen("no-such-library.so", RTLD_NOW));
    printf("%s\n", dlerror());
    CHECK(!dlopen("libm.so.6", 0));
    printf("%s\n", dlerror());
    CHECK(!dlmopen(LM_ID_NEWLM, "no-such-library.so", RTLD_NOW));
    printf("%s\n", dlerror());
    CHECK(!dlopen("no-such-library.so", RTLD_NOW | RTLD_NOLOAD));
}

static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int waiting;

static void *wait_and_meet(void *unused) {
    OK(pthread_mutex_lock(&mutex));
    waiting++;
    while (waiting) OK(pthread_cond_wait(&condition, &mutex));
    OK(pthread_mutex_unlock(&mutex));
    int result = pthread_barrier_wait(&barrier);
    CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    return unused;
}
static void signal_and_meet(void) {
    OK(pthread_barrier_init(&barrier, NULL, 3));
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) threads[i] = begin(wait_and_meet, NULL);
    for (;;) {
        OK(pthread_mutex_lock(&mutex));
        if (waiting == 2) break;
        OK(pthread_mutex_unlock(&mutex));
        sched_yield();
    }
    waiting = 0;
    OK(pthread_cond_broadcast(&condition));
    OK(pthread_mutex_unlock(&mutex));
    int result = pthread_barrier_wait(&barrier);
    CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    for (int i = 0; i < 2; i++) end(threads[i]);
    OK(pthread_barrier_destroy(&barrier));
}

/* Objects work before and after libraries that do not see the preloaded one. */
static void bind_deeply(void) {
    for (int i = 0; i < 3; i++) signal_and_meet();
    OK(dlclose(call_sqrt(dlopen("libm.so.6", RTLD_NOW | RTLD_DEEPBIND))));
    for (int i = 0; i < 3; i++) signal_and_meet();
}
static void load_into_a_namespace(void) {
    call_sqrt(dlmopen(LM_ID_BASE, "libm.so.6", RTLD_NOW));
    for (int i = 0; i < 3; i++) signal_and_meet();
    call_sqrt(dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW));
    for (int i = 0; i < 3; i++) signal_and_meet();
}

static const Case cases[] = {
    CASE(yield), CASE(cancel), CASE(load), CASE(errors), CASE(bind_deeply), CASE(load_into_a_namespace),
};

int main(int count, char **arguments) {
    (void)count;
    return CHOOSE(cases, arguments);
}
