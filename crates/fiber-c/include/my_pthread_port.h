/* Lets a program in C that was written for POSIX threads run on my_pthread.h, unchanged:
 *
 *     cc -include my_pthread_port.h program.c -lmy_pthread
 *
 * or with this header in the place of <pthread.h> and <semaphore.h>. It includes the system's headers
 * first, and then gives their names to this library. What the library does not have is an error of
 * the compiler, not a call of the system's function.
 *
 * License: Apache-2.0 OR MIT. */
#ifndef MY_PTHREAD_PORT_H
#define MY_PTHREAD_PORT_H

/* Before the program has asked for a version of the system's interface, it gets all of it. */
#if !defined(_FEATURES_H) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#define MY_PTHREAD_PORT_FIRST
#endif

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <my_pthread.h>

/* The program may ask for a version, but the headers have been read. */
#ifdef MY_PTHREAD_PORT_FIRST
#undef MY_PTHREAD_PORT_FIRST
#undef _GNU_SOURCE
#undef _DEFAULT_SOURCE
#undef _POSIX_SOURCE
#undef _POSIX_C_SOURCE
#undef _XOPEN_SOURCE
#endif

#undef PTHREAD_CREATE_JOINABLE
#undef PTHREAD_CREATE_DETACHED
#undef PTHREAD_MUTEX_NORMAL
#undef PTHREAD_MUTEX_RECURSIVE
#undef PTHREAD_MUTEX_ERRORCHECK
#undef PTHREAD_MUTEX_DEFAULT
#undef PTHREAD_MUTEX_INITIALIZER
#undef PTHREAD_COND_INITIALIZER
#undef PTHREAD_RWLOCK_INITIALIZER
#undef PTHREAD_ONCE_INIT
#undef PTHREAD_BARRIER_SERIAL_THREAD
#undef PTHREAD_KEYS_MAX
#undef PTHREAD_DESTRUCTOR_ITERATIONS
#undef pthread_cleanup_push
#undef pthread_cleanup_pop
#undef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP

#define PTHREAD_CREATE_JOINABLE MY_PTHREAD_CREATE_JOINABLE
#define PTHREAD_CREATE_DETACHED MY_PTHREAD_CREATE_DETACHED
#define PTHREAD_MUTEX_NORMAL MY_PTHREAD_MUTEX_NORMAL
#define PTHREAD_MUTEX_RECURSIVE MY_PTHREAD_MUTEX_RECURSIVE
#define PTHREAD_MUTEX_ERRORCHECK MY_PTHREAD_MUTEX_ERRORCHECK
#define PTHREAD_MUTEX_DEFAULT MY_PTHREAD_MUTEX_DEFAULT
#define PTHREAD_MUTEX_INITIALIZER MY_PTHREAD_MUTEX_INITIALIZER
#define PTHREAD_COND_INITIALIZER MY_PTHREAD_COND_INITIALIZER
#define PTHREAD_RWLOCK_INITIALIZER MY_PTHREAD_RWLOCK_INITIALIZER
#define PTHREAD_ONCE_INIT MY_PTHREAD_ONCE_INIT
#define PTHREAD_BARRIER_SERIAL_THREAD MY_PTHREAD_BARRIER_SERIAL_THREAD
#define PTHREAD_KEYS_MAX MY_PTHREAD_KEYS_MAX
#define PTHREAD_DESTRUCTOR_ITERATIONS MY_PTHREAD_DESTRUCTOR_ITERATIONS
#define PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP MY_PTHREAD_RECURSIVE_MUTEX_INITIALIZER

#define pthread_t my_pthread_t
#define pthread_attr_t my_pthread_attr_t
#define pthread_mutex_t my_pthread_mutex_t
#define pthread_mutexattr_t my_pthread_mutexattr_t
#define pthread_cond_t my_pthread_cond_t
#define pthread_condattr_t my_pthread_condattr_t
#define pthread_rwlock_t my_pthread_rwlock_t
#define pthread_barrier_t my_pthread_barrier_t
#define pthread_once_t my_pthread_once_t
#define pthread_key_t my_pthread_key_t
#define sem_t my_sem_t

