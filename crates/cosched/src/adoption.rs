//! Programs that run already and become jobs.
//!
//! Such a job has the processes that the program has started, and no keeper. So if its agent is
//! killed, they go on, and something else must undo what keeps them from running: the agents of
//! other jobs, which find that the job has left the table, and a successor of the killed agent,
//! because there may be no other agent.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use policy::JobId;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, test_kill_process};
use sys::identity::{Identity, Stat};
use sys::scheduling::{self, Thread};

use crate::processes::{self, threads};
use crate::state::{Job, State};
use crate::table::Table;

/// A running program. It is another process than this one and its ancestors, and may be signalled.
#[derive(Debug)]
pub struct Program {
    identity: Identity,
    handle: OwnedFd,
}

/// Why a program cannot become a job.
#[derive(Debug, thiserror::Error)]
pub enum CannotAdopt {
    /// There is no such process, or it is a thread of one.
    #[error("there is no process {0}")]
    NotThere(u32),
    /// It is this process, or waits for it.
    #[error("process {0} has started this one, which would be stopped with it")]
    Ancestor(u32),
    /// It cannot be stopped.
    #[error("process {0} belongs to another user")]
    Forbidden(u32),
    /// It cannot be stopped, nor ended.
    #[error("process {0} is a thread of the kernel")]
    OfKernel(u32),
    /// It is stopped, and would be taken for one that is to stay so.
    #[error("process {0} is stopped; `kill -CONT {0}` continues it")]
    Stopped(u32),
    /// A part of it takes turns already.
    #[error("process {process} has started job {job}, which takes turns by itself")]
    HasJob {
        /// The process.
        process: u32,
        /// The job.
        job: JobId,
    },
    /// It takes turns already.
    #[error("process {process} belongs to job {job} already")]
    Taken {
        /// The process.
        process: u32,
        /// Its job.
        job: JobId,
    },
    /// It cannot be observed.
    #[error("cannot observe process {process}: {why}")]
    Observe {
        /// The process.
        process: u32,
        /// The reason.
        #[source]
        why: io::Error,
    },
}

impl Program {
    /// Finds a program by the id of its process.
    ///
    /// # Errors
    /// If it cannot become a job.
    pub fn find(process: u32) -> Result<Program, CannotAdopt> {
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or(CannotAdopt::NotThere(process))?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|why| match why {
            // The latter is a thread.
            Errno::SRCH | Errno::INVAL | Errno::NOENT => CannotAdopt::NotThere(process),
            why => CannotAdopt::Observe { process, why: why.into() },
        })?;
        if own_ancestors().iter().any(|ancestor| ancestor.pid == process) {
            return Err(CannotAdopt::Ancestor(process));
        }
        if test_kill_process(pid) == Err(Errno::PERM) {
            return Err(CannotAdopt::Forbidden(process));
        }
        let stat = Stat::of(process).filter(|stat| !stat.has_ended()).ok_or(CannotAdopt::NotThere(process))?;
        if stat.is_of_kernel {
            return Err(CannotAdopt::OfKernel(process));
        }
        Ok(Program { identity: Identity { pid: process, started: stat.started }, handle })
    }

    /// Refuses a program that belongs to a job of this table, has started one, or is stopped.
    ///
    /// # Errors
    /// [`CannotAdopt::Taken`], [`CannotAdopt::HasJob`] and [`CannotAdopt::Stopped`].
    pub fn check(&self, table: &Table, state: &State) -> Result<(), CannotAdopt> {
        let is_taken = |id: JobId, agent: Identity| {
            let list = table.processes(id).ok();
            agent == self.identity || list.is_some_and(|list| list.iter().any(|(process, _)| process == self.identity))
        };
        if let Some((job, _)) = state.jobs().find(|&(id, job)| !job.is_queued() && is_taken(id, job.agent())) {
            return Err(CannotAdopt::Taken { process: self.identity.pid, job });
        }
        let is_below = |part: Identity| part.is_alive() && ancestors(part.pid).any(|found| found == self.identity);
        let is_above = |job: &Job| [job.agent(), job.ancestor()].into_iter().any(is_below);
        match state.jobs().find(|(_, job)| is_above(job)) {
            Some((job, _)) => Err(CannotAdopt::HasJob { process: self.identity.pid, job }),
            None if Stat::of(self.identity.pid).is_some_and(|stat| stat.state == b'T') => {
                Err(CannotAdopt::Stopped(self.identity.pid))
            }
            None => Ok(()),
        }
    }

    /// Its process.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Its command, for people.
    pub fn command(&self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.identity.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ")
    }

    /// The CPUs on which its threads may run, ascending.
    pub fn cpus(&self) -> Vec<u32> {
        let threads = threads(self.identity).into_iter().flatten().filter_map(Thread::from_number);
        let mut cpus: Vec<u32> = threads.filter_map(|thread| scheduling::affinity(thread).ok()).flatten().collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// Blocks until its process has ended.
    ///
    /// # Errors
    /// If it cannot be observed.
    pub fn wait(&self) -> io::Result<()> {
        retry_on_intr(|| poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], None))?;
        Ok(())
    }

    /// Sends a signal of this number to its process.
    ///
    /// # Errors
    /// If it has ended, or the signal has no name.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        processes::signal(self.identity, number)
    }
}

/// This process and its ancestors.
pub fn own_ancestors() -> Vec<Identity> {
    ancestors(getpid().as_raw_nonzero().get().unsigned_abs()).collect()
}

/// A process and its ancestors.
fn ancestors(process: u32) -> impl Iterator<Item = Identity> {
    let stats = std::iter::successors(Stat::of(process), |stat| Stat::of(stat.parent));
    stats.map(|stat| Identity { pid: stat.pid, started: stat.started })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::Signal;

    use super::*;

    #[test]
    fn a_program_is_found_and_waited_for() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let program = Program::find(child.id()).unwrap();
        assert_eq!(program.cpus(), sys::cpus::allowed().unwrap());
        program.signal(Signal::KILL.as_raw()).unwrap();
        program.wait().unwrap();
        child.wait().unwrap();
        assert!(matches!(Program::find(child.id()), Err(CannotAdopt::NotThere(_))));
    }

    #[test]
    fn this_process_and_its_ancestors_are_refused() {
        for process in [std::process::id(), std::os::unix::process::parent_id()] {
            assert!(matches!(Program::find(process), Err(CannotAdopt::Ancestor(found)) if found == process));
        }
        assert!(matches!(Program::find(0), Err(CannotAdopt::NotThere(0))));
        assert!(matches!(Program::find(u32::MAX), Err(CannotAdopt::NotThere(u32::MAX))));
    }
}
