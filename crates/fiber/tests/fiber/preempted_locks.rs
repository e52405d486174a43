//! Fibers that are interrupted while they have locks.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use policy::Span;
use policy::feedback::{Boost, Rules};
use rowlock_fiber as fiber;
use rowlock_fiber::{Builder, Condvar, Config, Doing, Mutex, Preemptions, Runtime, RwLock, preemptions, scope, sleep};

/// What has not ended by then never will.
const FOR_EVER: Duration = Duration::from_secs(1_800);

/// Runs a program, with one worker and four levels; ends the process if that does not come to an end. One program runs at a time: where the library waited for what another
/// program's has locked, it would lend its CPU, and it is counted here whose turn it is.
fn run<T>(boost: Boost, program: impl FnOnce() -> T) -> T {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let over = Arc::new(());
    let runs = Arc::downgrade(&over);
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    std::thread::spawn(move || {
        std::thread::sleep(FOR_EVER);
        if runs.strong_count() > 0 {
            eprintln!("{name} does not come to an end");
            std::process::abort();
        }
    });
    let rules = Rules { levels: 4, running_time: Span::from_micros(200), boost };
    Runtime::new(Config { rules, preemptible: true, ..Config::default() }).run(program).unwrap()
}

/// Computes until this is so, and comes to no point.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::hint::spin_loop();
    }
}

/// Computes for so many steps, and comes to no point.
fn compute(steps: u32) {
    (0..steps).for_each(|_| std::hint::spin_loop());
}

/// A number that a fiber puts forward while it runs, so that others see it run.
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

/// Waits until this is so; others run meanwhile.
fn sleep_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        sleep(Duration::from_millis(1));
    }
}

/// Whether a fiber of this name waits for something.
fn waits(name: &str) -> bool {
    let waits = |seen: &fiber::Seen| matches!(seen.doing, Doing::Waiting(_));
    fiber::dump().fibers.iter().any(|seen| seen.label.name.as_deref() == Some(name) && waits(seen))
}

/// The level of the fiber of this name.
fn level(name: &str) -> u32 {
    let dump = fiber::dump();
    dump.fibers.iter().find(|seen| seen.label.name.as_deref() == Some(name)).unwrap().level
}

/// When this is dropped it is over, whatever happens.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What ticks do to two fibers that compute and give way by turns, in so many turns, the first of which has done this before. Within [`run`].
fn beside_another<T>(turns: u64, before: impl FnOnce() -> T + Send) -> Preemptions {
    let (over, began) = (AtomicBool::new(false), OnceLock::new());
    scope(|scope| {
        let over = Over(&over);
        scope.spawn(|| {
            let _kept = before();
            began.get_or_init(preemptions);
            until(|| over.0.load(Relaxed));
        });
        scope.spawn(|| until(|| over.0.load(Relaxed)));
        sleep_until(|| began.get().is_some());
        let began = began.get().unwrap();
        sleep_until(|| preemptions().taken >= began.taken + turns);
        let mut counts = preemptions();
        counts.taken -= began.taken;
        counts.favoured -= began.favoured;
        counts
    })
}

#[test]
fn who_has_given_back_all_locks_is_not_favoured() {
    let (mutex, lock, condvar) = (Mutex::new(()), RwLock::new(()), Condvar::new());
    let before = || {
        let first = mutex.lock().unwrap();
        let second = lock.write().unwrap();
        assert!(mutex.try_lock().is_err() && lock.try_read().is_err());
        drop((first, second));
        drop(mutex.try_lock().unwrap());
        let (guard, result) = condvar.wait_timeout(mutex.lock().unwrap(), Duration::from_micros(1)).unwrap();
        assert!(result.is_err());
        drop(guard);
        let panics = catch_unwind(AssertUnwindSafe(|| {
            let _guard = mutex.lock().unwrap();
            resume_unwind(Box::new(()));
        }));
        assert!(panics.is_err());
        drop(mutex.lock().unwrap_err());
        // Who only reads is one of many.
        lock.read().unwrap()
    };
    let counts = run(Boost::Never, || beside_another(20, before));
    assert_eq!(counts.favoured, 0, "{counts:?}");
}

