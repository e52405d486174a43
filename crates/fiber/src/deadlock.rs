//! Deadlocks: no fiber can ever run again.
//!
//! A runtime looks for a deadlock when no fiber is ready, none waits for a time, and nothing that
//! it knows of outside could wake one. It looks which fiber waits for which. Fibers that wait for
//! each other in a circle are a deadlock. The others wait for them, or for something that any fiber
//! or thread could do, such as a notification: without a circle, this is a deadlock only if the
//! runtime is [closed](crate::Config::closed). The first fiber is cancelled; when it has unwound,
//! the runtime ends and with it the others. If it cannot be cancelled, because it waits for fibers
//! that borrow from it, all are.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::debug::dump::FiberSnapshot;
use crate::debug::trace::Trace;
use crate::record::{Fiber, State};
use crate::rounds::RUNTIME_END;
use crate::unwinding::CAN_UNWIND;
use crate::waitable::{Waitable, Woken};
use crate::worker::Worker;

/// All fibers of a runtime wait, and some of them, or if it is [closed](crate::Config::closed) all,
/// can never be woken. Includes their backtraces if
/// `RUST_BACKTRACE` is set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// Fibers that wait for each other: each for the next one, and the last for the first.
    pub cycles: Vec<Vec<FiberSnapshot>>,
    /// The other fibers that wait.
    pub others: Vec<FiberSnapshot>,
}

impl Deadlock {
    /// All fibers that wait.
    pub fn fibers(&self) -> impl Iterator<Item = &FiberSnapshot> {
        self.cycles.iter().flatten().chain(&self.others)
    }

    /// Finds the deadlock of a runtime whose workers have nothing to do, and get nothing meanwhile.
    fn find(worker: &Worker) -> Deadlock {
        let blocked: Vec<_> = worker.core().records.all().filter(|fiber| is_blocked(*fiber)).collect();
        let mut cycles: Vec<Vec<Fiber>> = Vec::new();
        let mut seen = BTreeSet::new();
        for &start in &blocked {
            // Each fiber waits for at most one other, so a path ends nowhere, in what was seen
            // before, or in itself.
            let mut way = Vec::new();
            let mut next = Some(start);
            while let Some(fiber) = next.filter(|fiber| is_blocked(*fiber) && seen.insert(fiber.address())) {
                way.push(fiber);
                next = blocker(fiber);
            }
            if let Some(first) = way.iter().position(|fiber| Some(*fiber) == next) {
                cycles.push(way.split_off(first));
            }
        }
        let circling: BTreeSet<_> = cycles.iter().flatten().map(|fiber| fiber.address()).collect();
        let others = blocked.into_iter().filter(|fiber| !circling.contains(&fiber.address()));
        // The standard library knows what the environment asks for.
        let wanted = Backtrace::capture().status() != BacktraceStatus::Disabled;
        let own = wanted.then(Trace::here);
        let as_seen = |fiber| FiberSnapshot::of(worker, fiber, true, own.as_ref());
        Deadlock {
            others: others.filter_map(as_seen).collect(),
            cycles: cycles.iter().map(|cycle| cycle.iter().copied().filter_map(as_seen).collect()).collect(),
        }
    }
}

/// Whether a fiber that the program spawned waits.
fn is_blocked(fiber: Fiber) -> bool {
    let is_root = || fiber.waitable().is_some_and(|waits| waits.kind() == RUNTIME_END);
    matches!(fiber.state.get(), State::Blocked | State::BlockedUnwinding) && !is_root()
}

