//! Connections: `connect` and `accept`.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use libc::{c_int, sockaddr, socklen_t};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};

use super::descriptors::socket_deadline;
use super::pooled::on_pool;
use super::ready::{cancelled, is_ready, wait};
use super::sleep::sleep_for;
use super::{Outcome, in_fiber, interposed, system_call};
use crate::current_worker::{CurrentWorker, InRuntime};
use crate::fiber_thread;
use crate::reactor::Direction;
use crate::sync::lock_by_polling;
use crate::trust::{borrow, is_nonblocking};
use crate::waitable::Woken;

/// The interval of attempts to connect to a Unix listener whose queue is full: the kernel does not
/// report when it has room again.
const FULL: Duration = Duration::from_millis(1);

/// Connects in the form that does not wait, and completes that when the socket is ready. The kernel
/// has this form only as a state of the socket, which nothing else uses yet.
///
/// # Safety
/// As for `connect`.
unsafe fn connect_in_fiber(number: c_int, address: *const sockaddr, size: socklen_t) -> Option<Outcome> {
    if !fiber_thread::is_outside_runtime() {
        return None;
    }
    let fd = borrow(number)?;
    // Sockets for datagrams never wait, and may be in use.
    if socket_type(fd).ok()? == SocketType::DGRAM || is_nonblocking(fd) {
        return None;
    }
    let deadline = socket_deadline(fd, Direction::Out).ok()?;
    // SAFETY: the caller's promise.
    let connect = || unsafe {
        system_call(libc::SYS_connect, [number as usize, address.expose_provenance(), size as usize, 0, 0, 0])
    };
    let attempt = |_: CurrentWorker| {
        ioctl_fionbio(fd, true).ok()?;
        let first = connect();
        // On the same machine it is most likely complete by now.
        let outcome = if first == Err(Errno::INPROGRESS) { connect() } else { first };
        ioctl_fionbio(fd, false).ok()?;
        Some(outcome)
    };
    let mut waited = false;
    loop {
        // Not interrupted in between.
        match in_fiber(attempt)? {
            Err(why @ (Errno::INPROGRESS | Errno::ALREADY)) => match wait(fd, Direction::Out, deadline) {
                Some(Woken::Called) => waited = why == Errno::ALREADY,
                Some(Woken::TimedOut) => return Some(Err(Errno::INPROGRESS)),
                Some(Woken::Cancelled) => return cancelled(),
                None => return on_pool(connect),
            },
            Err(Errno::AGAIN) if socket_domain(fd) == Ok(AddressFamily::UNIX) => {
                if deadline.is_some_and(|deadline| deadline <= crate::time::after(Duration::ZERO)) {
                    return Some(Err(Errno::AGAIN));
                }
                let _ = sleep_for(Some(FULL))?;
            }
            Err(Errno::ISCONN) if waited => return Some(Ok(0)),
            outcome => return Some(outcome),
        }
    }
}

/// Fibers accept one after the other: none takes the connection that another one has seen.
static ACCEPTING: Mutex<()> = Mutex::new(());

/// A thread that runs no fibers has accepted, too. From now on a connection that a fiber has seen
/// may be taken before the fiber accepts it.
static DO_THREADS_ACCEPT: AtomicBool = AtomicBool::new(false);

/// A thread that runs no fibers is about to accept.
fn note_thread() {
    // The runtime does not accept: a handler has interrupted it, perhaps in the middle of that.
    if !DO_THREADS_ACCEPT.load(Acquire) && !InRuntime::enter().is_nested() {
        let _guard = lock_by_polling(&ACCEPTING);
        DO_THREADS_ACCEPT.store(true, Release);
    }
}

/// # Safety
/// As for `accept4`.
unsafe fn accept_anywhere(
    number: c_int,
    address: *mut sockaddr,
    size: *mut socklen_t,
    flags: c_int,
) -> Option<Outcome> {
    // SAFETY: the caller's promise.
    let outcome = unsafe { accept_in_fiber(number, address, size, flags) };
    if outcome.is_none() {
        note_thread();
    }
    outcome
}

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
    let arguments = [number as usize, address.expose_provenance(), size.expose_provenance(), flags as usize, 0, 0];
    // SAFETY: the caller's promise.
    let accept = || unsafe { system_call(libc::SYS_accept4, arguments) };
    if is_nonblocking(fd) {
        return Some(accept());
    }
    let Ok(deadline) = socket_deadline(fd, Direction::In) else { return Some(accept()) };
    loop {
        // Not interrupted in between.
        let attempt = in_fiber(|_| {
            let _guard = lock_by_polling(&ACCEPTING);
            let do_threads_accept = DO_THREADS_ACCEPT.load(Acquire);
            Some(is_ready(fd, Direction::In).then(|| (!do_threads_accept).then(accept)))
        })?;
        if let Some(accepted) = attempt {
            return accepted.or_else(|| on_pool(accept));
        }
        match wait(fd, Direction::In, deadline) {
            Some(Woken::Called) => (),
            Some(Woken::TimedOut) => return Some(Err(Errno::AGAIN)),
            Some(Woken::Cancelled) => return cancelled(),
            None => return on_pool(accept),
        }
    }
}

interposed! {
    fn connect(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int = connect_in_fiber(fd, address, size);
    fn accept(fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int = accept_anywhere(fd, address, size, 0);
    fn accept4(fd: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int =
        accept_anywhere(fd, address, size, flags);
}
