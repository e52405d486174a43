//! The barrier against those of the C library and of the standard library: two threads that meet every half microsecond.
//!
//! `cargo bench -p rowlock-wait --bench barrier [-- --json]`. Runs of the arms are interleaved, since the machine changes from
//! minute to minute; what counts is the ratio of neighbours. The work between two barriers is a number of loop iterations,
//! so that time off the CPU does not count as work.
#![allow(unsafe_code)] // The C library's barrier.
#![allow(clippy::print_stdout)]

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Instant;

use policy::waiting::Rule;
use rowlock_wait::{Barrier, calibrate};

const THREADS: u32 = 2;

/// How many runs of each arm.
const PAIRS: usize = 20;

/// The work between two barriers, on average.
const GRAIN_NANOS: f64 = 500.0;

/// About how long one run takes: long beside a tick, short beside the machine's changes.
const RUN_SECONDS: f64 = 0.2;

/// The C library's barrier.
struct Pthread(Box<UnsafeCell<libc::pthread_barrier_t>>);

// SAFETY: a pthread barrier is made for being used by several threads at once.
unsafe impl Sync for Pthread {}

impl Pthread {
    fn new(parties: u32) -> Pthread {
        let mut barrier = MaybeUninit::uninit();
        // SAFETY: the pointers are to writable memory and null (for default attributes).
        let failure = unsafe { libc::pthread_barrier_init(barrier.as_mut_ptr(), std::ptr::null(), parties) };
        assert_eq!(failure, 0, "pthread_barrier_init failed");
        // SAFETY: it was initialised without a failure. Moving it is in order before its first use.
        Pthread(Box::new(UnsafeCell::new(unsafe { barrier.assume_init() })))
    }

    fn wait(&self) {
        // SAFETY: the barrier is initialised and destroyed only with `self`.
        unsafe { libc::pthread_barrier_wait(self.0.get()) };
    }
}

impl Drop for Pthread {
    fn drop(&mut self) {
        // SAFETY: `self` is borrowed while anybody waits.
        unsafe { libc::pthread_barrier_destroy(self.0.get()) };
    }
}

/// A chain of dependent operations: it can be neither vectorised nor skipped.
fn work(iterations: u64, mut x: u64) -> u64 {
    for _ in 0..iterations {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

/// How many iterations take a nanosecond: of many measurements the fastest, in which nobody interfered.
fn iterations_per_nanosecond() -> f64 {
    const ITERATIONS: u64 = 20_000;
    let nanos = (0..400).map(|seed| {
        let start = Instant::now();
        black_box(work(black_box(ITERATIONS), seed + 1));
        start.elapsed().as_nanos().max(1)
    });
    ITERATIONS as f64 / nanos.min().unwrap_or(1) as f64
}

/// Lets two threads work and meet `rounds` times and returns the rounds per second. `member` makes what a thread does to
/// wait, from its number.
fn race<W: FnMut()>(rounds: u64, rate: f64, member: impl Fn(u32) -> W + Sync) -> f64 {
    let attend = |number: u32| {
        let mut wait = member(number);
        let mut random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(u64::from(number) + 1);
        (0..10).for_each(|_| wait());
        let start = Instant::now();
        for _ in 0..rounds {
            // Uniform between 0.75 and 1.25 of the grain.
            random = work(1, random);
            let share = 0.75 + 0.5 * (random >> 11) as f64 / (1_u64 << 53) as f64;
            black_box(work((GRAIN_NANOS * rate * share) as u64, random));
            wait();
        }
        rounds as f64 / start.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        for number in 1..THREADS {
            scope.spawn(move || attend(number));
        }
        attend(0)
    })
}

/// One way to meet, and how fast it was in each run.
struct Arm<'a> {
    name: &'static str,
    run: Box<dyn Fn(u64) -> f64 + 'a>,
    rounds: u64,
    rates: Vec<f64>,
}

