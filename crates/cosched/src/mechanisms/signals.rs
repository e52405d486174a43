//! SIGSTOP and SIGCONT, to each process that the job's agent has found. It needs nothing.

use std::io;

use super::{Mechanism, Target};
use crate::processes::Processes;

/// Stops by signals.
#[derive(Debug, Default)]
pub(super) struct Signals(Processes);

impl Mechanism for Signals {
    fn restrain(&mut self, target: &Target<'_>) -> io::Result<()> {
        self.0.stop_all(target.list.iter(), |_, _| {});
        Ok(())
    }

    fn release(&mut self, target: &Target<'_>) -> io::Result<()> {
        self.0.resume_all(target.list.iter(), |_, _| {});
        Ok(())
    }

    fn forget_unused(&mut self) {
        self.0.forget_unused();
    }
}
