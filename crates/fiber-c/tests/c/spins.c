/* Threads that call nothing: one computes forever, and one waits in a loop for what a third one does
 * to a variable, as the main thread does. Each has thread-local variables and an errno of its own. */
#include <errno.h>
#include <my_pthread.h>
#include <stdio.h>

static volatile int flag, began;
static _Thread_local volatile int own = 7;
static int marks[3];

static void *computes(void *argument)
{
    began = 1;
    for (volatile unsigned long turns = 0;;)
        turns++;
    return argument;
}

static void *spins(void *argument)
{
    own = 1, errno = ERANGE;
    while (!flag || !began)
        ;
    return own == 1 && errno == ERANGE ? argument : NULL;
}

static void *sets(void *argument)
{
    int was = own;
    own = 2, errno = EDOM;
    flag = 1;
    return was == 7 ? argument : NULL;
}

int main(void)
{
    my_pthread_t endless, waiter, setter;
    void *value = NULL;
    int right = 0;
    my_pthread_create(&endless, NULL, computes, NULL);
    my_pthread_create(&waiter, NULL, spins, &marks[1]);
    my_pthread_create(&setter, NULL, sets, &marks[2]);
    while (!flag)
        ;
    my_pthread_join(waiter, &value);
    right += value == &marks[1];
    my_pthread_join(setter, &value);
    right += value == &marks[2];
    printf("%d right, %s\n", right, own == 7 ? "done" : "shared");
    return 0;
}
