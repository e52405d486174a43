//! Programs in safe Rust that are right with threads because a thread-local belongs to one thread,
//! and lives until its last borrow has ended.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::process::{Command, exit};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

use rowlock_fiber::{Config, Runtime, Semaphore, spawn, yield_now};
use testing::{expect_pass, isolated_by, run};

thread_local! {
    static FIRST: Cell<bool> = const { Cell::new(true) };
    static TEXT: String = text();
    static ROOM: Box<[u64; 8]> = Box::new([7; 8]);
}

fn interrupted() -> Config {
    Config { preemptible: true, ..Config::default() }
}

/// An initialiser that lets other fibers run.
fn text() -> String {
    if FIRST.replace(false) {
        yield_now();
        return "second".repeat(50);
    }
    "first".repeat(50)
}

fn two_fibers_initialise_a_thread_local(config: Config) {
    let same = Runtime::new(config).run(|| {
        let one = spawn(|| TEXT.with(String::len));
        let other = spawn(|| {
            TEXT.with(|text| {
                let before = text.clone();
                yield_now();
                let noise = vec![b'x'; before.len()];
                yield_now();
                *text == before && noise.len() == before.len()
            })
        });
        one.join().unwrap();
        other.join().unwrap()
    });
    assert!(same.unwrap(), "a borrowed value has changed");
}

#[test]
fn an_initialiser_may_yield() {
    isolated_by(|mut test| expect_pass(&mut test), || two_fibers_initialise_a_thread_local(interrupted()));
}

#[test]
fn an_initialiser_may_yield_by_default() {
    isolated_by(|mut test| expect_pass(&mut test), || two_fibers_initialise_a_thread_local(Config::default()));
}

/// The exit status of a thread that has read what it was lent.
const SAME: i32 = 42;

fn expect_same(mut test: Command) {
    run(&mut test).expect_exit(SAME);
}

/// A fiber lends a thread-local to a thread, panics, and waits in a destructor forever. Its
/// runtime ends, and so does the worker's kernel thread.
fn a_fiber_that_is_left_behind_lends_a_thread_local(config: Config) -> ! {
    static READS: AtomicBool = AtomicBool::new(false);
    static WAITS: AtomicBool = AtomicBool::new(false);
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    static NEVER: Semaphore = Semaphore::new(0);

    struct Waits;

    impl Drop for Waits {
        fn drop(&mut self) {
            WAITS.store(true, Release);
            drop(NEVER.acquire());
        }
    }

    fn lends() {
        ROOM.with(|room| {
            thread::scope(|scope| {
                scope.spawn(move || {
                    READS.store(true, Release);
                    while !IS_OVER.load(Acquire) {
                        thread::yield_now();
                    }
                    exit(if **room == [7; 8] { SAME } else { 1 });
                });
                while !READS.load(Acquire) {
                    yield_now();
                }
                let _waits = Waits;
                resume_unwind(Box::new(()));
            });
        });
    }

    let first = || {
        spawn(lends).detach();
        while !WAITS.load(Acquire) {
            yield_now();
        }
    };
    thread::spawn(move || Runtime::new(config).run(first).unwrap()).join().unwrap();
    let noise: Vec<Box<[u64; 8]>> = (0..1000).map(|_| Box::new([0xdead; 8])).collect();
    IS_OVER.store(true, Release);
    loop {
        thread::park();
        std::hint::black_box(&noise);
    }
}

#[test]
fn a_thread_local_lives_as_long_as_a_fiber_that_is_left_behind() {
    isolated_by(expect_same, || a_fiber_that_is_left_behind_lends_a_thread_local(interrupted()));
}

#[test]
fn a_thread_local_lives_as_long_as_a_fiber_that_is_left_behind_by_default() {
    isolated_by(expect_same, || a_fiber_that_is_left_behind_lends_a_thread_local(Config::default()));
}

/// A destructor of a thread-local cannot unwind, so a fiber that waits there when its runtime ends
/// is left behind.
fn a_destructor_of_a_thread_local_waits_forever(config: Config) {
    static WAITS: AtomicBool = AtomicBool::new(false);
    static NEVER: Semaphore = Semaphore::new(0);

    struct Waits;

    impl Drop for Waits {
        fn drop(&mut self) {
            WAITS.store(true, Release);
            drop(NEVER.acquire());
        }
    }

    thread_local! { static LAST: RefCell<Option<Waits>> = const { RefCell::new(None) } }

    let first = || {
        spawn(|| LAST.set(Some(Waits))).detach();
        while !WAITS.load(Acquire) {
            yield_now();
        }
    };
    Runtime::new(config).run(first).unwrap();
}

fn expect_left(mut test: Command) {
    run(&mut test).expect_success().expect_stderr("not all fibers ended with their runtime (1 did not)");
}

#[test]
fn a_fiber_whose_thread_local_waits_at_its_end_is_left_behind() {
    isolated_by(expect_left, || a_destructor_of_a_thread_local_waits_forever(interrupted()));
}

#[test]
fn a_fiber_whose_thread_local_waits_at_its_end_is_left_behind_by_default() {
    isolated_by(expect_left, || a_destructor_of_a_thread_local_waits_forever(Config::default()));
}
