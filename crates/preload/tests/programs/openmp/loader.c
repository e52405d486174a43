// Loads libraries that use OpenMP, in a program with or without OpenMP. Arguments: how, libraries.
//   before  loads each and calls its `work`
//   within  the same in a parallel region of this program, by all of its threads
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

typedef long work(void);

static work *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    work *found = library ? (work *)dlsym(library, "work") : NULL;
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    return found;
}

int main(int count, char **arguments) {
    if (!strcmp(arguments[1], "before")) {
        for (int time = 0; time < 3; time++)
            for (int i = 2; i < count; i++) printf("%s %ld\n", strrchr(arguments[i], '/'), load(arguments[i])());
        return 0;
    }
#ifdef _OPENMP
    for (int time = 0; time < 3; time++) {
        for (int i = 2; i < count; i++) {
            work *late = NULL;
            long total = 0;
#pragma omp parallel num_threads(3) reduction(+ : total)
            {
                // All threads have waited in this team before.
                for (int round = 0; round < 50; round++) {
#pragma omp barrier
                }
#pragma omp single
                late = load(arguments[i]);
                for (int round = 0; round < 5; round++) total += late();
#pragma omp barrier
            }
            printf("%s %ld\n", strrchr(arguments[i], '/'), total);
        }
    }
#endif
    return 0;
}
