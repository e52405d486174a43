//! Runs whose schedule is drawn from a seed, and runs whose time is scripted.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rowlock_fiber as fiber;
use rowlock_fiber::{Candidates, Config, RandomSchedule, RecvTimeoutError, RunError, Runtime, ScriptedClock};

fn runtime(seed: u64, candidates: Candidates) -> Runtime {
    Runtime::new(Config { deterministic: Some(RandomSchedule { seed, candidates }), ..Config::default() })
}

/// The steps of five fibers, and their order.
fn trace(seed: u64, candidates: Candidates) -> Vec<(u32, u32, Duration)> {
    let trace = Mutex::new(Vec::new());
    let run = runtime(seed, candidates).run(|| {
        let began = fiber::now();
        let note =
            |who, what| trace.lock().unwrap_or_else(PoisonError::into_inner).push((who, what, fiber::now() - began));
        fiber::scope(|scope| {
            let note = &note;
            for who in 0..5 {
                scope.spawn(move || {
                    for what in 0..6 {
                        note(who, what);
                        match (who + what) % 3 {
                            0 => fiber::yield_now(),
                            1 => fiber::sleep(Duration::from_micros(u64::from(who) * 3)),
                            _ => (0..20).for_each(|_| fiber::checkpoint()),
                        }
                    }
                });
            }
        });
    });
    assert!(run.is_ok());
    trace.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_same_seed_gives_the_same_order_of_everything_and_other_seeds_give_others() {
    for candidates in [Candidates::Highest, Candidates::All] {
        let mut seen = BTreeSet::new();
        for seed in 0..30 {
            let first = trace(seed, candidates);
            assert_eq!(first, trace(seed, candidates), "seed {seed}");
            assert_eq!(first.len(), 30);
            seen.insert(first);
        }
        assert!(seen.len() > 25, "{} different ones of 30", seen.len());
    }
}

#[test]
fn time_advances_by_what_fibers_do_and_jumps_if_no_fiber_is_ready() {
    let day = Duration::from_secs(24 * 60 * 60);
    let slept = runtime(1, Candidates::Highest).run(|| {
        let began = fiber::now();
        fiber::checkpoint();
        assert!(fiber::now() > began);
        let fibers = [3, 1, 2].map(|days| fiber::spawn(move || fiber::sleep(day * days)));
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        fiber::now() - began
    });
    let slept = slept.unwrap();
    assert!(slept >= 3 * day && slept < 3 * day + Duration::from_millis(1), "{slept:?}");
}

#[test]
fn fibers_are_interrupted_at_checkpoints() {
    let mut between = 0;
    fiber::explore(0..50, || {
        let order = Mutex::new(Vec::new());
        fiber::scope(|scope| {
            for who in 0..2 {
                let order = &order;
                scope.spawn(move || {
                    order.lock().unwrap().push(who);
                    fiber::checkpoint();
                    order.lock().unwrap().push(who);
                });
            }
        });
        let order = order.into_inner().unwrap();
        between += u32::from(order[0] != order[1]);
    });
    assert!((1..50).contains(&between), "{between} of 50");
}

#[test]
fn a_failure_in_some_orders_is_found_and_its_seed_is_named() {
    // Two fibers that read, let others run, and write.
    let lossy = || {
        let count = std::sync::atomic::AtomicU32::new(0);
        fiber::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let read = count.load(std::sync::atomic::Ordering::Relaxed);
                    fiber::checkpoint();
                    count.store(read + 1, std::sync::atomic::Ordering::Relaxed);
                });
            }
        });
        assert_eq!(count.into_inner(), 2, "an increment was lost");
    };
    let failure = catch_unwind(|| fiber::explore(0..1000, lossy)).unwrap_err();
    let message = failure.downcast_ref::<String>().unwrap();
    let seed = message.strip_prefix("failed with seed ").unwrap().split(':').next().unwrap();
    assert!(message.contains("an increment was lost"), "{message}");
    let seed: u64 = seed.parse().unwrap();
    fiber::explore(0..seed, lossy);
    let again = catch_unwind(|| fiber::explore([seed], lossy)).unwrap_err();
    assert_eq!(again.downcast_ref::<String>(), Some(message));
}

