//! A rank of a job: computes and talks, again and again, in a window in which all jobs run.

use std::hint::black_box;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use message::{Communicator, Waiting, join};
use rowlock_bench_exec::now;

/// The time between two rounds.
const GRAIN: Duration = Duration::from_micros(20);
/// The computation and the sleep of a hop.
const HOP: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(2)];
/// The words of 2000 bytes.
const WORDS: usize = 250;
/// The iterations of a measurement of their speed.
const MEASURED: u64 = 1_000_000;

/// A round that no rank has yet.
const NEVER: u64 = u64::MAX;

/// The iterations of a computation in a nanosecond: the most in several trials. All jobs compute
/// by the same number, whatever they share their CPUs with.
pub(crate) fn speed() -> f64 {
    let trial = |_| {
        let begun = Instant::now();
        iterate(MEASURED);
        MEASURED as f64 / begun.elapsed().as_nanos() as f64
    };
    (0..20).map(trial).fold(0.0, f64::max)
}

/// Runs a rank, given its kind, its [`speed`], and the begin and the end of the window. The first
/// one prints how many rounds were done in the window.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(2);
    let kind = arguments.next().context("a kind")?;
    let mut number = || anyhow::Ok(arguments.next().context("a speed and a window")?.parse::<f64>()?);
    let (speed, begin, end) = (number()?, number()?, number()?);
    let compute = |time: Duration| iterate((time.as_nanos() as f64 * speed) as u64);
    let rule = match kind.as_str() {
        "poll" => "50 us",
        "overlap" => "always-block",
        _ => "adaptive",
    };
    let world = join(Waiting::by(rule.parse()?))?;
    let mut rounds = 0;
    // The round that is the last one, which the first rank decides in time for all others.
    let mut last = NEVER;
    for round in 0.. {
        if world.rank() == 0 && last == NEVER {
            let time = now();
            rounds += u64::from(time >= begin && time < end);
            if time >= end {
                last = round + u64::from(world.ranks());
            }
        }
        last = last.min(talk(&world, &kind, compute, round, last)?);
        if round >= last {
            break;
        }
    }
    if world.rank() == 0 {
        println!("{rounds}");
    }
    Ok(())
}

/// A round. Returns what others say is the last one.
fn talk(world: &Communicator, kind: &str, compute: impl Fn(Duration), round: u64, last: u64) -> anyhow::Result<u64> {
    let (rank, ranks) = (world.rank(), world.ranks());
    let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let mut said = [last];
    match kind {
        "ring" | "poll" => {
            compute(GRAIN);
            world.send(next, 0, &[last])?;
            world.receive(previous, 0, &mut said)?;
        }
        // Each rank in turn.
        "one-to-all" => {
            compute(GRAIN);
            world.broadcast((round % u64::from(ranks)) as u32, &mut said)?;
        }
        "exchange" => {
            compute(GRAIN);
            world.send_receive((next, 0, &[last]), (previous, 0, &mut said))?;
        }
        "around" => pass_on(world, &mut said, || ())?,
        "overlap" => {
            let mut content = [last; WORDS];
            pass_on(world, &mut content, || {
                compute(HOP[0]);
                sleep(HOP[1]);
            })?;
            said = [content[0]];
        }
        _ => bail!("there are no jobs of the kind {kind}"),
    }
    Ok(said[0])
}

/// Passes one message around all ranks, from the first one, which is `content` there. Each hop
/// costs some work.
fn pass_on(world: &Communicator, content: &mut [u64], work: impl Fn()) -> anyhow::Result<()> {
    let (rank, ranks) = (world.rank(), world.ranks());
    let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    if rank != 0 {
        world.receive(previous, 0, content)?;
    }
    work();
    world.send(next, 0, content)?;
    if rank == 0 {
        world.receive(previous, 0, content)?;
    }
    Ok(())
}

#[inline(never)]
fn iterate(times: u64) {
    for iteration in 0..times {
        black_box(iteration);
    }
}
