//! Two threads watch the server of a job: one ends it when all ranks have ended, and one reads what
//! it learns about them until then.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::retry_on_intr;

use super::protocol::line;
use super::{Call, Event, Events, Server};
use crate::ranks::{Failure, Reporter};
use crate::service_thread;

impl Server {
    /// Watches until all ranks have ended, and reports failures of ranks and of the server. `say`
    /// tells a person that a call of a rank is refused, once for each kind of call. Returns a
    /// function that tells the server of the end of a rank.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn watch(
        self,
        events: Events,
        reporter: Reporter,
        say: impl Fn(u32, Call) + Send + 'static,
    ) -> io::Result<impl FnMut(u32) + Send + 'static> {
        let mut input =
            self.input.as_ref().map(|input| input.as_fd().try_clone_to_owned()).transpose()?.map(File::from);
        if let Some(input) = &input {
            // The supervision of the ranks must not wait for a server that is stopped.
            fcntl_setfl(input, fcntl_getfl(input)? | OFlags::NONBLOCK)?;
        }
        let have_ended = Arc::new(AtomicBool::new(false));
        let (end, ended) = (reporter.try_clone()?, Arc::clone(&have_ended));
        service_thread::start("pmix", move || {
            // If it fails, the job ends without its server.
            let _ = retry_on_intr(|| poll(&mut [PollFd::new(end.end_of_ranks(), PollFlags::IN)], None));
            ended.store(true, SeqCst);
            drop(self);
        })?;
        service_thread::start("pmix-events", move || {
            for event in events {
                match event {
                    Event::Abort { rank, code, .. } => reporter.report(Failure::abort(rank, code)),
                    Event::Refused { rank, call } => say(rank, call),
                    Event::Missing { rank, waiting } => reporter.report(Failure::missing(rank, waiting)),
                    Event::Lost { rank } => reporter.report(Failure::not_finalized(rank)),
                }
            }
            if !have_ended.load(SeqCst) {
                let cause = "the PMIx server has ended".to_owned();
                reporter.report(Failure { rank: 0, code: 1, cause, is_of_end: false });
            }
        })?;
        // If it fails, the server has ended, or is late beyond measure.
        Ok(move |rank: u32| drop(input.as_mut().map(|input| input.write_all(&line(&rank)))))
    }
}
