/* Frequent hand-overs by condition variables with and without the mutex, and by semaphores: none
 * may be lost. */
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t conditions[3] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static sem_t semaphores[3];
static long turn, times;
static int players;

/* Signals after releasing the mutex. */
static void *without_mutex(void *argument) {
    long number = (long)argument;
    for (long i = 0; i < times; i++) {
        OK(pthread_mutex_lock(&mutex));
        while (turn % players != number) OK(pthread_cond_wait(&conditions[number], &mutex));
        turn++;
        OK(pthread_mutex_unlock(&mutex));
        OK(pthread_cond_signal(&conditions[(number + 1) % players]));
    }
    return NULL;
}

/* Changes the value without the mutex, acquires it only for a moment, and then signals. */
static void *beside_mutex(void *argument) {
    long number = (long)argument;
    for (long i = 0; i < times; i++) {
        OK(pthread_mutex_lock(&mutex));
        while (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) % players != number)
            OK(pthread_cond_wait(&conditions[0], &mutex));
        OK(pthread_mutex_unlock(&mutex));
        __atomic_fetch_add(&turn, 1, __ATOMIC_SEQ_CST);
        OK(pthread_mutex_lock(&mutex));
        OK(pthread_mutex_unlock(&mutex));
        OK(pthread_cond_broadcast(&conditions[0]));
    }
    return NULL;
}

static void *with_mutex(void *argument) {
    long number = (long)argument;
    OK(pthread_mutex_lock(&mutex));
    for (long i = 0; i < times; i++) {
        while (turn % players != number) OK(pthread_cond_wait(&conditions[0], &mutex));
        turn++;
        OK(pthread_cond_broadcast(&conditions[0]));
    }
    OK(pthread_mutex_unlock(&mutex));
    return NULL;
}

static void *by_semaphores(void *argument) {
    long number = (long)argument;
    for (long i = 0; i < times; i++) {
        while (sem_wait(&semaphores[number])) CHECK(errno == EINTR);
        turn++;
        OK(sem_post(&semaphores[(number + 1) % players]));
    }
    return NULL;
}

int main(void) {
    static void *(*const games[])(void *) = {without_mutex, beside_mutex, with_mutex, by_semaphores};
    for (players = 2; players <= 3; players++) {
        times = rounds(2500);
        for (int game = 0; game < 4; game++) {
            turn = 0;
            for (int i = 0; i < players; i++) OK(sem_init(&semaphores[i], 0, i == 0));
            run(players, games[game]);
            printf("%d players, game %d: %ld turns\n", players, game, turn);
        }
    }
    return 0;
}
