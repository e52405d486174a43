/* Tests what the functions promise. Prints "done" if nothing was wrong. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <fenv.h>
#include <pthread.h>

static my_pthread_mutex_t lock = MY_PTHREAD_MUTEX_INITIALIZER;
static my_pthread_cond_t changed = MY_PTHREAD_COND_INITIALIZER;
static my_pthread_t mine;
static int turns, step;

static void *returns(void *argument)
{
    return argument;
}

static int leaves_at_depth(int depth, void *value)
{
    volatile char room[100];
    room[0] = (char)depth;
    if (depth < 0)
        return 0;
    if (depth == 0)
        my_pthread_exit(value);
    return leaves_at_depth(depth - 1, value) + room[0];
}

static void *leaves(void *argument)
{
    my_pthread_yield();
    CHECK(leaves_at_depth(20, argument) && !"it has left");
    return NULL;
}

static void *counts(void *argument)
{
    for (int i = 0; i < 100; i++) {
        CHECK(my_pthread_mutex_lock(&lock) == 0);
        int before = turns;
        my_pthread_yield();
        turns = before + 1;
        CHECK(my_pthread_mutex_unlock(&lock) == 0);
    }
    return argument;
}

static void *waits(void *argument)
{
    CHECK(my_pthread_mutex_lock(&lock) == 0);
    while (step == 0)
        CHECK(my_pthread_cond_wait(&changed, &lock) == 0);
    CHECK(my_pthread_mutex_trylock(&lock) == EBUSY);
    CHECK(my_pthread_mutex_unlock(&lock) == 0);
    return argument;
}

static void *has_no_lock(void *argument)
{
    CHECK(my_pthread_mutex_unlock(&lock) == EPERM);
    CHECK(my_pthread_cond_wait(&changed, &lock) == EPERM);
    return argument;
}

static void *rounds(void *argument)
{
    CHECK(fegetround() == FE_UPWARD);
    int mode = argument == NULL ? FE_DOWNWARD : FE_TOWARDZERO;
    for (int i = 0; i < 10; i++) {
        CHECK(fesetround(mode) == 0);
        my_pthread_yield();
        CHECK(fegetround() == mode);
    }
    return argument;
}

static void *knows_itself(void *argument)
{
    mine = my_pthread_self();
    CHECK(my_pthread_join(mine, NULL) == EDEADLK);
    CHECK(my_pthread_detach(mine) == 0);
    CHECK(my_pthread_detach(mine) == EINVAL);
    return argument;
}

static void *elsewhere(void *argument)
{
    my_pthread_t thread;
    CHECK(my_pthread_create(&thread, NULL, returns, NULL) == EPERM);
    CHECK(my_pthread_yield() == EPERM && my_pthread_self() == 0);
    CHECK(my_pthread_mutex_lock(&lock) == EPERM);
    return argument;
}

int main(void)
{
    my_pthread_t thread, threads[50];
    void *value = NULL;
    int number = 7;

    CHECK(my_pthread_configure(0, 100) == EINVAL && my_pthread_configure(10, 0) == EINVAL);
    CHECK(my_pthread_configure(2000, 100) == EINVAL);
    /* Half an hour: on any machine no thread uses up its running time. */
    CHECK(my_pthread_configure(50, 1800000000) == 0);

    /* Results, and threads that are gone. */
    CHECK(my_pthread_create(&thread, NULL, returns, &number) == 0);
    CHECK(my_pthread_configure(10, 100) == EBUSY);
    CHECK(!my_pthread_equal(thread, my_pthread_self()) && thread != 0);
    CHECK(my_pthread_join(thread, &value) == 0 && value == &number);
    CHECK(my_pthread_join(thread, &value) == ESRCH && my_pthread_detach(thread) == ESRCH);
    CHECK(my_pthread_join(my_pthread_self(), NULL) == EDEADLK);
    CHECK(my_pthread_create(NULL, NULL, returns, NULL) == EINVAL);
    CHECK(my_pthread_create(&thread, NULL, NULL, NULL) == EINVAL);

    /* Leaving from deep calls, with the callers' registers restored. */
    for (int i = 0; i < 50; i++)
        CHECK(my_pthread_create(&threads[i], NULL, leaves, &threads[i]) == 0);
    for (int i = 0; i < 50; i++)
        CHECK(my_pthread_join(threads[i], &value) == 0 && value == &threads[i]);

    /* Attributes. */
    my_pthread_attr_t attr = { 1 << 20, "large", 0 };
    CHECK(my_pthread_create(&thread, &attr, leaves, &number) == 0);
    CHECK(my_pthread_join(thread, &value) == 0 && value == &number);
    attr.stack_size = (size_t)1 << 40;
    CHECK(my_pthread_create(&thread, &attr, returns, NULL) == 0);
    CHECK(my_pthread_join(thread, NULL) == EAGAIN);
    attr.stack_size = 0, attr.detached = 1;
    CHECK(my_pthread_create(&thread, &attr, returns, NULL) == 0);
    CHECK(my_pthread_join(thread, NULL) == EINVAL);
    my_pthread_yield();
    CHECK(my_pthread_create(&thread, NULL, knows_itself, NULL) == 0);
    my_pthread_yield();
    /* It has detached itself, and ended. */
    CHECK(my_pthread_equal(mine, thread) && my_pthread_join(thread, NULL) == EINVAL);

    /* Mutexes. */
    for (int i = 0; i < 10; i++)
        CHECK(my_pthread_create(&threads[i], NULL, counts, NULL) == 0);
    for (int i = 0; i < 10; i++)
        CHECK(my_pthread_join(threads[i], NULL) == 0);
    CHECK(turns == 1000);
    CHECK(my_pthread_mutex_lock(&lock) == 0 && my_pthread_mutex_lock(&lock) == EDEADLK);
    CHECK(my_pthread_mutex_destroy(&lock) == EBUSY);
    CHECK(my_pthread_create(&thread, NULL, has_no_lock, NULL) == 0);
    CHECK(my_pthread_join(thread, NULL) == 0);
    CHECK(my_pthread_mutex_unlock(&lock) == 0 && my_pthread_mutex_unlock(&lock) == EPERM);
    CHECK(my_pthread_mutex_destroy(&lock) == 0 && my_pthread_mutex_lock(&lock) == EINVAL);
    CHECK(my_pthread_mutex_init(&lock, NULL) == 0 && my_pthread_mutex_lock(NULL) == EINVAL);

    /* Condition variables. */
    for (int i = 0; i < 10; i++)
        CHECK(my_pthread_create(&threads[i], NULL, waits, NULL) == 0);
    my_pthread_yield();
    CHECK(my_pthread_mutex_lock(&lock) == 0);
    struct timespec past = { 1, 0 }, none = { 1, 2000000000 };
    CHECK(my_pthread_cond_timedwait(&changed, &lock, &none) == EINVAL);
    CHECK(my_pthread_cond_timedwait(&changed, &lock, &past) == ETIMEDOUT);
    step = 1;
    CHECK(my_pthread_cond_signal(&changed) == 0 && my_pthread_cond_broadcast(&changed) == 0);
    CHECK(my_pthread_mutex_unlock(&lock) == 0);
    for (int i = 0; i < 10; i++)
        CHECK(my_pthread_join(threads[i], NULL) == 0);
    CHECK(my_pthread_cond_destroy(&changed) == 0 && my_pthread_cond_signal(&changed) == EINVAL);

    /* Each thread has its own rounding mode. */
    CHECK(fesetround(FE_UPWARD) == 0);
    for (int i = 0; i < 5; i++)
        CHECK(my_pthread_create(&threads[i], NULL, rounds, i % 2 == 0 ? NULL : &threads[i]) == 0);
    for (int i = 0; i < 5; i++)
        CHECK(my_pthread_join(threads[i], NULL) == 0 && fegetround() == FE_UPWARD);

    /* Other kernel threads are refused. */
    pthread_t other;
    CHECK(pthread_create(&other, NULL, elsewhere, NULL) == 0 && pthread_join(other, NULL) == 0);

    printf("done\n");
    return 0;
}
