//! How another kernel thread wakes a worker that has gone to sleep.
//!
//! Who has something for a worker puts it where the worker looks before it sleeps, and then [rings](Bell::ring). The worker says that it
//! [listens](Bell::listen), looks once more, and sleeps. Each side does the first before the second, with a fence between, so at least one of them sees what the
//! other has done: either the worker finds what was put there, or who rings finds that it listens. While the worker is awake, ringing costs a fence and a look.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, fence};

use rustix::event::{EventfdFlags, eventfd};

/// A worker's bell.
pub(crate) struct Bell {
    /// The worker sleeps, or is about to.
    listens: AtomicBool,
    /// Becomes readable with each stroke. It is never read: who waits at it does so for the strokes, not for the count.
    strokes: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> std::io::Result<Bell> {
        let strokes = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { listens: AtomicBool::new(false), strokes })
    }

    /// Something was put where the worker looks before it sleeps.
    pub(crate) fn ring(&self) {
        fence(SeqCst);
        if self.listens.load(Relaxed) && self.listens.swap(false, AcqRel) {
            // It fails only if it was rung 2^64 times, and would still be heard.
            let _ = rustix::io::write(&self.strokes, &1u64.to_ne_bytes());
        }
    }

    /// The worker's own: it will look once more, and then sleep.
    pub(crate) fn listen(&self) {
        self.listens.store(true, Relaxed);
        fence(SeqCst);
    }

    /// The worker's own: it is awake.
    pub(crate) fn is_heard(&self) {
        self.listens.store(false, Relaxed);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.strokes.as_fd()
    }
}
