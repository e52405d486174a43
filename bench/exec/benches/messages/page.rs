//! A spin, with a page that says whose turn it is and without one.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use anyhow::Context;
use message::Waiting;
use rowlock_bench_exec::{number_of, start};
use rustix::time::{ClockId, clock_gettime};
use sys::shared_memory::Mapping;
use wait::external::{Awaited, ExternalObject};
use wait::turn::{LENGTH, Turn, VARIABLE, WrittenPage};
use wait::{Counters, WaitingRule};

use crate::{Arguments, SPIN, print};

/// The polls of a program: short, so that some are not disturbed.
const POLLS: f64 = 2e6;
/// So many programs of each kind alternate in a repetition. The shortest time of each kind counts.
const PROGRAMS: usize = 30;

/// An event that occurs at the last one of so many polls.
struct Polls<'a> {
    word: &'a AtomicU64,
    left: u64,
}

impl Awaited for Polls<'_> {
    fn poll(&mut self) -> bool {
        self.left -= 1;
        self.left == 0 || self.word.load(std::sync::atomic::Ordering::Acquire) != 0
    }

    fn sleep(&mut self, _: Option<policy::Instant>) {}
}

/// Spins for so many polls. Prints the time.
pub(crate) fn spin() -> anyhow::Result<()> {
    let left = std::env::args().nth(2).context("a number of polls")?.parse()?;
    let (state, counters, word) = (AtomicU64::new(0), Counters::new(), AtomicU64::new(0));
    let waiting = Waiting::by(WaitingRule::AlwaysSpin).with_cpus(2);
    let object = ExternalObject { state: &state, counters: &counters, waiting, threads: 2 };
    let begun = Instant::now();
    object.wait(&mut ExternalObject::waiter(&waiting), &mut Polls { word: &word, left });
    println!("{}", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Measures the time of a spin with a page, in units of one without.
pub(crate) fn measure(arguments: &Arguments) -> anyhow::Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    file.as_file().set_len(LENGTH.get() as u64)?;
    let mapping: Arc<Mapping> = Mapping::new(file.as_file(), LENGTH)?;
    let page = WrittenPage::new(&mapping).context("a page")?;
    let slice = policy::Span::from_millis(60_000);
    page.set_slice(slice);
    let polls = (POLLS * arguments.seconds) as u64;
    let mut found = Vec::new();
    for _ in 0..arguments.repetitions {
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs();
        page.set(Turn::OursUntil(policy::Instant::from_nanos(now) + slice));
        let mut command = Command::new(std::env::current_exe()?);
        command.args([SPIN, &polls.to_string()]);
        let (mut with, mut without) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..PROGRAMS {
            without = without.min(number_of(start(command.env_remove(VARIABLE))?)?);
            with = with.min(number_of(start(command.env(VARIABLE, file.path()))?)?);
        }
        found.push(with / without);
    }
    print("a spin, of none", 1, "page", found);
    Ok(())
}
