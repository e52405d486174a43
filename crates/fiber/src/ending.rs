//! How fibers end early: by [`exit`], and when their runtime ends.
//!
//! A fiber that is in the middle of its function may have things on its stack on which others rely:
//! a scope whose fibers or threads borrow from it, or a pinned value. So a stack is never just
//! freed. When a runtime ends, functions that have not started are dropped, and fibers that have
//! started unwind from where they are, as if the call there had panicked, with a special payload
//! and without calling the panic hook. While they unwind, they may wait for each other as usual. A
//! fiber that catches this and continues is cancelled again at its next wait. A fiber that waits
//! during a panic of its own cannot be cancelled: if no other fiber wakes it, its stack stays until
//! the process ends, and standard error says so.
//!
//! Calls of the C library cannot be unwound. Those that wait for a descriptor fail, so that the
//! fiber's function can return. A fiber that calls again and again, or waits in a call that cannot
//! fail, is [orphaned](orphan).

use std::io::Write;
use std::panic::resume_unwind;
use std::time::Duration;

use crate::current_worker::CurrentWorker;
use crate::preempt::orphan;
use crate::record::{Fiber, State};
use crate::rounds::RuntimeEnd;
use crate::unwinding::{CAN_UNWIND, Exited, unwind};
use crate::waitable::{Waitable, Woken};
use crate::worker::Worker;

/// Unwinds the fiber, whose runtime ends, unless it unwinds already.
#[cold]
pub(crate) fn unwind_unless_panicking() {
    if CurrentWorker::enter(|here| here.current().thread().can_unwind()) {
        unwind();
    }
}

/// Ends the calling fiber: it unwinds, as with a panic, but without a message, and
/// [`join`](crate::JoinHandle::join) says that it has [left](crate::JoinError::Exited). If it is
/// the first fiber, its runtime ends. If panics abort, the process ends.
///
/// # Panics
/// If called outside a runtime.
#[track_caller]
pub fn exit() -> ! {
    CurrentWorker::enter(|_| ());
    resume_unwind(Box::new(Exited))
}

/// The body of the first fiber of an additional worker: it waits until the runtime ends, and lets
/// other fibers run meanwhile.
pub(crate) fn await_end(worker: &Worker) {
    if worker.core().rounds.add_root(worker.current()) {
        worker.block_quietly(&RuntimeEnd, None);
    }
}

/// Ends all fibers except the workers' first ones. Returns how many remain for good. For the first
/// worker.
pub(crate) fn end_all(worker: &Worker) -> usize {
    worker.core().begin_shutdown();
    worker.core().rounds.begin().into_iter().for_each(|root| worker.wake(root, Woken::Called));
    let left = end_own(worker);
    if left > 0 {
        let _ = writeln!(
            std::io::stderr(),
            "rowlock_fiber: not all fibers ended with their runtime ({left} did not), because they wait in the middle of a panic, wait again and again, or reach no safepoint{}; their stacks stay",
            if CAN_UNWIND { "" } else { ", or because panics abort" }
        );
    }
    left
}

impl Worker {
    /// Whether a fiber of this worker waits in a call of the C library.
    #[cold]
    fn is_in_c_library(&self, fiber: Fiber) -> bool {
        fiber.state.get() == State::BlockedUnwinding
            && self.is_home_of(fiber)
            && fiber.waitable().is_some_and(Waitable::is_in_c_library)
    }

    /// Ends the wait of such a fiber, as the runtime ends, when the patience has run out so often:
    /// the call fails, or the fiber is orphaned. Returns whether either was possible.
    #[cold]
    fn end_wait_in_c_library(&self, fiber: Fiber, waits: u32) -> bool {
        let can_fail = fiber.waitable().is_some_and(Waitable::fails_at_end);
        if can_fail && waits < ORPHAN_ALL {
            return self.cancel_wait(fiber, Woken::Cancelled);
        }
        if waits < ORPHAN {
            return false;
        }
        let orphans = fiber.has_own_block() && self.leave_list(fiber);
        if orphans {
            fiber.waits.set(None);
            fiber.woken.set(Woken::Cancelled);
            self.core().remove_expected();
            self.orphan(fiber);
        }
        orphans
    }

