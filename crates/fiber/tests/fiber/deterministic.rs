//! Runs whose schedule is drawn from a seed.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rowlock_fiber as fiber;
use rowlock_fiber::{Among, Config, Deterministic, RunError, Runtime};

fn runtime(seed: u64, among: Among) -> Runtime {
    Runtime::new(Config { deterministic: Some(Deterministic { seed, among }), ..Config::default() })
}

/// What five fibers do, and when.
fn trace(seed: u64, among: Among) -> Vec<(u32, u32, Duration)> {
    let trace = Mutex::new(Vec::new());
    let run = runtime(seed, among).run(|| {
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
fn the_same_seed_gives_the_same_order_of_everything_and_others_give_others() {
    for among in [Among::Highest, Among::All] {
        let mut seen = BTreeSet::new();
        for seed in 0..30 {
            let first = trace(seed, among);
            assert_eq!(first, trace(seed, among), "seed {seed}");
            assert_eq!(first.len(), 30);
            seen.insert(first);
        }
        assert!(seen.len() > 25, "{} different ones of 30", seen.len());
    }
}

#[test]
fn time_goes_on_by_what_fibers_do_and_jumps_where_nobody_is_ready() {
    let day = Duration::from_secs(24 * 60 * 60);
    let slept = runtime(1, Among::Highest).run(|| {
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
fn what_fails_in_some_orders_only_is_found_and_its_seed_named() {
    // Two that read, let others run, and write.
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
        assert_eq!(count.into_inner(), 2, "one was lost");
    };
    let failure = catch_unwind(|| fiber::explore(0..1000, lossy)).unwrap_err();
    let message = failure.downcast_ref::<String>().unwrap();
    let seed = message.strip_prefix("failed with seed ").unwrap().split(':').next().unwrap();
    assert!(message.contains("one was lost"), "{message}");
    let seed: u64 = seed.parse().unwrap();
    fiber::explore(0..seed, lossy);
    let again = catch_unwind(|| fiber::explore([seed], lossy)).unwrap_err();
    assert_eq!(again.downcast_ref::<String>(), Some(message));
}

#[test]
fn a_deterministic_runtime_has_one_worker() {
    let deterministic = Some(Deterministic { seed: 0, among: Among::All });
    let error = Runtime::new(Config { workers: 2, deterministic, ..Config::default() }).run(|| ()).unwrap_err();
    assert!(matches!(error, RunError::Workers { workers: 2 }));
    assert!(error.to_string().contains("set Config::workers to 1"));
}
