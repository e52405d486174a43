//! A dump: what all fibers are doing.

use std::fmt;
use std::time::Duration;

use crate::join;
use crate::record::{Fiber, State};
use crate::trace::Trace;
use crate::waits::Waitable;
use crate::worker::{CurrentWorker, Worker};

/// Identifies a fiber to people: its number, which is reused when it has ended and its handle is
/// gone, and its name, if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FiberLabel {
    /// The first fiber has number 0.
    pub number: u32,
    /// See [`Builder::name`](crate::Builder::name).
    pub name: Option<Box<str>>,
}

impl FiberLabel {
    pub(crate) fn of(fiber: Fiber) -> FiberLabel {
        let name = fiber.has_extras().then(|| fiber.with_extras(|extras| extras.name.clone())).flatten();
        FiberLabel { number: fiber.number.get(), name }
    }

    /// Without its name.
    fn of_other(fiber: Fiber) -> FiberLabel {
        FiberLabel { number: fiber.number.get(), name: None }
    }
}

impl fmt::Display for FiberLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fiber {}", self.number)?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, " `{name}`"))
    }
}

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
    ends: bool,
}

impl fmt::Display for FiberWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.blocker {
            Some(blocker) if self.ends => write!(f, "the end of {blocker}")?,
            Some(blocker) => write!(f, "{} held by {blocker}", self.kind)?,
            None => write!(f, "{}", self.kind)?,
        }
        if self.unwinding { write!(f, " in the middle of a panic") } else { Ok(()) }
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
            Activity::Unstarted => write!(f, "has not started"),
            Activity::Ready => write!(f, "is ready"),
            Activity::Running => write!(f, "runs"),
            Activity::Waiting(waiting) => write!(f, "waits for {waiting}"),
            Activity::Ended => write!(f, "has ended"),
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
    /// A fiber of this worker, which the caller runs on; or of any worker if all workers stand
    /// still.
    pub(crate) fn of(
        worker: &Worker,
        fiber: Fiber,
        all_stand_still: bool,
        with_backtrace: bool,
    ) -> Option<FiberSnapshot> {
        // The record of a fiber that may run on another worker, or is orphaned, must not be read
        // for its name. Nor must that of an unstarted fiber: its home is that of the fiber before
        // it.
        let is_here = |fiber: Fiber| fiber.state.get() != State::Unstarted && worker.is_home_of(fiber);
        let can_be_named =
            |fiber: Fiber| !fiber.is_orphan() && (all_stand_still || worker.is_alone() || is_here(fiber));
        let label = |fiber| if can_be_named(fiber) { FiberLabel::of(fiber) } else { FiberLabel::of_other(fiber) };
        let waiting = |unwinding| {
            let waits = fiber.waits.get();
            // SAFETY: it is blocked, so what it waits for exists.
            let waits = waits.map(|waits| unsafe { waits.as_ref() });
            Activity::Waiting(FiberWait {
                kind: waits.map_or("nothing", |waits| waits.kind()),
                blocker: waits.and_then(Waitable::blocker).map(label),
                unwinding,
                ends: waits.is_some_and(|waits| waits.ends().is_some()),
            })
        };
        let activity = match fiber.state.get() {
            State::Free => return None,
            _ if join::has_ended(fiber) => Activity::Ended,
            State::Ended => Activity::Ended,
            State::Unstarted => Activity::Unstarted,
            State::Ready => Activity::Ready,
            State::Running => Activity::Running,
            State::Blocked => waiting(false),
            State::BlockedUnwinding => waiting(true),
        };
        // For another worker's fiber, only its state can be told.
        let mine = activity == Activity::Unstarted && worker.is_alone() || worker.is_home_of(fiber);
        let stack = fiber.stack.get().filter(|_| mine && activity != Activity::Ended);
        let backtrace = match activity {
            Activity::Unstarted | Activity::Ended => None,
            _ if !mine || !with_backtrace => None,
            _ if worker.running() == Some(fiber) => Some(Trace::here()),
            // SAFETY: it belongs to this worker and does not run, and only this kernel thread
            // continues it.
            _ => Some(unsafe { Trace::of(fiber) }),
        };
        Some(FiberSnapshot {
            label: label(fiber),
            // The queue may not know an unstarted fiber yet, which is at the highest level.
            level: if mine && activity != Activity::Unstarted { worker.level(fiber).0 } else { 0 },
            used: worker.used(fiber),
            stack: stack.map(|stack| StackUse { size: stack.size(), high_water: worker.stacks.high_water(&stack) }),
            backtrace,
            activity,
        })
    }

    /// Writes it in one line.
    fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; level {}, {:.1?} used", self.label, self.activity, self.level, self.used)?;
        if let Some(StackUse { size, high_water }) = self.stack {
            write!(f, ", {} of {} KiB of stack", high_water.div_ceil(1 << 10), size >> 10)?;
        }
        Ok(())
    }
}

impl fmt::Display for FiberSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line(f)?;
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
        for (index, fiber) in self.fibers.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{fiber}")?;
        }
        Ok(())
    }
}

/// The number and name of the calling fiber.
///
/// # Panics
/// If called outside a runtime.
///
/// ```
/// rowlock_fiber::run(|| {
///     let parser = rowlock_fiber::Builder::new().name("parser");
///     let label = parser.spawn(rowlock_fiber::current).unwrap().join().unwrap();
///     assert_eq!(label.name.as_deref(), Some("parser"));
///     assert_eq!(rowlock_fiber::current().to_string(), "fiber 0");
/// });
/// ```
pub fn current() -> FiberLabel {
    CurrentWorker::enter(|here| FiberLabel::of(here.current()))
}

/// Returns the state and the position of all fibers of this runtime, without disturbing them.
///
/// In a runtime with several workers these are the fibers of the calling fiber's worker.
///
/// # Panics
/// If called outside a runtime.
///
/// ```
/// rowlock_fiber::run(|| {
///     let sleeper = rowlock_fiber::Builder::new().name("sleeper");
///     let sleeper = sleeper.spawn(|| rowlock_fiber::sleep(std::time::Duration::from_millis(1))).unwrap();
///     rowlock_fiber::yield_now();
///     println!("{}", rowlock_fiber::dump());
///     sleeper.join().unwrap();
/// });
/// ```
pub fn dump() -> Dump {
    Dump { fibers: snapshot_all_fibers() }
}

/// A function of its own, so that backtraces can be cut there.
#[inline(never)]
fn snapshot_all_fibers() -> Vec<FiberSnapshot> {
    CurrentWorker::enter(|here| snapshot_all(&here))
}

#[inline(never)]
fn snapshot_all(here: &Worker) -> Vec<FiberSnapshot> {
    here.read_clock(Some(here.current()));
    // Another worker's fibers must not be read while that may run them. The state first, then the
    // home: see `SharedState`.
    let started = |fiber: Fiber| !matches!(fiber.state.get(), State::Free | State::Unstarted | State::Ended);
    let mine =
        |fiber: &Fiber| here.is_alone() || started(*fiber) && here.is_home_of(*fiber) && !join::has_ended(*fiber);
    let fibers = here.core().records.all().filter(mine);
    fibers.filter_map(|fiber| FiberSnapshot::of(here, fiber, false, true)).collect()
}
