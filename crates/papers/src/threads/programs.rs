//! The programs. Each is generic over the thread library.
//!
//! The data that a program's threads share is leaked: it may outlive any stack, and the process
//! ends with the measurement.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::library::Library;

/// A program that runs with every kind of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// The study's program.
    Study,
    /// Threads that yield all the time.
    Yields,
    /// Threads that contend for a few locks.
    Locks,
    /// Threads that sleep and respond, beside others that compute.
    Mixed,
}

impl Program {
    /// The name of the program.
    pub const fn name(self) -> &'static str {
        match self {
            Program::Study => "study",
            Program::Yields => "yields",
            Program::Locks => "locks",
            Program::Mixed => "mixed",
        }
    }

    /// A description of the program.
    pub const fn description(self) -> &'static str {
        match self {
            Program::Study => {
                "N threads, of which the even ones acquire lock A and edit 16 words, and the odd ones acquire lock B and edit 16 others; every 16th joins \
                 its predecessor, and the first joins the rest"
            }
            Program::Yields => {
                "32 threads compute for 2 us and 32 for 8 us, and yield, 200 times; the response time is that of the former, from the yield to the end of the \
                 next 2 us"
            }
            Program::Locks => {
                "32 threads compute for 2 us, and for 3 us with one of 4 locks, and yield, 300 times; the response time is from the yield to the release of \
                 the lock"
            }
            Program::Mixed => {
                "16 threads sleep for 1 ms and compute for 20 us, 50 times, beside 4 that compute for 12 ms; the response time is from the end of the sleep to \
                 the end of the 20 us"
            }
        }
    }

    /// How often the program is repeated in a process, so that it ends soon.
    pub fn warm_runs(self, threads: u32) -> u32 {
        match self {
            Program::Study => (20_000 / threads.max(1)).clamp(2, 10),
            Program::Yields | Program::Locks | Program::Mixed => 1,
        }
    }

    /// The program with this number of threads, if it is the study's, and this unit of work.
    pub(super) fn prepare<L: Library>(self, threads: u32, work: Work) -> RepeatableProgram {
        match self {
            Program::Study => study::<L>(threads),
            Program::Yields => yields::<L>(work),
            Program::Locks => locks::<L>(work),
            Program::Mixed => mixed::<L>(work),
        }
    }
}

/// Runs a program once and adds its response times in nanoseconds. An error says that there can be
/// no more threads, or that the result is wrong.
pub(super) type RepeatableProgram = Box<dyn FnMut(&mut Vec<u64>) -> Result<(), String>>;

/// A unit of work: a number of iterations for each microsecond, so that preemption does not count
/// as work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// The number of iterations in a microsecond.
    pub(super) rounds_per_us: f64,
}

impl Work {
    /// Computes for this many microseconds, if undisturbed.
    fn run(self, us: f64) {
        compute((us * self.rounds_per_us) as u64);
    }
}

/// Computes for this number of iterations.
#[inline(never)]
fn compute(rounds: u64) {
    let mut state = black_box(rounds);
    for _ in 0..rounds {
        // Each multiplication depends on the one before, so that an iteration takes a few cycles
        // however the compiler optimizes loops.
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    }
}

/// The number of iterations in a microsecond on this machine: the largest of several measurements,
/// since disturbances only make it smaller.
pub fn rounds_per_us() -> f64 {
    const ROUNDS: u64 = 20_000;
    const TRIES: u32 = 200;
    let once = || {
        let started = Instant::now();
        compute(ROUNDS);
        started.elapsed().as_secs_f64() * 1e6
    };
    let best = (0..TRIES).map(|_| once()).fold(f64::INFINITY, f64::min);
    ROUNDS as f64 / best.max(1e-3)
}

/// Leaks a value, which then lives as long as the process.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn nanos_since(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The study's test program.
///
/// "This test function will spawn N number of threads. Half of these threads will attempt to claim
/// a lock to edit global memory while the other half do likewise using another lock and different
/// memory. These threads unlock and exit when they are complete. A few threads join on others in
/// this process. Lastly, the main thread joins all N threads." The study does not say how large the
/// memory is and how many threads are a few. Here these are 16 words, and every 16th thread.
fn study<L: Library>(threads: u32) -> RepeatableProgram {
    const WORDS: usize = 16;
    const JOINS: u32 = 16;
    let halves: &[L::Lock<[u64; WORDS]>; 2] = leak([L::lock([0; WORDS]), L::lock([0; WORDS])]);
    let run_threads = move || {
        let mut handles: Vec<Option<L::Handle>> = Vec::with_capacity(threads as usize);
        for number in 0..threads {
            let before = if number % JOINS == JOINS - 1 { handles.last_mut().and_then(Option::take) } else { None };
            let thread = move || {
                L::with(&halves[(number % 2) as usize], |words| {
                    words.iter_mut().for_each(|word| *word += u64::from(number));
                    black_box(words);
                });
                if let Some(before) = before {
                    // A panic would make the sums wrong.
                    let _ = L::join(before);
                }
            };
            handles.push(Some(L::spawn(thread)?));
        }
        handles.into_iter().flatten().try_for_each(L::join)
    };
    let mut runs = 0;
    Box::new(move |_| {
        run_threads()?;
        runs += 1;
        for (half, memory) in (0..2_u32).zip(halves) {
            let sum = runs * sum(half, threads);
            if !L::with(memory, |words| words.iter().all(|word| *word == sum)) {
                return Err("the sums are wrong: two threads have held a lock at the same time".to_owned());
            }
        }
        Ok(())
    })
}

