//! Priority inheritance: the owner of a mutex has the level of the fibers that wait for it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber as fiber;
use rowlock_fiber::{Candidates, Config, Mutex, RandomSchedule, Runtime, Semaphore};

/// Runs a program with a clock that each safepoint advances by a microsecond, and forty levels of
/// ten microseconds each, without boosts.
fn run(program: impl FnOnce()) {
    let rules = FeedbackRules { levels: 40, running_time: Span::from_micros(10), boost: Boost::Never };
    let deterministic = Some(RandomSchedule { seed: 1, candidates: Candidates::Highest });
    Runtime::new(Config { rules, deterministic, ..Config::default() }).run(program).unwrap();
}

/// Works for this many microseconds.
fn work(micros: u32) {
    (0..micros).for_each(|_| fiber::checkpoint());
}

/// How far a program is.
#[derive(Default)]
struct Progress {
    /// The low fiber holds what the high one will want.
    held: AtomicBool,
    over: AtomicBool,
}

/// Keeps a fiber at one of the middle levels ready until all is over: before one sinks too low,
/// another one starts.
fn crowd(progress: &Arc<Progress>) {
    work(50);
    if !progress.over.load(Relaxed) {
        let theirs = Arc::clone(progress);
        fiber::spawn(move || crowd(&theirs)).detach();
        work(100);
    }
}

/// How long a fiber of the highest level waits for what a fiber of a low level holds, beside a
/// crowd at middle levels.
fn wait(has: impl FnOnce(&Progress) + Send, wants: impl FnOnce()) -> Duration {
    let mut took = Duration::ZERO;
    run(|| {
        let progress = Arc::<Progress>::default();
        fiber::scope(|scope| {
            scope.spawn(|| {
                // To level 30.
                work(300);
                has(&progress);
            });
            while !progress.held.load(Relaxed) {
                fiber::sleep(Duration::from_micros(10));
            }
            for _ in 0..2 {
                let theirs = Arc::clone(&progress);
                fiber::spawn(move || crowd(&theirs)).detach();
            }
            fiber::sleep(Duration::from_micros(200));
            let began = fiber::now();
            wants();
            took = fiber::now() - began;
            progress.over.store(true, Relaxed);
        });
    });
    took
}

#[test]
fn only_without_inheritance_do_fibers_in_between_block_the_highest_forever() {
    let semaphore = Semaphore::new(1);
    let has = |progress: &Progress| {
        let _permit = semaphore.acquire();
        progress.held.store(true, Relaxed);
        work(50);
    };
    let took = wait(has, || assert!(semaphore.acquire_timeout(Duration::from_millis(20)).is_err()));
    assert!(took >= Duration::from_millis(20), "{took:?}");

    let mutex = Mutex::new(());
    let has = |progress: &Progress| {
        let _guard = mutex.lock();
        progress.held.store(true, Relaxed);
        work(50);
    };
    let took = wait(has, || drop(mutex.lock()));
    assert!(took < Duration::from_micros(200), "{took:?}");
}

#[test]
fn a_level_is_inherited_through_a_chain_of_mutexes() {
    let (first, second, third) = (Mutex::new(()), Mutex::new(()), Mutex::new(()));
    let has = |progress: &Progress| {
        fiber::scope(|scope| {
            let held = third.lock();
            for (mine, others) in [(&second, &third), (&first, &second)] {
                scope.spawn(move || {
                    let _mine = mine.lock();
                    let _others = others.lock();
                });
            }
            // The other two start to wait.
            fiber::sleep(Duration::from_micros(50));
            progress.held.store(true, Relaxed);
            work(50);
            drop(held);
        });
    };
    let took = wait(has, || drop(first.lock()));
    assert!(took < Duration::from_micros(300), "{took:?}");
}

#[test]
fn a_mutex_goes_to_the_highest_level_first_and_among_equals_to_the_first() {
    let (mutex, order) = (Mutex::new(()), std::sync::Mutex::new(Vec::new()));
    run(|| {
        fiber::scope(|scope| {
            let guard = mutex.lock();
            for (name, level) in [("c", 2), ("a", 0), ("d", 2), ("b", 1)] {
                let (mutex, order) = (&mutex, &order);
                scope.spawn(move || {
                    work(level * 10 + 2);
                    let _guard = mutex.lock();
                    order.lock().unwrap().push(name);
                });
                fiber::sleep(Duration::from_micros(100));
            }
            drop(guard);
        });
    });
    assert_eq!(order.into_inner().unwrap(), ["a", "b", "c", "d"]);
}

#[test]
fn a_fiber_that_has_unlocked_a_mutex_is_at_its_own_level_again() {
    let (mutex, order) = (Mutex::new(()), std::sync::Mutex::new(Vec::new()));
    run(|| {
        fiber::scope(|scope| {
            scope.spawn(|| {
                work(105);
                let guard = mutex.lock();
                work(30);
                drop(guard);
                order.lock().unwrap().push("the low fiber has unlocked it");
                work(20);
                order.lock().unwrap().push("the low fiber is done");
            });
            fiber::sleep(Duration::from_micros(115));
            drop(mutex.lock());
            order.lock().unwrap().push("the high fiber has locked it");
            work(30);
            order.lock().unwrap().push("the high fiber is done");
        });
    });
    let order = order.into_inner().unwrap();
    assert_eq!(order.last(), Some(&"the low fiber is done"), "{order:?}");
}
