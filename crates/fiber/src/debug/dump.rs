//! A dump: what all fibers are doing.

use std::fmt;
use std::time::Duration;

use super::trace::Trace;
use crate::current_worker::CurrentWorker;
use crate::join;
use crate::label::FiberLabel;
use crate::record::{Fiber, State};
use crate::waitable::Waitable;
use crate::worker::Worker;

/// The object or event that a fiber waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FiberWait {
    /// The kind of object: "a mutex", "a condition variable", "the end of a fiber", "a time", and
    /// so on.
    pub kind: &'static str,
    /// The fiber that alone can end the wait, if there is one: the owner of the mutex, or the fiber
    /// whose end is awaited.
    pub blocker: Option<FiberLabel>,
    /// It waits in the middle of a panic.
    pub unwinding: bool,
}

impl fmt::Display for FiberWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.blocker {
            Some(blocker) if self.kind.starts_with("the end of") => write!(f, "the end of {blocker}")?,
            Some(blocker) => write!(f, "{} held by {blocker}", self.kind)?,
            None => f.write_str(self.kind)?,
        }
        f.write_str(if self.unwinding { " in the middle of a panic" } else { "" })
    }
}

/// The state of a fiber.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    /// It has not run yet, and has no stack.
    Unstarted,
    /// It waits for a CPU.
    Ready,
    /// It has the CPU.
    Running,
    /// It waits for something else.
    Waiting(FiberWait),
    /// It has run its function, and has not been joined yet.
    Ended,
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Activity::Unstarted => f.write_str("has not started"),
            Activity::Ready => f.write_str("is ready"),
            Activity::Running => f.write_str("runs"),
            Activity::Waiting(waiting) => write!(f, "waits for {waiting}"),
            Activity::Ended => f.write_str("has ended"),
        }
    }
}

/// A fiber's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackUse {
    /// Its size in bytes, without its guard.
    pub size: usize,
    /// How many bytes of it are in memory: how deep it has been used, by this fiber or by those
    /// that had it before.
    pub high_water: usize,
}

/// The state of a fiber when the dump was made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FiberSnapshot {
    /// Its number and name.
    pub label: FiberLabel,
    /// Its state.
    pub activity: Activity,
    /// Its level in the feedback queue; 0 is the highest.
    pub level: u32,
    /// How long it had run. Turns that are too short to be measured one by one count as parts of
    /// several.
    pub used: Duration,
    /// Its stack, if it has one of its own: unstarted and ended fibers have none, and the first
    /// fiber has the thread's.
    pub stack: Option<StackUse>,
    /// Where it was, if it had started and not ended.
    pub backtrace: Option<Trace>,
}

impl FiberSnapshot {
    /// A fiber of this worker, which the caller runs on; or of any worker if all stand still. With
    /// the caller's own backtrace it gets one, too.
    pub(crate) fn of(worker: &Worker, fiber: Fiber, all_stand_still: bool, own: Option<&Trace>) -> Option<Self> {
        let state = fiber.state.get();
        let activity = match state {
            State::Free => return None,
            State::Unstarted => Activity::Unstarted,
            _ if state == State::Ended || join::has_ended(fiber) => Activity::Ended,
            State::Ready => Activity::Ready,
            State::Running => Activity::Running,
            _ => {
                let waits = fiber.waitable();
                Activity::Waiting(FiberWait {
                    kind: waits.map_or("nothing", |waits| waits.kind()),
                    blocker: waits.and_then(Waitable::blocker).map(|fiber| label(worker, fiber, all_stand_still)),
                    unwinding: state == State::BlockedUnwinding,
                })
            }
        };
        // Of another worker's fiber only the state can be told, and an unstarted one has no more.
        let has_started = !matches!(activity, Activity::Unstarted | Activity::Ended);
        let is_here = worker.is_home_of(fiber) && activity != Activity::Unstarted;
        let stack = fiber.stack.get().filter(|_| is_here && has_started);
        let backtrace = own.filter(|_| is_here && has_started).map(|own| match worker.running() {
            Some(running) if running == fiber => own.clone(),
            // SAFETY: it belongs to this worker and does not run, and only this kernel thread
            // continues it.
            _ => unsafe { Trace::of(fiber) },
        });
        Some(FiberSnapshot {
            label: label(worker, fiber, all_stand_still),
            level: if is_here { worker.level(fiber).0 } else { 0 },
            used: worker.used(fiber),
            stack: stack.map(|stack| StackUse { size: stack.size(), high_water: worker.stacks.high_water(&stack) }),
            backtrace,
            activity,
        })
    }
}

/// The label of a fiber. The record of a fiber that may run on another worker, or is orphaned, must
/// not be read for its name. Nor must that of an unstarted fiber: its home is that of the fiber
/// before it.
fn label(worker: &Worker, fiber: Fiber, all_stand_still: bool) -> FiberLabel {
    let is_here = || fiber.state.get() != State::Unstarted && worker.is_home_of(fiber);
    if !fiber.is_orphan() && (all_stand_still || worker.is_alone || is_here()) {
        FiberLabel::of(fiber)
    } else {
        FiberLabel { number: fiber.number, name: None }
    }
}

impl fmt::Display for FiberSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; level {}, {:.1?} used", self.label, self.activity, self.level, self.used)?;
        if let Some(StackUse { size, high_water }) = self.stack {
            write!(f, ", {} of {} KiB of stack", high_water.div_ceil(1 << 10), size >> 10)?;
        }
        self.backtrace.as_ref().map_or(Ok(()), |trace| write!(f, "\n{trace}"))
    }
}

/// All fibers of a runtime, as [`dump`] saw them. Displayed, each has a line, with its backtrace
/// below.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dump {
    /// By number.
    pub fibers: Vec<FiberSnapshot>,
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fibers: Vec<_> = self.fibers.iter().map(FiberSnapshot::to_string).collect();
        f.write_str(&fibers.join("\n"))
    }
}

/// Returns the state and the position of all fibers of this runtime, without disturbing them.
///
/// In a runtime with several workers these are the fibers of the calling fiber's worker.
///
/// # Panics
/// If called outside a runtime.
///
/// ```
/// rowlock_fiber::run(|| { let sleeper = rowlock_fiber::Builder::new().name("sleeper"); let sleeper
/// = sleeper.spawn(|| rowlock_fiber::sleep(std::time::Duration::from_millis(1))).unwrap();
/// rowlock_fiber::yield_now(); println!("{}", rowlock_fiber::dump()); sleeper.join().unwrap(); });
/// ```
#[inline(never)]
pub fn dump() -> Dump {
    let own = Trace::here();
    CurrentWorker::enter(|here| {
        here.read_clock(Some(here.current()));
        // Another worker's fibers must not be read while that may run them. The state first, then
        // the home: see `SharedState`.
        let has_started = |fiber: Fiber| !matches!(fiber.state.get(), State::Free | State::Unstarted | State::Ended);
        let is_mine =
            |fiber: &Fiber| here.is_alone || has_started(*fiber) && here.is_home_of(*fiber) && !join::has_ended(*fiber);
        let fibers = here.core().records.all().filter(is_mine);
        Dump { fibers: fibers.filter_map(|fiber| FiberSnapshot::of(&here, fiber, false, Some(&own))).collect() }
    })
}