#[test]
fn who_keeps_a_lock_has_each_turn_once_more_and_then_gives_way() {
    let (mutex, lock) = (Mutex::new(()), RwLock::new(()));
    let judge = |counts: Preemptions| {
        // Every other turn is the other fiber's, and one may have been about to begin or to end.
        assert!(counts.favoured > 0 && counts.favoured * 2 <= counts.taken + 2, "{counts:?}");
    };
    judge(run(Boost::Never, || beside_another(40, || mutex.lock().unwrap())));
    judge(run(Boost::Never, || beside_another(40, || (lock.write().unwrap(), mutex.lock().unwrap()))));
    judge(run(Boost::Never, || beside_another(40, || std::mem::forget(Mutex::new(()).lock().unwrap()))));
}

#[test]
fn what_a_fiber_forgets_is_not_counted_for_the_next_one_on_its_stack() {
    let counts = run(Boost::Never, || {
        fiber::spawn(|| std::mem::forget(Mutex::new(()).lock().unwrap())).join().unwrap();
        beside_another(20, || ())
    });
    assert_eq!(counts.favoured, 0, "{counts:?}");
}

#[test]
fn who_was_favoured_gives_way_when_it_unlocks() {
    let (mutex, over, progress) = (Mutex::new(()), AtomicBool::new(false), Progress::default());
    run(Boost::Never, || {
        scope(|scope| {
            let over = Over(&over);
            let other = || {
                until(|| {
                    progress.goes_on();
                    over.0.load(Relaxed)
                });
            };
            scope.spawn_with(Builder::new().name("other"), other).unwrap();
            let gives_way = || {
                let guard = mutex.lock().unwrap();
                let favoured = preemptions().favoured;
                until(|| preemptions().favoured > favoured);
                let before = progress.get();
                drop(guard);
                progress.get() > before
            };
            let holder = move || {
                // To the lowest level, where they are equals from one turn to the next.
                until(|| level("other") == 3 && level("holder") == 3);
                (0..20).filter(|_| gives_way()).count()
            };
            let times = scope.spawn_with(Builder::new().name("holder"), holder).unwrap().join().unwrap();
            // Where the machine is late, its turn may end by a tick before it unlocks.
            assert!(times >= 10, "{times}");
        });
    });
}

/// In which order two fibers get a mutex of which the first one comes for it at a low level, and the second one at the highest; with the levels that they were at when it was given back.
fn order_by_level() -> (Vec<&'static str>, [u32; 2]) {
    let (mutex, order) = (Mutex::new(()), std::sync::Mutex::new(Vec::new()));
    let mut levels = [0; 2];
    let sinks = |name, to| {
        let (mutex, order) = (&mutex, &order);
        move || {
            until(|| to == 0 || level(name) >= to);
            let _guard = mutex.lock().unwrap();
            order.lock().unwrap().push(name);
        }
    };
    run(Boost::Every(Span::from_millis(50)), || {
        scope(|scope| {
            scope.spawn(|| {
                let _guard = mutex.lock().unwrap();
                for (name, to) in [("low", 2), ("high", 0)] {
                    scope.spawn_with(Builder::new().name(name), sinks(name, to)).unwrap();
                    until(|| waits(name));
                }
                levels = ["low", "high"].map(level);
            });
        });
    });
    (order.into_inner().unwrap(), levels)
}

#[test]
fn a_mutex_goes_to_the_highest_level_first_however_long_others_have_waited() {
    // Where the machine is late the second one may have sunk, too, or there was a boost meanwhile.
    let mut seen = order_by_level();
    while seen.1[0] < 2 || seen.1[1] > 0 {
        seen = order_by_level();
    }
    assert_eq!(seen.0, ["high", "low"]);
}

#[test]
fn who_unlocks_gives_way_at_once_to_who_is_at_a_higher_level_and_has_waited() {
    let (mutex, had) = (Mutex::new(()), AtomicBool::new(false));
    run(Boost::Never, || {
        scope(|scope| {
            let holder = || {
                until(|| level("holder") == 3);
                let guard = mutex.lock().unwrap();
                let wants = || {
                    let _guard = mutex.lock().unwrap();
                    had.store(true, Relaxed);
                };
                scope.spawn_with(Builder::new().name("wants"), wants).unwrap();
                until(|| waits("wants"));
                drop(guard);
                had.load(Relaxed)
            };
            let holder = scope.spawn_with(Builder::new().name("holder"), holder).unwrap();
            // Beside nobody it would not sink.
            sleep_until(|| holder.is_finished());
            assert!(holder.join().unwrap());
        });
    });
}

