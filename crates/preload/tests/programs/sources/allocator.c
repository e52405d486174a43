/* Threads that allocate, and free memory of other threads: the locks of an allocator. */
#include "check.h"

enum { THREADS = 4, SLOTS = 512 };

static void *slots[SLOTS];
static unsigned long sums[THREADS];

static void *work(void *argument) {
    long number = (long)argument;
    unsigned long random = 88172645463325252ul + (unsigned long)number;
    for (long i = rounds(60000); i > 0; i--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t size = 16 + random % (random % 64 == 0 ? 100000 : 600);
        unsigned char *mine = malloc(size);
        CHECK(mine);
        memset(mine, (int)size & 0xff, size < 64 ? size : 64);
        sums[number] += mine[15];
        free(__atomic_exchange_n(&slots[random / 64 % SLOTS], mine, __ATOMIC_ACQ_REL));
        if (i % 1000 == 0) free(realloc(calloc(10, 1000), 20000));
    }
    return NULL;
}

int main(void) {
    for (int generation = 0; generation < 3; generation++) run(THREADS, work);
    for (int i = 0; i < SLOTS; i++) free(slots[i]);
    for (int i = 0; i < THREADS; i++) printf("%lu\n", sums[i]);
    return 0;
}
