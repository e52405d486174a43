//! How another kernel thread wakes a worker that has gone to sleep.
//!
//! Who has something for a worker puts it where the worker looks before it sleeps, and then [rings](EventCount::notify). The worker says that it
//! [listens](Bell::listen), looks once more, and sleeps. Each side does the first before the second, with a fence between, so at least one of them sees what the
//! other has done: either the worker finds what was put there, or who rings finds that it listens. While the worker is awake, ringing costs a fence and a look.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, fence};

use rustix::event::{EventfdFlags, eventfd};

/// A worker's eventcount.
pub(crate) struct EventCount {
    /// The worker sleeps, or is about to.
    is_listening: AtomicBool,
    /// Becomes readable with each stroke. It is never read: who waits at it does so for the strokes, not for the count.
    eventfd: OwnedFd,
}

impl EventCount {
    pub(crate) fn new() -> std::io::Result<EventCount> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(EventCount { is_listening: AtomicBool::new(false), eventfd })
    }

    /// Something was put where the worker looks before it sleeps.
    pub(crate) fn notify(&self) {
        fence(SeqCst);
        if self.is_listening.load(Relaxed) && self.is_listening.swap(false, AcqRel) {
            // It fails only if it was rung 2^64 times, and would still be heard.
            let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        }
    }

    /// The worker's own: it will look once more, and then sleep.
    pub(crate) fn listen(&self) {
        self.is_listening.store(true, Relaxed);
        fence(SeqCst);
    }

    /// The worker's own: it is awake.
    pub(crate) fn stop_listening(&self) {
        self.is_listening.store(false, Relaxed);
    }
}

impl AsFd for EventCount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}
