/* What a program may rely on that forbids itself system calls (seccomp): the preloaded library makes
 * none that the program does not allow. */
#include "lab.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ON(call, action) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)
#define ALLOW(call) ON(call, SECCOMP_RET_ALLOW)
#define KILL SECCOMP_RET_KILL_PROCESS

/* What the preloaded library promises to need, and after the first line what the C library needs to
 * start and end threads, to allocate and to print, and the test to sleep in a signal handler. */
static struct sock_filter allowed[] = {
    LOAD_NUMBER,
    ALLOW(SYS_futex), ALLOW(SYS_sched_yield), ALLOW(SYS_nanosleep), ALLOW(SYS_clock_gettime),
    ALLOW(SYS_clone3), ALLOW(SYS_clone), ALLOW(SYS_rseq), ALLOW(SYS_set_robust_list), ALLOW(SYS_rt_sigprocmask),
    ALLOW(SYS_rt_sigaction), ALLOW(SYS_exit), ALLOW(SYS_exit_group),
    ALLOW(SYS_mmap), ALLOW(SYS_mprotect), ALLOW(SYS_munmap), ALLOW(SYS_madvise), ALLOW(SYS_brk), ALLOW(SYS_getrandom),
    ALLOW(SYS_write), ALLOW(SYS_fstat), ALLOW(SYS_newfstatat),
    ALLOW(SYS_rt_sigreturn),
    BPF_STMT(BPF_RET | BPF_K, KILL),
};
static struct sock_fprog allow_little = {sizeof allowed / sizeof *allowed, allowed};

static struct sock_filter all_but_policies[] = {
    LOAD_NUMBER,
    ON(SYS_sched_getattr, KILL), ON(SYS_sched_getscheduler, KILL), ON(SYS_sched_getparam, KILL),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog forbid_policies = {sizeof all_but_policies / sizeof *all_but_policies, all_but_policies};

static sem_t there, back;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static long turn, sum;

/* Longer than the preloaded library believes what it has read. */
enum { ROUNDS = 200 };

static void *wait_often(void *number) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(sem_wait(number ? &there : &back) == 0);
        CHECK(sem_post(number ? &back : &there) == 0);
    }
    OK(pthread_mutex_lock(&mutex));
    for (int i = 0; i < ROUNDS; i++) {
        while (turn != (long)number) OK(pthread_cond_wait(&condition, &mutex));
        turn = 1 - turn;
        OK(pthread_cond_signal(&condition));
    }
    OK(pthread_mutex_unlock(&mutex));
    for (int i = 0; i < ROUNDS; i++) {
        OK(pthread_mutex_lock(&mutex));
        sum++;
        OK(pthread_mutex_unlock(&mutex));
        sched_yield();
        int result = pthread_barrier_wait(&barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    }
    return NULL;
}
static void wait_without_a_filter(void) {
    CHECK(sem_init(&there, 0, 0) == 0 && sem_init(&back, 0, 1) == 0);
    OK(pthread_barrier_init(&barrier, NULL, 2));
    run(2, wait_often);
    OK(pthread_barrier_destroy(&barrier));
    printf("%ld\n", sum);
}

static void wait_behind_a_filter(void) {
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &allow_little) == 0);
    wait_without_a_filter();
}

/* As libseccomp does it. This thread has waited before. */
static void wait_on_behind_a_filter(void) {
    wait_without_a_filter();
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &allow_little) == 0);
    wait_without_a_filter();
}

/* The program begins with a filter that it inherits. */
static void begin_behind_a_filter(void) {
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &forbid_policies) == 0);
    execl("/proc/self/exe", "sandboxes", "wait_without_a_filter", NULL);
    CHECK(!"executed");
}

/* All five arguments, results and errors are those of the kernel. */
static void other_requests(void) {
    char name[16] = "renamed", seen[16];
    CHECK(prctl(PR_SET_NAME, name) == 0 && prctl(PR_GET_NAME, seen) == 0 && strcmp(name, seen) == 0);
    errno = ENOTTY;
    printf("%d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    CHECK(errno == ENOTTY);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 1) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_SECCOMP, -1, NULL) == -1 && errno == EINVAL);
    CHECK(prctl(-1, 0, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    printf("%d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

static const Case cases[] = {
    CASE(wait_without_a_filter), CASE(wait_behind_a_filter), CASE(wait_on_behind_a_filter),
    CASE(begin_behind_a_filter), CASE(other_requests),
};

int main(int count, char **arguments) {
    (void)count;
    return CHOOSE(cases, arguments);
}
