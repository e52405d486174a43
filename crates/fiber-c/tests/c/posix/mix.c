/* Threads lock, create, join and detach each other, allocate and set values, while they are interrupted
 * as often as possible. What they have counted at the end does not depend on their turns. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 10, TURNS = 200, LOCKS = 8 };

static pthread_mutex_t locks[LOCKS], freeing = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t both = PTHREAD_RWLOCK_INITIALIZER;
static pthread_key_t key;
static sem_t ended;
static long counts[LOCKS], one, other, freed;
static volatile int wrong;

static void compute(int steps)
{
    for (volatile int i = 0; i < steps; i++)
        ;
}

static void release(void *value)
{
    free(value);
    pthread_mutex_lock(&freeing);
    freed++;
    pthread_mutex_unlock(&freeing);
}

static void *keeps(void *argument)
{
    long *value = malloc(sizeof *value);
    *value = (long)argument;
    pthread_setspecific(key, value);
    compute(3000);
    if (*(long *)pthread_getspecific(key) != (long)argument)
        wrong++;
    if ((long)argument % 2 != 0)
        pthread_exit(argument);
    return argument;
}

static void *posts(void *argument)
{
    free(malloc(100));
    compute(1000);
    sem_post(&ended);
    return argument;
}

static void *works(void *argument)
{
    unsigned int seed = (unsigned int)(long)argument;
    for (int i = 0; i < TURNS; i++) {
        int lock = rand_r(&seed) % LOCKS;
        pthread_t thread;
        void *result;
        pthread_mutex_lock(&locks[lock]);
        long count = counts[lock];
        compute(rand_r(&seed) % 500);
        counts[lock] = count + 1;
        pthread_mutex_unlock(&locks[lock]);
        if (i % 5 == 0) {
            pthread_rwlock_wrlock(&both);
            one++;
            compute(100);
            other++;
        } else {
            pthread_rwlock_rdlock(&both);
            if (one != other)
                wrong++;
        }
        pthread_rwlock_unlock(&both);
        if (i % 4 == 0 && (pthread_create(&thread, NULL, keeps, (void *)(long)i) != 0
                           || pthread_join(thread, &result) != 0 || result != (void *)(long)i))
            wrong++;
        if (i % 7 == 0) {
            if (pthread_create(&thread, NULL, posts, NULL) != 0 || pthread_detach(thread) != 0)
                wrong++;
            sem_wait(&ended);
        }
        if (i % 100 == 0)
            usleep(rand_r(&seed) % 300);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    long counted = 0;
#ifdef MY_PTHREAD_PORT_H
    my_pthread_configure(10, 20);
#endif
    pthread_key_create(&key, release);
    sem_init(&ended, 0, 0);
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&locks[i], NULL);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, works, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < LOCKS; i++)
        counted += counts[i];
    printf("%ld counted, %ld written, %ld freed, %d wrong\n", counted, one, freed, wrong + (one != other));
    return 0;
}
