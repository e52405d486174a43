//! What a look costs, and what the ring of perf costs at a context switch.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Duration;

use sys::perf::switches::LastSwitch;
use sys::scheduling::{Policy, Thread, set_policy};

use crate::methods::{Method, clock};
use crate::now;
use crate::subjects::{BUSY, IDLE, PROCESS, Subjects, bind};

const BATCHES: u32 = 400;
/// The calls of a batch: short, so that the thread that is looked at runs all the time.
const CALLS: u32 = 20;

/// The least and the median time of a call, over batches, in nanoseconds.
fn times(mut batch: impl FnMut() -> Option<Duration>) -> String {
    let mut times: Vec<f64> =
        (0..BATCHES).filter_map(|_| batch()).map(|time| time.as_nanos() as f64 / f64::from(CALLS)).collect();
    times.sort_by(f64::total_cmp);
    match times.get(times.len() / 2) {
        Some(median) => format!("{:.0}, {median:.0}", times[0]),
        None => "-".to_owned(),
    }
}

fn batch(mut call: impl FnMut()) -> Duration {
    let start = now();
    (0..CALLS).for_each(|_| call());
    now() - start
}

/// The time of a context switch between two threads on CPU 1 that yield to each other. They have a
/// real-time policy, so that no other program's thread runs between.
fn yields(has_ring: bool) -> String {
    let start = Barrier::new(2);
    let prepare = || {
        bind(&[1]);
        let ring = has_ring.then(|| LastSwitch::of(0));
        // Without the right to it, other threads may run between.
        let _ = set_policy(Thread::current(), Policy::Fifo(1));
        start.wait();
        ring
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ring = prepare();
            (0..CALLS * BATCHES).for_each(|_| std::thread::yield_now());
        });
        let timed = scope.spawn(|| {
            let _ring = prepare();
            times(|| Some(batch(std::thread::yield_now) / 2))
        });
        timed.join().unwrap()
    })
}

pub fn print(subjects: &Subjects) {
    println!("\nns, minimum and median of {BATCHES} batches\n\n| call | the thread runs | it sleeps |\n|---|---|---|");
    let busy = subjects.named(BUSY);
    let idle = subjects.named(IDLE);
    for method in Method::all() {
        // A batch counts if the thread ran nearly all the time.
        let running = times(|| {
            let nanos = |(seconds, nanos): (i64, i64)| seconds * 1_000_000_000 + nanos;
            let before = nanos(clock(busy.clock)?);
            let time = batch(|| _ = black_box(method.ask(busy)));
            let ran = nanos(clock(busy.clock)?) - before;
            (ran as f64 > 0.95 * time.as_nanos() as f64).then_some(time)
        });
        let sleeping = times(|| Some(batch(|| _ = black_box(method.ask(idle)))));
        println!("| {method} | {running} | {sleeping} |");
    }
    let other = subjects.named(PROCESS);
    println!("| the clock of a process, once | | {} |", times(|| Some(batch(|| _ = black_box(clock(other.clock))))));
    println!("| own CPU clock | | {} |", times(|| Some(batch(|| _ = black_box(clock(libc::CLOCK_THREAD_CPUTIME_ID))))));
    println!(
        "| `getrusage(RUSAGE_THREAD)` and own CPU clock | | {} |",
        times(|| Some(batch(|| _ = black_box(sys::process::thread_usage()))))
    );
    println!("| `CLOCK_MONOTONIC` | | {} |", times(|| Some(batch(|| _ = black_box(now())))));
    println!("| a yield to another thread | | {} |", yields(false));
    println!("| the same with rings of perf | | {} |", yields(true));
}