/// The fiber for which a blocked fiber waits, if it waits for one. A fiber that seems to wait for
/// itself has got the mutex from another thread, which is about to wake it.
fn blocker(fiber: Fiber) -> Option<Fiber> {
    fiber.waitable().and_then(Waitable::blocker).filter(|blocker| *blocker != fiber)
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let describe = |chain: &[FiberSnapshot]| {
            let waits: Vec<_> = chain.iter().map(|fiber| fiber.activity.to_string()).collect();
            Some(format!("{} {}", chain.first()?.label, waits.join(", which ")))
        };
        let chains = self.cycles.iter().map(Vec::as_slice).chain(self.others.chunks(1));
        let chains: Vec<_> = chains.filter_map(describe).collect();
        write!(f, "all fibers wait, and nothing can wake them: {}", chains.join("; "))?;
        for fiber in self.fibers() {
            if let Some(trace) = &fiber.backtrace {
                write!(f, "\n{}:\n{trace}", fiber.label)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Deadlock {}

/// How often fibers are cancelled that catch it and wait again.
const MAX_CANCELLATIONS: u32 = 64;

/// Cancels the first fiber, which ends the runtime; if that does not help, cancels all. Does
/// nothing if a fiber can continue by now.
#[cold]
#[inline(never)]
pub(crate) fn handle_deadlock(worker: &Worker) {
    let core = worker.core();
    // The records of waits are on the fibers' stacks, also on those of other workers. These are
    // asleep, and nothing can make their fibers run until all has been read.
    let seen = core.with_outside_locked(|| worker.are_all_others_asleep().then(|| Deadlock::find(worker)));
    let Some(deadlock) = seen else { return };
    if deadlock.cycles.is_empty() && !core.config.closed {
        return core.may_have_cycle.store(false, SeqCst);
    }
    if core.lasts.load(Relaxed) {
        let _ = writeln!(std::io::stderr(), "{deadlock}");
        std::process::abort();
    }
    let times = core.count_deadlock(deadlock.clone());
    if times == 1 && cancel(worker, core.records.get(0)) {
        return;
    }
    core.cancellations.fetch_add(1, SeqCst);
    core.wake_all_workers();
    let any = cancel_all(worker) || !worker.is_alone;
    if !any || times > MAX_CANCELLATIONS {
        // No fiber can be cancelled, and there is no way to continue.
        let _ = writeln!(std::io::stderr(), "rowlock_fiber: the runtime cannot end, so the process does: {deadlock}");
        std::process::abort();
    }
}

/// Cancels the fibers of a worker. Returns whether one could be cancelled.
pub(crate) fn cancel_all(worker: &Worker) -> bool {
    worker.core().records.all().filter(|fiber| cancel(worker, *fiber)).count() > 0
}

fn cancel(worker: &Worker, fiber: Fiber) -> bool {
    // The state first, then the home: see `SharedState`.
    let is_blocked = fiber.state.get() == State::Blocked;
    is_blocked && worker.is_home_of(fiber) && CAN_UNWIND && worker.cancel_wait(fiber, Woken::Cancelled)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

    use std::time::Duration;

    use crate::config::Config;
    use crate::current_worker::CurrentWorker;
    use crate::record::Fiber;
    use crate::runtime::Runtime;
    use crate::waitable::{Waitable, Woken};

    #[test]
    fn it_is_no_deadlock_if_a_fiber_can_continue_by_now() {
        let runtime = Runtime::new(Config { workers: 2, ..Config::default() });
        let slept = runtime.run(|| {
            // As if another worker had looked at a moment at which it seemed so.
            CurrentWorker::enter(|here| super::handle_deadlock(&here));
            crate::sleep(Duration::from_millis(1));
        });
        slept.unwrap();
    }

    #[test]
    fn it_is_no_deadlock_that_a_thread_outside_is_about_to_wake_the_fiber_to_which_it_has_handed_a_mutex() {
        /// A mutex that the waiting fiber owns by now.
        struct HandedOver(Fiber);

        impl Waitable for HandedOver {
            fn leave(&self, _: Fiber) -> bool {
                false
            }

            fn kind(&self) -> &'static str {
                "a mutex"
            }

            fn blocker(&self) -> Option<Fiber> {
                Some(self.0)
            }
        }

        let run = Runtime::default().run(|| {
            let waits = || CurrentWorker::enter(|here| _ = here.block_quietly(&HandedOver(here.current()), None));
            let owner = crate::spawn(waits);
            let looks = || {
                CurrentWorker::enter(|here| {
                    super::handle_deadlock(&here);
                    here.wake(here.core().records.get(1), Woken::Called);
                });
            };
            crate::spawn(looks).detach();
            owner.join().unwrap();
        });
        run.unwrap();
    }

    #[test]
    fn a_fiber_that_was_added_before_the_last_remote_was_dropped_prevents_a_deadlock() {
        let runtime = Runtime::default();
        let brought = runtime.run(|| {
            let remote = crate::remote();
            let brought = remote.spawn(|| 42).unwrap();
            drop(remote);
            // The worker has looked at its inbox just before that.
            CurrentWorker::enter(|here| super::handle_deadlock(&here));
            brought.join().unwrap()
        });
        assert_eq!(brought.unwrap(), 42);
    }
}
