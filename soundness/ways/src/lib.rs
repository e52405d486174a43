//! One program in several ways: with threads, and with fibers under several schedulers.
//!
//! A *strand* is a thread or a fiber, depending on the way. A program starts strands by
//! [`together`], and calls [`switch`] wherever its own code can run: in the callbacks, initialisers
//! and destructors that a library calls. Its result must not depend on the order of its strands.
//! A test runs it with threads and then in one way, many times, and expects the same result. The
//! macro [`in_every_way!`] makes these tests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

#[cfg(rowlock_canary = "fibers-share-thread-locals")]
#[allow(unsafe_code)] // It lets fibers share what they must not.
mod defect;

use std::fmt::Debug;
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber as fiber;
use rowlock_fiber::{Candidates, Config, RandomSchedule, Runtime, ThreadControlBlocks};
use testing::Child;
use testing::child::{LIMIT, set_deadline};

/// How strands are made and scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Kernel threads.
    Threads,
    /// Fibers of the default configuration, on so many workers. They switch only in calls.
    Default { workers: u32 },
    /// Fibers of a runtime whose schedule is drawn from a seed. They switch only in calls.
    Explored,
    /// Fibers that are interrupted anywhere, about as often as possible, on so many workers.
    Preempted { workers: u32 },
    /// The same, and each fiber has a kernel thread.
    Bound,
}

/// What strands are in this process, and how they switch. Each test has its own process. It is no
/// lock, because waiting for one would change the last error of a strand.
static STRANDS: AtomicU8 = AtomicU8::new(THREADS);

const THREADS: u8 = 0;
const COOPERATIVE_FIBERS: u8 = 1;
const PREEMPTED_FIBERS: u8 = 2;

/// The state of the generator from which [`switch`] draws.
static DRAWN: AtomicU64 = AtomicU64::new(0);

impl Way {
    fn config(self, seed: u64) -> Config {
        // Unoptimized libraries need more than usual.
        let usual = Config { stack_size: 512 << 10, ..Config::default() };
        let hasty =
            FeedbackRules { levels: 3, running_time: Span::from_micros(50), boost: Boost::Every(Span::from_millis(5)) };
        match self {
            Way::Threads | Way::Default { workers: 0 | 1 } => usual,
            Way::Default { workers } => Config { workers, ..usual },
            Way::Explored => {
                Config { deterministic: Some(RandomSchedule { seed, candidates: Candidates::All }), ..usual }
            }
            Way::Preempted { workers } => Config { workers, rules: hasty, preemptible: true, ..usual },
            Way::Bound => Config {
                rules: hasty,
                preemptible: true,
                thread_control_blocks: ThreadControlBlocks::KernelThreads,
                ..usual
            },
        }
    }

    /// How many seeds a test draws schedules from, unless it searches.
    pub fn seeds(self) -> u64 {
        match self {
            Way::Explored => 200,
            Way::Default { .. } | Way::Threads => 5,
            Way::Preempted { .. } | Way::Bound => 30,
        }
    }

    /// Runs a program in this way, on a new kernel thread, whose thread-locals go with it.
    ///
    /// # Panics
    /// With the program's panic, or if the runtime fails.
    pub fn run<T: Send>(self, seed: u64, program: impl FnOnce() -> T + Send) -> T {
        DRAWN.store(seed, Relaxed);
        let strands = match self {
            Way::Threads => THREADS,
            Way::Default { .. } | Way::Explored => COOPERATIVE_FIBERS,
            Way::Preempted { .. } | Way::Bound => PREEMPTED_FIBERS,
        };
        STRANDS.store(strands, Relaxed);
        let run = || match self {
            Way::Threads => program(),
            _ => Runtime::new(self.config(seed)).run(program).unwrap_or_else(|why| panic!("{why}")),
        };
        thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|why| resume_unwind(why))
    }
}

fn are_threads() -> bool {
    STRANDS.load(Relaxed) == THREADS
}

