//! Waiting for descriptors, and for all else that comes from outside of a worker.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::current_worker::CurrentWorker;
use crate::reactor::{Direction, Reactor};
use crate::record::Fiber;
use crate::waitable::{Waitable, Woken};
use crate::worker::{POLL_INTERVAL, Worker};

/// A wait for a descriptor.
struct Readiness<'a> {
    fd: BorrowedFd<'a>,
    direction: Direction,
    is_in_c_library: bool,
}

impl Waitable for Readiness<'_> {
    fn leave(&self, fiber: Fiber) -> bool {
        CurrentWorker::expect().reactor.get().is_some_and(|reactor| reactor.leave(self.fd, self.direction, fiber))
    }

    fn is_in_c_library(&self) -> bool {
        self.is_in_c_library
    }

    fn fails_at_end(&self) -> bool {
        true
    }

    fn kind(&self) -> &'static str {
        match self.direction {
            Direction::In => "input from a descriptor",
            Direction::Out => "room for output to a descriptor",
        }
    }
}

/// Waits until a descriptor may be ready: the caller tries, and waits again if it was not. A fiber
/// lets others run meanwhile; another thread blocks.
///
/// # Errors
/// [`TimedOut`](ErrorKind::TimedOut), or the kernel's error if it cannot watch the descriptor.
pub(crate) fn wait(fd: BorrowedFd<'_>, direction: Direction, deadline: Option<Instant>) -> io::Result<()> {
    CurrentWorker::visit(|here| {
        let Some(here) = here else {
            return if is_ready(fd, direction, deadline)? { Ok(()) } else { Err(ErrorKind::TimedOut.into()) };
        };
        if here.is_wait_forbidden() {
            return Err(io::Error::other("the runtime ends, and with it the fiber that would wait for this"));
        }
        match block(here, fd, direction, deadline, false, None)? {
            Woken::TimedOut => Err(ErrorKind::TimedOut.into()),
            Woken::Called => Ok(()),
            Woken::Cancelled => crate::unwinding::unwind(),
        }
    })
}

/// Blocks the fiber until a descriptor may be ready. One that epoll refuses, such as a file on a
/// disk, is always ready. After `plain` changes it was [plain](crate::trust), if that is known.
pub(crate) fn block(
    here: CurrentWorker,
    fd: BorrowedFd<'_>,
    direction: Direction,
    deadline: Option<Instant>,
    is_in_c_library: bool,
    plain: Option<u64>,
) -> io::Result<Woken> {
    let reactor = here.reactor()?;
    match reactor.register(fd, direction, here.current()) {
        Ok(()) => (),
        Err(Errno::PERM) => return Ok(Woken::Called),
        Err(why) => return Err(why.into()),
    }
    if let Some(changes) = plain {
        reactor.known(fd, |known| known.learn(direction, changes));
    }
    Ok(stop(here, Readiness { fd, direction, is_in_c_library }, deadline))
}

/// The same in a call of the C library, on [trust](crate::trust). `None` if there is none: then the
/// fiber has not waited.
#[cfg(interposed)]
pub(crate) fn block_on_trust(here: CurrentWorker, fd: BorrowedFd<'_>, direction: Direction) -> Option<Woken> {
    let is_registered = here.reactor.get()?.register_on_trust(fd, direction, here.current());
    is_registered.then(|| stop(here, Readiness { fd, direction, is_in_c_library: true }, None))
}

/// Stops a fiber that has been registered.
fn stop(here: CurrentWorker, readiness: Readiness<'_>, deadline: Option<Instant>) -> Woken {
    if here.has_ticks()
        && let Some(reactor) = here.reactor.get()
        && reactor.awaits_one()
    {
        let (core, index) = (here.weak_core(), here.index);
        reactor.watch(move || {
            if let Some(core) = core.upgrade() {
                core.inboxes[index].tick_request.fire();
            }
        });
        here.note_wait_outside();
    }
    here.look_within(POLL_INTERVAL);
    here.block_quietly(&readiness, deadline)
}

/// Blocks the kernel thread until a descriptor is ready, or until the deadline. Returns whether it
/// is ready.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, direction: Direction, deadline: Option<Instant>) -> io::Result<bool> {
    let flags = [PollFlags::IN | PollFlags::RDHUP, PollFlags::OUT][direction as usize];
    loop {
        let ahead = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // A time that is too long is forever.
        let timeout = ahead.and_then(|ahead| Timespec::try_from(ahead).ok());
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => (),
            Err(why) => return Err(why.into()),
        }
    }
}

impl Worker {
    /// The reactor, made if there is none.
    pub(crate) fn reactor(&self) -> io::Result<&Reactor> {
        if let Some(reactor) = self.reactor.get() {
            return Ok(reactor);
        }
        let reactor = Reactor::new(self.inbox().make_eventfd()?)?;
        Ok(self.reactor.get_or_init(|| reactor))
    }

    /// The reactor, if a fiber waits for a descriptor.
    #[inline]
    pub(crate) fn awaited_reactor(&self) -> Option<&Reactor> {
        self.reactor.get().filter(|reactor| reactor.is_awaited())
    }

    /// Whether the calling fiber must not wait for events from outside: its runtime ends and no
    /// worker will wait for them, but the fiber cannot be cancelled either, because it unwinds.
    pub(crate) fn is_wait_forbidden(&self) -> bool {
        self.is_ending.get() && std::thread::panicking()
    }
}
