//! What all fibers are doing.

use std::fmt;
use std::time::Duration;

use crate::join;
use crate::record::{Fiber, State};
use crate::trace::Trace;
use crate::waits::Waits;
use crate::worker::{Here, Worker};

/// What a fiber is called: its number, which is another's when it has ended and its handle is gone, and its name if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Label {
    /// From 0, the first fiber's.
    pub number: u32,
    /// See [`Builder::name`](crate::Builder::name).
    pub name: Option<Box<str>>,
}

impl Label {
    pub(crate) fn of(fiber: Fiber) -> Label {
        let name = fiber.has_extras().then(|| fiber.with_extras(|extras| extras.name.clone())).flatten();
        Label { number: fiber.number.get(), name }
    }

    /// Without its name.
    fn of_other(fiber: Fiber) -> Label {
        Label { number: fiber.number.get(), name: None }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fiber {}", self.number)?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, " `{name}`"))
    }
}

/// What a fiber waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// What it is: "a mutex", "a condition variable", "the end of a fiber", "a time", and so on.
    pub kind: &'static str,
    /// Who alone can end the wait, if that is one fiber: who has the mutex, or whose end is waited for.
    pub whom: Option<Label>,
    /// It waits in the middle of a panic.
    pub unwinding: bool,
    ends: bool,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.whom {
            Some(whom) if self.ends => write!(f, "the end of {whom}")?,
            Some(whom) => write!(f, "{} held by {whom}", self.kind)?,
            None => write!(f, "{}", self.kind)?,
        }
        if self.unwinding { write!(f, " in the middle of a panic") } else { Ok(()) }
    }
}

/// What a fiber is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doing {
    /// It has not run yet, and has no stack.
    Unstarted,
    /// It could go on if it had a CPU.
    Ready,
    /// It has the CPU.
    Running,
    /// It waits.
    Waiting(Waiting),
    /// It has run its function, and nobody has asked for the result yet.
    Ended,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doing::Unstarted => write!(f, "has not started"),
            Doing::Ready => write!(f, "is ready"),
            Doing::Running => write!(f, "runs"),
            Doing::Waiting(waiting) => write!(f, "waits for {waiting}"),
            Doing::Ended => write!(f, "has ended"),
        }
    }
}

/// A fiber's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackUse {
    /// How large it is, in bytes, without its guard.
    pub size: usize,
    /// How many bytes of it are in memory: so deep has it been used, by this fiber or by those that had it before.
    pub high_water: usize,
}

/// A fiber, as it was seen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Seen {
    /// What it is called.
    pub label: Label,
    /// What it was doing.
    pub doing: Doing,
    /// Its level in the feedback queue; 0 is the highest.
    pub level: u32,
    /// For how long it had run. Turns that are too short to be measured one by one are counted as parts of several.
    pub used: Duration,
    /// Its stack, if it has one of its own: who has not started or has ended has none, and the first fiber has the thread's.
    pub stack: Option<StackUse>,
    /// Where it was, if it had started and not ended.
    pub backtrace: Option<Trace>,
}

