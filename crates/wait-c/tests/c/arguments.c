/* Invalid arguments are errors, and have no other effect. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

#define INVALID(call) CHECK((call) == EINVAL)

static void *no_pointer(void) { return NULL; }

int main(void) {
    const struct timespec invalid[] = {{1, -1}, {1, 1000000000}};
    struct rowlock_barrier *barrier = (struct rowlock_barrier *)&invalid;
    struct rowlock_mutex *mutex;
    struct rowlock_condvar *condvar;
    struct rowlock_rwlock *rwlock;
    struct rowlock_semaphore *semaphore;
    struct rowlock_event *event;
    struct rowlock_latch *latch;
    struct rowlock_statistics statistics;
    uint64_t arrival = 77;
    uint32_t word = 0, value = 0;
    bool leads;

    /* A failed creation stores NULL. */
    INVALID(rowlock_barrier_create(&barrier, 0, NULL));
    CHECK(barrier == NULL && strstr(rowlock_message(), "not 0") != NULL);
    INVALID(rowlock_barrier_create(&barrier, ROWLOCK_BARRIER_MAX_PARTIES + 1u, NULL));
    INVALID(rowlock_barrier_create(&barrier, 1, "always-blok"));
    CHECK(strstr(rowlock_message(), "always-blok") != NULL);
    INVALID(rowlock_barrier_create(&barrier, 1, "44"));
    INVALID(rowlock_barrier_create(&barrier, 1, "\xff"));
    INVALID(rowlock_mutex_create(&mutex, "1"));
    INVALID(rowlock_condvar_create(&condvar, "us"));
    INVALID(rowlock_rwlock_create(&rwlock, "cs cs"));
    INVALID(rowlock_semaphore_create(&semaphore, 1, ""));
    INVALID(rowlock_event_create(&event, true, "?"));
    INVALID(rowlock_latch_create(&latch, 1, "-1 us"));
    CHECK(mutex == NULL && condvar == NULL && rwlock == NULL);
    CHECK(semaphore == NULL && event == NULL && latch == NULL);

    /* Output arguments that are NULL. */
    INVALID(rowlock_barrier_create(no_pointer(), 1, NULL));
    INVALID(rowlock_mutex_create(no_pointer(), NULL));
    INVALID(rowlock_condvar_create(no_pointer(), NULL));
    INVALID(rowlock_rwlock_create(no_pointer(), NULL));
    INVALID(rowlock_semaphore_create(no_pointer(), 1, NULL));
    INVALID(rowlock_event_create(no_pointer(), false, NULL));
    INVALID(rowlock_latch_create(no_pointer(), 1, NULL));

    /* Objects that are NULL. */
    INVALID(rowlock_barrier_wait(NULL, &leads));
    INVALID(rowlock_barrier_wait_until(NULL, &future, &leads, &arrival));
    INVALID(rowlock_barrier_wait_timeout(NULL, 1, &leads, &arrival));
    INVALID(rowlock_barrier_arrive(NULL, 1, &arrival));
    INVALID(rowlock_barrier_arrive_and_drop(NULL));
    INVALID(rowlock_barrier_complete(NULL, 0, &leads));
    INVALID(rowlock_barrier_trycomplete(NULL, 0));
    INVALID(rowlock_barrier_complete_until(NULL, 0, &future, &leads));
    INVALID(rowlock_barrier_complete_timeout(NULL, 0, 1, &leads));
    INVALID(rowlock_barrier_statistics(NULL, &statistics));
    INVALID(rowlock_mutex_lock(NULL));
    INVALID(rowlock_mutex_trylock(NULL));
    INVALID(rowlock_mutex_lock_until(NULL, &future));
    INVALID(rowlock_mutex_lock_timeout(NULL, 1));
    INVALID(rowlock_mutex_unlock(NULL));
    INVALID(rowlock_mutex_statistics(NULL, &statistics));
    INVALID(rowlock_condvar_signal(NULL));
    INVALID(rowlock_condvar_broadcast(NULL));
    INVALID(rowlock_condvar_statistics(NULL, &statistics));
    INVALID(rowlock_rwlock_rdlock(NULL));
    INVALID(rowlock_rwlock_tryrdlock(NULL));
    INVALID(rowlock_rwlock_rdlock_until(NULL, &future));
    INVALID(rowlock_rwlock_rdlock_timeout(NULL, 1));
    INVALID(rowlock_rwlock_rdunlock(NULL));
    INVALID(rowlock_rwlock_wrlock(NULL));
    INVALID(rowlock_rwlock_trywrlock(NULL));
    INVALID(rowlock_rwlock_wrlock_until(NULL, &future));
    INVALID(rowlock_rwlock_wrlock_timeout(NULL, 1));
    INVALID(rowlock_rwlock_wrunlock(NULL));
    INVALID(rowlock_rwlock_statistics(NULL, &statistics));
    INVALID(rowlock_semaphore_down(NULL, &value));
    INVALID(rowlock_semaphore_trydown(NULL, &value));
    INVALID(rowlock_semaphore_down_until(NULL, &future, &value));
    INVALID(rowlock_semaphore_down_timeout(NULL, 1, &value));
    INVALID(rowlock_semaphore_up(NULL, &value));
    INVALID(rowlock_semaphore_up_by(NULL, 2, &value));
    INVALID(rowlock_semaphore_value(NULL, &value));
    INVALID(rowlock_semaphore_statistics(NULL, &statistics));
    INVALID(rowlock_event_set(NULL));
    INVALID(rowlock_event_reset(NULL, &leads));
    INVALID(rowlock_event_wait(NULL));
    INVALID(rowlock_event_trywait(NULL));
    INVALID(rowlock_event_wait_until(NULL, &future));
    INVALID(rowlock_event_wait_timeout(NULL, 1));
    INVALID(rowlock_event_statistics(NULL, &statistics));
    INVALID(rowlock_latch_count_down(NULL, 1, &value));
    INVALID(rowlock_latch_wait(NULL));
    INVALID(rowlock_latch_arrive_and_wait(NULL));
    INVALID(rowlock_latch_trywait(NULL));
    INVALID(rowlock_latch_wait_until(NULL, &future));
    INVALID(rowlock_latch_wait_timeout(NULL, 1));
    INVALID(rowlock_latch_statistics(NULL, &statistics));
    INVALID(rowlock_word_wait(NULL, 0, &value));
    INVALID(rowlock_word_wait_until(NULL, 0, &future, &value));
    INVALID(rowlock_word_wait_timeout(NULL, 0, 1, &value));
    INVALID(rowlock_word_wake(NULL, true));
    CHECK(arrival == 77 && value == 0);
    rowlock_barrier_destroy(NULL);
    rowlock_mutex_destroy(NULL);
    rowlock_condvar_destroy(NULL);
    rowlock_rwlock_destroy(NULL);
    rowlock_semaphore_destroy(NULL);
    rowlock_event_destroy(NULL);
    rowlock_latch_destroy(NULL);

    /* Missing or invalid deadlines. */
    OK(rowlock_barrier_create(&barrier, 1, NULL));
    OK(rowlock_mutex_create(&mutex, NULL));
    OK(rowlock_condvar_create(&condvar, NULL));
    OK(rowlock_rwlock_create(&rwlock, NULL));
    OK(rowlock_semaphore_create(&semaphore, UINT32_MAX, NULL));
    OK(rowlock_event_create(&event, true, NULL));
    OK(rowlock_latch_create(&latch, 0, NULL));
    for (int i = 0; i < 3; i++) {
        const struct timespec *deadline = i < 2 ? &invalid[i] : NULL;
        INVALID(rowlock_barrier_wait_until(barrier, deadline, &leads, &arrival));
        INVALID(rowlock_barrier_complete_until(barrier, 0, deadline, &leads));
        INVALID(rowlock_mutex_lock_until(mutex, deadline));
        INVALID(rowlock_condvar_wait_until(condvar, mutex, deadline));
        INVALID(rowlock_rwlock_rdlock_until(rwlock, deadline));
        INVALID(rowlock_rwlock_wrlock_until(rwlock, deadline));
        INVALID(rowlock_semaphore_down_until(semaphore, deadline, &value));
        INVALID(rowlock_event_wait_until(event, deadline));
        INVALID(rowlock_latch_wait_until(latch, deadline));
        INVALID(rowlock_word_wait_until(&word, 1, deadline, &value));
    }
    OK(rowlock_barrier_statistics(barrier, &statistics));
    CHECK(statistics.waits == 0);

    /* A free lock cannot be released or passed to a condition variable. */
    CHECK(rowlock_mutex_unlock(mutex) == EPERM);
    CHECK(rowlock_condvar_wait(condvar, mutex) == EPERM);
    CHECK(rowlock_condvar_wait_until(condvar, mutex, &future) == EPERM);
    CHECK(rowlock_condvar_wait_timeout(condvar, mutex, 1) == EPERM);
    INVALID(rowlock_condvar_wait(condvar, NULL));
    INVALID(rowlock_condvar_wait(NULL, mutex));
    INVALID(rowlock_condvar_wait_until(condvar, NULL, &future));
    INVALID(rowlock_condvar_wait_timeout(condvar, NULL, 1));
    CHECK(rowlock_rwlock_rdunlock(rwlock) == EPERM && rowlock_rwlock_wrunlock(rwlock) == EPERM);
    OK(rowlock_rwlock_rdlock(rwlock));
    CHECK(rowlock_rwlock_wrunlock(rwlock) == EPERM);
    OK(rowlock_rwlock_rdunlock(rwlock));
    OK(rowlock_rwlock_wrlock(rwlock));
    CHECK(rowlock_rwlock_rdunlock(rwlock) == EPERM);
    OK(rowlock_rwlock_wrunlock(rwlock));

    /* Invalid numbers. */
    INVALID(rowlock_barrier_arrive(barrier, 0, &arrival));
    INVALID(rowlock_barrier_arrive(barrier, 2, &arrival));
    INVALID(rowlock_barrier_arrive(barrier, 1, NULL));
    INVALID(rowlock_barrier_complete(barrier, 0, &leads));
    INVALID(rowlock_barrier_trycomplete(barrier, UINT64_MAX));
    INVALID(rowlock_word_wait((uint32_t *)((char *)&word + 1), 1, &value));
    CHECK(rowlock_semaphore_up(semaphore, &value) == EOVERFLOW && value == 0);

    /* Required output arguments that are NULL. */
    INVALID(rowlock_barrier_statistics(barrier, NULL));
    INVALID(rowlock_mutex_statistics(mutex, NULL));
    INVALID(rowlock_condvar_statistics(condvar, NULL));
    INVALID(rowlock_rwlock_statistics(rwlock, NULL));
    INVALID(rowlock_semaphore_statistics(semaphore, NULL));
    INVALID(rowlock_semaphore_value(semaphore, NULL));
    INVALID(rowlock_event_statistics(event, NULL));
    INVALID(rowlock_latch_statistics(latch, NULL));

    /* Optional output arguments that are NULL. */
    OK(rowlock_barrier_wait(barrier, NULL));
    OK(rowlock_semaphore_down(semaphore, NULL));
    OK(rowlock_event_reset(event, NULL));
    OK(rowlock_latch_count_down(latch, 1, NULL));
    OK(rowlock_word_wait(&word, 1, NULL));

    rowlock_barrier_destroy(barrier);
    rowlock_mutex_destroy(mutex);
    rowlock_condvar_destroy(condvar);
    rowlock_rwlock_destroy(rwlock);
    rowlock_semaphore_destroy(semaphore);
    rowlock_event_destroy(event);
    rowlock_latch_destroy(latch);
    CHECK(strcmp(rowlock_strerror(0), "success") == 0);
    puts("done");
    return 0;
}