/// Fibers that come one after another, each at the highest level, and compute; the next one is ready before one does.
#[derive(Default)]
struct Newcomers {
    begun: Progress,
    /// There are no more than so many.
    most: u64,
    over: AtomicBool,
}

fn newcomer(all: &Arc<Newcomers>) {
    if all.begun.get() < all.most && !all.over.load(Relaxed) {
        all.begun.goes_on();
        let next = Arc::clone(all);
        fiber::spawn(move || newcomer(&next)).detach();
        compute(10_000);
    }
}

/// Lets a fiber at the lowest level have something, and compute until another one has come for it and for a while more, beside newcomers, of which there are always more, up to so many.
/// Returns how many of them had begun when the other one had it.
fn among_newcomers<G>(
    boost: Boost,
    most: u64,
    has: impl FnOnce() -> G + Send,
    wants: impl FnOnce() + Send,
    is_waited_for: impl Fn() -> bool + Sync,
) -> u64 {
    let all = Arc::new(Newcomers { most, ..Newcomers::default() });
    let held = AtomicBool::new(false);
    run(boost, || {
        scope(|scope| {
            let _over = Over(&all.over);
            let holder = || {
                until(|| level("holder") == 3);
                let _kept = has();
                held.store(true, Relaxed);
                until(&is_waited_for);
                let first = Arc::clone(&all);
                fiber::spawn(move || newcomer(&first)).detach();
                // For several turns, if it has them.
                let began = Instant::now();
                until(|| began.elapsed() > Duration::from_millis(2));
            };
            scope.spawn_with(Builder::new().name("holder"), holder).unwrap();
            sleep_until(|| held.load(Relaxed));
            let wants = || {
                wants();
                let begun = all.begun.get();
                // Who has started this may be at a level that has no turn before that.
                all.over.store(true, Relaxed);
                begun
            };
            scope.spawn_with(Builder::new().name("wants"), wants).unwrap().join().unwrap()
        })
    })
}

// Where the machine is late, fibers may be at lower levels than they are meant to be: these happen in one of ten times at least, and would not in any without what they are about.

/// So many newcomers come.
const MANY: u64 = 30;

#[test]
fn who_has_a_mutex_goes_on_with_the_level_of_who_wants_it_before_the_last_newcomer() {
    let goes_on = || {
        let mutex = Mutex::new(());
        let (has, wants) = (|| mutex.lock().unwrap(), || drop(mutex.lock().unwrap()));
        among_newcomers(Boost::Never, MANY, has, wants, || waits("wants")) < MANY
    };
    assert!((0..10).any(|_| goes_on()));
}

/// The same with a mutex that the library knows nothing of.
fn with_a_mutex_of_the_standard_librarys(boost: Boost, most: u64) -> u64 {
    let (mutex, wanted) = (std::sync::Mutex::new(()), AtomicBool::new(false));
    let wants = || {
        wanted.store(true, Relaxed);
        drop(mutex.lock().unwrap());
    };
    among_newcomers(boost, most, || mutex.lock().unwrap(), wants, || wanted.load(Relaxed))
}

#[test]
fn who_has_what_the_library_does_not_know_of_goes_on_after_all_newcomers_where_there_are_no_boosts() {
    assert!((0..10).any(|_| with_a_mutex_of_the_standard_librarys(Boost::Never, MANY) == MANY));
}

#[test]
fn who_has_what_the_library_does_not_know_of_goes_on_with_a_boost_though_newcomers_never_end() {
    with_a_mutex_of_the_standard_librarys(Boost::Every(Span::from_millis(5)), u64::MAX);
}

#[test]
fn who_cannot_be_interrupted_lends_its_cpu_to_who_has_what_it_waits_for() {
    let mutex = std::sync::Mutex::new(());
    let (held, wanted, over) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    run(Boost::Never, || {
        scope(|scope| {
            let over = Over(&over);
            for _ in 0..5 {
                scope.spawn(|| until(|| over.0.load(Relaxed)));
            }
            scope.spawn(|| {
                let _guard = mutex.lock().unwrap();
                held.store(true, Relaxed);
                until(|| wanted.load(Relaxed));
                compute(20_000);
            });
            sleep_until(|| held.load(Relaxed));
            let before = preemptions().lent;
            wanted.store(true, Relaxed);
            drop(mutex.lock().unwrap());
            assert!(preemptions().lent > before);
            let wants = || drop(mutex.lock().unwrap());
            scope.spawn_with(Builder::new().preemptible(false), wants).unwrap().join().unwrap();
        });
    });
}
