//! Reading and writing: a call is tried without waiting, and again when the descriptor is ready.
//!
//! Other threads may read what made a descriptor ready. So calls are made in a form that does not
//! wait, which the kernel has for sockets, for files and, mostly, for pipes. Where it has none, as
//! for terminals, the plain call is made as soon as the descriptor is ready. A thread of the
//! [pool](super::pooled) makes the plain call if it reads from a disk, or if there is no descriptor
//! left for waiting.

use std::borrow::Cow;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use libc::{c_int, c_long, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;

use super::pooled::{on_pool, work_on_pool};
use super::ready::{cancelled, is_ready, note_drained, wait, wait_and_learn, wait_on_trust};
use super::{Outcome, interposed, system_call};
use crate::fiber_thread;
use crate::reactor::Direction;
use crate::time;
use crate::trust::{self, borrow, is_nonblocking};
use crate::waitable::Woken;

/// A pipe that is ready has room for this much.
const ROOM: usize = libc::PIPE_BUF;

fn is_file(fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::RegularFile)
}

/// When a call ends that begins now, by the time-out of its socket.
///
/// # Errors
/// If it is no socket.
pub(super) fn socket_deadline(fd: BorrowedFd<'_>, direction: Direction) -> Result<Option<Instant>, Errno> {
    Ok(trust::timeout(fd, direction)?.map(time::after))
}

/// Transfers data in a fiber. `call` gets how much has been transferred so far, and whether it may
/// wait. Output, and input from files, is complete when it has this length, and other input when it
/// is anything.
fn transfer(
    number: c_int,
    direction: Direction,
    length: usize,
    call: impl Fn(usize, bool) -> Outcome,
) -> Option<Outcome> {
    if !fiber_thread::is_outside_runtime() {
        return None;
    }
    let fd = borrow(number)?;
    let (mut done, mut deadline) = (0, None);
    loop {
        let why = match call(done, false) {
            Ok(more) => {
                done += more as usize;
                if more == 0 || done >= length || direction == Direction::In && !is_file(fd) {
                    return Some(Ok(done as c_long));
                }
                continue;
            }
            Err(why) => why,
        };
        let so_far = |why| Some(if done > 0 { Ok(done as c_long) } else { Err(why) });
        match why {
            Errno::AGAIN => (),
            Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS if done == 0 => {
                if is_nonblocking(fd) || is_ready(fd, direction) {
                    let is_much = direction == Direction::Out && length > ROOM;
                    return if is_much { on_pool(|| call(0, true)) } else { None };
                }
            }
            _ => return so_far(why),
        }
        let on_trust = if deadline.is_none() { wait_on_trust(fd, direction, |_| true) } else { None };
        let woken = match (on_trust, deadline) {
            (None, Some(until)) => wait(fd, direction, until),
            (None, None) => {
                let changes = trust::changes();
                if why == Errno::AGAIN && is_nonblocking(fd) {
                    return so_far(why);
                }
                let until = match socket_deadline(fd, direction) {
                    Err(_) if is_file(fd) => {
                        let rest = work_on_pool(|| call(done, true)).unwrap_or_else(|| call(done, true));
                        return Some(if done > 0 { Ok(done as c_long + rest.unwrap_or(0)) } else { rest });
                    }
                    until => *deadline.insert(until.unwrap_or(None)),
                };
                let is_plain = until.is_none() && socket_type(fd) == Ok(SocketType::STREAM);
                wait_and_learn(fd, direction, until, is_plain.then_some(changes))
            }
            (woken, _) => woken,
        };
        match woken {
            Some(Woken::Called) => (),
            Some(Woken::TimedOut) => return so_far(Errno::AGAIN),
            // The rest is for the caller, as if a signal had interrupted the call.
            _ if done > 0 => return Some(Ok(done as c_long)),
            Some(Woken::Cancelled) => return cancelled(),
            None => return on_pool(|| call(0, true)),
        }
    }
}

/// What remains of these buffers after some bytes of them.
fn rest(buffers: &[iovec], mut done: usize) -> Cow<'_, [iovec]> {
    if done == 0 {
        return buffers.into();
    }
    let mut rest = buffers.to_vec();
    rest.retain_mut(|buffer| {
        let skipped = done.min(buffer.iov_len);
        done -= skipped;
        buffer.iov_base = buffer.iov_base.wrapping_byte_add(skipped);
        buffer.iov_len -= skipped;
        buffer.iov_len > 0
    });
    rest.into()
}

fn length_of(buffers: &[iovec]) -> usize {
    buffers.iter().map(|buffer| buffer.iov_len).sum()
}

/// # Safety
/// As for `readv` and `writev`.
unsafe fn vectored(
    number: c_long,
    direction: Direction,
    fd: c_int,
    buffers: *const iovec,
    count: c_int,
) -> Option<Outcome> {
    // A file gets all that is written at once, so that nothing comes in between.
    let is_plain = || direction == Direction::Out && borrow(fd).is_none_or(is_file);
    if !fiber_thread::is_outside_runtime() || !(1..=1024).contains(&count) || is_plain() {
        return None;
    }
    // SAFETY: the caller's promise.
    let all = unsafe { std::slice::from_raw_parts(buffers, count as usize) };
    transfer(fd, direction, length_of(all), |done, may_wait| {
        let (rest, none) = (rest(all, done), -1_isize as usize);
        let flags = if may_wait { 0 } else { libc::RWF_NOWAIT as usize };
        // SAFETY: the caller's promise. The offset is in two parts, of which -1 means none.
        unsafe { system_call(number, [fd as usize, rest.as_ptr().expose_provenance(), rest.len(), none, none, flags]) }
    })
}

