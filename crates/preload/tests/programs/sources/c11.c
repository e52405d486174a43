/* The threads of C11. */
#include "check.h"
#include <threads.h>

static mtx_t mutex, recursive, timed;
static cnd_t condition;
static once_flag flag = ONCE_FLAG_INIT;
static tss_t key;
static long turn, ended, begun;

static void begin(void) {
    begun++;
}

static void end(void *unused) {
    (void)unused;
    CHECK(mtx_lock(&mutex) == thrd_success);
    ended++;
    CHECK(mtx_unlock(&mutex) == thrd_success);
}

static int work(void *argument) {
    long number = (long)argument;
    call_once(&flag, begin);
    CHECK(tss_set(key, &turn) == thrd_success);
    for (long i = rounds(3000); i > 0; i--) {
        CHECK(mtx_lock(&recursive) == thrd_success && mtx_lock(&recursive) == thrd_success);
        CHECK(mtx_unlock(&recursive) == thrd_success && mtx_unlock(&recursive) == thrd_success);
        CHECK(mtx_lock(&mutex) == thrd_success);
        while (turn % 3 != number) CHECK(cnd_wait(&condition, &mutex) == thrd_success);
        turn++;
        CHECK(cnd_broadcast(&condition) == thrd_success);
        CHECK(mtx_unlock(&mutex) == thrd_success);
    }
    struct timespec until = after_ms(CLOCK_REALTIME, 5);
    CHECK(mtx_timedlock(&timed, &until) == thrd_timedout);
    CHECK(mtx_lock(&mutex) == thrd_success);
    cnd_t lonely;
    CHECK(cnd_init(&lonely) == thrd_success);
    CHECK(cnd_timedwait(&lonely, &mutex, &until) == thrd_timedout);
    CHECK(mtx_unlock(&mutex) == thrd_success);
    cnd_destroy(&lonely);
    return (int)number;
}

int main(void) {
    CHECK(mtx_init(&mutex, mtx_plain) == thrd_success);
    CHECK(mtx_init(&recursive, mtx_plain | mtx_recursive) == thrd_success);
    CHECK(mtx_init(&timed, mtx_timed) == thrd_success);
    CHECK(cnd_init(&condition) == thrd_success);
    CHECK(tss_create(&key, end) == thrd_success);
    CHECK(mtx_lock(&timed) == thrd_success);
    thrd_t threads[3];
    for (long i = 0; i < 3; i++) CHECK(thrd_create(&threads[i], work, (void *)i) == thrd_success);
    for (int i = 0, result; i < 3; i++) CHECK(thrd_join(threads[i], &result) == thrd_success && result == i);
    printf("begun %ld, turns %ld, ended %ld\n", begun, turn, ended);
    return 0;
}
