//! Trust in what the kernel has said of a descriptor, so that a worker need not ask at each wait.
//!
//! At a *plain* socket, calls wait, and without a time-out. To ask for that takes two system calls,
//! so a worker asks once, and then trusts the answer:
//!
//! * The answer is about an open file. Whether a number still stands for the same one, the worker's
//!   epoll tells at each wait: for another one it has no registration.
//! * Calls of the C library that change settings, or give open files other numbers, [end](end) all
//!   trust.
//! * Other processes may change settings, too, and code that calls the kernel by itself. So waits
//!   on trust are on trial: when the worker has nothing else to do, or after a second, it asks. If
//!   the answer is another one, the fiber asks again, and trust is lost for good.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, socket_timeout};

use crate::reactor::Direction;

/// When a trial ends if the worker always has something to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The number of changes so far. If it is 0, trust is lost.
static CHANGES: AtomicU64 = AtomicU64::new(1);

/// The number of changes so far, for those who ask from now on.
pub(crate) fn changes() -> u64 {
    CHANGES.load(Acquire)
}

/// Ends all trust: a setting may have changed.
pub(crate) fn end() {
    let _ = CHANGES.fetch_update(AcqRel, Acquire, |changes| (changes > 0).then_some(changes + 1));
}

/// A descriptor for the time of a call.
pub(crate) fn borrow(fd: RawFd) -> Option<BorrowedFd<'static>> {
    // SAFETY: it is only passed to the kernel, which checks it.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Whether calls at this descriptor never wait, because the program has said so.
pub(crate) fn is_nonblocking(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

/// The time-out of a socket.
///
/// # Errors
/// If it is no socket.
pub(crate) fn timeout(fd: BorrowedFd<'_>, direction: Direction) -> Result<Option<Duration>, Errno> {
    socket_timeout(fd, if direction == Direction::In { Timeout::Recv } else { Timeout::Send })
}

/// What a worker knows of a descriptor that is registered with its epoll.
#[derive(Default)]
pub(crate) struct Known {
    /// By direction, the number of changes before the kernel said that it is plain; or 0.
    plain: [Cell<u64>; 2],
    /// The last call has received all that there was.
    pub(crate) is_drained: Cell<bool>,
    is_on_trial: Cell<bool>,
}

impl Known {
    /// It was registered anew.
    pub(crate) fn forget(&self) {
        self.plain.iter().for_each(|plain| plain.set(0));
        self.is_drained.set(false);
    }

    /// It was plain after so many changes.
    pub(crate) fn learn(&self, direction: Direction, changes: u64) {
        self.plain[direction as usize].set(changes);
    }

    pub(crate) fn is_plain(&self, direction: Direction) -> bool {
        let plain = self.plain[direction as usize].get();
        plain > 0 && plain == changes()
    }

    /// The end of a trial: whether trust in this descriptor was wrong. Then it is lost. If the
    /// descriptor has been closed meanwhile, it has not changed.
    pub(crate) fn end_trial(&self, fd: BorrowedFd<'_>) -> bool {
        self.is_on_trial.set(false);
        let has_timeout = |direction| timeout(fd, direction).is_ok_and(|timeout| timeout.is_some());
        let is_wrong = |direction| self.is_plain(direction) && (is_nonblocking(fd) || has_timeout(direction));
        let is_wrong = [Direction::In, Direction::Out].into_iter().any(is_wrong);
        if is_wrong {
            CHANGES.store(0, Release);
        }
        is_wrong
    }
}

/// The descriptors at which fibers of a worker wait on trust, and when their trials began.
#[derive(Default)]
pub(crate) struct Trials(RefCell<VecDeque<(RawFd, Instant)>>);

impl Trials {
    /// A fiber waits on trust.
    #[cfg(interposed)]
    pub(crate) fn begin(&self, number: RawFd, known: &Known) {
        if !known.is_on_trial.replace(true) {
            self.0.borrow_mut().push_back((number, Instant::now()));
        }
    }

    /// Takes the descriptor that has been on trial longest, if that is so long.
    pub(crate) fn next(&self, time: Duration) -> Option<RawFd> {
        let mut all = self.0.borrow_mut();
        let (number, since) = *all.front()?;
        (time.is_zero() || since.elapsed() >= time).then(|| all.pop_front()).map(|_| number)
    }
}
