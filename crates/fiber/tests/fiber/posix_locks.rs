//! Fibers that wait at the locks, condition variables and barriers of the C library. If a call
//! stopped the worker, most of these tests would wait forever.
#![allow(unsafe_code, reason = "the C library's functions are unsafe")]

use std::cell::{Cell, UnsafeCell};
use std::mem::zeroed;
use std::ptr::null;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use libc::{EBUSY, EDEADLK, EINVAL, EPERM, ETIMEDOUT, c_int, clockid_t, timespec};
use rowlock_fiber::{Config, Runtime, blocking, run, scope, spawn, yield_now};

use crate::kernel_waits::run_each_way;

const SHORT: Duration = Duration::from_millis(1);

/// An object of the C library.
struct Object<T>(UnsafeCell<T>);

// SAFETY: they are for all threads.
unsafe impl<T> Send for Object<T> {}
// SAFETY: likewise.
unsafe impl<T> Sync for Object<T> {}

impl<T> Object<T> {
    fn new(init: impl FnOnce(*mut T) -> c_int) -> Object<T> {
        // SAFETY: zeros are memory for what is created there.
        let new = Object(UnsafeCell::new(unsafe { zeroed() }));
        assert_eq!(init(new.get()), 0);
        new
    }

    fn get(&self) -> *mut T {
        self.0.get()
    }
}

type Mutex = Object<libc::pthread_mutex_t>;

impl Mutex {
    fn of_kind(kind: c_int) -> Mutex {
        Mutex::with(kind, libc::PTHREAD_PRIO_NONE)
    }

    fn with(kind: c_int, protocol: c_int) -> Mutex {
        // SAFETY: the attributes exist, and the mutex is new.
        Object::new(|new| unsafe {
            let mut attributes = zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&raw mut attributes), 0);
            assert_eq!(libc::pthread_mutexattr_settype(&raw mut attributes, kind), 0);
            assert_eq!(libc::pthread_mutexattr_setprotocol(&raw mut attributes, protocol), 0);
            libc::pthread_mutex_init(new, &raw const attributes)
        })
    }

    fn plain() -> Mutex {
        Mutex::of_kind(libc::PTHREAD_MUTEX_NORMAL)
    }

    fn lock(&self) -> c_int {
        // SAFETY: it exists; callers do not destroy it while it is locked. So for all of these.
        unsafe { libc::pthread_mutex_lock(self.get()) }
    }

    fn unlock(&self) -> c_int {
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(self.get()) }
    }

    fn lock_until(&self, until: timespec) -> c_int {
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_timedlock(self.get(), &raw const until) }
    }
}

type Lock = Object<libc::pthread_rwlock_t>;

impl Lock {
    fn plain() -> Lock {
        // SAFETY: it is new.
        Object::new(|new| unsafe { libc::pthread_rwlock_init(new, null()) })
    }

    fn read(&self) -> c_int {
        // SAFETY: as for mutexes.
        unsafe { libc::pthread_rwlock_rdlock(self.get()) }
    }

    fn write(&self) -> c_int {
        // SAFETY: likewise.
        unsafe { libc::pthread_rwlock_wrlock(self.get()) }
    }

    fn read_until(&self, until: timespec) -> c_int {
        // SAFETY: likewise.
        unsafe { pthread_rwlock_timedrdlock(self.get(), &raw const until) }
    }

    fn write_until(&self, until: timespec) -> c_int {
        // SAFETY: likewise.
        unsafe { pthread_rwlock_timedwrlock(self.get(), &raw const until) }
    }

    fn unlock(&self) -> c_int {
        // SAFETY: likewise.
        unsafe { libc::pthread_rwlock_unlock(self.get()) }
    }
}

unsafe extern "C" {
    fn pthread_rwlock_timedrdlock(lock: *mut libc::pthread_rwlock_t, until: *const timespec) -> c_int;
    fn pthread_rwlock_timedwrlock(lock: *mut libc::pthread_rwlock_t, until: *const timespec) -> c_int;
}

type Condition = Object<libc::pthread_cond_t>;

impl Condition {
    fn with_clock(clock: clockid_t) -> Condition {
        // SAFETY: the attributes exist, and the condition variable is new.
        Object::new(|new| unsafe {
            let mut attributes = zeroed();
            assert_eq!(libc::pthread_condattr_init(&raw mut attributes), 0);
            assert_eq!(libc::pthread_condattr_setclock(&raw mut attributes, clock), 0);
            libc::pthread_cond_init(new, &raw const attributes)
        })
    }