/// Starts so many strands, and returns their results in order. The function gets the number of its
/// strand.
///
/// # Panics
/// If one of them panics.
pub fn together<T: Send>(count: usize, function: impl Fn(usize) -> T + Sync) -> Vec<T> {
    each(0..count, function)
}

/// The same with a strand for each value, which the function gets.
///
/// # Panics
/// If one of them panics.
pub fn each<V: Send, T: Send>(values: impl IntoIterator<Item = V>, function: impl Fn(V) -> T + Sync) -> Vec<T> {
    let (values, function) = (values.into_iter(), &function);
    if are_threads() {
        return thread::scope(|scope| {
            let all: Vec<_> = values.map(|value| scope.spawn(move || function(value))).collect();
            all.into_iter().map(|each| each.join().unwrap()).collect()
        });
    }
    #[cfg(rowlock_canary = "fibers-share-thread-locals")]
    return defect::each(values, function);
    #[cfg(not(rowlock_canary = "fibers-share-thread-locals"))]
    fiber::scope(|scope| {
        let all: Vec<_> = values.map(|value| scope.spawn(move || function(value))).collect();
        all.into_iter().map(|each| each.join().unwrap()).collect()
    })
}

/// A part of a program, for [`each`] to call.
pub type Part<'a, T> = Box<dyn FnOnce() -> T + Send + 'a>;

/// Lets other strands run, or lets some time pass in which the caller may be interrupted. Only
/// strands may call it.
pub fn switch() {
    match STRANDS.load(Relaxed) {
        THREADS => thread::yield_now(),
        COOPERATIVE_FIBERS => fiber::yield_now(),
        _ => {
            let drawn = draw();
            if drawn.is_multiple_of(2) {
                fiber::yield_now();
            } else {
                let (began, time) = (Instant::now(), Duration::from_micros(drawn % 100));
                while began.elapsed() < time {}
            }
        }
    }
}

/// Switches until a condition holds.
pub fn until(holds: impl Fn() -> bool) {
    while !holds() {
        switch();
    }
}

/// The sending end of a [`channel`].
#[derive(Clone)]
pub enum Sender<T> {
    /// Between threads.
    Threads(mpsc::SyncSender<T>),
    /// Between fibers.
    Fibers(fiber::Sender<T>),
}

/// The receiving end of a [`channel`].
pub enum Receiver<T> {
    /// Between threads.
    Threads(mpsc::Receiver<T>),
    /// Between fibers.
    Fibers(fiber::Receiver<T>),
}

/// A channel for so many values between strands. They wait at it as threads do, or as fibers do.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    if are_threads() {
        let (sender, receiver) = mpsc::sync_channel(capacity);
        return (Sender::Threads(sender), Receiver::Threads(receiver));
    }
    let (sender, receiver) = fiber::channel(capacity);
    (Sender::Fibers(sender), Receiver::Fibers(receiver))
}

impl<T> Sender<T> {
    /// Sends a value.
    ///
    /// # Panics
    /// If the receiver is gone.
    pub fn send(&self, value: T) {
        let sent = match self {
            Sender::Threads(sender) => sender.send(value).is_ok(),
            Sender::Fibers(sender) => sender.send(value).is_ok(),
        };
        assert!(sent, "the receiver is gone");
    }
}

impl<T> Receiver<T> {
    /// The next value. `None` if all senders are gone.
    pub fn receive(&self) -> Option<T> {
        match self {
            Receiver::Threads(receiver) => receiver.recv().ok(),
            Receiver::Fibers(receiver) => receiver.recv().ok(),
        }
    }
}

