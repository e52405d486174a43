//! Measures messages between two ranks:
//! `cargo run --release -p rowlock-message --example message_latency`.
//!
//! Under `rowlock prun` it measures between the ranks 0 and 1 of the job, and with the feature
//! `mpi` under `mpirun` as well. Alone it starts a second process. Prints the medians of several
//! batches, and their range.
#![cfg(not(loom))]
#![allow(clippy::print_stdout, reason = "its output")]

use std::error::Error;
use std::process::Command;
use std::time::Instant;

use rowlock_message::{Communicator, environment, is_launched, join, memory};
use wait::Waiting;

const BATCHES: usize = 11;
const SHORT: usize = 10;
const LONG: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let rule = std::env::args().nth(1).unwrap_or_else(|| "adaptive".to_owned());
    let waiting = Waiting::by(rule.parse()?);
    if is_launched() {
        return measure(&join(waiting)?, &rule);
    }
    let file = memory::create(2)?;
    let start = |rank| {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(&rule).envs(environment::of_rank(rank, 2, Some(file.path()))).spawn()
    };
    let ranks = [start(0)?, start(1)?];
    for mut rank in ranks {
        if !rank.wait()?.success() {
            return Err("a rank has failed".into());
        }
    }
    Ok(())
}

fn measure(world: &Communicator, rule: &str) -> Result<(), Box<dyn Error>> {
    let short = batches(world, SHORT, 20_000)?;
    let long = batches(world, LONG, 100)?;
    let copies: Vec<f64> = (0..BATCHES).map(|_| copy_time()).collect();
    if world.rank() == 0 {
        let ([low, median, high], [longest, gigabytes, shortest]) = (
            quartiles(short).map(|seconds| seconds * 1e9),
            quartiles(long).map(|seconds| 2.0 * LONG as f64 / seconds / 1e9),
        );
        let [.., copied, _] = quartiles(copies).map(|seconds| LONG as f64 / seconds / 1e9);
        println!("{SHORT} bytes there and back: {median:.0} ns ({low:.0} to {high:.0})");
        println!("1 MiB: {gigabytes:.2} GB/s ({longest:.2} to {shortest:.2}), and by memcpy {copied:.2} GB/s");
        println!("by {rule}, {BATCHES} batches, quartiles in parentheses: {:?}", world.statistics());
    }
    Ok(())
}

/// The seconds of one message there and back, in each batch.
fn batches(world: &Communicator, length: usize, times: u32) -> Result<Vec<f64>, Box<dyn Error>> {
    let (sent, mut received) = (vec![1_u8; length], vec![0_u8; length]);
    let mut seconds = Vec::new();
    for _ in 0..BATCHES {
        world.barrier()?;
        let begun = Instant::now();
        for _ in 0..times {
            match world.rank() {
                0 => {
                    world.send(1, 0, &sent)?;
                    world.receive(1, 0, &mut received)?;
                }
                1 => {
                    world.receive(0, 0, &mut received)?;
                    world.send(0, 0, &received)?;
                }
                _ => {}
            }
        }
        seconds.push(begun.elapsed().as_secs_f64() / f64::from(times));
    }
    Ok(seconds)
}

/// The seconds of a copy of a long message within this process.
fn copy_time() -> f64 {
    const TIMES: u32 = 100;
    let (from, mut to) = (vec![1_u8; LONG], vec![0_u8; LONG]);
    let begun = Instant::now();
    for _ in 0..TIMES {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
    }
    begun.elapsed().as_secs_f64() / f64::from(TIMES)
}

fn quartiles(mut samples: Vec<f64>) -> [f64; 3] {
    samples.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| samples[(samples.len() - 1) * quarter / 4])
}