#[test]
fn a_deterministic_runtime_has_one_worker() {
    let deterministic = Some(RandomSchedule { seed: 0, candidates: Candidates::All });
    let error = Runtime::new(Config { workers: 2, deterministic, ..Config::default() }).run(|| ()).unwrap_err();
    assert!(matches!(error, RunError::Workers { workers: 2 }));
    assert!(error.to_string().contains("set Config::workers to 1"));
}

/// A runtime with a scripted clock, and the clock.
fn scripted() -> (Runtime, ScriptedClock) {
    let clock = ScriptedClock::new();
    (Runtime::new(Config { clock: Some(clock.clone()), ..Config::default() }), clock)
}

#[test]
fn scripted_time_stops_until_it_is_advanced_and_jumps_if_no_fiber_is_ready() {
    let (runtime, clock) = scripted();
    let day = Duration::from_secs(24 * 60 * 60);
    let times = runtime.run(|| {
        let began = fiber::now();
        (0..1_000).for_each(|_| fiber::checkpoint());
        let stood_still = fiber::now() - began;
        let fibers = [3, 1, 2].map(|days| fiber::spawn(move || fiber::sleep(day * days)));
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        let slept = fiber::now() - began;
        clock.advance(day);
        [stood_still, slept, fiber::now() - began]
    });
    assert_eq!(times.unwrap(), [Duration::ZERO, 3 * day, 4 * day]);
    assert_eq!(clock.elapsed(), 4 * day);
}

#[test]
fn a_sleeper_wakes_when_another_fiber_has_advanced_the_clock_far_enough() {
    let (runtime, clock) = scripted();
    let woken = runtime.run(|| {
        let sleeper = fiber::spawn(|| fiber::sleep(Duration::from_secs(10)));
        fiber::yield_now();
        (0..)
            .take_while(|_| {
                clock.advance(Duration::from_secs(1));
                fiber::yield_now();
                !sleeper.is_finished()
            })
            .count()
    });
    assert_eq!(woken.unwrap(), 9);
}

#[test]
fn a_deadline_of_a_scripted_clock_ends_a_wait_at_exactly_its_time() {
    let (runtime, clock) = scripted();
    let run = runtime.run(|| {
        let (_sender, receiver) = fiber::channel::<u32>(1);
        let result = receiver.recv_timeout(Duration::from_secs(5));
        assert!(matches!(result, Err(RecvTimeoutError::Timeout)));
    });
    assert!(run.is_ok());
    assert_eq!(clock.elapsed(), Duration::from_secs(5));
}

#[test]
fn successive_runtimes_share_a_clock_and_safepoints_advance_it_if_the_schedule_is_drawn() {
    let (runtime, clock) = scripted();
    assert!(runtime.run(|| fiber::sleep(Duration::from_secs(1))).is_ok());
    let deterministic = Some(RandomSchedule { seed: 1, candidates: Candidates::Highest });
    let drawn = Runtime::new(Config { clock: Some(clock.clone()), deterministic, ..Config::default() });
    let times = drawn.run(|| {
        let began = fiber::now();
        fiber::checkpoint();
        (began, fiber::now())
    });
    let (began, ended) = times.unwrap();
    assert_eq!(ended - began, Duration::from_micros(1));
    assert!(clock.elapsed() > Duration::from_secs(1));
}

#[test]
fn a_runtime_with_a_scripted_clock_has_one_worker() {
    let config = Config { workers: 3, clock: Some(ScriptedClock::new()), ..Config::default() };
    assert!(matches!(Runtime::new(config).run(|| ()), Err(RunError::Workers { workers: 3 })));
}
