//! Fibers that share plain memory, which only their turns, their joins and the ends of their
//! runtimes order.
//!
//! It is a program of its own, for the thread sanitizer, under which each fiber has a kernel
//! thread: `--cfg rowlock_tsan` says so. Without it this is a test like others.
#![allow(unsafe_code, reason = "fibers share plain memory in turns")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rowlock_fiber::{Config, Mutex, Runtime, run, spawn, yield_now};

/// Memory that only the order of the fibers protects.
struct Plain(UnsafeCell<[u64; 4]>);

// SAFETY: its users take turns.
unsafe impl Sync for Plain {}

static TURNS: Plain = Plain(UnsafeCell::new([0; 4]));
static LOCKED: Plain = Plain(UnsafeCell::new([0; 4]));
static LOCK: Mutex<()> = Mutex::new(());

fn add(memory: &Plain, index: usize) {
    // SAFETY: no other fiber uses it now; see each use.
    unsafe { (*memory.0.get())[index] += 1 };
}

/// With one worker fibers take turns, so everything that one does between two yields is before or
/// after what the others do.
fn turns() {
    run(|| {
        let fiber = |index: usize| {
            move || {
                for _ in 0..200 {
                    add(&TURNS, index % 4);
                    yield_now();
                }
            }
        };
        let fibers: Vec<_> = (0..16).map(|index| spawn(fiber(index))).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        // One after the other, on one stack.
        for index in 0..5_000 {
            spawn(move || add(&TURNS, index % 4)).join().unwrap();
        }
    });
}

/// A lock is held across yields, by one worker's fibers or several.
fn locks(workers: u32) {
    let body = || {
        let fiber = |index: usize| {
            move || {
                for _ in 0..100 {
                    let guard = LOCK.lock();
                    add(&LOCKED, index % 4);
                    yield_now();
                    add(&LOCKED, index % 4);
                    drop(guard);
                }
            }
        };
        let fibers: Vec<_> = (0..8).map(|index| spawn(fiber(index))).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    };
    Runtime::new(Config { workers, ..Config::default() }).run(body).unwrap();
}

/// A joiner sees what the fiber has done, wherever it ran, and the fiber sees what was done before
/// it was spawned.
fn joins(workers: u32) {
    let body = || {
        for round in 0..200 {
            let memory = Arc::new((Plain(UnsafeCell::new([round; 4])), AtomicUsize::new(0)));
            let fibers: Vec<_> = (0..4)
                .map(|index| {
                    let memory = Arc::clone(&memory);
                    spawn(move || {
                        add(&memory.0, index);
                        memory.1.fetch_add(1, Relaxed);
                    })
                })
                .collect();
            // Another worker has time to run them. The counter orders nothing.
            for _ in 0..if workers == 1 { 0 } else { 10_000 } {
                if memory.1.load(Relaxed) == 4 {
                    break;
                }
                std::thread::yield_now();
            }
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            // SAFETY: all are joined.
            assert_eq!(unsafe { *memory.0.0.get() }, [round + 1; 4]);
        }
    };
    Runtime::new(Config { workers, ..Config::default() }).run(body).unwrap();
}

#[test]
fn the_order_of_fibers_orders_their_memory() {
    // Runtimes follow each other, on this thread and on others, and their stacks are where those of
    // earlier ones were.
    for _ in 0..3 {
        let all = || {
            turns();
            for workers in [1, 2] {
                locks(workers);
                joins(workers);
            }
        };
        all();
        std::thread::spawn(all).join().unwrap();
    }
    // SAFETY: no fiber is left.
    let (turns, locked) = unsafe { (*TURNS.0.get(), *LOCKED.0.get()) };
    assert_eq!((turns, locked), ([6 * (4 * 200 + 1_250); 4], [2 * 6 * 2 * 200; 4]));
}
