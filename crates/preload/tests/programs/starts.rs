//! Starts and ends: a program is started again and again while others take its CPUs, is stopped and continued, is sent the signals
//! that it handles, and is sometimes told to end in the middle.

use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::process::{Pid, Signal, kill_process_group};
use testing::kept;

use crate::catalogue::{Program, Signals};
use crate::compared::compare;
use crate::inputs::prepare;
use crate::run::{Way, run};

/// No end that a program chooses when it is told to end.
const CRASHES: [Signal; 5] = [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::ABORT, Signal::KILL];

const USUAL_STARTS: u64 = 6;

/// Starts a program many times, and sees that each of them ends as it should.
pub(crate) fn starts_and_ends(program: &Program, signals: &Signals) -> Result<(), String> {
    prepare(program)?;
    let number = |name: &str| std::env::var(name).ok().map(|number| number.parse().unwrap());
    let starts = number("ROWLOCK_STARTS").unwrap_or(USUAL_STARTS);
    match number("ROWLOCK_SEED") {
        Some(seed) => starts_with(program, signals, starts, seed),
        None => [1].into_iter().chain(kept("starts")).try_for_each(|seed| starts_with(program, signals, starts, seed)),
    }
}

fn starts_with(program: &Program, signals: &Signals, starts: u64, seed: u64) -> Result<(), String> {
    let own: u64 = program.name.bytes().map(u64::from).sum();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed + own);
    let plain = run(program, Way::Plain, |_, _| ())?.deeds;
    let mut ended = 0;
    for start in 0..starts {
        let way = Way::Preloaded(one_of(&["adaptive", "adaptive", "adaptive", "2cs+"], &mut random));
        let end = random.next_u64().is_multiple_of(5).then(|| one_of(signals.that_end, &mut random));
        let [mut moments, mut hogs] = [(); 2].map(|()| Xoshiro256PlusPlus::seed_from_u64(random.next_u64()));
        let outcome = run(program, way, |group, over| {
            thread::scope(|scope| {
                scope.spawn(|| come_and_go(&mut hogs, over));
                pester(program.processes[0], group, signals.that_are_handled, end, &mut moments, over);
            });
        });
        let told = |why: String| format!("{}, seed {seed}, start {start}, {way:?}: {why}", program.name);
        let outcome = outcome.map_err(told)?;
        let crashed = outcome.deeds.status.signal().is_some_and(|by| CRASHES.iter().any(|crash| crash.as_raw() == by));
        if end.is_some() && outcome.deeds.status != plain.status && !crashed {
            ended += 1;
        } else {
            // It was over before, if it was told to end.
            compare(&plain, &outcome.deeds).map_err(|why| told(format!("{why}\n{}", outcome.complaints)))?;
        }
    }
    eprintln!("started: {} | {starts} times, {ended} ended by signals, seed {seed}", program.name);
    Ok(())
}

fn one_of<T: Copy>(of: &[T], random: &mut impl Rng) -> T {
    of[(random.next_u64() % of.len() as u64) as usize]
}

/// Up to a few milliseconds, mostly less.
fn moment(random: &mut impl Rng) -> Duration {
    Duration::from_micros(1 << (random.next_u64() % 13))
}

/// Sends a process group what it handles, stops and continues it, and tells it to end at some moment if it is to.
fn pester(
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
        } else if !handled.is_empty() && has_become(program, group) {
            send(one_of(handled, random));
        }
    }
}

/// Whether the shell, which ignores signals until the program handles them, has become the program.
fn has_become(name: &str, leader: Pid) -> bool {
    let is = std::fs::read_to_string(format!("/proc/{}/comm", leader.as_raw_nonzero()));
    is.is_ok_and(|is| is.trim_end() == name)
}

/// Takes both CPUs, or one, or none, for a while each.
fn come_and_go(random: &mut impl Rng, over: &AtomicBool) {
    while !over.load(Relaxed) {
        let (hogs, time) = (random.next_u64() % 3, moment(random) * 4);
        let until = Instant::now() + time;
        thread::scope(|scope| {
            for _ in 0..hogs {
                scope.spawn(|| while Instant::now() < until {});
            }
            thread::sleep(time);
        });
    }
}
