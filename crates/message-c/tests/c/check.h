/* Common code of the test programs. */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rowlock_message.h>

/* Ends the program if the condition is false. */
#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "%s:%d: false: %s [%s]\n", __FILE__, __LINE__, #condition,       \
                    rowlock_message_error_text());                                           \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

#define OK(call) CHECK((call) == 0)

/* The call fails with this number, and its text has this part. */
#define FAILS(number, part, call)                                                            \
    do {                                                                                     \
        CHECK((call) == (number));                                                           \
        CHECK(strstr(rowlock_message_error_text(), part) != NULL);                           \
    } while (0)
