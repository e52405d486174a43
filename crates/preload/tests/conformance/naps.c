/* Preloaded beside the library under test: threads sleep at an instruction of it, as if they were
 * preempted there.
 *
 * The file that NAPS names has the offsets of steps in the library, in ascending order. At each of
 * them there is a breakpoint. If there is one step, threads sleep whenever they reach it: then the
 * instruction is restored, executed by itself, and replaced by the breakpoint again. Meanwhile
 * other threads may pass it without a sleep. If there are more steps, each is restored and marked
 * in the file when a thread first reaches it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { BREAKPOINT = 0xcc, SINGLE_STEP = 0x100, MOST_NAPS = 500 };
static const uint64_t REACHED = 1ull << 63;

static uint64_t *steps;
static size_t count;
/* The code of the library, and a copy without breakpoints. */
static unsigned char *code, *original;
/* The offset of the code in the library, and its size. */
static size_t before, size;
static int naps;

static void set(size_t step, unsigned char byte) {
    __atomic_store_n(&code[step - before], byte, __ATOMIC_SEQ_CST);
}

static int compare(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one & ~REACHED, b = *(const uint64_t *)other & ~REACHED;
    return (a > b) - (a < b);
}

static void nap(void) {
    struct timespec time = {0, 300000};
    /* Not a cancellation point. */
    syscall(SYS_nanosleep, &time, NULL);
}

static void trap(int number, siginfo_t *info, void *context) {
    int kept = errno;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    /* On virtual machines the other code is not always that of a single step. */
    if (info->si_code != SI_KERNEL) {
        registers[REG_EFL] &= ~SINGLE_STEP;
        if (__atomic_add_fetch(&naps, 1, __ATOMIC_RELAXED) < MOST_NAPS) set(*steps & ~REACHED, BREAKPOINT);
    } else {
        uint64_t step = registers[REG_RIP] - 1 - (uintptr_t)code + before, *known;
        known = bsearch(&step, steps, count, sizeof step, compare);
        if (!known) {
            /* It is not one of ours. */
            signal(number, SIG_DFL);
            raise(number);
            return;
        }
        registers[REG_RIP]--;
        if (count == 1) {
            nap();
            registers[REG_EFL] |= SINGLE_STEP;
        }
        set(step, original[step - before]);
        __atomic_fetch_or(known, REACHED, __ATOMIC_RELAXED);
    }
    errno = kept;
}

static int find_code(struct dl_phdr_info *info, size_t unused, void *unused_too) {
    (void)unused, (void)unused_too;
    if (!strstr(info->dlpi_name, "/librowlock_preload.so")) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
            before = part->p_vaddr & -4096;
            size = part->p_vaddr + part->p_memsz - before;
            code = (unsigned char *)info->dlpi_addr + before;
        }
    }
    return 1;
}

static void expect(int holds, const char *what) {
    if (holds) return;
    if (write(STDERR_FILENO, what, strlen(what)) < 0) abort();
    _exit(1);
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("NAPS");
    if (!path) return;
    dl_iterate_phdr(find_code, NULL);
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct stat status;
    expect(code && file >= 0 && fstat(file, &status) == 0, "naps: no library or no steps\n");
    count = status.st_size / sizeof *steps;
    steps = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    original = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(steps != MAP_FAILED && original != MAP_FAILED, "naps: no memory\n");
    close(file);
    memcpy(original, code, size);
    struct sigaction action = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    expect(sigaction(SIGTRAP, &action, NULL) == 0, "naps: no handler\n");
    expect(mprotect(code, size, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "naps: the code cannot be changed\n");
    for (size_t i = 0; i < count; i++) set(steps[i] & ~REACHED, BREAKPOINT);
}
