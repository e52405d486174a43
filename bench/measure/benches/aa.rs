//! An A/A test with a real command on this machine: `cargo bench -p rowlock-bench-measure --bench
//! aa`; with `-- 5`, five comparisons.
//!
//! Makes 200 comparisons of a command with itself, ten runs a side, in pairs of random order, as
//! rowlock interleaves arms. Each test should raise a false alarm at the 5 % level about once in
//! twenty times. Unlike in the tests with random samples, runs disturb the following ones here. The
//! second column has runs in blocks, all of one side first. If it is much worse than the first, it
//! shows why runs are paired.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its results, and a panic fails it")]

use std::process::Command;
use std::time::Instant;

use scenario::draw::Stream;
use stats::mann_whitney::mann_whitney;
use stats::student::{one_sample, welch};
use stats::trend::trend;

const COMPARISONS: u32 = 200;
const SIDE: usize = 10;
const COMMAND: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"];

/// The duration of a run in nanoseconds.
fn run() -> f64 {
    let began = Instant::now();
    assert!(Command::new(COMMAND[0]).args(&COMMAND[1..]).status().unwrap().success());
    began.elapsed().as_nanos() as f64
}

fn interleaved(stream: &mut Stream) -> (Vec<f64>, Vec<f64>) {
    let pair = |_| {
        let (one, other) = (run(), run());
        if stream.below(2) == 0 { (one, other) } else { (other, one) }
    };
    (0..SIDE).map(pair).unzip()
}

fn in_blocks() -> (Vec<f64>, Vec<f64>) {
    let side = || (0..SIDE).map(|_| run()).collect();
    (side(), side())
}

/// The p values of all tests of two sides.
fn p_values((first, second): &(Vec<f64>, Vec<f64>)) -> [f64; 3] {
    let logarithms: Vec<f64> = first.iter().zip(second).map(|(one, other)| one.ln() - other.ln()).collect();
    [one_sample(&logarithms).unwrap().p, welch(first, second).unwrap().p, mann_whitney(first, second).unwrap().p]
}

fn main() {
    let comparisons = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(COMPARISONS);
    (0..SIDE).for_each(|_| {
        run();
    });
    let (mut alarms, mut drifts) = ([[0_u32; 3]; 2], 0);
    for comparison in 0..comparisons {
        let mut stream = Stream::named(1, "pairs", comparison);
        let samples = [interleaved(&mut stream), in_blocks()];
        for (alarms, samples) in alarms.iter_mut().zip(&samples) {
            alarms.iter_mut().zip(p_values(samples)).for_each(|(alarms, p)| *alarms += u32::from(p < 0.05));
        }
        let in_order: Vec<f64> = samples[1].0.iter().chain(&samples[1].1).copied().collect();
        drifts += u32::from(trend(&in_order).is_some_and(|trend| trend.p < 0.05));
    }
    let percent = |alarms: u32| f64::from(alarms) / f64::from(comparisons) * 100.0;
    println!("false alarms at 5 %, {comparisons} comparisons of {SIDE} runs a side   pairs   blocks");
    for (test, name) in ["paired t, logarithms", "Welch", "Mann-Whitney"].into_iter().enumerate() {
        println!("{name:20}  {:5.1} %  {:5.1} %", percent(alarms[0][test]), percent(alarms[1][test]));
    }
    println!("{:20}           {:5.1} %", "drift in the blocks", percent(drifts));
}
