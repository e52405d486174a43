/* Loads a library whose constructor waits for threads. The loader holds a lock meanwhile, which
 * waiting threads must not need. */
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv) {
    CHECK(argc == 2);
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    puts("loaded");
    return 0;
}
