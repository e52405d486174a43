//! Random messages of a job whose turns alternate with those of another one.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use policy::{Instant, Span};
use rustix::time::{ClockId, clock_gettime};
use sys::shared_memory::Mapping;
use wait::turn::{LENGTH, Turn, VARIABLE, WrittenPage};

use super::run;
use super::traffic::{RANKS, exchange};

const SLICE: Span = Span::from_millis(5);

/// Runs a test in turns of 5 ms.
fn run_in_turns(mut test: Command) {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(LENGTH.get() as u64).unwrap();
    let page = WrittenPage::new(&Mapping::new(&file, LENGTH).unwrap()).unwrap();
    page.set_slice(SLICE);
    test.env(VARIABLE, file.path());
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in [Turn::OursUntil, Turn::OthersUntil].iter().cycle() {
                page.set(turn(now() + SLICE));
                thread::sleep(Duration::from_millis(5));
                if has_ended.load(Relaxed) {
                    return;
                }
            }
        });
        testing::expect_pass(&mut test);
        has_ended.store(true, Relaxed);
    });
}

fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

#[test]
fn messages_arrive_in_turns_as_well() {
    testing::isolated_by(run_in_turns, || {
        run(RANKS, |world| exchange(&world, 100, 5_000));
    });
}
