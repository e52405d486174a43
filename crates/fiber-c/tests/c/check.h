/* Ends the program with the line if an expectation fails. */
#include <errno.h>
#include <my_pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);         \
            exit(1);                                                           \
        }                                                                      \
    } while (0)