    /// Orphans a fiber. If no kernel thread can be started for it, it stops forever.
    #[cold]
    pub(crate) fn orphan(&self, fiber: Fiber) {
        fiber.state.set(State::Running);
        // No other thread may ask any more where it is.
        fiber.home.set(None);
        orphan::move_to_thread(fiber, || self.forget_interrupted(fiber));
    }
}

/// How many milliseconds fibers that wait in calls of the C library have until one of them goes on,
/// and in total. They cannot be unwound there, but most such waits are short.
const PATIENCE: u32 = 50;
const MAX_PATIENCE: u32 = 2_000;

/// How often this patience has run out when calls fail that can: another worker may have waited
/// for this one in the round before the last.
const FAIL: u32 = 2;

/// The same when fibers are orphaned that wait in other calls, perhaps for one whose call fails.
const ORPHAN: u32 = FAIL + 1;

/// The same when all are orphaned that still wait: they have repeated calls that failed.
const ORPHAN_ALL: u32 = FAIL + 3;

/// Lets fibers that wait in calls of the C library go on. Returns whether some still do.
fn await_calls(worker: &Worker, total: &mut u32) -> bool {
    let mut left = PATIENCE;
    while worker.core().records.all().any(|fiber| worker.is_in_c_library(fiber)) {
        if left == 0 || *total == 0 {
            return true;
        }
        (left, *total) = (left - 1, *total - 1);
        std::thread::sleep(Duration::from_millis(1));
        worker.read_clock(None);
        if worker.ready(|ready| ready.waiting()) > 0 {
            left = PATIENCE;
            take_turns(worker);
        }
    }
    false
}

/// How many turns fibers get to end, in each round.
const TURNS: usize = 1 << 12;

/// Lets the fibers run that are ready.
fn take_turns(worker: &Worker) {
    for _ in 0..TURNS {
        worker.yield_to_any();
        if worker.ready(|ready| ready.waiting()) == 0 && worker.core().offered.len() == 0 && !worker.inbox().any() {
            break;
        }
    }
}

/// Each worker's part in this.
pub(crate) fn end_own(worker: &Worker) -> usize {
    let core = worker.core();
    worker.is_ending.set(true);
    worker.begin_grace();
    let (mut patience, mut waits) = (MAX_PATIENCE, 0);
    loop {
        let mut any = false;
        for fiber in core.records.all() {
            any |= if waits >= FAIL && worker.is_in_c_library(fiber) {
                worker.end_wait_in_c_library(fiber, waits)
            } else {
                cancel(worker, fiber)
            };
        }
        while let Some(fiber) = core.offered.pop() {
            if fiber.state.get() == State::Unstarted {
                fiber.drop_task();
            }
            worker.take_in_offered(fiber);
            worker.ready(|ready| ready.enqueue(fiber.id()));
        }
        take_turns(worker);
        if await_calls(worker, &mut patience) {
            waits += 1;
            any |= waits <= ORPHAN;
        }
        if let Some(left) = core.rounds.arrive(any, &core.inboxes, &core.records) {
            // Those that remain must get nothing any more for which others wait.
            let remain = |fiber: &Fiber| fiber.is_waiting() && worker.is_home_of(*fiber);
            core.records.all().filter(remain).for_each(|fiber| _ = worker.leave_list(fiber));
            return if left == 0 && !worker.end_scheduler() { 1 } else { left };
        }
    }
}

/// Cancels a fiber, as its runtime ends. Returns whether that has an effect. A ready fiber is
/// cancelled when it returns from its yield, or at its next wait: it must get what it was woken
/// with, for example a lock that was handed over.
fn cancel(worker: &Worker, fiber: Fiber) -> bool {
    // The state first, then the home: see `SharedState`.
    let state = fiber.state.get();
    if state == State::Unstarted {
        // With several workers they are in the queue of unstarted fibers, or are refused when they
        // have started.
        return worker.is_alone && fiber.drop_task();
    }
    if worker.running() == Some(fiber) || !worker.is_home_of(fiber) || !CAN_UNWIND {
        return false;
    }
    match state {
        State::Ready => {
            fiber.cancel_pending.set(true);
            true
        }
        State::Blocked => {
            if !worker.cancel_wait(fiber, Woken::Cancelled) {
                // Another thread is about to wake it.
                std::thread::yield_now();
            }
            true
        }
        State::Free | State::Unstarted | State::Running | State::BlockedUnwinding | State::Ended => false,
    }
}
