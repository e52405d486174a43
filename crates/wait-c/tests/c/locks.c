/* Mutexes, condition variables and reader-writer locks. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

enum { THREADS = 4, TURNS = 300 };

static struct rowlock_mutex *mutex;
static struct rowlock_condvar *condvar;
static struct rowlock_rwlock *rwlock;
static int turns, waiting, together[2];

static void *take_turns(void *number) {
    for (int i = 0; i < TURNS; i++) {
        if ((i + (long)number) % 3 == 0) {
            OK(rowlock_mutex_lock(mutex));
        } else if (i % 2 == 0) {
            OK(rowlock_mutex_lock_until(mutex, &future));
        } else {
            while (rowlock_mutex_lock_timeout(mutex, 1000) != 0) {
            }
        }
        turns++;
        OK(rowlock_mutex_unlock(mutex));
    }
    return NULL;
}

/* The threads take their turns in the order of their numbers. */
static void *take_turns_in_order(void *number) {
    for (int i = 0; i < TURNS; i++) {
        OK(rowlock_mutex_lock(mutex));
        while (turns % THREADS != (long)number) {
            if (i % 2 == 0) {
                OK(rowlock_condvar_wait(condvar, mutex));
            } else {
                OK(rowlock_condvar_wait_until(condvar, mutex, &future));
            }
        }
        turns++;
        OK(rowlock_condvar_broadcast(condvar));
        OK(rowlock_mutex_unlock(mutex));
    }
    return NULL;
}

static void *wait_once(void *unused) {
    OK(rowlock_mutex_lock(mutex));
    waiting++;
    while (turns == 0) {
        int status = rowlock_condvar_wait_timeout(condvar, mutex, 1000000000);
        CHECK(status == 0 || status == ETIMEDOUT);
    }
    turns--;
    OK(rowlock_mutex_unlock(mutex));
    return unused;
}

/* Readers see both changes of a writer or none. */
static void *read_and_write(void *number) {
    for (int i = 0; i < TURNS; i++) {
        if ((i + (long)number) % 4 == 0) {
            OK(i % 2 == 0 ? rowlock_rwlock_wrlock(rwlock) : rowlock_rwlock_wrlock_until(rwlock, &future));
            together[0]++;
            together[1]++;
            OK(rowlock_rwlock_wrunlock(rwlock));
        } else {
            OK(i % 2 == 0 ? rowlock_rwlock_rdlock(rwlock) : rowlock_rwlock_rdlock_until(rwlock, &future));
            CHECK(together[0] == together[1]);
            OK(rowlock_rwlock_rdunlock(rwlock));
        }
    }
    return NULL;
}

int main(void) {
    static const char *const rules[] = {NULL, "always-block", "cs"};
    struct rowlock_statistics statistics;
    struct timespec moment = {0, 1000000};

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        OK(rowlock_mutex_create(&mutex, rules[i]));
        OK(rowlock_condvar_create(&condvar, rules[i]));
        OK(rowlock_rwlock_create(&rwlock, rules[i]));

        turns = 0;
        run(THREADS, take_turns);
        CHECK(turns == THREADS * TURNS);
        turns = 0;
        run(THREADS, take_turns_in_order);
        CHECK(turns == THREADS * TURNS);
        together[0] = together[1] = 0;
        run(THREADS, read_and_write);
        CHECK(together[0] == THREADS * TURNS / 4);

        /* One signal for each thread. */
        pthread_t threads[THREADS];
        turns = waiting = 0;
        for (int n = 0; n < THREADS; n++) {
            OK(pthread_create(&threads[n], NULL, wait_once, NULL));
        }
        for (int n = 0; n < THREADS; n++) {
            OK(rowlock_mutex_lock(mutex));
            turns++;
            OK(rowlock_condvar_signal(condvar));
            OK(rowlock_mutex_unlock(mutex));
        }
        for (int n = 0; n < THREADS; n++) {
            OK(pthread_join(threads[n], NULL));
        }
        CHECK(waiting == THREADS && turns == 0);

        rowlock_mutex_destroy(mutex);
        rowlock_condvar_destroy(condvar);
        rowlock_rwlock_destroy(rwlock);
    }

    /* Waits time out. The mutex is held again in any case. */
    OK(rowlock_mutex_create(&mutex, "always-block"));
    OK(rowlock_condvar_create(&condvar, NULL));
    OK(rowlock_mutex_trylock(mutex));
    CHECK(rowlock_mutex_trylock(mutex) == EBUSY);
    CHECK(rowlock_mutex_lock_until(mutex, &past) == ETIMEDOUT);
    CHECK(rowlock_mutex_lock_timeout(mutex, 1000) == ETIMEDOUT);
    CHECK(rowlock_condvar_wait_until(condvar, mutex, &past) == ETIMEDOUT);
    CHECK(rowlock_condvar_wait_until(condvar, mutex, &moment) == ETIMEDOUT);
    CHECK(rowlock_condvar_wait_timeout(condvar, mutex, 1000) == ETIMEDOUT);
    OK(rowlock_mutex_unlock(mutex));
    CHECK(rowlock_mutex_unlock(mutex) == EPERM);
    OK(rowlock_mutex_statistics(mutex, &statistics));
    CHECK(statistics.waits == 2);
    OK(rowlock_condvar_statistics(condvar, &statistics));
    CHECK(statistics.waits == 3);
    rowlock_mutex_destroy(mutex);
    rowlock_condvar_destroy(condvar);

    OK(rowlock_rwlock_create(&rwlock, NULL));
    OK(rowlock_rwlock_rdlock(rwlock));
    OK(rowlock_rwlock_tryrdlock(rwlock));
    OK(rowlock_rwlock_rdlock_timeout(rwlock, 1000));
    CHECK(rowlock_rwlock_trywrlock(rwlock) == EBUSY);
    CHECK(rowlock_rwlock_wrlock_until(rwlock, &past) == ETIMEDOUT);
    CHECK(rowlock_rwlock_wrlock_timeout(rwlock, 1000) == ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        OK(rowlock_rwlock_rdunlock(rwlock));
    }
    OK(rowlock_rwlock_trywrlock(rwlock));
    CHECK(rowlock_rwlock_tryrdlock(rwlock) == EBUSY);
    CHECK(rowlock_rwlock_rdlock_until(rwlock, &past) == ETIMEDOUT);
    CHECK(rowlock_rwlock_rdlock_timeout(rwlock, 1000) == ETIMEDOUT);
    OK(rowlock_rwlock_wrunlock(rwlock));
    OK(rowlock_rwlock_statistics(rwlock, &statistics));
    CHECK(statistics.waits == 4);
    rowlock_rwlock_destroy(rwlock);
    puts("done");
    return 0;
}
