//! Repeated starts: a program is started many times while others compete for its CPUs. It is
//! stopped and continued, gets the signals that it handles, and is sometimes told to end early.

use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::process::{Pid, Signal, kill_process_group};
use testing::kept_seeds;

use crate::catalogue::{Program, Signals};
use crate::compared::compare;
use crate::inputs::prepare;
use crate::run::{RunMode, run};

/// Signals by which no program ends deliberately.
const CRASHES: [Signal; 5] = [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::ABORT, Signal::KILL];

const USUAL_STARTS: u64 = 6;

/// Starts a program many times, and checks that it always ends correctly.
pub(crate) fn start_repeatedly(program: &Program, signals: &Signals) -> Result<(), String> {
    prepare(program)?;
    let number = |name: &str| std::env::var(name).ok().map(|number| number.parse().unwrap());
    let starts = number("ROWLOCK_STARTS").unwrap_or(USUAL_STARTS);
    match number("ROWLOCK_SEED") {
        Some(seed) => start_with_seed(program, signals, starts, seed),
        None => [1]
            .into_iter()
            .chain(kept_seeds("starts"))
            .try_for_each(|seed| start_with_seed(program, signals, starts, seed)),
    }
}

fn start_with_seed(program: &Program, signals: &Signals, starts: u64, seed: u64) -> Result<(), String> {
    let own: u64 = program.name.bytes().map(u64::from).sum();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed + own);
    let plain = run(program, RunMode::Plain, |_, _| ())?.behaviour;
    let mut ended = 0;
    for start in 0..starts {
        let mode = RunMode::Preloaded(one_of(&["adaptive", "adaptive", "adaptive", "2cs+"], &mut random));
        let end = random.next_u64().is_multiple_of(5).then(|| one_of(signals.that_end, &mut random));
        let [mut moments, mut load_random] = [(); 2].map(|()| Xoshiro256PlusPlus::seed_from_u64(random.next_u64()));
        let outcome = run(program, mode, |group, over| {
            thread::scope(|scope| {
                scope.spawn(|| occupy_cpus(&mut load_random, over));
                disturb(program.processes[0], group, signals.that_are_handled, end, &mut moments, over);
            });
        });
        let describe = |why: String| format!("{}, seed {seed}, start {start}, {mode:?}: {why}", program.name);
        let outcome = outcome.map_err(describe)?;
        let crashed =
            outcome.behaviour.status.signal().is_some_and(|by| CRASHES.iter().any(|crash| crash.as_raw() == by));
        if end.is_some() && outcome.behaviour.status != plain.status && !crashed {
            ended += 1;
        } else {
            // If it was told to end, it had ended before.
            compare(&plain, &outcome.behaviour).map_err(|why| describe(format!("{why}\n{}", outcome.stderr)))?;
        }
    }
    eprintln!("started: {} | {starts} times, {ended} ended by signals, seed {seed}", program.name);
    Ok(())
}

fn one_of<T: Copy>(of: &[T], random: &mut impl Rng) -> T {
    of[(random.next_u64() % of.len() as u64) as usize]
}

/// Up to a few milliseconds, usually less.
fn moment(random: &mut impl Rng) -> Duration {
    Duration::from_micros(1 << (random.next_u64() % 13))
}

/// Sends a process group the signals that it handles, stops and continues it, and tells it to end
/// at some time if `end` is given.
fn disturb(
    program: &str,
    group: Pid,
    handled: &[Signal],
    end: Option<Signal>,
    random: &mut impl Rng,
    over: &AtomicBool,
) {
    let mut left = random.next_u64() % 40;
    let send = |signal| _ = kill_process_group(group, signal);
    while !over.load(Relaxed) {
        thread::sleep(moment(random));
        if left == 0 {
            end.into_iter().for_each(send);
        }
        left = left.saturating_sub(1);
        if random.next_u64().is_multiple_of(8) {
            send(Signal::STOP);
            thread::sleep(moment(random));
            send(Signal::CONT);
        } else if !handled.is_empty() && has_executed(program, group) {
            send(one_of(handled, random));
        }
    }
}

/// Whether the shell, which ignores signals until the program handles them, has executed the
/// program.
fn has_executed(name: &str, leader: Pid) -> bool {
    let name_now = std::fs::read_to_string(format!("/proc/{}/comm", leader.as_raw_nonzero()));
    name_now.is_ok_and(|now| now.trim_end() == name)
}

/// Occupies two CPUs, one or none, for a while each.
fn occupy_cpus(random: &mut impl Rng, over: &AtomicBool) {
    while !over.load(Relaxed) {
        let (busy_threads, time) = (random.next_u64() % 3, moment(random) * 4);
        let until = Instant::now() + time;
        thread::scope(|scope| {
            for _ in 0..busy_threads {
                scope.spawn(|| while Instant::now() < until {});
            }
            thread::sleep(time);
        });
    }
}
