//! Mutexes and condition variables.

use crate::at_drop::AtDrop;
use crate::calm;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rowlock_fiber as fiber;
use rowlock_fiber::{Condvar, Mutex, TimedOut};

#[test]
fn one_fiber_at_a_time_holds_a_mutex_even_if_it_yields() {
    calm::run(|| {
        let mutex = Arc::new(Mutex::new((0, 0)));
        let fibers: Vec<_> = (0..20)
            .map(|_| {
                let mutex = Arc::clone(&mutex);
                fiber::spawn(move || {
                    for _ in 0..50 {
                        let mut guard = mutex.lock();
                        guard.0 += 1;
                        assert_eq!(guard.0, 1);
                        fiber::yield_now();
                        guard.0 -= 1;
                        guard.1 += 1;
                    }
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        assert_eq!(*mutex.lock(), (0, 1000));
    });
}

#[test]
fn a_waiter_is_passed_over_at_most_once() {
    calm::run(|| {
        let mutex = Arc::new(Mutex::new(()));
        let greedy = {
            let mutex = Arc::clone(&mutex);
            fiber::spawn(move || {
                for round in 0.. {
                    let guard = mutex.lock();
                    if Arc::strong_count(&mutex) == 2 {
                        return round;
                    }
                    fiber::yield_now();
                    drop(guard);
                }
                unreachable!()
            })
        };
        let other = {
            let mutex = Arc::clone(&mutex);
            fiber::spawn(move || {
                fiber::yield_now();
                drop(mutex.lock());
            })
        };
        other.join().unwrap();
        let rounds = greedy.join().unwrap();
        assert!(rounds <= 4, "{rounds}");
    });
}

#[test]
fn a_deadline_ends_the_wait_for_a_mutex_and_a_free_one_is_locked_even_after_it() {
    calm::run(|| {
        let mutex = Arc::new(Mutex::new(0));
        let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        *mutex.try_lock_until(past).unwrap() += 1;
        let guard = mutex.lock();
        let waits = Arc::clone(&mutex);
        let in_vain = Arc::new(AtomicBool::new(false));
        let was_in_vain = Arc::clone(&in_vain);
        fiber::spawn(move || {
            assert!(waits.try_lock().is_none());
            assert!(waits.try_lock_until(past).is_none());
            assert!(waits.try_lock_for(Duration::from_millis(2)).is_none());
            was_in_vain.store(true, Relaxed);
            *waits.try_lock_for(Duration::MAX).unwrap() += 1;
        })
        .detach();
        while !in_vain.load(Relaxed) {
            fiber::sleep(Duration::from_millis(1));
        }
        drop(guard);
        fiber::yield_now();
        assert_eq!(*mutex.lock(), 2);
    });
}

#[test]
fn a_panic_unlocks_what_its_fiber_holds() {
    calm::run(|| {
        let mutex = Arc::new(Mutex::new(1));
        let panics = Arc::clone(&mutex);
        let fiber = fiber::spawn(move || {
            *panics.lock() = 2;
            let _guard = panics.lock();
            std::panic::resume_unwind(Box::new("in the middle"));
        });
        assert!(fiber.join().is_err());
        assert_eq!(*mutex.lock(), 2);
    });
}

#[test]
fn locking_a_mutex_twice_panics() {
    calm::run(|| {
        let mutex = Mutex::new(());
        let _guard = mutex.lock();
        assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
        let again = catch_unwind(AssertUnwindSafe(|| drop(mutex.lock()))).unwrap_err();
        assert!(again.downcast_ref::<&str>().unwrap().contains("wait for itself"));
    });
}

#[test]
fn a_mutex_outlives_its_runtime_and_can_be_used_in_the_next_one() {
    let mutex = Mutex::new(0);
    for i in 0..3 {
        calm::run(|| *mutex.lock() += 1);
        assert_eq!(calm::run(|| *mutex.lock()), i + 1);
    }
    assert_eq!(mutex.into_inner(), 3);
}

#[test]
fn a_guard_that_outlives_its_runtime_unlocks_the_mutex() {
    thread_local! {
        static KEPT: RefCell<Option<fiber::MutexGuard<'static, u32>>> = const { RefCell::new(None) };
    }
    static MUTEX: Mutex<u32> = Mutex::new(0);
    calm::run(|| KEPT.set(Some(MUTEX.lock())));
    assert!(MUTEX.is_locked());
    KEPT.set(None);
    calm::run(|| assert!(MUTEX.try_lock().is_some()));
}

#[test]
fn each_notification_wakes_one_waiter_in_their_order() {
    calm::run(|| {
        let order = Rc::new(RefCell::new(Vec::new()));
        let pair = (Mutex::new(0), Condvar::new());
        fiber::scope(|scope| {
            for i in 0..5 {
                let (pair, order) = (&pair, AssertSend(Rc::clone(&order)));
                scope.spawn(move || {
                    let order = order;
                    let guard = pair.0.lock();
                    drop(pair.1.wait(guard));
                    order.0.borrow_mut().push(i);
                });
            }
            fiber::yield_now();
            pair.1.notify_one();
            (0..3).for_each(|_| fiber::yield_now());
            assert_eq!(*order.borrow(), [0]);
            pair.1.notify_all();
        });
        pair.1.notify_one();
        assert_eq!(*order.borrow(), [0, 1, 2, 3, 4]);
    });
}

/// The runtimes here have one worker.
struct AssertSend<T>(T);
#[allow(unsafe_code)]
// SAFETY: as above.
unsafe impl<T> Send for AssertSend<T> {}

#[test]
fn a_wait_ends_at_its_deadline_with_the_mutex_locked() {
    calm::run(|| {
        let (mutex, condvar) = (Mutex::new(1), Condvar::new());
        let guard = mutex.lock();
        let (mut guard, result) = condvar.wait_timeout(guard, Duration::from_millis(1));
        assert_eq!(result, Err(TimedOut));
        *guard += 1;
        let soon = fiber::now() + Duration::from_millis(1);
        let (guard, result) = condvar.wait_while_until(guard, soon, |value| *value == 2);
        assert_eq!((*guard, result), (2, Err(TimedOut)));
        let (guard, result) = condvar.wait_while_until(guard, soon, |value| *value == 3);
        assert_eq!((*guard, result), (2, Ok(())));
        assert!(mutex.is_locked());
        drop(guard);
        assert!(!mutex.is_locked());
    });
}

#[test]
fn two_fibers_take_turns_by_notifying_each_other() {
    calm::run(|| {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        let play = |mine: u32| {
            let mut turn = mutex.lock();
            for _ in 0..1000 {
                turn = condvar.wait_while(turn, |turn| *turn % 2 != mine);
                *turn += 1;
                condvar.notify_one();
            }
        };
        fiber::scope(|scope| {
            scope.spawn(|| play(0));
            scope.spawn(|| play(1));
        });
        assert_eq!(*mutex.lock(), 2000);
    });
}

#[test]
fn a_fiber_that_is_cancelled_when_it_should_get_a_mutex_leaves_it_to_the_next() {
    static MUTEX: Mutex<u32> = Mutex::new(0);
    calm::run(|| {
        let guard = MUTEX.lock();
        fiber::spawn(|| *MUTEX.lock() += 1).detach();
        // It cannot be cancelled, because it panics already.
        fiber::spawn(|| {
            let _at_drop = AtDrop(|| *MUTEX.lock() += 10);
            std::panic::resume_unwind(Box::new("in the middle"));
        })
        .detach();
        fiber::yield_now();
        drop(guard);
    });
    assert_eq!(calm::run(|| *MUTEX.lock()), 11);
}
