//! How a case is run: in its own process, by many fibers at once.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber::{Builder, Config, Runtime, ThreadControlBlocks, preemptions, spawn, yield_now};
use testing::child::{LIMIT, set_deadline};
use testing::{Child, Output, isolated_by};

use crate::at_drop::AtDrop;

/// The minimum duration of a case, and whether each fiber has a kernel thread.
const SECONDS: &str = "ROWLOCK_SOAK_SECONDS";
const THREADS: &str = "ROWLOCK_ADVERSARY_THREADS";

/// Preemptible fibers. Others are not, including the first one.
pub(crate) const PREEMPTIBLE: u64 = 8;
pub(crate) const ALL: u64 = PREEMPTIBLE + 3;

/// A case lasts until a worker's fibers have been interrupted this often.
const ENOUGH: u64 = 300;

/// Runs the calling test in its own process, and expects success.
#[track_caller]
pub(crate) fn alone(body: impl FnOnce()) {
    if let Some(output) = elsewhere(body) {
        output.expect_success().expect_stdout("1 passed");
    }
}

/// The same if success is not expected: returns the output of the process. `None` in that process
/// itself.
#[track_caller]
pub(crate) fn elsewhere(body: impl FnOnce()) -> Option<Output> {
    let mut output = None;
    let start = |mut test: Command| {
        let settings = [SECONDS, THREADS].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let limit = LIMIT + length();
        if !length().is_zero() {
            set_deadline(&mut test, limit);
        }
        // A pipe, because writing to one can be interrupted, unlike writing to a file.
        let child = Child::start_into(test.envs(settings), Stdio::piped());
        output = Some(child.with_limit(limit).wait());
    };
    isolated_by(start, body);
    output
}

/// The minimum duration of a case.
pub(crate) fn length() -> Duration {
    let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(0.0))
}

/// The kind of preemption.
pub(crate) fn thread_control_blocks() -> ThreadControlBlocks {
    if std::env::var_os(THREADS).is_some() { ThreadControlBlocks::KernelThreads } else { ThreadControlBlocks::Auto }
}

/// A runtime whose preemptible fibers are interrupted about as often as possible.
pub(crate) fn hasty(workers: u32) -> Runtime {
    let rules =
        FeedbackRules { levels: 3, running_time: Span::from_micros(50), boost: Boost::Every(Span::from_millis(5)) };
    let thread_control_blocks = thread_control_blocks();
    Runtime::new(Config {
        rules,
        workers,
        preemptible: true,
        thread_control_blocks,
        stack_size: 256 << 10,
        ..Config::default()
    })
}

/// Lets fibers call a function again and again, with the number of the fiber, of [`ALL`], and of
/// its round. The first [`PREEMPTIBLE`] of them may be interrupted anywhere. The function must
/// reach no safepoint.
pub(crate) fn hazard(round: impl Fn(u64, u64) + Send + Sync + 'static) {
    hazard_until(round, || true);
}

/// The same, until this condition also holds, which the first fiber checks.
pub(crate) fn hazard_until(round: impl Fn(u64, u64) + Send + Sync + 'static, enough: impl Fn() -> bool) {
    hazard_with(&[1, 2], round, enough);
}

/// The same with these numbers of workers, one after the other.
pub(crate) fn hazard_with(
    workers: &[u32],
    round: impl Fn(u64, u64) + Send + Sync + 'static,
    enough: impl Fn() -> bool,
) {
    let round: Arc<dyn Fn(u64, u64) + Send + Sync> = Arc::new(round);
    for &number in workers {
        hasty(number).run(|| hazard_here(&round, length() / workers.len() as u32, &enough)).unwrap();
    }
}

/// Computes for up to 0.6 ms, for a different time in each round. A kernel thread is interrupted
/// 0.5 ms after it got the turn, which most rounds give away long before: so it is interrupted
/// anywhere in them.
fn compute(who: u64, round: u64) {
    let some = (who << 32 | round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let (began, time) = (Instant::now(), Duration::from_micros(some % 600));
    while began.elapsed() < time {}
}

fn hazard_here(round: &Arc<dyn Fn(u64, u64) + Send + Sync>, length: Duration, enough: &dyn Fn() -> bool) {
    let (over, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let work = |who: u64| {
        let (round, over, taken) = (Arc::clone(round), Arc::clone(&over), Arc::clone(&taken));
        move || {
            let _ends = AtDrop(|| over.store(true, Relaxed));
            let mut rounds = 0;
            while !over.load(Relaxed) {
                if who < PREEMPTIBLE && thread_control_blocks() == ThreadControlBlocks::KernelThreads {
                    compute(who, rounds);
                }
                round(who, rounds);
                rounds += 1;
                if who >= PREEMPTIBLE {
                    yield_now();
                } else if rounds % 4 == 0 {
                    // They may all be on a worker that is not the first fiber's.
                    taken.fetch_max(preemptions().taken, Relaxed);
                }
            }
            rounds
        }
    };
    let began = Instant::now();
    let preemptible: Vec<_> = (0..PREEMPTIBLE).map(|who| spawn(work(who))).collect();
    let others = (PREEMPTIBLE..ALL - 1).map(|who| Builder::new().preemptible(false).spawn(work(who)).unwrap());
    let fibers: Vec<_> = preemptible.into_iter().chain(others).collect();
    let mut rounds = 0;
    {
        let _ends = AtDrop(|| over.store(true, Relaxed));
        while !over.load(Relaxed) && (taken.load(Relaxed) < ENOUGH || began.elapsed() < length || !enough()) {
            round(ALL - 1, rounds);
            rounds += 1;
            yield_now();
        }
    }
    let rounds: Vec<u64> = fibers.into_iter().map(|fiber| fiber.join().unwrap()).chain([rounds]).collect();
    println!("{rounds:?} rounds, {:?}", preemptions());
}
