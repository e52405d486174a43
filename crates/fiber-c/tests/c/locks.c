/* The error numbers of mutexes and reader-writer locks, and what happens when threads end with them. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

static my_pthread_mutex_t lock = MY_PTHREAD_MUTEX_INITIALIZER;
static my_pthread_mutex_t again = MY_PTHREAD_RECURSIVE_MUTEX_INITIALIZER;
static my_pthread_cond_t changed = MY_PTHREAD_COND_INITIALIZER;
static my_pthread_rwlock_t both = MY_PTHREAD_RWLOCK_INITIALIZER;
static struct timespec past = { 1, 0 }, invalid = { 1, 1000000000 };
static int ready;

static void *keeps(void *argument)
{
    CHECK(my_pthread_mutex_lock(&lock) == 0);
    return argument;
}

static void *finds(void *argument)
{
    CHECK(my_pthread_mutex_lock(&lock) == EDEADLK && my_pthread_mutex_trylock(&lock) == EBUSY);
    CHECK(my_pthread_mutex_timedlock(&lock, &past) == EDEADLK && my_pthread_mutex_unlock(&lock) == EPERM);
    return argument;
}

static void *is_too_late(void *argument)
{
    CHECK(my_pthread_mutex_timedlock(&again, &past) == ETIMEDOUT);
    CHECK(my_pthread_mutex_timedlock(&again, &invalid) == EINVAL && my_pthread_mutex_timedlock(&again, NULL) == EINVAL);
    CHECK(my_pthread_mutex_trylock(&again) == EBUSY && my_pthread_mutex_unlock(&again) == EPERM);
    CHECK(my_pthread_rwlock_timedrdlock(&both, &past) == ETIMEDOUT);
    CHECK(my_pthread_rwlock_timedwrlock(&both, &past) == ETIMEDOUT);
    CHECK(my_pthread_rwlock_timedwrlock(&both, &invalid) == EINVAL);
    CHECK(my_pthread_rwlock_tryrdlock(&both) == EBUSY && my_pthread_rwlock_trywrlock(&both) == EBUSY);
    CHECK(my_pthread_rwlock_unlock(&both) == EPERM);
    return argument;
}

static void *signals(void *argument)
{
    CHECK(my_pthread_mutex_lock(&again) == 0);
    ready = 1;
    CHECK(my_pthread_cond_signal(&changed) == 0 && my_pthread_mutex_unlock(&again) == 0);
    return argument;
}

static void *writes(void *argument)
{
    CHECK(my_pthread_rwlock_wrlock(&both) == 0 && ready == 2);
    CHECK(my_pthread_rwlock_unlock(&both) == 0);
    return argument;
}

static void run(void *(*function)(void *))
{
    my_pthread_t thread;
    CHECK(my_pthread_create(&thread, NULL, function, NULL) == 0 && my_pthread_join(thread, NULL) == 0);
}

int main(void)
{
    my_pthread_t thread;
    my_pthread_mutexattr_t attr;
    my_pthread_mutex_t copy;
    int type;

    /* A mutex whose owner has ended: its successor may have the same place in the library. */
    run(keeps);
    run(finds);
    CHECK(my_pthread_mutex_destroy(&lock) == EBUSY);

    /* Types and deadlines. */
    CHECK(my_pthread_mutexattr_init(&attr) == 0 && my_pthread_mutexattr_settype(&attr, 3) == EINVAL);
    CHECK(my_pthread_mutexattr_settype(&attr, MY_PTHREAD_MUTEX_ERRORCHECK) == 0);
    CHECK(my_pthread_mutexattr_gettype(&attr, &type) == 0 && type == MY_PTHREAD_MUTEX_ERRORCHECK);
    CHECK(my_pthread_mutex_init(&lock, &attr) == 0 && my_pthread_mutexattr_destroy(&attr) == 0);
    CHECK(my_pthread_mutex_init(&copy, &attr) == EINVAL && my_pthread_mutexattr_init(NULL) == EINVAL);
    CHECK(my_pthread_mutex_timedlock(&lock, &invalid) == 0 && my_pthread_mutex_timedlock(&lock, &past) == EDEADLK);
    CHECK(my_pthread_mutex_trylock(&lock) == EBUSY && my_pthread_mutex_timedlock(&lock, &invalid) == EINVAL);
    copy = lock;
    CHECK(my_pthread_mutex_unlock(&copy) == EINVAL && my_pthread_cond_signal((void *)&lock) == EINVAL);
    CHECK(my_pthread_mutex_unlock(&lock) == 0 && my_pthread_mutex_destroy(&lock) == 0);
    CHECK(my_pthread_mutex_destroy(&lock) == EINVAL && my_pthread_mutex_unlock(&lock) == EINVAL);

    /* A recursive mutex is unlocked altogether during a wait. */
    CHECK(my_pthread_mutex_lock(&again) == 0 && my_pthread_mutex_trylock(&again) == 0);
    CHECK(my_pthread_rwlock_wrlock(&both) == 0);
    run(is_too_late);
    CHECK(my_pthread_create(&thread, NULL, signals, NULL) == 0);
    while (!ready)
        CHECK(my_pthread_cond_wait(&changed, &again) == 0);
    CHECK(my_pthread_join(thread, NULL) == 0 && my_pthread_mutex_destroy(&again) == EBUSY);
    CHECK(my_pthread_mutex_unlock(&again) == 0 && my_pthread_mutex_unlock(&again) == 0);
    CHECK(my_pthread_mutex_unlock(&again) == EPERM && my_pthread_mutex_destroy(&again) == 0);

    /* Reading again while a writer waits. */
    CHECK(my_pthread_rwlock_rdlock(&both) == EDEADLK && my_pthread_rwlock_wrlock(&both) == EDEADLK);
    CHECK(my_pthread_rwlock_trywrlock(&both) == EBUSY && my_pthread_rwlock_destroy(&both) == EBUSY);
    CHECK(my_pthread_rwlock_unlock(&both) == 0 && my_pthread_rwlock_unlock(&both) == EPERM);
    CHECK(my_pthread_rwlock_rdlock(&both) == 0);
    CHECK(my_pthread_create(&thread, NULL, writes, NULL) == 0);
    CHECK(my_usleep(1000) == 0 && my_pthread_rwlock_rdlock(&both) == 0);
    CHECK(my_pthread_rwlock_wrlock(&both) == EDEADLK && my_pthread_rwlock_unlock(&both) == 0);
    ready = 2;
    CHECK(my_pthread_rwlock_unlock(&both) == 0 && my_pthread_join(thread, NULL) == 0);
    CHECK(my_pthread_rwlock_destroy(&both) == 0 && my_pthread_rwlock_rdlock(&both) == EINVAL);
    CHECK(my_pthread_rwlock_init(&both, NULL) == 0 && my_pthread_rwlock_tryrdlock(&both) == 0);
    printf("done\n");
    return 0;
}
