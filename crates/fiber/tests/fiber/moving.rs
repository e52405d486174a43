//! Started fibers that move from one worker to another.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use rowlock_fiber::{Builder, Config, Runtime, Semaphore, channel, pin, scope, spawn, yield_now};
use rustix::thread::{Pid, gettid, sched_yield};

/// A runtime with two workers.
fn with_two(preemptible: bool) -> Runtime {
    Runtime::new(Config { workers: 2, preemptible, ..Config::default() })
}

/// Computes for some time, and reaches no safepoint.
fn compute() {
    std::hint::black_box((0..20_000).fold(0_u64, |sum, i| sum.wrapping_mul(31) ^ std::hint::black_box(i)));
}

/// Lets eight fibers start and wait on the first fiber's worker, and then compute and call a
/// function again and again, until one of them has run on another worker and `enough` returns true.
fn crowd(preemptible: bool, calls: impl Fn() + Sync, enough: impl Fn() -> bool) {
    let (began, [blocked, released, over, moved]) = (Semaphore::new(0), [(); 4].map(|()| AtomicBool::new(false)));
    let waiting = AtomicU64::new(0);
    with_two(preemptible)
        .run(|| {
            let first = gettid();
            scope(|scope| {
                // The other worker runs nothing else meanwhile.
                let blocks = || {
                    let _pin = pin();
                    if gettid() != first {
                        blocked.store(true, Relaxed);
                        while !released.load(Relaxed) {
                            sched_yield();
                        }
                    }
                };
                while !blocked.load(Relaxed) {
                    // If it starts on this worker, it ends at once.
                    scope.spawn_with(Builder::new().preemptible(false), blocks).unwrap();
                    yield_now();
                }
                for _ in 0..8 {
                    scope.spawn(|| {
                        let thread = gettid();
                        waiting.fetch_add(1, Relaxed);
                        drop(began.acquire());
                        while !over.load(Relaxed) {
                            compute();
                            calls();
                            if gettid() != thread {
                                moved.store(true, Relaxed);
                            }
                        }
                    });
                }
                while waiting.load(Relaxed) < 8 {
                    yield_now();
                }
                released.store(true, Relaxed);
                began.release(1);
                while !moved.load(Relaxed) || !enough() {
                    yield_now();
                }
                over.store(true, Relaxed);
            });
        })
        .unwrap();
}

#[test]
fn fibers_that_have_waited_on_one_worker_are_spread_over_all() {
    for preemptible in [false, true] {
        crowd(preemptible, yield_now, || true);
    }
}

#[test]
fn a_fiber_that_reaches_no_safepoint_of_its_own_is_moved_when_a_tick_comes() {
    crowd(true, || (), || true);
}

#[test]
fn a_pinned_fiber_stays_on_its_kernel_thread() {
    let rounds = AtomicU64::new(0);
    let stays = || {
        let pinned = pin();
        let nested = pin();
        let thread = gettid();
        for _ in 0..20 {
            yield_now();
            compute();
            assert_eq!(gettid(), thread);
        }
        rounds.fetch_add(1, Relaxed);
        drop((nested, pinned));
        // Here it may move.
        yield_now();
    };
    crowd(true, stays, || rounds.load(Relaxed) > 100);
}

#[test]
fn what_belongs_to_a_thread_goes_along() {
    std::thread_local! { static MINE: std::cell::RefCell<Vec<u64>> = const { std::cell::RefCell::new(Vec::new()) }; }
    let next = AtomicU64::new(0);
    let belongs = || {
        let me = thread::current().id();
        let number = next.fetch_add(1, Relaxed);
        MINE.with_borrow_mut(|mine| {
            mine.push(number);
            yield_now();
            assert_eq!(mine.pop(), Some(number));
        });
        assert_eq!(thread::current().id(), me);
        // A standard mutex belongs to the fiber that has locked it.
        let std = std::sync::Mutex::new(0);
        let guard = std.lock().unwrap();
        yield_now();
        assert!(std.try_lock().is_err());
        drop(guard);
    };
    crowd(true, belongs, || next.load(Relaxed) > 200);
}

#[test]
fn two_fibers_that_hand_over_to_each_other_come_to_one_worker() {
    let together = Arc::new(AtomicBool::new(false));
    with_two(false)
        .run(|| {
            let ((ping, pinged), (pong, ponged)) = (channel::<Pid>(1), channel::<Pid>(1));
            let (one, other) = (Arc::clone(&together), Arc::clone(&together));
            let first = spawn(move || {
                // Many times in a row, so that it is no coincidence.
                let mut times = 0;
                while times < 1_000 {
                    ping.send(gettid()).unwrap();
                    times = if ponged.recv().unwrap() == gettid() { times + 1 } else { 0 };
                }
                one.store(true, Relaxed);
            });
            let second = spawn(move || {
                while let Ok(thread) = pinged.recv() {
                    let _ = pong.send(if thread == gettid() { thread } else { gettid() });
                }
                assert!(other.load(Relaxed));
            });
            first.join().unwrap();
            second.join().unwrap();
        })
        .unwrap();
}
