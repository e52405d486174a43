//! What fibers run in.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, JoinHandle};

use policy::feedback::FeedbackRules;
use sys::tick::ScriptedClock;

use crate::clock::Clock;
use crate::control_block::PreemptBy;
use crate::ending;
use crate::error::{JoinError, RunError};
use crate::preemptible;
use crate::record::Fiber;
use crate::schedule_fuzzer::Deterministic;
use crate::shared::Core;
use crate::worker::{Here, Worker};

/// How a runtime is made.
///
/// ```
/// use policy::Span;
/// use policy::feedback::{Boost, FeedbackRules};
///
/// let rules = FeedbackRules { levels: 50, running_time: Span::from_micros(150), boost: Boost::Never };
/// let config = rowlock_fiber::Config { rules, ..Default::default() };
/// assert_eq!(rowlock_fiber::Runtime::new(config).run(|| 6 * 7).unwrap(), 42);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The feedback queue's levels, running time and boost.
    pub rules: FeedbackRules,
    /// How many kernel threads run fibers, the one that [runs](Runtime::run) the runtime among them; none counts as one. With one, which is usual, nothing that fibers do
    /// takes an atomic operation, and handing over takes nanoseconds. More let fibers run at the same time where there are CPUs for them, for computations of
    /// 100 us and more: waking another CPU takes so long.
    pub workers: u32,
    /// How large a fiber's stack is, in bytes, where it asks for nothing else.
    pub stack_size: usize,
    /// How many fibers there may be at a time. Address space is set aside for each, 200 bytes; where the process may not have so much, there may be half as many, or a
    /// quarter, and so on: [`TooMany`](crate::SpawnError::TooMany) tells how many in the end.
    pub most: u32,
    /// Whether fibers that say nothing of it may be interrupted anywhere when their running time is over, and not only at points. The first fiber never is. Running times of less
    /// than 20 us, or than 500 us where each fiber has a [kernel thread](PreemptBy::KernelThreads), are taken to be that long in this. See [`Builder::preemptible`](crate::Builder::preemptible).
    pub preemptible: bool,
    /// By what means.
    pub preempt_by: PreemptBy,
    /// For tests: that who runs next is drawn from a seed, and that the clock of [`now`](crate::now), [`sleep`](crate::sleep) and all deadlines goes on only by what fibers do.
    /// Then a run with the same seed takes the same course, as long as its fibers wait for nothing from outside: see [`explore`](crate::explore).
    pub deterministic: Option<Deterministic>,
    /// For tests: the clock of [`now`](crate::now), [`sleep`](crate::sleep), all deadlines, running times, boosts, and of the timer that interrupts fibers. Such a runtime has one worker,
    /// and its time goes on only when somebody [advances](ScriptedClock::advance) the clock, and to the next deadline where no fiber is ready. Without it, that is the time of the real world.
    pub clock: Option<ScriptedClock>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            rules: FeedbackRules::default(),
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

/// Runs a function as the first fiber of a [`Runtime`] of the usual [`Config`], and returns what it returns.
///
/// # Panics
/// Where [`Runtime::run`] returns an error.
#[track_caller]
#[allow(clippy::panic, reason = "it is what is documented")]
pub fn run<T>(first: impl FnOnce() -> T) -> T {
    match Runtime::default().run(first) {
        Ok(result) => result,
        Err(error) => panic!("{error}"),
    }
}

impl Runtime {
    /// One that is made so.
    pub fn new(config: Config) -> Runtime {
        Runtime { config }
    }

    /// Makes what the calling thread does from now on the first fiber of a runtime of one worker, which lasts as long as the process. For faces in other
    /// languages: Rust programs [run](Runtime::run) a function. When nobody can ever go on the process aborts, with a message.
    ///
    /// # Errors
    /// When there is no memory for it, and on a thread that runs fibers already.
    ///
    /// # Safety
    /// The thread lasts as long as the process. No fiber unwinds into functions that cannot be unwound.
    #[doc(hidden)]
    pub unsafe fn adopt(&self) -> Result<(), RunError> {
        if is_inside() {
            return Err(RunError::Inside);
        }
        let core = Core::new(Config { workers: 1, deterministic: None, clock: None, ..self.config.clone() })?;
        core.lasts.store(true, Relaxed);
        let worker = Box::leak(Box::new(Worker::new(&core, 0, Clock::real())));
        // SAFETY: it stays where it is for ever.
        unsafe { worker.adopt()? };
        core.rounds.join();
        std::mem::forget(core);
        Ok(())
    }

    /// Runs a function as the first fiber, on this thread's own stack, and returns what it returns. With that the runtime ends, and with it all fibers that are left:
    /// those that have not begun never do, and the others unwind from where they wait.
    ///
    /// # Errors
    /// When there is no memory for it; when the function waited for what could never come; when it left by [`exit`](crate::exit); on a thread that runs
    /// fibers already; and for several workers where the runtime is deterministic or its clock scripted.
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
        let worker = Box::new(Worker::new(&core, 0, Clock::of(&self.config)));
        // SAFETY: it stays in its box until it has resigned.
        unsafe { worker.adopt()? };
        core.rounds.join();
        let mut others = Vec::new();
        let started = (1..core.inboxes.len()).try_for_each(|index| {
            others.push(start(&core, &worker, index)?);
            Ok(())
        });
        let outcome = started.map(|()| catch_unwind(AssertUnwindSafe(first)));
        if worker.current().has_extras() {
            crate::local::end(worker.current());
        }
        let left = ending::end_all(&worker);
        worker.resign();
        for other in others {
            // It has nothing to tell, and catches what panics there.
            let _ = other.join();
        }
        let deadlock = core.take_deadlock();
        core.finish();
        if left > 0 {
            // Somebody may point to what is on their stacks.
            std::mem::forget((worker, core));
        }
        let outcome = outcome.map_err(|why: RunError| why)?;
        match outcome {
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

/// Whether it is a fiber that asks. One whose runtime is over unwinds, as wherever it comes to the library.
fn is_inside() -> bool {
    let is_fiber = Here::visit(|here| here.is_some());
    if !is_fiber {
        preemptible::unwind_if_orphaned();
    }
    is_fiber
}

/// Makes one more worker, on a kernel thread of its own.
fn start(core: &Arc<Core>, first: &Worker, index: usize) -> Result<JoinHandle<()>, RunError> {
    /// What the worker begins with.
    struct Root(Fiber);

    // SAFETY: it is nobody's until that kernel thread has it.
    unsafe impl Send for Root {}

    let shared = Arc::clone(core);
    let root = Root(first.record()?);
    let work = move || {
        let (core, Root(root)) = (shared, { root });
        let worker = Box::new(Worker::new(&core, index, Clock::real()));
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
