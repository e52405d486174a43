/* The main thread leaves, and the process lasts until the others have ended. */
#include <my_pthread.h>
#include <stdio.h>

static void *says(void *argument)
{
    for (int i = 0; i < 5; i++)
        my_pthread_yield();
    if (argument != NULL)
        printf("done\n");
    return NULL;
}

int main(void)
{
    my_pthread_t thread;
    for (int i = 0; i < 10; i++)
        my_pthread_create(&thread, NULL, says, i == 9 ? &thread : NULL);
    my_pthread_exit(NULL);
}
