/* Signal handlers that post semaphores, and threads that are interrupted while they wait. */
#include "check.h"

static sem_t posted, reply;
static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long signals, taken, counter;
static volatile sig_atomic_t over;

static void post(int signal) {
    int before = errno;
    (void)signal;
    signals++;
    if (sem_post(&posted)) _exit(1);
    errno = before;
}

static void *take(void *unused) {
    for (long left = rounds(2000); left > 0; left--) {
        while (sem_wait(&posted)) CHECK(errno == EINTR);
        taken++;
        OK(sem_post(&reply));
    }
    return unused;
}

static void *work(void *argument) {
    for (long i = rounds(3000); i > 0; i--) {
        OK(pthread_mutex_lock(&mutex));
        counter++;
        OK(pthread_mutex_unlock(&mutex));
        pthread_barrier_wait(&barrier);
        CHECK(counter % 2 == 0);
        pthread_barrier_wait(&barrier);
        OK(pthread_mutex_lock(&mutex));
        long until = (counter | 1) + 1;
        counter++;
        OK(pthread_cond_signal(&condition));
        while (counter < until) OK(pthread_cond_wait(&condition, &mutex));
        OK(pthread_mutex_unlock(&mutex));
        pthread_barrier_wait(&barrier);
    }
    return argument;
}

static void *interrupt(void *threads) {
    while (!over) {
        for (int i = 0; i < 2; i++) OK(pthread_kill(((pthread_t *)threads)[i], SIGUSR2));
        usleep(50);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = post};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    OK(sem_init(&posted, 0, 0));
    OK(sem_init(&reply, 0, 0));
    pthread_t thread;
    OK(pthread_create(&thread, NULL, take, NULL));
    for (long left = rounds(2000); left > 0; left--) {
        /* To itself, or to the waiting thread. */
        OK(left % 2 ? raise(SIGUSR1) : pthread_kill(thread, SIGUSR1));
        while (sem_wait(&reply)) CHECK(errno == EINTR);
    }
    OK(pthread_join(thread, NULL));
    printf("signals %ld, taken %ld\n", signals, taken);

    /* A signal ends a sleep at a semaphore with an error. There are several signals, since the
     * first may come before the sleep. */
    struct itimerspec in_a_while = {.it_value = {.tv_nsec = 20000000}, .it_interval = {.tv_nsec = 20000000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &in_a_while, NULL) == 0);
    CHECK(sem_wait(&reply) < 0 && errno == EINTR);
    CHECK(timer_delete(timer) == 0);

    OK(pthread_barrier_init(&barrier, NULL, 2));
    pthread_t threads[3];
    for (long i = 0; i < 2; i++) OK(pthread_create(&threads[i], NULL, work, (void *)i));
    OK(pthread_create(&threads[2], NULL, interrupt, threads));
    for (int i = 0; i < 2; i++) {
        /* Join later, since the signals need a living thread. */
        void *number;
        if (i == 0) {
            while (__atomic_load_n(&counter, __ATOMIC_RELAXED) < rounds(3000) * 4) usleep(1000);
            over = 1;
            OK(pthread_join(threads[2], NULL));
        }
        OK(pthread_join(threads[i], &number));
    }
    printf("counted %ld\n", counter);
    return 0;
}