    fn plain() -> Condition {
        Condition::with_clock(libc::CLOCK_REALTIME)
    }

    fn wait(&self, mutex: &Mutex) -> c_int {
        // SAFETY: both exist. So for all of these.
        unsafe { libc::pthread_cond_wait(self.get(), mutex.get()) }
    }

    fn wait_until(&self, mutex: &Mutex, until: timespec) -> c_int {
        // SAFETY: as above.
        unsafe { libc::pthread_cond_timedwait(self.get(), mutex.get(), &raw const until) }
    }

    fn signal(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::pthread_cond_signal(self.get()) }, 0);
    }

    fn broadcast(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::pthread_cond_broadcast(self.get()) }, 0);
    }
}

/// A time of a clock.
fn after(clock: clockid_t, time: Duration) -> timespec {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to the variable.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut now) }, 0);
    let nanos = Duration::new(now.tv_sec as u64, now.tv_nsec as u32) + time;
    timespec { tv_sec: nanos.as_secs() as i64, tv_nsec: nanos.subsec_nanos().into() }
}

/// A time of the clock that locks use, soon.
fn soon() -> timespec {
    after(libc::CLOCK_REALTIME, SHORT)
}

/// Locks in one fiber, which then waits until another one is about to lock as well.
fn contend(first: impl Fn() + Sync, second: impl Fn() + Sync, unlock: impl Fn() + Sync) {
    let seen = AtomicBool::new(false);
    scope(|scope| {
        scope.spawn(|| {
            first();
            while !seen.load(Relaxed) {
                yield_now();
            }
            yield_now();
            unlock();
        });
        scope.spawn(|| {
            seen.store(true, Relaxed);
            second();
            unlock();
        });
    });
}

#[test]
fn a_mutex_of_any_kind_that_another_fiber_holds_is_waited_for() {
    let kinds = [
        libc::PTHREAD_MUTEX_NORMAL,
        libc::PTHREAD_MUTEX_RECURSIVE,
        libc::PTHREAD_MUTEX_ERRORCHECK,
        libc::PTHREAD_MUTEX_ADAPTIVE_NP,
    ];
    let all = kinds.iter().flat_map(|kind| [(*kind, libc::PTHREAD_PRIO_NONE), (*kind, libc::PTHREAD_PRIO_INHERIT)]);
    for (kind, protocol) in all {
        run_each_way(|| {
            let mutex = Mutex::with(kind, protocol);
            let lock = || assert_eq!(mutex.lock(), 0);
            contend(lock, lock, || assert_eq!(mutex.unlock(), 0));
            assert_eq!(mutex.lock(), 0);
        });
    }
}

#[test]
fn a_mutex_that_knows_its_owner_tells_fibers_apart() {
    run_each_way(|| {
        let (recursive, checking) =
            (Mutex::of_kind(libc::PTHREAD_MUTEX_RECURSIVE), Mutex::of_kind(libc::PTHREAD_MUTEX_ERRORCHECK));
        assert_eq!([recursive.lock(), recursive.lock(), checking.lock()], [0; 3]);
        assert_eq!([checking.lock(), checking.lock_until(soon())], [EDEADLK; 2]);
        scope(|scope| {
            scope.spawn(|| {
                assert_eq!([recursive.lock_until(soon()), checking.lock_until(soon())], [ETIMEDOUT; 2]);
                assert_eq!([recursive.unlock(), checking.unlock()], [EPERM; 2]);
            });
        });
        assert_eq!([recursive.unlock(), recursive.unlock(), checking.unlock()], [0; 3]);
        assert_eq!([recursive.unlock(), checking.unlock()], [EPERM; 2]);
    });
}

#[test]
fn a_read_write_lock_that_another_fiber_holds_is_waited_for() {
    run_each_way(|| {
        let lock = Lock::plain();
        let (read, write) = (|| assert_eq!(lock.read(), 0), || assert_eq!(lock.write(), 0));
        let unlock = || assert_eq!(lock.unlock(), 0);
        contend(write, write, unlock);
        contend(write, read, unlock);
        contend(read, write, unlock);
        contend(read, read, unlock);
        write();
        assert_eq!([lock.read(), lock.write()], [EDEADLK; 2]);
        unlock();
    });
}

