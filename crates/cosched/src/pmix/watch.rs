//! Two threads watch the server of a job: one ends it when all ranks have ended, and one reads what
//! it learns about them until then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;

use super::{Call, Event, Events, Server};
use crate::ranks::{Failure, Reporter};

impl Server {
    /// Watches until all ranks have ended, and reports failures of ranks and of the server. `say`
    /// tells a person that a call of a rank is refused, once for each kind of call.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn watch(self, events: Events, reporter: Reporter, say: impl Fn(u32, Call) + Send + 'static) -> io::Result<()> {
        let have_ended = Arc::new(AtomicBool::new(false));
        let (end, ended) = (reporter.try_clone()?, Arc::clone(&have_ended));
        thread::Builder::new().name("pmix".to_owned()).spawn(move || {
            // If it fails, the job ends without its server.
            let _ = retry_on_intr(|| poll(&mut [PollFd::new(end.end_of_ranks(), PollFlags::IN)], None));
            ended.store(true, SeqCst);
            drop(self);
        })?;
        thread::Builder::new().name("pmix-events".to_owned()).spawn(move || {
            for event in events {
                match event {
                    Event::Abort { rank, code, .. } => reporter.report(Failure::abort(rank, code)),
                    Event::Refused { rank, call } => say(rank, call),
                    Event::Lost { rank } => reporter.report(Failure::not_finalized(rank)),
                }
            }
            if !have_ended.load(SeqCst) {
                let cause = "the PMIx server has ended".to_owned();
                reporter.report(Failure { rank: 0, code: 1, cause, is_of_end: false });
            }
        })?;
        Ok(())
    }
}
