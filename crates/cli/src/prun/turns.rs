//! The agent that lets a job take turns: one of this process, or one of `rowlock pds`.

use std::path::PathBuf;
use std::sync::Arc;

use cosched::pds::Served;
use cosched::ranks::Listener;
use cosched::{Agent, State};
use policy::JobId;
use rustix::process::Pid;
use sys::containment::JobGroup;

use crate::output::print_message;
use crate::pds;
use crate::stop::{OrStop, Stop};

/// Lets a job take turns.
pub(super) enum Taker {
    /// In the table of this user.
    Own(Box<Agent>),
    /// In the table of all users.
    Served(Served),
}

impl Taker {
    pub(super) fn job(&self) -> JobId {
        match self {
            Taker::Own(agent) => agent.job(),
            Taker::Served(served) => served.job(),
        }
    }

    pub(super) fn state(&self) -> Result<Arc<State>, Stop> {
        match self {
            Taker::Own(agent) => agent.state().or_failed(),
            Taker::Served(served) => served.state().map_err(pds::stop),
        }
    }

    /// The variable by which ranks find out whose turn it is, if they may, and its value.
    pub(super) fn turn_variable(&self) -> Option<(&'static str, PathBuf)> {
        match self {
            Taker::Own(agent) => Some(agent.turn_variable()),
            Taker::Served(_) => None,
        }
    }

    /// The control groups that all ranks must be in.
    pub(super) fn groups(&self) -> Vec<&JobGroup> {
        match self {
            Taker::Own(agent) => agent.groups().collect(),
            Taker::Served(_) => Vec::new(),
        }
    }

    /// Begins the turns. The function counts the waits of the job by the preloaded library, if that
    /// is possible.
    pub(super) fn start(
        &mut self,
        keepers: Vec<Pid>,
        mut waits: Option<impl FnMut() -> u64 + Send + 'static>,
    ) -> Result<(), Stop> {
        match self {
            Taker::Own(agent) => agent.start(keepers, move || waits.as_mut().map_or(0, |count| count())).or_failed(),
            Taker::Served(served) => {
                served.start(&keepers).map_err(pds::stop)?;
                let tell =
                    || print_message("rowlock: the job's agent of `rowlock pds` has failed: it goes on without turns");
                served.watch(tell).or_failed()
            }
        }
    }

    /// Ends the turns of a job that has ended.
    pub(super) fn leave(self) -> anyhow::Result<()> {
        match self {
            Taker::Own(agent) => Ok(agent.leave()?),
            Taker::Served(served) => Ok(served.leave()?),
        }
    }

    fn set_suspended(&self, is_suspended: bool) -> anyhow::Result<()> {
        match self {
            Taker::Own(agent) => Ok(agent.set_suspended(is_suspended)?),
            Taker::Served(served) => Ok(served.set_suspended(is_suspended)?),
        }
    }

    fn set_ending(&self) -> anyhow::Result<()> {
        match self {
            Taker::Own(agent) => Ok(agent.set_ending()?),
            Taker::Served(served) => Ok(served.set_ending()?),
        }
    }

    fn is_stopped_by_signals(&self) -> bool {
        match self {
            Taker::Own(agent) => agent.is_stopped_by_signals(),
            Taker::Served(served) => served.is_stopped_by_signals(),
        }
    }
}

/// The turns of a job, if it is in a table.
pub(super) struct Turns {
    pub(super) agent: Option<Taker>,
}

impl Turns {
    fn set_suspended(&self, is_suspended: bool) {
        if let Some(Err(why)) = self.agent.as_ref().map(|agent| agent.set_suspended(is_suspended)) {
            print_message(format_args!("rowlock: {why}"));
        }
    }
}

impl Listener for Turns {
    fn suspend(&mut self) {
        self.set_suspended(true);
    }

    fn resume(&mut self) {
        self.set_suspended(false);
    }

    fn end(&mut self) {
        // If the table cannot be changed, the job ends all the same, at its turn.
        let _ = self.agent.as_ref().map(Taker::set_ending);
    }

    fn is_stopped_by_signals(&self) -> bool {
        // A job within a job gets the SIGCONT that begins its turn, and so do its ranks.
        self.agent.as_ref().is_none_or(Taker::is_stopped_by_signals)
    }
}