/// The flags of a call at a socket.
fn with_dont_wait(flags: c_int, may_wait: bool) -> usize {
    (if may_wait { flags } else { flags | libc::MSG_DONTWAIT }) as usize
}

/// Receives by a call that gets the flags. After less than this length there was no more.
fn receive(fd: c_int, length: usize, flags: c_int, call: impl Fn(usize) -> Outcome) -> Option<Outcome> {
    // Without data of these kinds, a call fails at once.
    let never_waits = libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE | libc::MSG_OOB;
    match flags & (never_waits | libc::MSG_WAITALL) {
        0 => {
            let socket = borrow(fd)?;
            // The next data come later, so to try would be in vain.
            if wait_on_trust(socket, Direction::In, |known| known.is_drained.take()) == Some(Woken::Cancelled) {
                return cancelled();
            }
            let received = transfer(fd, Direction::In, 0, |_, may_wait| call(with_dont_wait(flags, may_wait)));
            if flags == 0 && matches!(received, Some(Ok(some)) if some > 0 && (some as usize) < length) {
                note_drained(socket);
            }
            received
        }
        libc::MSG_WAITALL => on_pool(|| call(flags as usize)),
        _ => None,
    }
}

/// Sends by a call that gets how much has been sent so far, and the flags.
fn send_all(fd: c_int, length: usize, flags: c_int, call: impl Fn(usize, usize) -> Outcome) -> Option<Outcome> {
    if flags & libc::MSG_DONTWAIT != 0 {
        return None;
    }
    transfer(fd, Direction::Out, length, |done, may_wait| call(done, with_dont_wait(flags, may_wait)))
}

/// # Safety
/// As for `sendmsg`.
unsafe fn send_message(fd: c_int, message: *const msghdr, flags: c_int) -> Option<Outcome> {
    if !fiber_thread::is_outside_runtime() {
        return None;
    }
    // SAFETY: the caller's promise.
    let message = unsafe { message.as_ref() }?;
    let all = match message.msg_iovlen {
        0 => &[],
        // SAFETY: likewise.
        count => unsafe { std::slice::from_raw_parts(message.msg_iov, count) },
    };
    send_all(fd, length_of(all), flags, |done, flags| {
        let (mut rest, mut message) = (rest(all, done).into_owned(), *message);
        (message.msg_iov, message.msg_iovlen) = (rest.as_mut_ptr(), rest.len());
        if done > 0 {
            // It came with the first bytes.
            (message.msg_control, message.msg_controllen) = (std::ptr::null_mut(), 0);
        }
        // SAFETY: the caller's promise.
        unsafe {
            system_call(libc::SYS_sendmsg, [fd as usize, (&raw const message).expose_provenance(), flags, 0, 0, 0])
        }
    })
}

interposed! {
    fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t = {
        let buffer = iovec { iov_base: buffer, iov_len: length };
        vectored(libc::SYS_preadv2, Direction::In, fd, &raw const buffer, 1)
    };
    fn readv(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t =
        vectored(libc::SYS_preadv2, Direction::In, fd, buffers, count);
    fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t = {
        let buffer = iovec { iov_base: buffer.cast_mut(), iov_len: length };
        vectored(libc::SYS_pwritev2, Direction::Out, fd, &raw const buffer, 1)
    };
    fn writev(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t =
        vectored(libc::SYS_pwritev2, Direction::Out, fd, buffers, count);
    fn recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t = receive(fd, length, flags, |flags| {
        system_call(libc::SYS_recvfrom, [fd as usize, buffer.expose_provenance(), length, flags, 0, 0])
    });
    fn recvfrom(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int, address: *mut sockaddr, size: *mut socklen_t) -> ssize_t =
        receive(fd, 0, flags, |flags| {
        let arguments = [fd as usize, buffer.expose_provenance(), length, flags, address.expose_provenance(), size.expose_provenance()];
        system_call(libc::SYS_recvfrom, arguments)
    });
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t = receive(fd, 0, flags, |flags| {
        system_call(libc::SYS_recvmsg, [fd as usize, message.expose_provenance(), flags, 0, 0, 0])
    });
    fn send(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t = send_all(fd, length, flags, |done, flags| {
        system_call(libc::SYS_sendto, [fd as usize, buffer.expose_provenance() + done, length - done, flags, 0, 0])
    });
    fn sendto(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int, address: *const sockaddr, size: socklen_t) -> ssize_t = send_all(fd, length, flags, |done, flags| {
        let (buffer, address) = (buffer.expose_provenance() + done, address.expose_provenance());
        system_call(libc::SYS_sendto, [fd as usize, buffer, length - done, flags, address, size as usize])
    });
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t = send_message(fd, message, flags);
}