#[test]
fn locks_with_deadlines_let_others_run_and_end_in_time() {
    run_each_way(|| {
        let (mutex, lock, ran) = (Mutex::plain(), Lock::plain(), AtomicBool::new(false));
        assert_eq!([mutex.lock(), lock.write()], [0; 2]);
        scope(|scope| {
            scope.spawn(|| {
                let other = scope.spawn(|| ran.store(true, Relaxed));
                assert_eq!(mutex.lock_until(soon()), ETIMEDOUT);
                assert!(ran.load(Relaxed));
                assert_eq!([lock.read_until(soon()), lock.write_until(soon())], [ETIMEDOUT; 2]);
                let invalid = timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
                assert_eq!([mutex.lock_until(invalid), lock.read_until(invalid)], [EINVAL; 2]);
                other.join().unwrap();
            });
        });
        assert_eq!([mutex.unlock(), lock.unlock()], [0; 2]);
        let late = after(libc::CLOCK_REALTIME, Duration::from_secs(3_600));
        contend(
            || assert_eq!([mutex.lock_until(late), lock.write_until(late)], [0; 2]),
            || assert_eq!([mutex.lock_until(late), lock.read_until(late)], [0; 2]),
            || assert_eq!([lock.unlock(), mutex.unlock()], [0; 2]),
        );
    });
}

#[test]
fn fibers_take_turns_by_a_condition_variable() {
    run_each_way(|| {
        let (mutex, changed, turn) = (Mutex::plain(), Condition::plain(), Object(UnsafeCell::new(0)));
        scope(|scope| {
            for index in 0..3 {
                let (mutex, changed, turn) = (&mutex, &changed, &turn);
                scope.spawn(move || {
                    for round in 0..20 {
                        assert_eq!(mutex.lock(), 0);
                        // SAFETY: the mutex is locked.
                        while unsafe { *turn.get() } != round * 3 + index {
                            assert_eq!(changed.wait(mutex), 0);
                        }
                        // SAFETY: likewise.
                        unsafe { *turn.get() += 1 };
                        changed.broadcast();
                        assert_eq!(mutex.unlock(), 0);
                    }
                });
            }
        });
        assert_eq!(turn.0.into_inner(), 60);
    });
}

#[test]
fn a_wait_at_a_condition_variable_ends_by_its_own_clock() {
    run_each_way(|| {
        for clock in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC] {
            let (mutex, never, ran) = (Mutex::plain(), Condition::with_clock(clock), AtomicBool::new(false));
            scope(|scope| {
                assert_eq!(mutex.lock(), 0);
                scope.spawn(|| {
                    assert_eq!(mutex.lock(), 0);
                    ran.store(true, Relaxed);
                    assert_eq!(mutex.unlock(), 0);
                });
                while !ran.load(Relaxed) {
                    assert_eq!(never.wait_until(&mutex, after(clock, SHORT)), ETIMEDOUT);
                }
                assert_eq!(never.wait_until(&mutex, timespec { tv_sec: 0, tv_nsec: -1 }), EINVAL);
                assert_eq!(mutex.unlock(), 0);
            });
        }
        let (checking, never) = (Mutex::of_kind(libc::PTHREAD_MUTEX_ERRORCHECK), Condition::plain());
        assert_eq!(never.wait(&checking), EPERM);
    });
}

/// A queue with room for one value.
struct Queue {
    mutex: Mutex,
    is_full: Condition,
    is_empty: Condition,
    value: Object<Option<u64>>,
}

impl Queue {
    fn new() -> Queue {
        Queue {
            mutex: Mutex::plain(),
            is_full: Condition::plain(),
            is_empty: Condition::plain(),
            value: Object(UnsafeCell::new(None)),
        }
    }

    /// Replaces the value as soon as there is one, or none.
    fn replace(&self, new: Option<u64>) -> Option<u64> {
        assert_eq!(self.mutex.lock(), 0);
        let (waits, wakes) =
            if new.is_some() { (&self.is_empty, &self.is_full) } else { (&self.is_full, &self.is_empty) };
        // SAFETY: the mutex is locked.
        while unsafe { *self.value.get() }.is_some() == new.is_some() {
            assert_eq!(waits.wait(&self.mutex), 0);
        }
        // SAFETY: likewise.
        let old = unsafe { self.value.get().replace(new) };
        wakes.signal();
        assert_eq!(self.mutex.unlock(), 0);
        old
    }
}

