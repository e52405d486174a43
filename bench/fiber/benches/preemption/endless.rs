//! Threads beside endless loops: how late a thread wakes that sleeps for a millisecond,
//! and how long loops wait for their first turn.
//!
//! # Stalls of the CPU
//! All running threads read the clock continuously and store the latest time. If no thread has read
//! it for long, no thread of this process ran: the kernel ran another program, or the host another
//! machine. Wakeups during such a *stall* are listed separately. A loop that runs alone shows how
//! many stalls have external causes.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Barrier, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use policy::Span;

use crate::process::{Measured, or_stop};
use crate::runtime::runtime;

/// The duration of a sleep.
const NAP: Duration = Duration::from_millis(1);

/// In nanoseconds.
const STALL: u64 = 100_000;

/// A system of threads.
pub(crate) trait ThreadKind {
    /// Runs these threads until they end. All are ready before the first one runs.
    fn run(self, threads: Vec<Box<dyn FnOnce() + Send>>);

    fn sleep(time: Duration);
}

/// Preemptible fibers with this running time, on so many workers.
pub(crate) struct Preemptible(pub(crate) Span, pub(crate) usize);

impl ThreadKind for Preemptible {
    fn run(self, threads: Vec<Box<dyn FnOnce() + Send>>) {
        or_stop(runtime(self.0, true, self.1).run(|| {
            let fibers: Vec<_> = threads.into_iter().map(rowlock_fiber::spawn).collect();
            fibers.into_iter().for_each(|fiber| or_stop(fiber.join()));
        }));
    }

    fn sleep(time: Duration) {
        rowlock_fiber::sleep(time);
    }
}

/// The kernel's threads.
pub(crate) struct Kernel;

impl ThreadKind for Kernel {
    fn run(self, threads: Vec<Box<dyn FnOnce() + Send>>) {
        let begin = Barrier::new(threads.len());
        std::thread::scope(|scope| {
            for thread in threads {
                scope.spawn(|| {
                    begin.wait();
                    thread();
                });
            }
        });
    }

    fn sleep(time: Duration) {
        std::thread::sleep(time);
    }
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// The latest time that any thread has read, in nanoseconds from the start.
static LATEST: AtomicU64 = AtomicU64::new(0);
static STALLS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
/// The number of threads for which the others wait.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Reads the clock.
fn now() -> u64 {
    let now = START.elapsed().as_nanos() as u64;
    let before = LATEST.fetch_max(now, Relaxed);
    if now > before + STALL {
        STALLS.lock().unwrap_or_else(PoisonError::into_inner).push((before, now));
    }
    now
}

fn stalls() -> Vec<(u64, u64)> {
    std::mem::take(&mut *STALLS.lock().unwrap_or_else(PoisonError::into_inner))
}

fn begin(left: usize) {
    LEFT.store(left as u64, Relaxed);
    LATEST.store(START.elapsed().as_nanos() as u64, Relaxed);
    STALLS.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn endless() {
    while LEFT.load(Relaxed) > 0 {
        now();
    }
}

/// The delays of wakeups beside this many loops, in microseconds.
pub(crate) fn late<K: ThreadKind>(kind: K, loops: usize, times: usize) -> Measured {
    static NAPS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = (0..loops).map(|_| Box::new(endless) as _).collect();
    threads.push(Box::new(move || {
        let mut naps = Vec::with_capacity(times);
        for _ in 0..times {
            let due = now() + NAP.as_nanos() as u64;
            K::sleep(NAP);
            naps.push((due, now()));
        }
        *NAPS.lock().unwrap_or_else(PoisonError::into_inner) = naps;
        LEFT.store(0, Relaxed);
    }));
    begin(1);
    let began = Instant::now();
    kind.run(threads);
    let seconds = began.elapsed().as_secs_f64();
    let naps = std::mem::take(&mut *NAPS.lock().unwrap_or_else(PoisonError::into_inner));
    let stalls = stalls();
    let name = |due, woke| {
        let apart = stalls.iter().any(|&(from, to)| from < woke && due < to);
        if apart { "apart" } else { "late" }
    };
    let mut measured: Measured =
        naps.iter().map(|&(due, woke)| (name(due, woke).to_owned(), (woke as f64 - due as f64) / 1e3)).collect();
    measured.push(("stalls".to_owned(), stalls.len() as f64 / seconds));
    measured
}

/// The number of stalls per second while a single loop runs, for this many milliseconds.
pub(crate) fn alone(milliseconds: usize) -> Measured {
    begin(1);
    let until = now() + milliseconds as u64 * 1_000_000;
    while now() < until {}
    vec![("stalls".to_owned(), stalls().len() as f64 * 1e3 / milliseconds as f64)]
}

/// The time from the first turn of the first loop to that of the last one, in microseconds.
pub(crate) fn turns<K: ThreadKind>(kind: K, loops: usize) -> Measured {
    static FIRST_TURNS: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    begin(loops);
    let thread = || {
        let turn = now();
        LEFT.fetch_sub(1, Relaxed);
        endless();
        FIRST_TURNS.lock().unwrap_or_else(PoisonError::into_inner).push(turn);
    };
    kind.run((0..loops).map(|_| Box::new(thread) as Box<dyn FnOnce() + Send>).collect());
    let turns = std::mem::take(&mut *FIRST_TURNS.lock().unwrap_or_else(PoisonError::into_inner));
    let (first, last) = (turns.iter().min().copied(), turns.iter().max().copied());
    let name = if stalls().is_empty() { "last" } else { "apart" };
    vec![(name.to_owned(), (last.unwrap_or(0) - first.unwrap_or(0)) as f64 / 1e3)]
}
