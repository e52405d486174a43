//! Deadlocks.

use crate::calm;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rowlock_fiber as fiber;
use rowlock_fiber::{Condvar, Deadlock, JoinHandle, Mutex, RunError, Runtime};
use testing::isolated_by;

/// The deadlock of a run in a runtime that is closed.
fn deadlock(first: impl FnOnce()) -> Deadlock {
    deadlock_in(&calm::closed_runtime(), first)
}

/// The deadlock of a run.
fn deadlock_in(runtime: &Runtime, first: impl FnOnce()) -> Deadlock {
    match runtime.run(first) {
        Err(RunError::Deadlock(deadlock)) => deadlock,
        other => panic!("no deadlock, but {other:?}"),
    }
}

/// The first line: backtraces follow if the environment asks for them.
fn line(deadlock: &Deadlock) -> String {
    let line = deadlock.to_string().lines().next().unwrap_or_default().to_owned();
    line.strip_prefix("all fibers wait, and nothing can wake them: ").map(str::to_owned).unwrap_or(line)
}

fn named(name: &str, function: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    fiber::Builder::new().name(name).spawn(function).unwrap_or_else(|error| panic!("{error}"))
}

/// Locks one mutex and wants another.
fn cross(one: &Mutex<()>, another: &Mutex<()>) {
    let _one = one.lock();
    fiber::yield_now();
    let _another = another.lock();
}

fn mutexes(many: usize) -> Arc<Vec<Mutex<()>>> {
    Arc::new((0..many).map(|_| Mutex::new(())).collect())
}

/// A circle of fibers, each of which holds a mutex and wants the next one's.
fn circle(many: usize) -> Deadlock {
    let mutexes = mutexes(many);
    // It is a deadlock in any runtime.
    deadlock_in(&calm::runtime(), move || {
        let fibers = (0..many).map(|i| {
            let mutexes = Arc::clone(&mutexes);
            named(&format!("f{i}"), move || cross(&mutexes[i], &mutexes[(i + 1) % many]))
        });
        let fibers: Vec<_> = fibers.collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    })
}

/// Waits for a notification that never comes.
fn wait_for_a_missing_notification(mutex: &Mutex<()>) {
    drop(Condvar::new().wait(mutex.lock()));
}

#[test]
fn two_fibers_that_want_each_others_mutex_are_named_and_so_are_their_waiters() {
    let deadlock = circle(2);
    assert_eq!(
        line(&deadlock),
        "fiber 1 `f0` waits for a mutex held by fiber 2 `f1`, which waits for a mutex held by fiber 1 `f0`; \
         fiber 0 waits for the end of fiber 1 `f0`"
    );
    let [cycle] = &deadlock.cycles[..] else { panic!("{deadlock:?}") };
    let numbers: Vec<_> = cycle.iter().map(|fiber| fiber.label.number).collect();
    assert_eq!(numbers, [1, 2]);
    let [other] = &deadlock.others[..] else { panic!("{deadlock:?}") };
    assert_eq!((other.label.number, &other.label.name), (0, &None));
}

#[test]
fn three_fibers_in_a_circle_are_named() {
    let deadlock = circle(3);
    assert_eq!(deadlock.cycles[0].len(), 3);
    assert!(line(&deadlock).contains(
        "fiber 1 `f0` waits for a mutex held by fiber 2 `f1`, which waits for a mutex held by fiber 3 `f2`, \
         which waits for a mutex held by fiber 1 `f0`"
    ));
}

#[test]
fn a_circle_of_a_mutex_and_a_join_is_named() {
    let mutex = Arc::new(Mutex::new(()));
    let deadlock = deadlock_in(&calm::runtime(), move || {
        let parser = Arc::clone(&mutex);
        let held = mutex.lock();
        named("parser", move || drop(parser.lock())).join().unwrap();
        drop(held);
    });
    assert_eq!(
        line(&deadlock),
        "fiber 0 waits for the end of fiber 1 `parser`, which waits for a mutex held by fiber 0"
    );
    assert!(deadlock.others.is_empty());
}

#[test]
fn two_circles_are_reported_one_after_the_other() {
    let mutexes = mutexes(4);
    let deadlock = deadlock(move || {
        for (i, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let mutexes = Arc::clone(&mutexes);
            named(name, move || cross(&mutexes[i], &mutexes[i ^ 1])).detach();
        }
        wait_for_a_missing_notification(&Mutex::new(()));
    });
    assert_eq!(deadlock.cycles.len(), 2);
    assert_eq!(
        line(&deadlock),
        "fiber 1 `a` waits for a mutex held by fiber 2 `b`, which waits for a mutex held by fiber 1 `a`; \
         fiber 3 `c` waits for a mutex held by fiber 4 `d`, which waits for a mutex held by fiber 3 `c`; \
         fiber 0 waits for a condition variable"
    );
}

