//! Threads that run beside endless loops on one CPU: how late one wakes that sleeps for a millisecond, and how long loops wait for their first turn.
//!
//! # When the CPU itself stands still
//! All who run read the clock all the time, and leave the latest time that any of them has read. If nobody has read it for long, then nobody of this process ran: the
//! kernel ran something else, or the host another machine. A wake-up that has to do with such a *stall* is listed apart. A loop that runs alone tells how many stalls there are
//! that nobody here can have made.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Barrier, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use policy::Span;

use crate::guests;
use crate::process::Measured;
use crate::rowlock::or_stop;

/// Who sleeps does so for so long.
const NAP: Duration = Duration::from_millis(1);

/// In nanoseconds.
const STALL: u64 = 100_000;

/// What makes threads.
pub(crate) trait Kind {
    /// Runs these to their end, on one CPU. They are all ready before one of them runs.
    fn run(self, threads: Vec<Box<dyn FnOnce() + Send>>);

    fn sleep(time: Duration);
}

/// Preemptible fibers with this running time.
pub(crate) struct Preemptible(pub(crate) Span);

impl Kind for Preemptible {
    fn run(self, threads: Vec<Box<dyn FnOnce() + Send>>) {
        or_stop(guests::runtime(self.0, true).run(|| {
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

impl Kind for Kernel {
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
/// The latest time that anybody has read, in nanoseconds from the start.
static LATEST: AtomicU64 = AtomicU64::new(0);
static STALLS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
/// How many threads have yet to do what all wait for.
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

/// How late one wakes beside so many loops, in microseconds, so many times.
pub(crate) fn late<K: Kind>(kind: K, loops: usize, times: usize) -> Measured {
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

/// How many stalls a second there are when one loop has the CPU to itself, for so many milliseconds.
pub(crate) fn alone(milliseconds: usize) -> Measured {
    begin(1);
    let until = now() + milliseconds as u64 * 1_000_000;
    while now() < until {}
    vec![("stalls".to_owned(), stalls().len() as f64 * 1e3 / milliseconds as f64)]
}

/// From when the first of so many loops has its turn until the last one does, in microseconds.
pub(crate) fn turns<K: Kind>(kind: K, loops: usize) -> Measured {
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