/// SplitMix64.
fn draw() -> u64 {
    let state = DRAWN.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Runs one test in a process of its own, and expects that it passes.
#[track_caller]
pub fn start(mut test: Command) {
    // With the defect, many programs wait forever.
    let limit = if cfg!(rowlock_canary = "fibers-share-thread-locals") { Duration::from_secs(10) } else { LIMIT };
    let limit = limit + testing::search().unwrap_or_default();
    let variables = ["ROWLOCK_SEED", "ROWLOCK_FIRST_SEED", "ROWLOCK_SOAK_SECONDS"];
    test.envs(variables.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    set_deadline(&mut test, limit);
    Child::start(&mut test).with_limit(limit).wait().expect_success().expect_stdout("1 passed");
}

/// Runs a program in this way, and expects this result.
#[track_caller]
pub fn expect<T: PartialEq + Debug + Send>(way: Way, seed: u64, program: fn() -> T, expected: &T) {
    assert_eq!(&way.run(seed, program), expected, "{way:?} and threads differ");
}

/// Makes a test of each program, a function without arguments, for each [`Way`].
///
/// A program that fails with fibers has the attribute `#[ignore]`, which says why. If it fails with
/// blocks alone, `only_on_kernel_threads` says why. If strands wait in the kernel for each other,
/// it has `if_calls_are_interposed`: under a sanitizer they are not, and fibers that switch only in
/// calls would wait forever.
#[macro_export]
macro_rules! in_every_way {
    (only_on_kernel_threads: $why:literal; $($program:ident)*) => {
        $crate::tests! { with_threads, Threads, $($program)* }
        $crate::tests! { bound_to_kernel_threads, Bound, $($program)* }
        $crate::tests! { preempted, Preempted { workers: 1 }, $(#[ignore = $why] $program)* }
        $crate::tests! { preempted_on_two_workers, Preempted { workers: 2 }, $(#[ignore = $why] $program)* }
        $crate::switching! { $(#[ignore = $why] $program)* }
    };
    (if_calls_are_interposed; $($program:ident)*) => {
        $crate::interrupted! { $($program)* }
        #[cfg(not(any(rowlock_asan, rowlock_tsan)))]
        $crate::switching! { $($program)* }
    };
    ($($(#[$gate:meta])* $program:ident)*) => {
        $crate::interrupted! { $($(#[$gate])* $program)* }
        $crate::switching! { $($(#[$gate])* $program)* }
    };
}

/// The ways in which strands may be interrupted.
#[macro_export]
macro_rules! interrupted {
    ($($(#[$gate:meta])* $program:ident)*) => {
        $crate::tests! { with_threads, Threads, $($program)* }
        $crate::tests! { bound_to_kernel_threads, Bound, $($(#[$gate])* $program)* }
        $crate::tests! { preempted, Preempted { workers: 1 }, $($(#[$gate])* $program)* }
        $crate::tests! { preempted_on_two_workers, Preempted { workers: 2 }, $($(#[$gate])* $program)* }
    };
}

/// The ways in which fibers switch only in calls.
#[macro_export]
macro_rules! switching {
    ($($(#[$gate:meta])* $program:ident)*) => {
        $crate::tests! { explored, Explored, $($(#[$gate])* $program)* }
        $crate::tests! { by_default, Default { workers: 1 }, $($(#[$gate])* $program)* }
        $crate::tests! { by_default_on_two_workers, Default { workers: 2 }, $($(#[$gate])* $program)* }
    };
}

/// Makes a test of each program in one way.
#[macro_export]
macro_rules! tests {
    ($module:ident, $way:ident $({ $field:ident: $value:expr })?, $($(#[$gate:meta])* $program:ident)*) => {
        mod $module {
            const WAY: $crate::Way = $crate::Way::$way $({ $field: $value })?;
            $(
                #[test]
                $(#[$gate])*
                fn $program() {
                    testing::isolated_by($crate::start, || {
                        let expected = $crate::Way::Threads.run(0, super::$program);
                        testing::for_each_seed(WAY.seeds(), |seed| {
                            $crate::expect(WAY, seed, super::$program, &expected);
                        });
                    });
                }
            )*
        }
    };
}
