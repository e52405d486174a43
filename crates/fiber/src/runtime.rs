//! The runtime: its configuration, its start and its end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, JoinHandle};

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use sys::tick::ScriptedClock;

use crate::clock::Clock;
use crate::control_block::PreemptBy;
use crate::ending;
use crate::error::{JoinError, RunError};
use crate::fiber_thread;
use crate::preempt::orphan;
use crate::reactor::Reactor;
use crate::record::Fiber;
use crate::schedule_fuzzer::RandomSchedule;
use crate::shared::Core;
use crate::worker::{CurrentWorker, Worker};

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
    /// How many kernel threads run fibers, including the one that [runs](Runtime::run) the runtime;
    /// 0 counts as 1. With one worker, which is usual, fibers need no atomic operations, and a
    /// switch takes nanoseconds. More workers run fibers in parallel if there are CPUs for them.
    /// This is for computations of 100 us and more, because waking another CPU takes that long.
    /// Fibers move to workers that have nothing to do, unless they are [pinned](crate::pin()).
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
    /// us if each fiber has a [kernel thread](PreemptBy::KernelThreads), count as that long.
    pub preemptible: bool,
    /// The mechanism that makes each fiber a thread, with thread-locals of its own, whether it is
    /// preemptible or not.
    pub preempt_by: PreemptBy,
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
            preempt_by: PreemptBy::Auto,
            deterministic: None,
            clock: None,
        }
    }
}

/// Fibers and the kernel threads that run them.
#[derive(Clone, Debug, Default)]
pub struct Runtime {
    config: Config,
}

/// Runs a function as the first fiber of a [`Runtime`] with the default [`Config`], and returns its
/// result.
///
/// # Panics
/// If [`Runtime::run`] returns an error.
#[track_caller]
#[allow(clippy::panic, reason = "documented")]
pub fn run<T>(first: impl FnOnce() -> T) -> T {
    match Runtime::default().run(first) {
        Ok(result) => result,
        Err(error) => panic!("{error}"),
    }
}

impl Runtime {
    /// A runtime with this configuration.
    pub fn new(config: Config) -> Runtime {
        Runtime { config }
    }

    /// Turns the calling thread into the first fiber of a runtime with one worker, which lasts as
    /// long as the process. For interfaces to other languages: Rust programs [run](Runtime::run) a
    /// function. On a deadlock the process aborts, with a message.
    ///
    /// # Errors
    /// If there is no memory for it, or the thread runs fibers already.
    ///
    /// # Safety
    /// The thread lasts as long as the process. No fiber unwinds into functions that cannot be
    /// unwound.
    #[doc(hidden)]
    pub unsafe fn adopt(&self) -> Result<(), RunError> {
        if is_inside() {
            return Err(RunError::Inside);
        }
        let core = Core::new(Config { workers: 1, deterministic: None, clock: None, ..self.config.clone() })?;
        core.lasts.store(true, Relaxed);
        let worker = Box::leak(Box::new(Worker::new(&core, 0, Clock::real(), Reactor::make)));
        // SAFETY: it is never moved or freed.
        unsafe { worker.adopt()? };
        core.rounds.join();
        std::mem::forget(core);
        fiber_thread::leave_runtime();
        Ok(())
    }

    /// Runs a function as the first fiber, on this thread's own stack and with its thread-locals,
    /// and returns its result. Then
    /// the runtime ends, and with it all remaining fibers: those that have not started never run,
    /// and the others unwind from where they wait.
    ///
    /// # Errors
    /// If there is no memory for it; if the function waited for something that could never come; if
    /// it left by [`exit`](crate::exit); if the thread runs fibers already; or if a runtime that is
    /// deterministic or has a scripted clock was to have several workers.
    ///
    /// # Panics
    /// With the function's panic.
    pub fn run<T>(&self, first: impl FnOnce() -> T) -> Result<T, RunError> {
        if is_inside() {
            return Err(RunError::Inside);
        }
        if (self.config.deterministic.is_some() || self.config.clock.is_some()) && self.config.workers > 1 {
            return Err(RunError::Workers { workers: self.config.workers });
        }
        let core = Core::new(self.config.clone())?;
        let worker = Box::new(Worker::new(&core, 0, Clock::of(&self.config), Reactor::make));
        // SAFETY: it stays in its box until it has resigned.
        unsafe { worker.adopt()? };
        core.rounds.join();
        let mut others = Vec::new();
        let started: Result<(), RunError> = (1..core.inboxes.len()).try_for_each(|index| {
            others.push(start(&core, &worker, index)?);
            Ok(())
        });
        let outcome = started.map(|()| fiber_thread::call_outside(|| catch_unwind(AssertUnwindSafe(first))));
        if worker.current().has_extras() {
            crate::local::end(worker.current());
        }
        let left = ending::end_all(&worker);
        worker.resign();
        for other in others {
            // It returns nothing, and catches panics itself.
            let _ = other.join();
        }
        let deadlock = core.take_deadlock();
        core.finish();
        if left > 0 {
            // Other threads may have pointers to the remaining stacks.
            std::mem::forget((worker, core));
        }
        match outcome? {
            Ok(result) => Ok(result),
            Err(payload) => match (ending::reason(payload), deadlock) {
                (JoinError::Cancelled, Some(deadlock)) => Err(RunError::Deadlock(deadlock)),
                (JoinError::Exited, _) => Err(RunError::Exited),
                (JoinError::Panicked(payload), _) => resume_unwind(payload),
                (other, _) => resume_unwind(Box::new(other.to_string())),
            },
        }
    }
}

/// Whether the caller is a fiber. An orphaned fiber unwinds, as in all calls of the library.
fn is_inside() -> bool {
    let is_fiber = CurrentWorker::visit(|here| here.is_some());
    if !is_fiber {
        orphan::unwind_if_orphaned();
    }
    is_fiber
}

/// Starts another worker, on its own kernel thread.
fn start(core: &Arc<Core>, first: &Worker, index: usize) -> Result<JoinHandle<()>, RunError> {
    /// The worker's first fiber.
    struct Root(Fiber);

    // SAFETY: only that kernel thread uses it.
    unsafe impl Send for Root {}

    let shared = Arc::clone(core);
    let root = Root(first.record()?);
    let work = move || {
        let (core, Root(root)) = (shared, { root });
        let worker = Box::new(Worker::new(&core, index, Clock::real(), Reactor::make));
        // SAFETY: it stays in its box until it has resigned.
        unsafe { worker.adopt_as(root) };
        core.rounds.wait(&worker);
        let left = ending::end_own(&worker);
        worker.resign();
        if left > 0 {
            std::mem::forget(worker);
        }
    };
    core.rounds.join();
    Builder::new().name(format!("rowlock-fiber-{index}")).spawn(work).map_err(|why| {
        core.rounds.leave();
        RunError::Worker(why)
    })
}
