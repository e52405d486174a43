/* Dining philosophers: a semaphore for each fork, and one that keeps one philosopher standing. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SEATS 5
#define MEALS 200

static sem_t room, forks[SEATS];
static int eating[SEATS], meals[SEATS], wrong;

static void *dine(void *argument)
{
    int seat = (int)(long)argument, right = (seat + 1) % SEATS;
    for (int i = 0; i < MEALS; i++) {
        if (i % 50 == 0)
            usleep(1000);
        sem_wait(&room);
        sem_wait(&forks[seat]);
        sched_yield();
        sem_wait(&forks[right]);
        eating[seat] = 1;
        if (eating[right] || eating[(seat + SEATS - 1) % SEATS])
            wrong++;
        meals[seat]++;
        if (i % 10 == 0)
            sched_yield();
        eating[seat] = 0;
        sem_post(&forks[right]);
        sem_post(&forks[seat]);
        sem_post(&room);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[SEATS];
    struct timespec past = { 1, 0 }, short_time = { 0, 1000000 };
    int value, total = 0;

    sem_init(&room, 0, SEATS - 1);
    for (int i = 0; i < SEATS; i++)
        sem_init(&forks[i], 0, 1);
    for (long i = 0; i < SEATS; i++)
        pthread_create(&threads[i], NULL, dine, (void *)i);
    for (int i = 0; i < SEATS; i++) {
        pthread_join(threads[i], NULL);
        total += meals[i];
    }
    sem_getvalue(&room, &value);
    printf("%d meals, %d neighbours ate together, %d places\n", total, wrong, value);
    while (sem_trywait(&room) == 0)
        value--;
    printf("%d left, then %s", value, errno == EAGAIN ? "EAGAIN" : "another error");
    printf(", %s\n", sem_timedwait(&room, &past) == -1 && errno == ETIMEDOUT ? "ETIMEDOUT" : "another error");
    printf("slept: %d %u\n", nanosleep(&short_time, NULL), sleep(0));
    for (int i = 0; i < SEATS; i++)
        sem_destroy(&forks[i]);
    return sem_destroy(&room);
}
