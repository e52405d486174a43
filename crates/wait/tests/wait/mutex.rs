//! The mutex with real threads, by every waiting rule.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rowlock_wait::{Mutex, TimedOut};

use crate::costs::by;

/// A number of turns that takes little time even if more threads than CPUs never block: then each
/// turn may cost a timeslice.
fn turns(rule: WaitingRule) -> u32 {
    match rule {
        WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield => 20,
        _ => 2_000,
    }
}

/// Lets threads acquire the mutex in turn, and checks that no other thread holds it meanwhile.
fn take_turns(mutex: &Mutex<u32>, threads: u32, turns: u32) {
    let inside = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for turn in 0..turns {
                    let mut count = mutex.lock();
                    assert_eq!(inside.fetch_add(1, Relaxed), 0, "another thread holds the mutex");
                    *count += 1;
                    if turn % 64 == 0 {
                        std::thread::yield_now();
                    }
                    assert_eq!(inside.fetch_sub(1, Relaxed), 1, "another thread holds the mutex");
                }
            });
        }
    });
    assert_eq!(*mutex.lock(), threads * turns);
}

#[test]
fn every_rule_admits_one_thread_at_a_time() {
    for entry in WAITING {
        for threads in [1, 2, 9] {
            take_turns(&Mutex::with(0, by(entry.example)), threads, turns(entry.example));
        }
    }
}

#[test]
fn threads_on_one_cpu_take_turns() {
    for entry in WAITING {
        std::thread::scope(|scope| {
            // Threads inherit the affinity.
            scope.spawn(|| {
                let _pinned = sys::cpus::pin(sys::cpus::current()).unwrap();
                take_turns(&Mutex::with(0, by(entry.example)), 3, turns(entry.example) / 10);
            });
        });
    }
}

#[test]
fn a_held_mutex_is_not_acquired() {
    let mutex = Mutex::new(7);
    let guard = mutex.try_lock().unwrap();
    assert!(mutex.try_lock().is_none() && mutex.is_locked());
    assert_eq!(format!("{mutex:?}").split(", waiting").next(), Some("Mutex { value: <locked>"));
    drop(guard);
    assert_eq!(format!("{mutex:?}").split(", waiting").next(), Some("Mutex { value: 7"));
    assert_eq!(mutex.try_lock().as_deref(), Some(&7));
    assert!(!mutex.is_locked());
    assert_eq!(mutex.into_inner(), 7);
}

#[test]
fn every_rule_times_out() {
    for entry in WAITING {
        let mutex = Mutex::with((), by(entry.example));
        let guard = mutex.lock();
        assert_eq!(mutex.lock_timeout(Instant::now()).err(), Some(TimedOut), "{}", entry.form);
        assert_eq!(mutex.lock_timeout(Duration::from_micros(200)).err(), Some(TimedOut), "{}", entry.form);
        assert_eq!(mutex.statistics().waits, 2);
        drop(guard);
        assert!(mutex.lock_timeout(Instant::now()).is_ok());
        assert!(mutex.lock_timeout(Duration::ZERO).is_ok());
        assert_eq!(mutex.statistics().waits, 2);
    }
}

#[test]
fn threads_that_give_up_leave_no_thread_asleep() {
    for entry in WAITING {
        let mutex = Mutex::with(0_u32, by(entry.example));
        let turns = turns(entry.example);
        let timed_out: u32 = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..turns).for_each(|_| *mutex.lock() += 1));
            }
            let impatient = [0, 1].map(|_| {
                scope.spawn(|| {
                    let tries = (0..turns).map(|turn| mutex.lock_timeout(Duration::from_micros((turn % 50).into())));
                    tries.map(|guard| guard.map_or(1, |mut count| (*count += 1, 0).1)).sum::<u32>()
                })
            });
            impatient.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(*mutex.lock() + timed_out, 4 * turns, "{}", entry.form);
    }
}

#[test]
fn a_thread_that_finds_it_held_waits_and_is_counted() {
    let mutex = Mutex::with((), by(WaitingRule::AlwaysBlock));
    drop(mutex.lock());
    assert_eq!(mutex.statistics().waits, 0);
    let guard = mutex.lock();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| drop(mutex.lock()));
        while mutex.statistics().waits == 0 {
            std::thread::yield_now();
        }
        assert!(!waiter.is_finished());
        drop(guard);
        waiter.join().unwrap();
    });
    assert!(mutex.statistics().blocks >= 1);
}

#[test]
fn a_panic_releases_the_mutex() {
    let mutex = Mutex::new(1);
    let panicked = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut value = mutex.lock();
            *value = 2;
            std::panic::resume_unwind(Box::new("a thread may panic"));
        });
        thread.join().is_err()
    });
    assert!(panicked);
    assert_eq!(*mutex.lock(), 2);
}

#[test]
fn a_value_without_a_known_size_is_guarded_too() {
    let mutex: Box<Mutex<[u32]>> = Box::new(Mutex::new([1, 2, 3]));
    mutex.lock()[1] = 5;
    assert_eq!(mutex.lock().iter().sum::<u32>(), 9);
}

#[test]
fn the_next_owner_may_free_the_mutex() {
    for _ in 0..500 {
        let mutex = Arc::new(Mutex::with((), by(WaitingRule::AlwaysBlock)));
        let owners = [mutex.clone(), mutex].map(|mutex| std::thread::spawn(move || drop(mutex.lock())));
        owners.into_iter().for_each(|owner| owner.join().unwrap());
    }
}
