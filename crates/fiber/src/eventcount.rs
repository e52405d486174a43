//! An eventcount: how another kernel thread wakes a worker that sleeps.
//!
//! A thread that has something for a worker first puts it where the worker looks before it sleeps,
//! and then [notifies](EventCount::notify) it. The worker says that it
//! [listens](EventCount::listen), looks again, and sleeps. Each side has a fence between its two
//! steps, so at least one of them sees what the other has done: either the worker finds what was
//! put there, or the notifier finds that the worker listens. While the worker is awake, a
//! notification costs a fence and a load.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, fence};

use rustix::event::{EventfdFlags, eventfd};

/// A worker's eventcount.
pub(crate) struct EventCount {
    /// The worker sleeps, or is about to.
    is_listening: AtomicBool,
    /// Becomes readable with each notification. It is never read: a worker waits for the event, not
    /// for the count.
    eventfd: OwnedFd,
}

impl EventCount {
    pub(crate) fn new() -> std::io::Result<EventCount> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(EventCount { is_listening: AtomicBool::new(false), eventfd })
    }

    /// Wakes the worker if it listens. The caller must have published the work first.
    pub(crate) fn notify(&self) {
        fence(SeqCst);
        if self.is_listening.load(Relaxed) && self.is_listening.swap(false, AcqRel) {
            // It fails only after 2^64 notifications, and then the descriptor is readable anyway.
            let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        }
    }

    /// Announces that the worker will look again, and then sleep. For the worker itself.
    pub(crate) fn listen(&self) {
        self.is_listening.store(true, Relaxed);
        fence(SeqCst);
    }

    /// The worker is awake. For the worker itself.
    pub(crate) fn stop_listening(&self) {
        self.is_listening.store(false, Relaxed);
    }
}

impl AsFd for EventCount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}