#define pthread_attr_init my_pthread_attr_init
#define pthread_attr_destroy my_pthread_attr_destroy
#define pthread_attr_setdetachstate my_pthread_attr_setdetachstate
#define pthread_attr_getdetachstate my_pthread_attr_getdetachstate
#define pthread_attr_setstacksize my_pthread_attr_setstacksize
#define pthread_attr_getstacksize my_pthread_attr_getstacksize
#define pthread_create my_pthread_create
#define pthread_exit my_pthread_exit
#define pthread_join my_pthread_join
#define pthread_detach my_pthread_detach
#define pthread_self my_pthread_self
#define pthread_equal my_pthread_equal
#define pthread_yield my_pthread_yield
#define sched_yield my_sched_yield
#define sleep my_sleep
#define usleep my_usleep
#define nanosleep my_nanosleep
#define pthread_mutexattr_init my_pthread_mutexattr_init
#define pthread_mutexattr_destroy my_pthread_mutexattr_destroy
#define pthread_mutexattr_settype my_pthread_mutexattr_settype
#define pthread_mutexattr_gettype my_pthread_mutexattr_gettype
#define pthread_mutex_init my_pthread_mutex_init
#define pthread_mutex_lock my_pthread_mutex_lock
#define pthread_mutex_timedlock my_pthread_mutex_timedlock
#define pthread_mutex_trylock my_pthread_mutex_trylock
#define pthread_mutex_unlock my_pthread_mutex_unlock
#define pthread_mutex_destroy my_pthread_mutex_destroy
#define pthread_condattr_init my_pthread_condattr_init
#define pthread_condattr_destroy my_pthread_condattr_destroy
#define pthread_condattr_setclock my_pthread_condattr_setclock
#define pthread_condattr_getclock my_pthread_condattr_getclock
#define pthread_cond_init my_pthread_cond_init
#define pthread_cond_destroy my_pthread_cond_destroy
#define pthread_cond_wait my_pthread_cond_wait
#define pthread_cond_timedwait my_pthread_cond_timedwait
#define pthread_cond_signal my_pthread_cond_signal
#define pthread_cond_broadcast my_pthread_cond_broadcast
#define pthread_rwlock_init my_pthread_rwlock_init
#define pthread_rwlock_destroy my_pthread_rwlock_destroy
#define pthread_rwlock_rdlock my_pthread_rwlock_rdlock
#define pthread_rwlock_timedrdlock my_pthread_rwlock_timedrdlock
#define pthread_rwlock_wrlock my_pthread_rwlock_wrlock
#define pthread_rwlock_timedwrlock my_pthread_rwlock_timedwrlock
#define pthread_rwlock_tryrdlock my_pthread_rwlock_tryrdlock
#define pthread_rwlock_trywrlock my_pthread_rwlock_trywrlock
#define pthread_rwlock_unlock my_pthread_rwlock_unlock
#define pthread_barrier_init my_pthread_barrier_init
#define pthread_barrier_destroy my_pthread_barrier_destroy
#define pthread_barrier_wait my_pthread_barrier_wait
#define pthread_once my_pthread_once
#define pthread_key_create my_pthread_key_create
#define pthread_key_delete my_pthread_key_delete
#define pthread_setspecific my_pthread_setspecific
#define pthread_getspecific my_pthread_getspecific
#define sem_init my_sem_init
#define sem_destroy my_sem_destroy
#define sem_wait my_sem_wait
#define sem_timedwait my_sem_timedwait
#define sem_trywait my_sem_trywait
#define sem_post my_sem_post
#define sem_getvalue my_sem_getvalue

#ifdef __GNUC__
#pragma GCC poison pthread_atfork pthread_attr_setaffinity_np pthread_attr_setguardsize
#pragma GCC poison pthread_attr_setinheritsched pthread_attr_setschedparam
#pragma GCC poison pthread_attr_setschedpolicy pthread_attr_setscope pthread_attr_setstack
#pragma GCC poison pthread_barrierattr_setpshared pthread_cancel pthread_cleanup_pop
#pragma GCC poison pthread_cleanup_push pthread_clockjoin_np pthread_cond_clockwait
#pragma GCC poison pthread_condattr_setpshared pthread_getaffinity_np pthread_getattr_np
#pragma GCC poison pthread_getcpuclockid pthread_getname_np pthread_getschedparam pthread_kill
#pragma GCC poison pthread_mutex_clocklock pthread_mutex_consistent pthread_mutex_getprioceiling
#pragma GCC poison pthread_mutex_setprioceiling pthread_mutexattr_setprioceiling
#pragma GCC poison pthread_mutexattr_setprotocol pthread_mutexattr_setpshared
#pragma GCC poison pthread_mutexattr_setrobust pthread_rwlock_clockrdlock
#pragma GCC poison pthread_rwlock_clockwrlock pthread_rwlockattr_setkind_np
#pragma GCC poison pthread_rwlockattr_setpshared pthread_setaffinity_np pthread_setname_np
#pragma GCC poison pthread_setschedparam pthread_setschedprio pthread_sigmask pthread_sigqueue
#pragma GCC poison pthread_timedjoin_np pthread_tryjoin_np sem_clockwait sem_close sem_open
#pragma GCC poison sem_unlink
#endif

#endif
