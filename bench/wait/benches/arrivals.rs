//! Compares a tree of counters and one counter for the arrivals at a barrier: `cargo bench -p
//! rowlock-bench-wait --bench arrivals [-- ROUNDS]`.
//!
//! - *alone*: one thread arrives for all parties. An arrival without contention.
//! - *two*: two threads arrive for half of the parties each, at the same time. An arrival if two
//!   CPUs compete for cache lines.
//! - *meet*: as many threads as parties meet, and block. The share of one thread in a round.
//!
//! Up to 8 parties a tree has one node, so both are the same, and their ratio is noise. Both
//! alternate in each round. The output goes into docs/results/waiting.md.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its results, and a panic fails it")]

use std::thread;
use std::time::Instant;

use rowlock_wait::{Barrier, Party, Waiting, WaitingRule};

const SIZES: [u32; 7] = [2, 4, 8, 16, 32, 64, 128];

/// Of the barriers that are compared: one counter, and a tree.
const FAN_INS: [u32; 2] = [u32::MAX, policy::arrival::FAN_IN];

/// A kind of measurement: its name, how many threads there are for so many parties, and how many
/// arrivals are timed.
type Kind = (&'static str, fn(u32) -> u32, u32);

const KINDS: [Kind; 3] = [("alone", |_| 1, 1 << 16), ("two", |_| 2, 1 << 14), ("meet", |parties| parties, 1 << 12)];

/// The nanoseconds of an arrival, if each thread arrives for an equal number of parties.
fn time(parties: u32, fan_in: u32, threads: u32, arrivals: u32) -> f64 {
    let barrier = Barrier::with(parties, Waiting::by(WaitingRule::AlwaysBlock)).with_fan_in(fan_in);
    let (share, rounds) = (parties / threads, arrivals / parties);
    let work = |thread: u32| {
        let mut own: Vec<Party<'_>> =
            (thread * share..(thread + 1) * share).map(|number| barrier.party(number)).collect();
        if let [party] = &mut own[..] {
            return (0..rounds).for_each(|_| {
                party.wait();
            });
        }
        for _ in 0..rounds {
            let last = own.iter_mut().map(Party::arrive).last().unwrap();
            for polls in 0_u32.. {
                if own[0].has_completed(&last) {
                    break;
                }
                // The other thread has no CPU.
                if polls % 1024 == 1023 { thread::yield_now() } else { std::hint::spin_loop() }
            }
        }
    };
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 1..threads {
            let work = &work;
            thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, move || work(thread)).unwrap();
        }
        work(0);
    });
    start.elapsed().as_nanos() as f64 / f64::from(rounds * parties)
}

/// The median, the smallest and the largest value.
fn summary(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let measurements: usize = numbers.next().unwrap_or(11);
    println!("| kind | parties | counter (ns) | tree (ns) | counter / tree |\n| --- | --- | --- | --- | --- |");
    for (name, threads, arrivals) in KINDS {
        for parties in SIZES {
            let one = |number: usize| {
                let mut times = [0.0; 2];
                for barrier in [number % 2, 1 - number % 2] {
                    times[barrier] = time(parties, FAN_INS[barrier], threads(parties), arrivals);
                }
                times
            };
            let times: Vec<[f64; 2]> = (0..measurements.max(1)).map(one).collect();
            let [counter, tree] = [0, 1].map(|barrier| summary(times.iter().map(|times| times[barrier])).0);
            let (ratio, least, most) = summary(times.iter().map(|[counter, tree]| counter / tree));
            println!("| {name} | {parties} | {counter:.1} | {tree:.1} | {ratio:.2} [{least:.2}, {most:.2}] |");
        }
    }
}
