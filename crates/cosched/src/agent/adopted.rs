//! Jobs whose processes do not end with their agent: programs that ran before, and the ranks of a
//! client of `rowlock pds`.

use std::time::Duration;

use rustix::process::Pid;
use sys::containment::Successor;
use sys::identity::Identity;

use super::{Agent, AgentError};
use crate::adoption::Program;
use crate::processes::{descendants, family};
use crate::state::Job;

/// How long a successor lets a program run again and again: until other agents know that the agent
/// was killed, at least.
const SUCCESSION: Duration = Duration::from_secs(2);

/// A job whose processes do not end with their agent.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) job: Job,
    /// Lets them go on if the agent is killed.
    pub(super) successor: Successor,
}

impl Agent {
    /// Lets the job, whose processes are a program that runs already and its descendants, take
    /// turns. It can only be stopped by signals, and goes on when this is dropped. This process
    /// must have one thread.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn adopt(&mut self, program: &Program) -> Result<(), AgentError> {
        self.set_mechanisms()?;
        self.succeed()?;
        let process = program.identity();
        self.watch(move || family(process), || 0)
    }

    /// Lets the job of a client, whose processes are the descendants of these, take turns. It can
    /// only be stopped by signals, and goes on when this is dropped. This process must have one
    /// thread.
    ///
    /// # Errors
    /// [`AgentError`].
    pub(crate) fn serve(&mut self, keepers: Vec<Identity>) -> Result<(), AgentError> {
        self.set_mechanisms()?;
        self.succeed()?;
        // A keeper that has ended may have been reaped, and its id be used by a stranger.
        let pid = |keeper: &Identity| i32::try_from(keeper.pid).ok().and_then(Pid::from_raw);
        let alive = move || keepers.iter().filter(|keeper| keeper.is_alive()).filter_map(pid).collect::<Vec<Pid>>();
        self.watch(move || descendants(&alive()), || 0)
    }

    /// Whether it was told the processes of the job.
    pub(crate) fn has_begun(&self) -> bool {
        self.thread.is_some()
    }

    /// Lets the processes of the job go on if this process is killed.
    fn succeed(&mut self) -> Result<(), AgentError> {
        let job = self.state()?.job(self.job())?.clone();
        let again = || {
            self.shared.release(&job);
            false
        };
        let successor = Successor::acting(SUCCESSION, again).map_err(AgentError::Succession)?;
        self.adopted = Some(Adopted { job, successor });
        Ok(())
    }
}
