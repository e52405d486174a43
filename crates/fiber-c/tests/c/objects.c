/* Semaphores, barriers, initialization that happens once, keys, sleeping and attributes. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <limits.h>

static my_sem_t permits = MY_SEM_INITIALIZER(2);
static my_pthread_barrier_t barrier = MY_PTHREAD_BARRIER_INITIALIZER(2);
static my_pthread_once_t once = MY_PTHREAD_ONCE_INIT, left = MY_PTHREAD_ONCE_INIT;
static my_pthread_key_t key, stubborn;
static int calls, destroyed, rounds;

static void counts(void)
{
    calls++;
    CHECK(my_pthread_once(&once, counts) == EDEADLK);
    my_pthread_yield();
}

static void leaves(void)
{
    my_pthread_exit(&left);
}

static void *calls_once(void *argument)
{
    CHECK(my_pthread_once(&once, counts) == 0 && calls == 1);
    return argument;
}

static void *leaves_once(void *argument)
{
    my_pthread_once(&left, leaves);
    return argument;
}

static void destroys(void *value)
{
    CHECK(my_pthread_getspecific(key) == NULL);
    destroyed += *(int *)value;
    my_pthread_exit(value);
}

static void resists(void *value)
{
    rounds++;
    CHECK(my_pthread_setspecific(stubborn, value) == 0);
}

static void *has_values(void *argument)
{
    static int five = 5;
    CHECK(my_pthread_getspecific(key) == NULL);
    CHECK(my_pthread_setspecific(key, &five) == 0 && my_pthread_setspecific(stubborn, &five) == 0);
    my_pthread_yield();
    CHECK(my_pthread_getspecific(key) == &five);
    return argument;
}

static void *meets(void *argument)
{
    int status = my_pthread_barrier_wait(&barrier);
    CHECK(status == 0 || status == MY_PTHREAD_BARRIER_SERIAL_THREAD);
    return status == 0 ? NULL : argument;
}

static void *run(void *(*function)(void *))
{
    my_pthread_t thread;
    void *value = NULL;
    CHECK(my_pthread_create(&thread, NULL, function, &value) == 0 && my_pthread_join(thread, &value) == 0);
    return value;
}

#define FAILS(call, error) CHECK((errno = 0, (call) == -1) && errno == (error))

int main(void)
{
    my_pthread_t threads[4];
    my_pthread_key_t keys[MY_PTHREAD_KEYS_MAX];
    my_pthread_attr_t attr;
    struct timespec past = { 1, 0 }, invalid = { 0, -1 }, negative = { -1, 0 }, rest = { 1, 1 };
    void *value;
    int number;
    size_t size;

    /* Semaphores */
    FAILS(my_sem_init(&permits, 1, 0), ENOSYS);
    FAILS(my_sem_init(&permits, 0, (unsigned int)INT_MAX + 1), EINVAL);
    CHECK(my_sem_wait(&permits) == 0 && my_sem_trywait(&permits) == 0);
    FAILS(my_sem_trywait(&permits), EAGAIN);
    FAILS(my_sem_timedwait(&permits, &past), ETIMEDOUT);
    FAILS(my_sem_timedwait(&permits, &invalid), EINVAL);
    FAILS(my_sem_wait(NULL), EINVAL);
    CHECK(my_sem_post(&permits) == 0 && my_sem_timedwait(&permits, &invalid) == 0);
    CHECK(my_sem_getvalue(&permits, &number) == 0 && number == 0 && my_sem_destroy(&permits) == 0);
    FAILS(my_sem_post(&permits), EINVAL);
    CHECK(my_sem_init(&permits, 0, INT_MAX) == 0);
    FAILS(my_sem_post(&permits), EOVERFLOW);

    /* Barriers */
    CHECK(my_pthread_create(&threads[0], NULL, meets, &barrier) == 0);
    my_pthread_yield();
    CHECK(my_pthread_barrier_destroy(&barrier) == EBUSY);
    value = meets(&barrier);
    CHECK(my_pthread_barrier_destroy(&barrier) == 0);
    void *other;
    CHECK(my_pthread_join(threads[0], &other) == 0 && (value == NULL) != (other == NULL));
    CHECK(my_pthread_barrier_wait(&barrier) == EINVAL && my_pthread_barrier_init(&barrier, NULL, 0) == EINVAL);
    CHECK(my_pthread_barrier_init(&barrier, NULL, 1) == 0);
    CHECK(my_pthread_barrier_wait(&barrier) == MY_PTHREAD_BARRIER_SERIAL_THREAD);

    /* Once */
    for (int i = 0; i < 4; i++)
        CHECK(my_pthread_create(&threads[i], NULL, calls_once, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(my_pthread_join(threads[i], NULL) == 0);
    CHECK(my_pthread_once(&once, NULL) == EINVAL && my_pthread_once(NULL, counts) == EINVAL);
    CHECK(run(leaves_once) == &left && my_pthread_once(&left, leaves) == EDEADLK);

    /* Keys */
    CHECK(my_pthread_key_create(&key, destroys) == 0 && my_pthread_key_create(&stubborn, resists) == 0);
    CHECK(my_pthread_setspecific(key, &calls) == 0 && my_pthread_getspecific(key) == &calls);
    run(has_values);
    CHECK(destroyed == 5 && rounds == MY_PTHREAD_DESTRUCTOR_ITERATIONS);
    CHECK(my_pthread_key_delete(key) == 0 && my_pthread_key_delete(key) == EINVAL);
    CHECK(my_pthread_setspecific(key, &calls) == EINVAL && my_pthread_getspecific(key) == NULL);
    CHECK(my_pthread_key_create(&key, NULL) == 0 && my_pthread_getspecific(key) == NULL);
    CHECK(my_pthread_key_delete(key) == 0 && my_pthread_key_delete(stubborn) == 0);
    for (int i = 0; i < MY_PTHREAD_KEYS_MAX; i++)
        CHECK(my_pthread_key_create(&keys[i], NULL) == 0);
    CHECK(my_pthread_key_create(&key, NULL) == EAGAIN && my_pthread_key_create(NULL, NULL) == EINVAL);
    CHECK(my_pthread_getspecific(MY_PTHREAD_KEYS_MAX) == NULL);

    /* Sleeping */
    CHECK(my_sleep(0) == 0 && my_usleep(1) == 0 && my_sched_yield() == 0);
    FAILS(my_nanosleep(&invalid, NULL), EINVAL);
    FAILS(my_nanosleep(&negative, NULL), EINVAL);
    FAILS(my_nanosleep(NULL, NULL), EINVAL);
    rest.tv_sec = 0;
    CHECK(my_nanosleep(&rest, &rest) == 0 && rest.tv_sec == 0 && rest.tv_nsec == 0);

    /* Attributes */
    CHECK(my_pthread_attr_init(&attr) == 0 && my_pthread_attr_setdetachstate(&attr, 2) == EINVAL);
    CHECK(my_pthread_attr_setstacksize(&attr, 100) == EINVAL && my_pthread_attr_setstacksize(&attr, 1 << 20) == 0);
    CHECK(my_pthread_attr_getstacksize(&attr, &size) == 0 && size == 1 << 20);
    CHECK(my_pthread_attr_setdetachstate(&attr, MY_PTHREAD_CREATE_DETACHED) == 0);
    CHECK(my_pthread_attr_getdetachstate(&attr, &number) == 0 && number == MY_PTHREAD_CREATE_DETACHED);
    CHECK(my_pthread_create(&threads[0], &attr, calls_once, NULL) == 0);
    CHECK(my_pthread_attr_destroy(&attr) == 0);
    CHECK(my_pthread_create(&threads[0], &attr, calls_once, NULL) == EINVAL);
    CHECK(my_pthread_join(my_pthread_self() + 100, NULL) == ESRCH && my_pthread_detach(0) == ESRCH);
    printf("done\n");
    return 0;
}