#[test]
fn a_notification_that_came_too_early_is_a_deadlock_without_a_circle() {
    let deadlock = deadlock(|| {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        condvar.notify_one();
        drop(condvar.wait(mutex.lock()));
    });
    assert!(deadlock.cycles.is_empty());
    assert_eq!(line(&deadlock), "fiber 0 waits for a condition variable");
}

#[test]
fn it_is_no_deadlock_while_a_fiber_sleeps() {
    let mutex = Arc::new(Mutex::new(()));
    calm::run(move || {
        let theirs = Arc::clone(&mutex);
        let sleeper = fiber::spawn(move || {
            let _held = theirs.lock();
            fiber::sleep(Duration::from_millis(1));
        });
        fiber::yield_now();
        drop(mutex.lock());
        sleeper.join().unwrap();
    });
}

#[test]
fn fibers_of_a_scope_that_wait_forever_end_with_it() {
    let mutexes = mutexes(2);
    let deadlock = deadlock(|| {
        fiber::scope(|scope| {
            for i in 0..2 {
                let mutexes = &mutexes;
                scope.spawn(move || cross(&mutexes[i], &mutexes[1 - i]));
            }
        });
    });
    assert_eq!(deadlock.cycles[0].len(), 2);
    assert!(line(&deadlock).ends_with("fiber 0 waits for the end of a scope's fibers"), "{deadlock}");
}

#[test]
fn a_fiber_that_waits_again_and_again_is_cancelled_again() {
    let deadlock = deadlock(|| {
        let mutex = Mutex::new(());
        for _ in 0..3 {
            assert!(catch_unwind(AssertUnwindSafe(|| wait_for_a_missing_notification(&mutex))).is_err());
        }
        wait_for_a_missing_notification(&mutex);
    });
    assert_eq!(line(&deadlock), "fiber 0 waits for a condition variable");
}

#[test]
fn if_the_first_fiber_cannot_be_cancelled_the_process_says_why_it_ends() {
    struct Waits<'a>(&'a Mutex<()>);
    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            wait_for_a_missing_notification(self.0);
        }
    }
    let start = |mut test| {
        let words = "fiber 0 waits for a condition variable in the middle of a panic";
        testing::run(&mut test).expect_signal(libc::SIGABRT).expect_stderr(words);
    };
    isolated_by(start, || {
        let mutex = Mutex::new(());
        let _ = calm::closed_runtime().run(|| {
            let _waits = Waits(&mutex);
            panic!("on purpose");
        });
    });
}

#[inline(never)]
fn deep_inside(mutex: &Mutex<()>) {
    wait_for_a_missing_notification(mutex);
    std::hint::black_box(());
}

#[test]
fn each_fiber_is_shown_with_its_backtrace_if_the_environment_asks_for_it() {
    let start = |mut test: Command| {
        let mut said = |of_panics: Option<&str>, of_libraries: Option<&str>| {
            for (name, value) in [("RUST_BACKTRACE", of_panics), ("RUST_LIB_BACKTRACE", of_libraries)] {
                test.env_remove(name).envs(value.map(|value| (name, value)));
            }
            testing::run(&mut test).expect_success()
        };
        let waits = "fiber 0 waits for the end of fiber 1 `parser`; fiber 1 `parser` waits for a condition variable";
        for (of_panics, of_libraries) in [(None, None), (Some("0"), None), (Some("1"), Some("0"))] {
            let plain = said(of_panics, of_libraries).expect_stderr(waits);
            let is_short = !plain.stderr.contains("deep_inside");
            plain.expect(is_short, "no backtrace");
        }
        for (of_panics, of_libraries) in [(Some("1"), None), (Some("full"), None), (Some("0"), Some("1"))] {
            let traced = said(of_panics, of_libraries).expect_stderr("\nfiber 1 `parser`:\n");
            let (first, parser) = traced.stderr.split_once("\nfiber 1 `parser`:\n").unwrap();
            assert!(parser.contains("deep_inside") && !first.contains("deep_inside"), "{traced}");
            assert!(first.contains("each_fiber_is_shown"), "{traced}");
        }
    };
    isolated_by(start, || {
        let deadlock = deadlock(|| named("parser", || deep_inside(&Mutex::new(()))).join().unwrap());
        eprintln!("{deadlock}");
    });
}
