/* Two threads each hold a lock and want the other's. */
#include <my_pthread.h>

static my_pthread_mutex_t locks[2];

static void *wants(void *argument)
{
    int first = argument != NULL;
    my_pthread_mutex_lock(&locks[first]);
    my_pthread_yield();
    my_pthread_yield();
    my_pthread_mutex_lock(&locks[!first]);
    return NULL;
}

int main(void)
{
    my_pthread_t one, other;
    /* Turns end only at a yield. */
    my_pthread_configure(50, 1800000000);
    my_pthread_create(&one, NULL, wants, NULL);
    my_pthread_create(&other, NULL, wants, &other);
    my_pthread_join(one, NULL);
    return 0;
}
