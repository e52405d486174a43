//! Mechanisms: how jobs are kept from running, and let run again, as the table decides.
//!
//! A job's agent chooses its mechanism before its ranks start, and says so in the table when they
//! have started, since the agents of all jobs switch all of them. What the table says may come from
//! any process of this user, so it is checked.

mod choice;
mod freezers;
mod nice;
mod sched_idle;
mod signals;
#[cfg(test)]
mod tests;
mod threads;
mod weights;

use std::fmt::Debug;
use std::io;

use policy::{Instant, JobId};
use sys::cgroups::Hierarchy;
use sys::identity::Identity;

pub(crate) use self::choice::StopMeans;
pub use self::choice::{Obstacle, find_stop_mechanism};
use self::freezers::{Freezer, Freezers};
use self::nice::Nice;
use self::sched_idle::SchedIdle;
use self::signals::Signals;
use self::weights::Weights;
pub(crate) use self::weights::weighted_group;
use crate::process_list::ProcessList;
use crate::restraint::{Hint, LowerBy, StopBy, StopMechanism};

/// A job of the table, with its processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) id: JobId,
    /// The process that acts for it.
    pub(crate) agent: Identity,
    /// The user whose processes alone may be stopped. `None` if the kernel decides.
    pub(crate) user: Option<u32>,
    pub(crate) stop_by: Option<&'a StopBy>,
    pub(crate) lower_by: Option<&'a LowerBy>,
    /// Whether its user holds it.
    pub(crate) is_held: bool,
    pub(crate) list: &'a ProcessList,
}

impl Target<'_> {
    /// Whether its ranks give way by themselves.
    fn gives_way(&self) -> bool {
        self.stop_by.is_some_and(|stop_by| stop_by.hint == Hint::Obeyed)
    }
}

/// A way to keep jobs from running, or from competing with others.
///
/// Each function says what is to be, whatever was before, and may be repeated. None waits for its
/// effect. They fail if the job cannot be reached: then it goes on as it is.
pub(crate) trait Mechanism: Debug {
    /// Keeps a job from running, or from competing.
    fn restrain(&mut self, target: &Target<'_>) -> io::Result<()>;

    /// Undoes that.
    fn release(&mut self, target: &Target<'_>) -> io::Result<()>;

    /// Leaves a job to its terminal, which is about to stop it.
    fn leave(&mut self, _target: &Target<'_>) -> io::Result<()> {
        Ok(())
    }

    /// When it has begun to let stopped jobs run, since the last call. `None` if it has not.
    fn take_begun(&mut self) -> Option<Instant> {
        None
    }

    /// Closes what was not used since the last call.
    fn forget_unused(&mut self) {}
}

/// All mechanisms, as one switcher uses them.
#[derive(Debug)]
pub(crate) struct Mechanisms {
    signals: Signals,
    freezer: Freezers,
    freeze: Freezers,
    weights: Weights,
}

impl Default for Mechanisms {
    fn default() -> Mechanisms {
        Mechanisms {
            signals: Signals::default(),
            freezer: Freezers::new(Freezer::VERSION_1),
            freeze: Freezers::new(Freezer::VERSION_2),
            weights: Weights::default(),
        }
    }
}

impl Mechanisms {
    /// The mechanism that stops a job.
    pub(crate) fn of(&mut self, stop_by: &StopBy) -> &mut (dyn Mechanism + 'static) {
        match stop_by.mechanism {
            StopMechanism::Freeze => &mut self.freeze,
            StopMechanism::Freezer => &mut self.freezer,
            StopMechanism::Signals => &mut self.signals,
        }
    }

    /// Stops a job, unless its ranks give way by themselves. It is not lowered then: to stop, its
    /// processes need a CPU.
    pub(crate) fn stop(&mut self, target: &Target<'_>) -> io::Result<()> {
        if target.gives_way() && !target.is_held {
            target.list.begin_giving_way();
            return Ok(());
        }
        let stopped = self.stopping(target, <dyn Mechanism>::restrain);
        self.lowering(target, <dyn Mechanism>::release).and(stopped)
    }

    /// Lets a job run, lowered.
    pub(crate) fn lower(&mut self, target: &Target<'_>) -> io::Result<()> {
        let lowered = self.lowering(target, <dyn Mechanism>::restrain);
        self.stopping(target, <dyn Mechanism>::release).and(lowered)
    }

    /// Lets a job run.
    pub(crate) fn run(&mut self, target: &Target<'_>) -> io::Result<()> {
        let raised = self.lowering(target, <dyn Mechanism>::release);
        let released = self.stopping(target, <dyn Mechanism>::release);
        if target.stop_by.is_some_and(|stop_by| !stop_by.hint.is_unused()) {
            target.list.end_giving_way();
        }
        released.and(raised)
    }

    /// Leaves a job to its terminal, which is about to stop it, likewise.
    pub(crate) fn leave(&mut self, target: &Target<'_>) -> io::Result<()> {
        let left = self.stopping(target, <dyn Mechanism>::leave);
        self.lowering(target, <dyn Mechanism>::release).and(left)
    }

    /// Uses the mechanism that stops a job. Before its ranks have started, there is none.
    fn stopping(&mut self, target: &Target<'_>, step: Step) -> io::Result<()> {
        target.stop_by.map_or(Ok(()), |stop_by| step(self.of(stop_by), target))
    }

    /// Uses the mechanism that lowers a job. There is none before that is asked for.
    fn lowering(&mut self, target: &Target<'_>, step: Step) -> io::Result<()> {
        let mechanism: &mut dyn Mechanism = match target.lower_by {
            None => return Ok(()),
            Some(LowerBy::Weight { .. }) => &mut self.weights,
            Some(LowerBy::SchedIdle) => &mut SchedIdle,
            Some(&LowerBy::Nice { ordinary }) => &mut Nice { ordinary },
        };
        step(mechanism, target)
    }

    /// When stopped jobs have begun to run, since the last call. `None` if none has.
    pub(crate) fn take_begun(&mut self) -> Option<Instant> {
        let begun = [self.signals.take_begun(), self.freezer.take_begun(), self.freeze.take_begun()];
        begun.into_iter().flatten().min()
    }

    /// Ends a switch.
    pub(crate) fn forget_unused(&mut self) {
        self.signals.forget_unused();
        self.freezer.forget_unused();
        self.freeze.forget_unused();
        self.weights.forget_unused();
    }
}

/// The hierarchy of control groups of this version, with this controller in version 1.
fn hierarchy(version: u32, controller: &str) -> Option<Hierarchy> {
    let has_it = |hierarchy: &Hierarchy| version == 2 || hierarchy.controllers.iter().any(|name| name == controller);
    Hierarchy::all().into_iter().find(|hierarchy| hierarchy.version == version && has_it(hierarchy))
}

/// One of the functions of a mechanism.
type Step = fn(&mut (dyn Mechanism + 'static), &Target<'_>) -> io::Result<()>;
