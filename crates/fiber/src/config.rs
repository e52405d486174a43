//! The configuration of a runtime.

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use sys::tick::ScriptedClock;

use crate::control_block::ThreadControlBlocks;
use crate::record::Tier;
use crate::schedule_fuzzer::RandomSchedule;

/// The configuration of a runtime.
///
/// ```
/// use policy::Span;
/// use policy::feedback::{Boost, FeedbackRules};
///
/// let running_time = Span::from_micros(150);
/// let rules = FeedbackRules { levels: 50, running_time, boost: Boost::Never };
/// let config = rowlock_fiber::Config { rules, ..Default::default() };
/// assert_eq!(rowlock_fiber::Runtime::new(config).run(|| 6 * 7).unwrap(), 42);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The feedback queue's levels, running time and boost. The default is ten levels of 10 ms, and
    /// a boost every second.
    pub rules: FeedbackRules,
    /// How many kernel threads run fibers, including the one that [runs](crate::Runtime::run) the
    /// runtime; 0 counts as 1. With one worker, which is usual, fibers need no atomic operations,
    /// and a switch takes nanoseconds. More workers run fibers in parallel if there are CPUs for
    /// them. This is for computations of 100 us and more, because waking another CPU takes that
    /// long. Fibers move to workers that have nothing to do, unless they are
    /// [pinned](crate::pin()).
    pub workers: u32,
    /// The size of a fiber's stack in bytes, unless the fiber asks for another.
    pub stack_size: usize,
    /// The maximum number of fibers at a time. Each takes 200 bytes of address space. If the
    /// process may not reserve that much, the runtime has room for half as many, or a quarter, and
    /// so on: [`TooMany`](crate::SpawnError::TooMany) tells the actual number.
    pub most: u32,
    /// Whether fibers may be interrupted anywhere when their running time is over or a deadline has
    /// come, and not only at safepoints. This is for the first fiber, too, and for all others that
    /// do [not say otherwise](crate::Builder::preemptible). Running times below 20 us, or below 500
    /// us if each fiber has a [kernel thread](ThreadControlBlocks::KernelThreads), count as that
    /// long.
    pub preemptible: bool,
    /// How each fiber gets a thread control block, and with it thread-locals of its own, whether it
    /// is preemptible or not.
    pub thread_control_blocks: ThreadControlBlocks,
    /// Whether nothing but the fibers themselves wakes the fibers, except times, descriptors, calls
    /// that [block](crate::blocking) and [`Remote`](crate::Remote)s: no other thread uses their
    /// objects. If all fibers of such a runtime wait, that is a [deadlock](crate::Deadlock).
    /// Otherwise it is one only if fibers wait for each other in a circle: another thread may have
    /// the sender of a channel, or notify a condition variable, and the runtime waits for that, if
    /// need be forever, as a thread does.
    ///
    /// ```
    /// use rowlock_fiber::{Config, RunError, Runtime, channel};
    ///
    /// let (sender, receiver) = channel::<u32>(1);
    /// let runtime = Runtime::new(Config { closed: true, ..Config::default() });
    /// // Without `closed` it would wait for the sender forever.
    /// let outcome = runtime.run(|| receiver.recv());
    /// assert!(matches!(outcome, Err(RunError::Deadlock(_))));
    /// # drop(sender);
    /// ```
    pub closed: bool,
    /// For tests: draws the next fiber from a seed. Only what fibers do advances the clock of
    /// [`now`](crate::now), [`sleep`](crate::sleep) and all deadlines. Runs with the same seed are
    /// alike as long as their fibers wait for nothing from outside: see
    /// [`explore`](crate::explore).
    pub deterministic: Option<RandomSchedule>,
    /// For tests: the clock of [`now`](crate::now), [`sleep`](crate::sleep), all deadlines, running
    /// times and boosts, and of the timer that interrupts fibers. Such a runtime has one worker.
    /// Its time passes only when a thread [advances](ScriptedClock::advance) the clock, and jumps
    /// to the next deadline if no fiber is ready. `None` is real time.
    pub clock: Option<ScriptedClock>,
}

impl Config {
    /// The tier of a fiber for which this one was requested.
    pub(crate) fn tier(&self, requested: Option<Tier>) -> Tier {
        let default = if self.preemptible { Tier::Preemptible } else { Tier::Cooperative };
        match requested.unwrap_or(default) {
            Tier::Preemptible if self.deterministic.is_some() => Tier::Cooperative,
            tier => tier,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            rules: FeedbackRules {
                running_time: Span::from_millis(10),
                boost: Boost::Every(Span::from_millis(1_000)),
                ..FeedbackRules::default()
            },
            workers: 1,
            stack_size: 64 << 10,
            most: 1 << 22,
            preemptible: false,
            thread_control_blocks: ThreadControlBlocks::Auto,
            closed: false,
            deterministic: None,
            clock: None,
        }
    }
}
