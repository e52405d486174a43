/* Loads a library with threads and locks, normally and so that it prefers its own symbols. In the
 * latter case it calls the C library, while the program calls the first symbol found. */
#include "check.h"
#include <dlfcn.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long value, times;
static void (*set_and_signal)(pthread_mutex_t *, pthread_cond_t *, long *, long);
static void (*await)(pthread_mutex_t *, pthread_cond_t *, long *, long);

static void await_here(long what) {
    OK(pthread_mutex_lock(&mutex));
    while (value != what) OK(pthread_cond_wait(&condition, &mutex));
    OK(pthread_mutex_unlock(&mutex));
}

static void set_here(long to) {
    OK(pthread_mutex_lock(&mutex));
    value = to;
    OK(pthread_cond_broadcast(&condition));
    OK(pthread_mutex_unlock(&mutex));
}

/* Waits in the program, signals in the library. */
static void *one(void *unused) {
    for (long i = 0; i < times; i++) {
        await_here(2 * i);
        set_and_signal(&mutex, &condition, &value, 2 * i + 1);
    }
    return unused;
}

static void *other(void *waits_there) {
    for (long i = 0; i < times; i++) {
        if (waits_there) {
            await(&mutex, &condition, &value, 2 * i + 1);
            set_here(2 * i + 2);
        } else {
            await_here(2 * i + 1);
            set_and_signal(&mutex, &condition, &value, 2 * i + 2);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    static const int ways[] = {RTLD_NOW, RTLD_LAZY | RTLD_GLOBAL, RTLD_NOW | RTLD_DEEPBIND};
    for (int way = 0; way < 3; way++) {
        void *library = dlopen(argv[1], ways[way]);
        if (!library) fprintf(stderr, "%s\n", dlerror());
        CHECK(library);
        *(void **)&set_and_signal = dlsym(library, "set_and_signal");
        *(void **)&await = dlsym(library, "await");
        long (*count)(void);
        *(void **)&count = dlsym(library, "count");
        CHECK(set_and_signal && await && count);
        printf("way %d: counted %ld", way, count());
        times = rounds(500);
        for (long waits_there = 0; waits_there < 2; waits_there++) {
            value = 0;
            pthread_t threads[2];
            OK(pthread_create(&threads[0], NULL, one, NULL));
            OK(pthread_create(&threads[1], NULL, other, (void *)waits_there));
            for (int i = 0; i < 2; i++) OK(pthread_join(threads[i], NULL));
            printf(", reached %ld", value);
        }
        printf("\n");
        OK(dlclose(library));
    }
    return 0;
}