/// The sum of every other number below `threads`, beginning with `first`.
fn sum(first: u32, threads: u32) -> u64 {
    let count = u64::from(threads.saturating_sub(first).div_ceil(2));
    u64::from(first) * count + count * count.saturating_sub(1)
}

/// A program of numbered threads that return their response times.
fn responding<L: Library>(threads: u32, thread: impl Fn(u32) -> Vec<u64> + Copy + Send + 'static) -> RepeatableProgram {
    let samples: &L::Lock<Vec<u64>> = leak(L::lock(Vec::new()));
    let spawn = move |number| {
        L::spawn(move || {
            let of_thread = thread(number);
            L::with(samples, |samples| samples.extend(of_thread));
        })
    };
    Box::new(move |responses| {
        let spawned = (0..threads).map(spawn).collect::<Result<Vec<_>, String>>()?;
        spawned.into_iter().try_for_each(L::join)?;
        L::with(samples, |samples| responses.append(samples));
        Ok(())
    })
}

/// Half of the threads compute briefly between two yields, half for four times as long, so that
/// these use up their running time sooner. The responses are those of the former.
fn yields<L: Library>(work: Work) -> RepeatableProgram {
    const THREADS: u32 = 64;
    const ROUNDS: usize = 200;
    responding::<L>(THREADS, move |number| {
        let (us, is_short) = if number < THREADS / 2 { (2.0, true) } else { (8.0, false) };
        let mut samples = Vec::with_capacity(if is_short { ROUNDS } else { 0 });
        let mut ready = Instant::now();
        for _ in 0..ROUNDS {
            work.run(us);
            if is_short {
                samples.push(nanos_since(ready));
                ready = Instant::now();
            }
            L::yield_now();
        }
        samples
    })
}

/// Threads that contend for four locks, and may lose the CPU while they hold one.
fn locks<L: Library>(work: Work) -> RepeatableProgram {
    const THREADS: u32 = 32;
    const ROUNDS: usize = 300;
    /// In microseconds.
    const OUTSIDE: f64 = 2.0;
    const INSIDE: f64 = 3.0;
    let locks: &[L::Lock<u64>; 4] = leak([(); 4].map(|()| L::lock(0)));
    let mut run_threads = responding::<L>(THREADS, move |number| {
        let mut samples = Vec::with_capacity(ROUNDS);
        let mut ready = Instant::now();
        for _ in 0..ROUNDS {
            work.run(OUTSIDE);
            L::with(&locks[number as usize % locks.len()], |count| {
                work.run(INSIDE / 2.0);
                L::checkpoint();
                work.run(INSIDE / 2.0);
                *count += 1;
            });
            samples.push(nanos_since(ready));
            ready = Instant::now();
            L::yield_now();
        }
        samples
    });
    let mut runs = 0;
    Box::new(move |responses| {
        run_threads(responses)?;
        runs += 1;
        let each = runs * u64::from(THREADS) * ROUNDS as u64 / locks.len() as u64;
        match locks.iter().all(|lock| L::with(lock, |count| *count == each)) {
            true => Ok(()),
            false => Err("the counts are wrong: two threads have held a lock at the same time".to_owned()),
        }
    })
}

/// Threads that sleep and then respond, beside others that compute.
fn mixed<L: Library>(work: Work) -> RepeatableProgram {
    const INTERACTIVE: u32 = 16;
    const BATCH: u32 = 4;
    const RESPONSES: u32 = 50;
    const SLEEP: Duration = Duration::from_millis(1);
    /// In microseconds.
    const RESPONSE: f64 = 20.0;
    /// The work of a computing thread between two checkpoints, and the number of such pieces: 12 ms
    /// per thread.
    const PIECE: f64 = 5.0;
    const PIECES: u32 = 2400;
    responding::<L>(INTERACTIVE + BATCH, move |number| {
        if number >= INTERACTIVE {
            for _ in 0..PIECES {
                work.run(PIECE);
                L::checkpoint();
            }
            return Vec::new();
        }
        let mut due = Instant::now();
        let respond = |_| {
            L::sleep_until(due);
            work.run(RESPONSE);
            let response = nanos_since(due);
            due = Instant::now() + SLEEP;
            response
        };
        (0..RESPONSES).map(respond).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_explicit_addition() {
        for threads in 0..40 {
            for first in 0..2 {
                assert_eq!(sum(first, threads), (first..threads).step_by(2).map(u64::from).sum::<u64>());
            }
        }
    }
}
