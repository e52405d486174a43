//! SIGSTOP and SIGCONT, to each process that the job's agent has found. It needs nothing.

use std::io;

use policy::Instant;

use super::{Mechanism, Target};
use crate::processes::Processes;

/// Stops by signals.
#[derive(Debug, Default)]
pub(super) struct Signals {
    processes: Processes,
    /// When it has begun to continue processes.
    begun: Option<Instant>,
}

impl Mechanism for Signals {
    fn restrain(&mut self, target: &Target<'_>) -> io::Result<()> {
        self.processes.stop_all(target.list.iter(), target.user, |_, _| {});
        Ok(())
    }

    fn release(&mut self, target: &Target<'_>) -> io::Result<()> {
        let begun = self.processes.resume_all(target.list.iter(), |_, _| {});
        self.begun = self.begun.or(begun);
        Ok(())
    }

    fn take_begun(&mut self) -> Option<Instant> {
        self.begun.take()
    }

    fn forget_unused(&mut self) {
        self.processes.forget_unused();
    }
}
