//! The runtime: its start and its end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, JoinHandle};

use policy::Span;

use crate::clock::Clock;
use crate::config::Config;
use crate::current_worker::{self, CurrentWorker};
use crate::deadlock::Deadlock;
use crate::debug::{gdb, overflow};
use crate::ending;
use crate::error::{JoinError, SpawnError};
use crate::preempt::orphan;
use crate::record::Fiber;
use crate::schedule_fuzzer::STEP;
use crate::shared::Core;
use crate::unwinding;
use crate::worker::Worker;

/// Why a runtime's first fiber has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The runtime could not be made.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// There is no kernel thread for another worker.
    #[error("no kernel thread for another worker (see Config::workers): {0}")]
    Worker(#[source] std::io::Error),
    /// The first fiber waited for something that could never come.
    #[error("{0}")]
    Deadlock(Deadlock),
    /// The first fiber left by [`exit`](crate::exit).
    #[error("the first fiber left by exit")]
    Exited,
    /// A runtime runs on this thread already.
    #[error("a runtime already runs on this thread: spawn fibers in it")]
    Inside,
    /// Several workers were requested for a [deterministic](crate::Config::deterministic) runtime,
    /// or for one with a [scripted clock](crate::Config::clock).
    #[error("a runtime with a seed or a scripted clock has one worker, not {workers}: set Config::workers to 1")]
    Workers {
        /// The requested number.
        workers: u32,
    },
}

/// Fibers and the kernel threads that run them.
#[derive(Clone, Debug, Default)]
pub struct Runtime {
    config: Config,
}

/// Runs a function as the first fiber of a [`Runtime`] with the default [`Config`], and returns its
/// result.
///
/// It waits as long as its fibers wait for something that another thread could do: see
/// [`Config::closed`].
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
        let worker = Box::leak(Box::new(Worker::new(&core, 0, Clock::real())));
        // SAFETY: it is never moved or freed.
        unsafe { worker.adopt()? };
        core.rounds.join();
        std::mem::forget(gdb::list(&core.records));
        overflow::watch();
        std::mem::forget(core);
        current_worker::leave_runtime();
        Ok(())
    }

    /// Runs a function as the first fiber, on this thread's own stack and with its thread-locals,
    /// and returns its result. Then the runtime ends, and with it all remaining fibers: those that
    /// have not started never run, and the others unwind from where they wait.
    ///
    /// # Errors
    /// If there is no memory for it; if the function waited in a [deadlock](crate::Deadlock); if
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
        let worker = Box::new(Worker::new(&core, 0, new_clock(&self.config)));
        // SAFETY: it stays in its box until it has resigned.
        unsafe { worker.adopt()? };
        let _listed = gdb::list(&core.records);
        overflow::watch();
        core.rounds.join();
        let mut others = Vec::new();
        let started: Result<(), RunError> = (1..core.inboxes.len()).try_for_each(|index| {
            others.push(start(&core, &worker, index)?);
            Ok(())
        });
        let outcome = started.map(|()| current_worker::call_outside(|| catch_unwind(AssertUnwindSafe(first))));
        let left = ending::end_all(&worker);
        worker.resign();
        for other in others {
            // It returns nothing, and catches panics itself.
            let _ = other.join();
        }
        let deadlock = core.take_deadlock().and_then(|deadlock| deadlock.downcast().ok());
        core.finish();
        core.records.all().for_each(crate::join::abandon);
        if left > 0 {
            // Other threads may have pointers to the remaining stacks.
            std::mem::forget((worker, core));
        }
        match outcome? {
            Ok(result) => Ok(result),
            Err(payload) => match (unwinding::reason(payload), deadlock) {
                (JoinError::Cancelled, Some(deadlock)) => Err(RunError::Deadlock(*deadlock)),
                (JoinError::Exited, _) => Err(RunError::Exited),
                (JoinError::Panicked(payload), _) => resume_unwind(payload),
                (other, _) => resume_unwind(Box::new(other.to_string())),
            },
        }
    }
}

/// The clock of a runtime.
fn new_clock(config: &Config) -> Clock {
    if config.clock.is_none() && config.deterministic.is_none() {
        return Clock::real();
    }
    let step = if config.deterministic.is_some() { STEP } else { Span::ZERO };
    Clock::Scripted { clock: config.clock.clone().unwrap_or_default(), step }
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
        let worker = Box::new(Worker::new(&core, index, Clock::real()));
        // SAFETY: it stays in its box until it has resigned.
        unsafe { worker.adopt_as(root) };
        ending::await_end(&worker);
        let left = ending::end_own(&worker);
        worker.resign();
        if left > 0 {
            std::mem::forget((worker, core));
        }
    };
    core.rounds.join();
    Builder::new().name(format!("rowlock-fiber-{index}")).spawn(work).map_err(|why| {
        core.rounds.leave();
        RunError::Worker(why)
    })
}
