//! Fibers that are interrupted while they hold locks.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use policy::Span;
use policy::feedback::Boost;
use rowlock_fiber as fiber;
use rowlock_fiber::{
    Activity, Builder, Condvar, Mutex, Preemptions, RwLock, ScriptedClock, Semaphore, ThreadControlBlocks, checkpoint,
    preemptions, scope, yield_now,
};
use sys::scheduling::Thread;

use crate::scripted::{self, KernelLock, TURN};

/// Runs a program with a scripted clock and four levels.
fn run<T>(boost: Boost, program: impl FnOnce(&ScriptedClock) -> T) -> T {
    let scripted = scripted::runtime(ThreadControlBlocks::Auto, 4, boost);
    scripted.run(|| program(&scripted.clock)).unwrap()
}

/// The same with a thread outside that makes ticks: one comes each time the program's kernel thread
/// waits for this lock.
fn run_with_ticks_at<T>(lock: &KernelLock, boost: Boost, program: impl FnOnce(&ScriptedClock) -> T) -> T {
    let (worker, over) = (Thread::current(), AtomicBool::new(false));
    run(boost, |clock| {
        std::thread::scope(|threads| {
            let _over = Over(&over);
            threads.spawn(|| scripted::advance_at(clock, worker, lock, &over));
            program(clock)
        })
    })
}

/// A number that a fiber advances while it runs, so that others see it run.
#[derive(Default)]
struct Progress(AtomicU64);