const VALUES: u64 = 500;

#[test]
fn threads_and_fibers_share_a_mutex_and_condition_variables() {
    run_each_way(|| {
        let queue = Arc::new(Queue::new());
        let send = |queue: Arc<Queue>| move || (0..VALUES).for_each(|value| _ = queue.replace(Some(value)));
        let receive = |queue: Arc<Queue>| move || (0..VALUES).map(|_| queue.replace(None).unwrap()).sum::<u64>();
        let threads = [(); 2].map(|()| thread::spawn(send(Arc::clone(&queue))));
        let fibers = [(); 2].map(|()| spawn(send(Arc::clone(&queue))));
        let sums = [(); 3].map(|()| spawn(receive(Arc::clone(&queue))));
        let sum = thread::spawn(receive(Arc::clone(&queue)));
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        let sums = sums.into_iter().map(|fiber| fiber.join().unwrap()).sum::<u64>() + sum.join().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(sums, 4 * (0..VALUES).sum::<u64>());
    });
}

#[test]
fn many_fibers_wait_for_one_mutex_while_its_owner_calls_on_other_threads() {
    // More than the pool has threads.
    const FIBERS: usize = 400;

    run_each_way(|| {
        let (mutex, count) = (Mutex::plain(), Object(UnsafeCell::new(0)));
        scope(|scope| {
            assert_eq!(mutex.lock(), 0);
            let fibers = [(); FIBERS].map(|()| {
                scope.spawn(|| {
                    assert_eq!(mutex.lock(), 0);
                    // SAFETY: the mutex is locked.
                    unsafe { *count.get() += 1 };
                    assert_eq!(mutex.unlock(), 0);
                })
            });
            yield_now();
            blocking(|| ());
            // SAFETY: the mutex is locked.
            assert_eq!(unsafe { *count.get() }, 0);
            assert_eq!(mutex.unlock(), 0);
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        assert_eq!(count.0.into_inner(), FIBERS);
    });
}

#[test]
fn a_mutex_that_a_thread_unlocks_in_a_wait_is_locked_by_a_fiber() {
    run_each_way(|| {
        let (mutex, changed) = (Arc::new(Mutex::plain()), Arc::new(Condition::plain()));
        let (tell, told) = mpsc::channel();
        let (done, is_done) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
        let thread = thread::spawn({
            let (mutex, changed, done, begun) =
                (Arc::clone(&mutex), Arc::clone(&changed), Arc::clone(&done), Arc::clone(&is_done));
            move || {
                assert_eq!(mutex.lock(), 0);
                tell.send(()).unwrap();
                begun.wait();
                while !done.load(Relaxed) {
                    assert_eq!(changed.wait(&mutex), 0);
                }
                assert_eq!(mutex.unlock(), 0);
            }
        });
        told.recv().unwrap();
        let fiber = spawn(move || {
            assert_eq!(mutex.lock(), 0);
            done.store(true, Relaxed);
            changed.signal();
            assert_eq!(mutex.unlock(), 0);
        });
        yield_now();
        is_done.wait();
        fiber.join().unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn fibers_that_still_wait_when_their_runtime_ends_continue_as_threads() {
    let all = Arc::new((Mutex::plain(), Lock::plain(), Mutex::plain(), Condition::plain()));
    let (tell, told) = mpsc::channel();
    assert_eq!([all.0.lock(), all.1.write()], [0; 2]);
    run(|| {
        for which in 0..3 {
            let (all, tell) = (Arc::clone(&all), tell.clone());
            drop(spawn(move || {
                match which {
                    0 => assert_eq!([all.0.lock(), all.0.unlock()], [0; 2]),
                    1 => assert_eq!([all.1.read(), all.1.unlock()], [0; 2]),
                    // It ends without a signal.
                    _ => assert_eq!([all.2.lock(), all.3.wait(&all.2), all.2.unlock()], [0; 3]),
                }
                tell.send(which).unwrap();
            }));
        }
        yield_now();
    });
    assert_eq!([all.0.unlock(), all.1.unlock()], [0; 2]);
    let mut told: Vec<_> = told.iter().take(3).collect();
    told.sort_unstable();
    assert_eq!(told, [0, 1, 2]);
}

#[test]
fn fibers_meet_at_a_barrier_and_one_of_them_is_told() {
    run_each_way(|| {
        // SAFETY: it is new.
        let barrier = Object::new(|new| unsafe { libc::pthread_barrier_init(new, null(), 4) });
        for _ in 0..10 {
            // SAFETY: it exists.
            let wait = || unsafe { libc::pthread_barrier_wait(barrier.get()) };
            let mut results = scope(|scope| [(); 4].map(|()| scope.spawn(wait)).map(|fiber| fiber.join().unwrap()));
            results.sort_unstable();
            assert_eq!(results, [libc::PTHREAD_BARRIER_SERIAL_THREAD, 0, 0, 0]);
        }
    });
}

#[test]
fn a_function_is_called_once_by_one_fiber_while_others_wait() {
    static ONCE: [AtomicI32; 5] = [const { AtomicI32::new(libc::PTHREAD_ONCE_INIT) }; 5];
    static CALLS: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" {
        fn pthread_once(once: *mut c_int, function: extern "C" fn()) -> c_int;
    }

    extern "C" fn call() {
        (0..5).for_each(|_| yield_now());
        CALLS.fetch_add(1, Relaxed);
    }

    let rounds = Cell::new(0);
    run_each_way(|| {
        let (once, calls) = (&ONCE[rounds.get()], rounds.get() + 1);
        rounds.set(calls);
        scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // SAFETY: it exists.
                    assert_eq!(unsafe { pthread_once(once.as_ptr(), call) }, 0);
                    assert_eq!(CALLS.load(Relaxed), calls);
                });
            }
        });
    });
}

