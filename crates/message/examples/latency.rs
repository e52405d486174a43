//! The time of a message there and back, and the bandwidth of long ones, between the first two
//! ranks.
//!
//! `rowlock prun -n 2 -- target/release/examples/latency` measures two processes. Without `prun`,
//! the ranks are threads. A line of memory that goes there and back, and a copy within a rank, are
//! the units.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::env;
use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Instant;

use rowlock_message::{Communicator, MEMORY, Tag};
use wait::{Waiting, WaitingRule};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: u32 = 200_000;
const BATCHES: usize = 11;
const LONG: usize = 1 << 20;

fn main() -> Outcome<()> {
    let rule: WaitingRule = env::args().nth(1).map_or(Ok(WaitingRule::Adaptive), |rule| rule.parse())?;
    let waiting = Waiting::by(rule);
    if env::var_os(MEMORY).is_some() {
        return measure(&Communicator::world(waiting)?);
    }
    let ranks = Communicator::threads(2, waiting)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = ranks.iter().map(|rank| scope.spawn(|| measure(rank))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a rank has panicked")?)
    })
}

fn measure(own: &Communicator) -> Outcome<()> {
    if own.rank() > 1 {
        return Ok(());
    }
    let (mut there_and_back, mut long) = (Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        let other = 1 - own.rank();
        let (mut short, message) = ([0_u8; 10], [1_u8; 10]);
        let began = Instant::now();
        for _ in 0..ROUNDS {
            if own.rank() == 0 {
                own.send(other, 0, &message)?;
            }
            own.receive(other, 0, &mut short)?;
            if own.rank() == 1 {
                own.send(other, 0, &message)?;
            }
        }
        there_and_back.push(began.elapsed().as_secs_f64() / f64::from(ROUNDS));
        let mut buffer = vec![0_u8; LONG];
        let began = Instant::now();
        for _ in 0..100 {
            if own.rank() == 0 {
                own.send(other, 1, &buffer)?;
            } else {
                own.receive(other, 1, &mut buffer)?;
            }
        }
        own.send(other, 2, &[0_u8])?;
        own.receive_vec::<u8>(other, Tag::Any)?;
        long.push(began.elapsed().as_secs_f64() / 100.0);
    }
    if own.rank() == 0 {
        let [message, long] = [there_and_back, long].map(median);
        // Two threads that poll need two CPUs.
        let bare = (sys::cpus::usable() > 1).then(line_there_and_back);
        let bare = bare.map_or(String::new(), |line| {
            format!(", {:.2} of a bare line of memory ({:.0} ns)", message / line, line * 1e9)
        });
        println!("10 bytes there and back: {:.0} ns{bare}", message * 1e9);
        let (rate, copy) = (LONG as f64 / 1e9, copy());
        println!("1 MiB: {:.2} GB/s, {:.2} of a copy ({:.2} GB/s)", rate / long, copy / long, rate / copy);
        let waits = own.statistics();
        println!("{} waits, {:.0} % of the spins were successful", waits.waits, waits.ssr_percent().unwrap_or(0.0));
    }
    Ok(())
}

/// The time in which a word goes from one thread to another one and back.
fn line_there_and_back() -> f64 {
    #[repr(align(128))]
    struct Line(AtomicU64);
    let (there, back) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)));
    let batch = || {
        let began = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=u64::from(ROUNDS) {
                    while there.0.load(Acquire) != round {
                        std::hint::spin_loop();
                    }
                    back.0.store(round, Release);
                }
            });
            for round in 1..=u64::from(ROUNDS) {
                there.0.store(round, Release);
                while back.0.load(Acquire) != round {
                    std::hint::spin_loop();
                }
            }
        });
        there.0.store(0, Release);
        back.0.store(0, Release);
        began.elapsed().as_secs_f64() / f64::from(ROUNDS)
    };
    median((0..BATCHES).map(|_| batch()).collect())
}

/// The time of a copy of a long message.
fn copy() -> f64 {
    let (from, mut to) = (vec![1_u8; LONG], vec![0_u8; LONG]);
    let batch = || {
        let began = Instant::now();
        for _ in 0..100 {
            black_box(&mut to).copy_from_slice(black_box(&from));
        }
        began.elapsed().as_secs_f64() / 100.0
    };
    median(std::iter::repeat_with(batch).take(BATCHES).collect())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
