//! Mechanisms: how jobs are kept from running, and let run again, as the table decides.
//!
//! A job's agent chooses its mechanism when its ranks have started, and says so in the table, since
//! the agents of all jobs switch all of them.

mod signals;

use std::fmt::Debug;
use std::io;

use self::signals::Signals;
use crate::process_list::ProcessList;
use crate::state::{Job, StopBy};

/// A job of the table, with its processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) job: &'a Job,
    pub(crate) list: &'a ProcessList,
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

    /// Closes what was not used since the last call.
    fn forget_unused(&mut self) {}
}

/// All mechanisms, as one switcher uses them.
#[derive(Debug, Default)]
pub(crate) struct Mechanisms {
    signals: Signals,
}

impl Mechanisms {
    /// The mechanism that stops a job.
    pub(crate) fn of(&mut self, stop_by: &StopBy) -> &mut dyn Mechanism {
        match stop_by {
            StopBy::Signals => &mut self.signals,
        }
    }

    /// Ends a switch.
    pub(crate) fn forget_unused(&mut self) {
        self.signals.forget_unused();
    }
}
