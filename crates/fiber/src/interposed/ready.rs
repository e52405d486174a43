//! Waiting for descriptors: `accept`, `poll`, `epoll_wait`.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use libc::{c_int, epoll_event, nfds_t, pollfd, sigset_t, sockaddr, socklen_t, timespec};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::descriptors::{borrow, is_nonblocking, socket_deadline};
use super::sleep::deadline;
use super::{Outcome, in_fiber, interposed, system_call};
use crate::fiber_thread;
use crate::outside::Direction;
use crate::reactor;
use crate::waitable::Woken;

/// Whether a call at this descriptor does not wait now.
pub(super) fn is_ready(fd: BorrowedFd<'_>, direction: Direction) -> bool {
    let flags = if direction == Direction::In { PollFlags::IN } else { PollFlags::OUT };
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&now)) != Ok(0)
}

/// Waits in a fiber until a descriptor may be ready. `None` for others, and if that is impossible.
pub(super) fn wait(fd: BorrowedFd<'_>, direction: Direction, deadline: Option<Instant>) -> Option<Woken> {
    in_fiber(|here| reactor::block(here, fd, direction, deadline, true).ok())
}

/// Looks again and again, each time that the descriptor is ready. A look returns 0 if nothing is
/// there yet.
fn look(fd: BorrowedFd<'_>, deadline: Option<Instant>, look: impl Fn() -> Outcome) -> Option<Outcome> {
    loop {
        match look() {
            Ok(0) => match wait(fd, Direction::In, deadline)? {
                Woken::Called => (),
                Woken::TimedOut => return Some(look()),
                Woken::Cancelled => return None,
            },
            other => return Some(other),
        }
    }
}

/// The time of a timeout in milliseconds, of which -1 is none.
fn after_millis(millis: c_int) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// # Safety
/// As for `poll`.
unsafe fn poll_in_fiber(entries: *mut pollfd, count: nfds_t, time: Option<Duration>) -> Option<Outcome> {
    if time.is_some_and(|time| time.is_zero()) || !fiber_thread::is_outside_runtime() {
        return None;
    }
    // SAFETY: the caller's promise.
    let look_now = || unsafe {
        let now = timespec { tv_sec: 0, tv_nsec: 0 };
        system_call(
            libc::SYS_ppoll,
            [entries.expose_provenance(), count as usize, (&raw const now).expose_provenance(), 0, 0, 0],
        )
    };
    match look_now() {
        Ok(0) => (),
        other => return Some(other),
    }
    // SAFETY: likewise; the kernel has read them.
    let all = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(entries, count as usize) } };
    let set = epoll::create(CreateFlags::CLOEXEC).ok()?;
    for entry in all {
        let Some(fd) = borrow(entry.fd) else { continue };
        let same = all.iter().filter(|other| other.fd == entry.fd);
        let events = same.fold(0, |events, other| events | u32::from(other.events as u16));
        match epoll::add(&set, fd, EventData::new_u64(0), EventFlags::from_bits_retain(events)) {
            // A file, none of whose events is wanted.
            Ok(()) | Err(Errno::EXIST | Errno::PERM) => (),
            Err(_) => return None,
        }
    }
    look(set.as_fd(), time.and_then(deadline), look_now)
}

/// # Safety
/// As for `epoll_pwait`.
unsafe fn epoll_in_fiber(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    time: c_int,
    mask: *const sigset_t,
) -> Option<Outcome> {
    if time == 0 || !mask.is_null() || !fiber_thread::is_outside_runtime() {
        return None;
    }
    look(borrow(fd)?, after_millis(time).and_then(deadline), || {
        // SAFETY: the caller's promise.
        unsafe { system_call(libc::SYS_epoll_pwait, [fd as usize, events.expose_provenance(), most as usize, 0, 0, 0]) }
    })
}

/// Fibers of this process that accept do so one after the other: none takes what another one has
/// seen.
static ACCEPTS: Mutex<()> = Mutex::new(());

/// # Safety
/// As for `accept4`.
unsafe fn accept_in_fiber(
    number: c_int,
    address: *mut sockaddr,
    size: *mut socklen_t,
    flags: c_int,
) -> Option<Outcome> {
    if !fiber_thread::is_outside_runtime() {
        return None;
    }
    let fd = borrow(number)?;
    if is_nonblocking(fd) {
        return None;
    }
    let deadline = socket_deadline(number, Direction::In);
    let accept = || {
        let _guard = ACCEPTS.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's promise.
        is_ready(fd, Direction::In).then(|| unsafe {
            system_call(
                libc::SYS_accept4,
                [number as usize, address.expose_provenance(), size.expose_provenance(), flags as usize, 0, 0],
            )
        })
    };
    loop {
        // Not interrupted in between.
        if let Some(outcome) = in_fiber(|_| Some(accept()))? {
            return Some(outcome);
        }
        match wait(fd, Direction::In, deadline)? {
            Woken::Called => (),
            Woken::TimedOut => return Some(Err(Errno::AGAIN)),
            Woken::Cancelled => return None,
        }
    }
}

interposed! {
    // SAFETY: the caller's promise.
    fn poll(entries: *mut pollfd, count: nfds_t, time: c_int) -> c_int = unsafe { poll_in_fiber(entries, count, after_millis(time)) };
    fn ppoll(entries: *mut pollfd, count: nfds_t, time: *const timespec, mask: *const sigset_t) -> c_int = {
        // SAFETY: the caller's promise.
        let time = unsafe { time.as_ref() };
        let ahead = time.map(|time| super::sleep::ahead(time, None));
        // SAFETY: likewise.
        if mask.is_null() && ahead != Some(None) { unsafe { poll_in_fiber(entries, count, ahead.flatten()) } } else { None }
    };
    // SAFETY: the caller's promise.
    fn epoll_wait(fd: c_int, events: *mut epoll_event, most: c_int, time: c_int) -> c_int = unsafe { epoll_in_fiber(fd, events, most, time, std::ptr::null()) };
    // SAFETY: the caller's promise.
    fn epoll_pwait(fd: c_int, events: *mut epoll_event, most: c_int, time: c_int, mask: *const sigset_t) -> c_int = unsafe { epoll_in_fiber(fd, events, most, time, mask) };
    // SAFETY: the caller's promise.
    fn accept(fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int = unsafe { accept_in_fiber(fd, address, size, 0) };
    // SAFETY: the caller's promise.
    fn accept4(fd: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int = unsafe { accept_in_fiber(fd, address, size, flags) };
}