#[test]
fn more_fibers_than_the_pool_has_threads_wait_for_each_other() {
    const FIBERS: usize = 300;

    run_each_way(|| {
        // SAFETY: they are new.
        let (barrier, semaphore) = unsafe {
            (
                Object::new(|new| libc::pthread_barrier_init(new, null(), FIBERS as u32 + 1)),
                Object::new(|new| libc::sem_init(new, 0, 0)),
            )
        };
        scope(|scope| {
            for _ in 0..FIBERS {
                // SAFETY: they exist.
                scope.spawn(|| unsafe {
                    libc::pthread_barrier_wait(barrier.get());
                    assert_eq!(libc::sem_wait(semaphore.get()), 0);
                });
            }
            // SAFETY: likewise.
            unsafe { libc::pthread_barrier_wait(barrier.get()) };
            (0..3).for_each(|_| yield_now());
            blocking(|| ());
            // SAFETY: likewise.
            (0..FIBERS).for_each(|_| assert_eq!(unsafe { libc::sem_post(semaphore.get()) }, 0));
        });
    });
}

#[test]
fn interrupted_fibers_share_a_mutex_and_condition_variables() {
    let rules = policy::feedback::FeedbackRules {
        running_time: policy::Span::from_micros(100),
        ..policy::feedback::FeedbackRules::default()
    };
    for workers in [1, 2] {
        let sum = Runtime::new(Config { preemptible: true, workers, rules, ..Config::default() }).run(|| {
            let queue = Queue::new();
            scope(|scope| {
                let sums = [(); 20].map(|()| {
                    scope.spawn(|| (0..VALUES).for_each(|value| _ = queue.replace(Some(value))));
                    scope.spawn(|| (0..VALUES).map(|_| queue.replace(None).unwrap()).sum::<u64>())
                });
                sums.into_iter().map(|fiber| fiber.join().unwrap()).sum::<u64>()
            })
        });
        assert_eq!(sum.unwrap(), 20 * (0..VALUES).sum::<u64>());
    }
}

#[test]
fn a_lock_that_is_free_is_taken_at_once() {
    run(|| {
        let (mutex, lock) = (Mutex::plain(), Lock::plain());
        let past = timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!([mutex.lock_until(past), lock.read_until(past), lock.read()], [0; 3]);
        // SAFETY: they exist.
        unsafe {
            assert_eq!(libc::pthread_mutex_trylock(mutex.get()), EBUSY);
            assert_eq!(libc::pthread_rwlock_trywrlock(lock.get()), EBUSY);
        }
        assert_eq!([mutex.unlock(), lock.unlock(), lock.unlock()], [0; 3]);
    });
}