impl Progress {
    fn goes_on(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Whether the fiber with this name waits for something.
fn waits(name: &str) -> bool {
    let waits = |seen: &fiber::FiberSnapshot| matches!(seen.activity, Activity::Waiting(_));
    fiber::dump().fibers.iter().any(|seen| seen.label.name.as_deref() == Some(name) && waits(seen))
}

/// The level of the fiber with this name.
fn level(name: &str) -> u32 {
    let dump = fiber::dump();
    dump.fibers.iter().find(|seen| seen.label.name.as_deref() == Some(name)).unwrap().level
}

/// Ends the test when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Counts the effects of ticks on two fibers that compute and alternate, while the first one, which
/// has called `before`, computes for this many turns. For use in [`run`].
fn beside_another<T>(clock: &ScriptedClock, turns: u32, before: impl FnOnce() -> T + Send) -> Preemptions {
    let over = AtomicBool::new(false);
    scope(|scope| {
        let first = scope.spawn(|| {
            let _over = Over(&over);
            let _kept = before();
            let began = preemptions();
            (0..turns).for_each(|_| clock.advance(TURN));
            let mut counts = preemptions();
            counts.taken -= began.taken;
            counts.extended -= began.extended;
            counts
        });
        scope.spawn(|| {
            while !over.load(Relaxed) {
                clock.advance(TURN);
            }
        });
        first.join().unwrap()
    })
}

#[test]
fn a_fiber_that_has_released_all_locks_gets_no_extension() {
    let (mutex, lock, condvar) = (Mutex::new(()), RwLock::new(()), Condvar::new());
    let before = || {
        let first = mutex.lock();
        let second = lock.write();
        assert!(mutex.try_lock().is_none() && lock.try_read().is_none());
        drop((first, second));
        drop(mutex.try_lock().unwrap());
        let (guard, result) = condvar.wait_timeout(mutex.lock(), Duration::from_micros(1));
        assert!(result.is_err());
        drop(guard);
        let panics = catch_unwind(AssertUnwindSafe(|| {
            let _guard = mutex.lock();
            resume_unwind(Box::new(()));
        }));
        assert!(panics.is_err());
        drop(mutex.lock());
        // A reader is one of many.
        lock.read()
    };
    let counts = run(Boost::Never, |clock| beside_another(clock, 20, before));
    assert_eq!((counts.taken, counts.extended), (40, 0));
}

#[test]
fn a_fiber_that_holds_a_lock_gets_each_turn_twice_and_is_then_preempted() {
    let (mutex, lock) = (Mutex::new(()), RwLock::new(()));
    // The other fiber has half as many turns.
    let judge = |counts: Preemptions| assert_eq!((counts.taken, counts.extended), (40, 20));
    judge(run(Boost::Never, |clock| beside_another(clock, 40, || mutex.lock())));
    judge(run(Boost::Never, |clock| beside_another(clock, 40, || (lock.write(), mutex.lock()))));
    judge(run(Boost::Never, |clock| beside_another(clock, 40, || std::mem::forget(Mutex::new(()).lock()))));
}

#[test]
fn forgotten_guards_do_not_count_for_the_next_fiber_on_the_stack() {
    let counts = run(Boost::Never, |clock| {
        fiber::spawn(|| std::mem::forget(Mutex::new(()).lock())).join().unwrap();
        beside_another(clock, 20, || ())
    });
    assert_eq!((counts.taken, counts.extended), (40, 0));
}

#[test]
fn a_fiber_whose_turn_was_extended_gives_way_when_it_unlocks() {
    let (mutex, over, progress) = (Mutex::new(()), AtomicBool::new(false), Progress::default());
    let gone_on = run(Boost::Never, |clock| {
        scope(|scope| {
            let other = || {
                while !over.load(Relaxed) {
                    progress.goes_on();
                    clock.advance(TURN);
                }
            };
            scope.spawn_with(Builder::new().name("other"), other).unwrap();
            let gives_way = || {
                let guard = mutex.lock();
                let extended = preemptions().extended;
                clock.advance(TURN);
                assert_eq!(preemptions().extended, extended + 1);
                let before = progress.get();
                drop(guard);
                progress.get() - before
            };
            let over = &over;
            let holder = move || {
                let _over = Over(over);
                // To the lowest level, where they alternate from one turn to the next.
                while level("other") < 3 || level("holder") < 3 {
                    clock.advance(TURN);
                }
                [(); 20].map(|()| gives_way())
            };
            scope.spawn_with(Builder::new().name("holder"), holder).unwrap().join().unwrap()
        })
    });
    assert_eq!(gone_on, [1; 20]);
}

#[test]
fn a_mutex_goes_to_the_highest_level_first_regardless_of_waiting_times() {
    let (mutex, order) = (Mutex::new(()), std::sync::Mutex::new(Vec::new()));
    let levels = run(Boost::Never, |clock| {
        let sinks = |name, to| {
            let (mutex, order) = (&mutex, &order);
            move || {
                while level(name) < to {
                    clock.advance(TURN);
                }
                let _guard = mutex.lock();
                order.lock().unwrap().push(name);
            }
        };
        scope(|scope| {
            let holder = scope.spawn(|| {
                let _guard = mutex.lock();
                for (name, to) in [("low", 2), ("high", 0)] {
                    scope.spawn_with(Builder::new().name(name), sinks(name, to)).unwrap();
                    while !waits(name) {
                        clock.advance(TURN);
                    }
                }
                // Their levels when the lock is released.
                ["low", "high"].map(level)
            });
            holder.join().unwrap()
        })
    });
    assert_eq!((order.into_inner().unwrap(), levels), (vec!["high", "low"], [2, 0]));
}

#[test]
fn a_fiber_that_unlocks_gives_way_at_once_to_a_waiter_at_a_higher_level() {
    let (mutex, had) = (Mutex::new(()), AtomicBool::new(false));
    run(Boost::Never, |clock| {
        scope(|scope| {
            let holder = || {
                while level("holder") < 3 {
                    clock.advance(TURN);
                    checkpoint();
                }
                let guard = mutex.lock();
                let wants = || {
                    let _guard = mutex.lock();
                    had.store(true, Relaxed);
                };
                scope.spawn_with(Builder::new().name("wants"), wants).unwrap();
                while !waits("wants") {
                    clock.advance(TURN);
                }
                drop(guard);
                had.load(Relaxed)
            };
            assert!(scope.spawn_with(Builder::new().name("holder"), holder).unwrap().join().unwrap());
        });
    });
}

/// Fibers that start one after another, each at the highest level, and compute for a turn. The next
/// one is ready before one starts.
struct Newcomers {
    begun: Progress,
    /// The maximum number of them.
    most: u64,
    over: AtomicBool,
    clock: ScriptedClock,
}

fn newcomer(all: &Arc<Newcomers>) {
    if all.begun.get() < all.most && !all.over.load(Relaxed) {
        all.begun.goes_on();
        let next = Arc::clone(all);
        fiber::spawn(move || newcomer(&next)).detach();
        all.clock.advance(TURN);
    }
}

/// Lets a fiber at the lowest level hold something, and compute for eight turns after another fiber
/// has begun to wait for it, beside newcomers that keep coming, up to this number. Returns how many
/// of them had started when the other fiber got it.
fn among_newcomers<G>(
    clock: &ScriptedClock,
    most: u64,
    has: impl FnOnce() -> G + Send,
    wants: impl FnOnce() + Send,
    is_waited_for: impl Fn() -> bool + Sync,
) -> u64 {
    let all =
        Arc::new(Newcomers { begun: Progress::default(), most, over: AtomicBool::new(false), clock: clock.clone() });
    let held = Semaphore::new(0);
    scope(|scope| {
        let _over = Over(&all.over);
        let holder = || {
            while level("holder") < 3 {
                clock.advance(TURN);
                checkpoint();
            }
            let _kept = has();
            held.release(1);
            while !is_waited_for() {
                clock.advance(TURN);
            }
            let first = Arc::clone(&all);
            fiber::spawn(move || newcomer(&first)).detach();
            (0..8).for_each(|_| clock.advance(TURN));
        };
        scope.spawn_with(Builder::new().name("holder"), holder).unwrap();
        drop(held.acquire());
        let wants = || {
            wants();
            let begun = all.begun.get();
            // The fiber that started this may be at a level that has no turn before that.
            all.over.store(true, Relaxed);
            begun
        };
        scope.spawn_with(Builder::new().name("wants"), wants).unwrap().join().unwrap()
    })
}

/// The number of newcomers.
const MANY: u64 = 30;

#[test]
fn an_owner_runs_at_the_level_of_its_waiter_before_the_last_newcomer() {
    let mutex = Mutex::new(());
    let (has, wants) = (|| mutex.lock(), || drop(mutex.lock()));
    let begun = run(Boost::Never, |clock| among_newcomers(clock, MANY, has, wants, || waits("wants")));
    // Each of the holder's turns is doubled for its lock, and a newcomer's follows it; the fifth
    // newcomer was ready when it unlocked.
    assert_eq!(begun, 5);
}

/// The same with a mutex of which the library knows nothing.
fn with_a_foreign_mutex(boost: Boost, most: u64) -> u64 {
    let (mutex, wanted) = (KernelLock::default(), AtomicBool::new(false));
    let wants = || {
        wanted.store(true, Relaxed);
        drop(mutex.lock());
    };
    let is_wanted = || wanted.load(Relaxed);
    run_with_ticks_at(&mutex, boost, |clock| among_newcomers(clock, most, || mutex.lock(), wants, is_wanted))
}

#[test]
fn without_boosts_the_owner_of_a_foreign_lock_runs_after_all_newcomers() {
    assert_eq!(with_a_foreign_mutex(Boost::Never, MANY), MANY);
}

#[test]
fn with_boosts_the_owner_of_a_foreign_lock_runs_although_newcomers_never_end() {
    // The holder has one turn after each boost, and a boost comes every five turns.
    assert_eq!(with_a_foreign_mutex(Boost::Every(Span::from_millis(5)), u64::MAX), 46);
}

#[test]
fn a_fiber_that_is_not_preemptible_donates_its_timeslice_to_the_owner_of_a_lock() {
    let mutex = KernelLock::default();
    let [held, wanted, over] = [(); 3].map(|()| AtomicBool::new(false));
    run_with_ticks_at(&mutex, Boost::Never, |clock| {
        let compute_until = |over: &AtomicBool| {
            while !over.load(Relaxed) {
                clock.advance(TURN);
            }
        };
        scope(|scope| {
            let over = Over(&over);
            for _ in 0..5 {
                scope.spawn(|| compute_until(over.0));
            }
            scope.spawn(|| {
                let guard = mutex.lock();
                held.store(true, Relaxed);
                compute_until(&wanted);
                drop(guard);
                compute_until(over.0);
            });
            while !held.load(Relaxed) {
                yield_now();
            }
            let wants = || {
                let before = preemptions().donated;
                wanted.store(true, Relaxed);
                drop(mutex.lock());
                preemptions().donated - before
            };
            let wants = scope.spawn_with(Builder::new().preemptible(false), wants).unwrap();
            assert_eq!(wants.join().unwrap(), 6);
        });
    });
}
