/* A thread recurses forever. */
#include <my_pthread.h>
#include <stddef.h>

static int dive(int depth)
{
    volatile char room[200];
    room[depth % 200] = 1;
    return depth < 0 ? 0 : dive(depth + 1) + room[0];
}

static void *dives(void *argument)
{
    return dive(0) == 0 ? argument : NULL;
}

int main(void)
{
    my_pthread_t thread;
    my_pthread_attr_t attr = { 0, "diver", 0 };
    my_pthread_create(&thread, &attr, dives, NULL);
    my_pthread_join(thread, NULL);
    return 0;
}
