//! Waiting for descriptors: `poll` and `epoll_wait`.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use libc::{c_int, epoll_event, nfds_t, pollfd, sigset_t, timespec};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use super::pooled::on_pool;
use super::{Outcome, in_fiber, interposed, may_wait, system_call};
use crate::current_worker::CurrentWorker;
use crate::fiber_thread;
use crate::reactor::Direction;
use crate::readiness;
use crate::time;
use crate::trust::{Known, borrow};
use crate::waitable::Woken;

/// Whether a call at this descriptor does not wait now.
pub(super) fn is_ready(fd: BorrowedFd<'_>, direction: Direction) -> bool {
    readiness::is_ready(fd, direction, Some(Instant::now())).unwrap_or(true)
}

/// Waits in a fiber until a descriptor may be ready. `None` for others, and if that is impossible.
pub(super) fn wait(fd: BorrowedFd<'_>, direction: Direction, deadline: Option<Instant>) -> Option<Woken> {
    wait_and_learn(fd, direction, deadline, None)
}

/// The same at a descriptor that was [plain](crate::trust) after so many changes, if that is known.
pub(super) fn wait_and_learn(
    fd: BorrowedFd<'_>,
    direction: Direction,
    deadline: Option<Instant>,
    plain: Option<u64>,
) -> Option<Woken> {
    in_fiber(|here| readiness::block(here, fd, direction, deadline, true, plain).ok())
}

/// Waits in a fiber for a descriptor that is known to be plain, if this is so as well. `None` if
/// the fiber has not waited.
pub(super) fn wait_on_trust(fd: BorrowedFd<'_>, direction: Direction, and: impl Fn(&Known) -> bool) -> Option<Woken> {
    let is_known = |known: &Known| known.is_plain(direction) && and(known);
    CurrentWorker::visit(|here| {
        here.filter(|here| here.reactor.get().and_then(|reactor| reactor.known(fd, is_known)) == Some(true))
            .filter(may_wait)
            .and_then(|here| readiness::block_on_trust(here, fd, direction))
    })
}

/// A call at this descriptor has received all that there was.
pub(super) fn note_drained(fd: BorrowedFd<'_>) {
    CurrentWorker::visit(|here| here?.reactor.get()?.known(fd, |known| known.is_drained.set(true)));
}

/// The outcome of a call that waits for a descriptor when the runtime ends: an error, so that the
/// fiber can end. `None` for an orphaned fiber.
pub(super) fn cancelled() -> Option<Outcome> {
    fiber_thread::is_outside_runtime().then_some(Err(Errno::CANCELED))
}

/// Waits until `poll`, which gets a timeout, finds anything: this descriptor tells when to look.
fn look(
    fd: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
    poll: impl Fn(Option<Duration>) -> Outcome,
) -> Option<Outcome> {
    let deadline = timeout.map(time::after);
    loop {
        let found = poll(Some(Duration::ZERO));
        if found != Ok(0) {
            return Some(found);
        }
        match fd.and_then(|fd| wait(fd, Direction::In, deadline)) {
            Some(Woken::Called) => (),
            Some(Woken::TimedOut) => return Some(poll(Some(Duration::ZERO))),
            Some(Woken::Cancelled) => return cancelled(),
            None => return on_pool(|| poll(timeout)),
        }
    }
}

/// The time of a timeout in milliseconds, of which -1 is none.
fn after_millis(millis: c_int) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// # Safety
/// As for `poll`.
unsafe fn poll_in_fiber(entries: *mut pollfd, count: nfds_t, timeout: Option<Duration>) -> Option<Outcome> {
    if timeout == Some(Duration::ZERO) || !fiber_thread::is_outside_runtime() {
        return None;
    }
    let poll = |timeout: Option<Duration>| {
        let timeout =
            timeout.map(|time| timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        let time = timeout.as_ref().map_or(0, |time| std::ptr::from_ref(time).expose_provenance());
        // SAFETY: the caller's promise.
        unsafe { system_call(libc::SYS_ppoll, [entries.expose_provenance(), count as usize, time, 0, 0, 0]) }
    };
    match poll(Some(Duration::ZERO)) {
        Ok(0) => (),
        other => return Some(other),
    }
    // SAFETY: likewise; the kernel has read them.
    let all = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(entries, count as usize) } };
    let set = epoll::create(CreateFlags::CLOEXEC).ok().filter(|set| {
        all.iter().all(|entry| {
            let Some(fd) = borrow(entry.fd) else { return true };
            let same = all.iter().filter(|other| other.fd == entry.fd);
            let events = same.fold(0, |events, other| events | u32::from(other.events as u16));
            let added = epoll::add(set, fd, EventData::new_u64(0), EventFlags::from_bits_retain(events));
            // A file is always ready, so none of its events is wanted.
            matches!(added, Ok(()) | Err(Errno::EXIST | Errno::PERM))
        })
    });
    look(set.as_ref().map(AsFd::as_fd), timeout, poll)
}

/// # Safety
/// As for `epoll_pwait`.
unsafe fn epoll_in_fiber(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> Option<Outcome> {
    if timeout == 0 || !mask.is_null() || !fiber_thread::is_outside_runtime() {
        return None;
    }
    look(borrow(fd), after_millis(timeout), |timeout| {
        let millis = timeout.map_or(-1, |time| c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)) as usize;
        // SAFETY: the caller's promise.
        unsafe {
            system_call(libc::SYS_epoll_pwait, [fd as usize, events.expose_provenance(), most as usize, millis, 0, 0])
        }
    })
}

interposed! {
    fn poll(entries: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int =
        poll_in_fiber(entries, count, after_millis(timeout));
    fn ppoll(entries: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int = {
        let ahead = timeout.as_ref().map(|time| super::sleep::ahead(time, None));
        if mask.is_null() && ahead != Some(None) { poll_in_fiber(entries, count, ahead.flatten()) } else { None }
    };
    fn epoll_wait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int =
        epoll_in_fiber(fd, events, most, timeout, std::ptr::null());
    fn epoll_pwait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t) -> c_int =
        epoll_in_fiber(fd, events, most, timeout, mask);
}