impl Seen {
    /// A fiber of this worker, which asks; or of any if all workers stand still.
    pub(crate) fn of(worker: &Worker, fiber: Fiber, all_stand_still: bool, with_backtrace: bool) -> Option<Seen> {
        // A fiber that may run on another worker, or in exile, has its name for itself.
        // So has one that has not started: its record says where the one before it was at home.
        let is_here = |fiber: Fiber| fiber.state.get() != State::Unstarted && worker.is_home_of(fiber);
        let can_be_named = |fiber: Fiber| !fiber.is_exile() && (all_stand_still || worker.is_alone() || is_here(fiber));
        let label = |fiber| if can_be_named(fiber) { Label::of(fiber) } else { Label::of_other(fiber) };
        let waiting = |unwinding| {
            let waits = fiber.waits.get();
            // SAFETY: it is blocked, so what it waits for is there.
            let waits = waits.map(|waits| unsafe { waits.as_ref() });
            Doing::Waiting(Waiting {
                kind: waits.map_or("nothing", |waits| waits.kind()),
                whom: waits.and_then(Waits::whom).map(label),
                unwinding,
                ends: waits.is_some_and(|waits| waits.ends().is_some()),
            })
        };
        let doing = match fiber.state.get() {
            State::Free => return None,
            _ if join::has_ended(fiber) => Doing::Ended,
            State::Ended => Doing::Ended,
            State::Unstarted => Doing::Unstarted,
            State::Ready => Doing::Ready,
            State::Running => Doing::Running,
            State::Blocked => waiting(false),
            State::BlockedUnwinding => waiting(true),
        };
        // Of another worker's fiber nothing can be said but what it does.
        let mine = doing == Doing::Unstarted && worker.is_alone() || worker.is_home_of(fiber);
        let stack = fiber.stack.get().filter(|_| mine && doing != Doing::Ended);
        let backtrace = match doing {
            Doing::Unstarted | Doing::Ended => None,
            _ if !mine || !with_backtrace => None,
            _ if fiber == worker.current() => Some(Trace::here()),
            // SAFETY: it is this worker's and does not run, and only this kernel thread goes on with it.
            _ => Some(unsafe { Trace::of(fiber) }),
        };
        Some(Seen {
            label: label(fiber),
            // The queue may not know yet of one that has not started, which is at the highest.
            level: if mine && doing != Doing::Unstarted { worker.level(fiber).0 } else { 0 },
            used: worker.used(fiber),
            stack: stack.map(|stack| StackUse { size: stack.size(), high_water: worker.stacks.high_water(&stack) }),
            backtrace,
            doing,
        })
    }

    /// The same in a line.
    fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; level {}, {:.1?} used", self.label, self.doing, self.level, self.used)?;
        if let Some(StackUse { size, high_water }) = self.stack {
            write!(f, ", {} of {} KiB of stack", high_water.div_ceil(1 << 10), size >> 10)?;
        }
        Ok(())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line(f)?;
        self.backtrace.as_ref().map_or(Ok(()), |trace| write!(f, "\n{trace}"))
    }
}

/// All fibers of a runtime, as [`dump`] saw them; shown, they are a line each, with their backtraces below.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dump {
    /// By number.
    pub fibers: Vec<Seen>,
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

/// What the fiber that asks is called.
///
/// # Panics
/// Where no runtime runs.
///
/// ```
/// rowlock_fiber::run(|| {
///     let parser = rowlock_fiber::Builder::new().name("parser");
///     let label = parser.spawn(rowlock_fiber::current).unwrap().join().unwrap();
///     assert_eq!(label.name.as_deref(), Some("parser"));
///     assert_eq!(rowlock_fiber::current().to_string(), "fiber 0");
/// });
/// ```
pub fn current() -> Label {
    Here::enter(|here| Label::of(here.current()))
}

/// What all fibers of this runtime are doing, and where they are. They do not notice.
///
/// In a runtime with several workers these are the fibers of the worker that asks.
///
/// # Panics
/// Where no runtime runs.
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
    Dump { fibers: all_fibers_as_they_are() }
}

/// Has a name of its own so that backtraces can be cut there.
#[inline(never)]
fn all_fibers_as_they_are() -> Vec<Seen> {
    Here::enter(|here| all_of(&here))
}

#[inline(never)]
fn all_of(here: &Worker) -> Vec<Seen> {
    here.read_clock(Some(here.current()));
    // Of another worker's fibers nothing can be read while that may run them. First what it does, then where: see `Watched`.
    let started = |fiber: Fiber| !matches!(fiber.state.get(), State::Free | State::Unstarted | State::Ended);
    let mine =
        |fiber: &Fiber| here.is_alone() || started(*fiber) && here.is_home_of(*fiber) && !join::has_ended(*fiber);
    let fibers = here.core().records.all().filter(mine);
    fibers.filter_map(|fiber| Seen::of(here, fiber, false, true)).collect()
}