impl<'a> Arm<'a> {
    fn new(name: &'static str, run: impl Fn(u64) -> f64 + 'a) -> Arm<'a> {
        // The first run is for warming up.
        let rate = [1_000, 2_000].map(&run)[1];
        Arm { name, run: Box::new(run), rounds: (rate * RUN_SECONDS) as u64 + 1, rates: Vec::new() }
    }

    fn run(&mut self) {
        self.rates.push((self.run)(self.rounds));
    }

    /// Its speed relative to the other arm's, run by run.
    fn over(&self, other: &Arm<'_>) -> Vec<f64> {
        self.rates.iter().zip(&other.rates).map(|(own, other)| own / other).collect()
    }
}

/// Least, median and greatest.
fn spread(values: &[f64]) -> [f64; 3] {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let json = std::env::args().any(|argument| argument == "--json");
    let rate = iterations_per_nanosecond();
    let costs = calibrate()?.costs();
    let (block, spin): (Rule, Rule) = (Rule::AlwaysBlock, "44 us".parse()?);

    let rowlock = |rule: Rule| {
        move |rounds| {
            let barrier = Barrier::with(THREADS, rowlock_wait::Waiting::by(rule).with_costs(costs));
            race(rounds, rate, |number| {
                let mut party = barrier.party(number);
                move || {
                    party.wait();
                }
            })
        }
    };
    let pthread = |rounds| {
        let barrier = Pthread::new(THREADS);
        race(rounds, rate, |_| || barrier.wait())
    };
    let standard = |rounds| {
        let barrier = std::sync::Barrier::new(THREADS as usize);
        race(rounds, rate, |_| {
            || {
                barrier.wait();
            }
        })
    };

    let mut arms = [
        Arm::new("pthread_barrier", pthread),
        Arm::new("rowlock 44 us", rowlock(spin)),
        Arm::new("rowlock always-block", rowlock(block)),
        Arm::new("std::sync::Barrier", standard),
        // The same thing once more: how far equals differ is the noise of all ratios here.
        Arm::new("pthread_barrier again", pthread),
    ];
    for pair in 0..PAIRS {
        // To and fro, so that no arm always follows the same one.
        let order: Vec<usize> = if pair % 2 == 0 { (0..arms.len()).collect() } else { (0..arms.len()).rev().collect() };
        order.into_iter().for_each(|arm| arms[arm].run());
    }

    if !json {
        println!("{THREADS} threads, {GRAIN_NANOS} ns between barriers, {PAIRS} interleaved runs; CS {}\n", costs.cs);
        println!("{:24}{:>36}{:>40}", "", "rounds per second", "ratio to pthread_barrier");
        let columns = ["median", "least", "greatest", "median", "least", "greatest", "mean"];
        println!("{:24}{}", "", columns.map(|column| format!("{column:>11}")).concat());
    }
    let mut entries = Vec::new();
    for arm in &arms {
        let ratios = arm.over(&arms[0]);
        let ([least, median, greatest], [low, middle, high]) = (spread(&arm.rates), spread(&ratios));
        let mean = geometric_mean(&ratios);
        let name = arm.name;
        if !json {
            println!("{name:24}{median:11.0}{least:11.0}{greatest:11.0}{middle:11.2}{low:11.2}{high:11.2}{mean:11.2}");
        }
        entries.push(format!(
            "{{\"arm\":\"{name}\",\"rounds_per_second\":{{\"median\":{median:.0},\"least\":{least:.0},\"greatest\":\
             {greatest:.0}}},\"ratio\":{{\"median\":{middle:.4},\"least\":{low:.4},\"greatest\":{high:.4},\
             \"geometric_mean\":{mean:.4}}}}}"
        ));
    }
    if json {
        println!(
            "{{\"threads\":{THREADS},\"grain_ns\":{GRAIN_NANOS},\"runs\":{PAIRS},\"arms\":[{}]}}",
            entries.join(",")
        );
    }
    Ok(())
}
