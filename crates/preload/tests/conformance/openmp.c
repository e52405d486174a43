/* What OpenMP promises of the constructs at which the threads of a team meet. Tasks are elsewhere: a
 * program with tasks has none of our barriers. */
#include "lab.h"
#include <omp.h>
#include <sys/time.h>

enum { TEAM = 3 };

/* Each thread writes, meets, and reads what the others have written. */
static void meet_often(int threads, int rounds) {
    int written[8] = {0};
#pragma omp parallel num_threads(threads)
    for (int round = 1; round <= rounds; round++) {
        written[omp_get_thread_num()] = round;
        pause_up_to(20);
#pragma omp barrier
        CHECK(omp_get_num_threads() == threads);
        for (int other = 0; other < threads; other++) CHECK(written[other] == round);
#pragma omp barrier
    }
}
static void all_meet(void) {
    for (long round = rounds(10); round > 0; round--) meet_often(TEAM, 10);
}

/* Teams of other sizes use the same threads. */
static void teams_succeed_each_other(void) {
    for (long round = rounds(40); round > 0; round--) meet_often(1 + (int)round % 4, 2);
}

/* All iterations and sections have ended when a thread passes the end of their construct. */
static void loops_and_sections_end(void) {
    for (long round = rounds(10); round > 0; round--) {
        int loops = 0, sections = 0;
#pragma omp parallel num_threads(TEAM)
        for (int time = 1; time <= 4; time++) {
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 10; i++) {
                pause_up_to(5);
#pragma omp atomic
                loops++;
            }
            CHECK(loops == 10 * time);
#pragma omp sections
            {
#pragma omp section
#pragma omp atomic
                sections++;
#pragma omp section
#pragma omp atomic
                sections++;
            }
            CHECK(sections == 2 * time);
#pragma omp barrier
        }
    }
}

/* Each inner team meets without the others. */
static void teams_are_nested(void) {
    omp_set_max_active_levels(2);
    for (long round = rounds(10); round > 0; round--) {
        int sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
        {
            int turns = 2 + omp_get_thread_num();
            for (int turn = 0; turn < turns; turn++) meet_often(2, 2);
#pragma omp barrier
            sum += turns;
        }
        CHECK(sum == 5);
    }
}

static void *meet_as_root(void *number) {
    for (int time = 0; time < 10; time++) meet_often(2 + (int)((long)number + time) % 2, 4);
    return NULL;
}
/* Threads of the program begin teams of their own. */
static void roots_have_teams(void) {
    for (long round = rounds(3); round > 0; round--) run(2, meet_as_root);
}

/* Handlers run while a thread waits, and the wait goes on. */
static void interrupt(void) {
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (long round = rounds(10); round > 0; round--) meet_often(TEAM, 10);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

/* A child has no teams of its parent. It has one thread: libraries promise no more. */
static void fork_after_teams(void) {
    for (long round = rounds(5); round > 0; round--) {
        meet_often(TEAM, 2);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            meet_often(1, 2);
            /* LLVM's library removes its file from /dev/shm at an exit. */
            exit(0);
        }
        reap(child);
    }
}

/* Outside of all teams there is nothing to wait for. */
static void orphans_meet_nobody(void) {
    int sum = 0;
#pragma omp barrier
#pragma omp for schedule(dynamic)
    for (int i = 0; i < 10; i++) sum += i;
#pragma omp sections
    {
#pragma omp section
        sum++;
    }
    CHECK(sum == 46);
}

static const Case cases[] = {
    CASE(all_meet), CASE(teams_succeed_each_other), CASE(loops_and_sections_end), CASE(teams_are_nested),
    CASE(roots_have_teams), CASE(interrupt), CASE(fork_after_teams), CASE(orphans_meet_nobody),
};

int main(int count, char **arguments) {
    (void)count;
    omp_set_dynamic(0);
    return CHOOSE(cases, arguments);
}
