//! Reading and writing: a call is tried without waiting, and again when the descriptor is ready.
//!
//! Other threads may read what made a descriptor ready. So the calls are made in a form that does
//! not wait, which the kernel has for sockets and, mostly, for pipes. Where it has none, as for
//! terminals, the real call is made as soon as the descriptor is ready.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t, timeval};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;

use super::pooled::on_pool;
use super::ready::{is_ready, wait};
use super::{Outcome, interposed, system_call};
use crate::fiber_thread;
use crate::outside::Direction;
use crate::waitable::Woken;

/// A descriptor for the time of a call.
pub(super) fn borrow(fd: c_int) -> Option<BorrowedFd<'static>> {
    // SAFETY: it is only passed to the kernel, which checks it.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Whether calls at this descriptor never wait, because the program has said so.
pub(super) fn is_nonblocking(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

fn is_file(fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::RegularFile)
}

/// When calls at a socket with a time-out end that begin now.
pub(super) fn socket_deadline(fd: c_int, direction: Direction) -> Option<Instant> {
    let mut time = timeval { tv_sec: 0, tv_usec: 0 };
    let mut length = size_of::<timeval>() as socklen_t;
    let option = if direction == Direction::In { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
    // SAFETY: it writes to the variables.
    let told = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, (&raw mut time).cast(), &raw mut length) };
    let micros = (time.tv_sec as u64).saturating_mul(1_000_000) + time.tv_usec as u64;
    if told == 0 && micros > 0 { super::sleep::deadline(Duration::from_micros(micros)) } else { None }
}

/// Transfers data in a fiber. `attempt` gets how much has been transferred so far, and does not
/// wait. Continues until all of this length has been transferred, or with `None` until anything
/// has.
fn transfer(
    number: c_int,
    direction: Direction,
    all: Option<usize>,
    attempt: impl Fn(usize) -> Outcome,
) -> Option<Outcome> {
    if !fiber_thread::is_outside_runtime() {
        return None;
    }
    let fd = borrow(number)?;
    let (mut done, mut deadline) = (0, None);
    let enough = |done: usize, why| if done > 0 { Ok(done as c_long) } else { Err(why) };
    loop {
        let why = match attempt(done) {
            Ok(more) => {
                done += more as usize;
                if more == 0 || all.is_none_or(|all| done >= all) {
                    return Some(Ok(done as c_long));
                }
                continue;
            }
            Err(why) => why,
        };
        let is_unsupported = matches!(why, Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS);
        let is_nonblocking = is_nonblocking(fd);
        if !(is_unsupported || why == Errno::AGAIN && !is_nonblocking) {
            return Some(enough(done, why));
        }
        if is_unsupported && (is_nonblocking || is_ready(fd, direction)) || is_file(fd) {
            return None;
        }
        let until = *deadline.get_or_insert_with(|| socket_deadline(number, direction));
        match wait(fd, direction, until) {
            Some(Woken::Called) => (),
            Some(Woken::TimedOut) => return Some(enough(done, Errno::AGAIN)),
            // The rest is for the caller, as if a signal had interrupted the call.
            None | Some(Woken::Cancelled) if done > 0 => return Some(Ok(done as c_long)),
            None | Some(Woken::Cancelled) => return None,
        }
    }
}

/// What remains of these buffers after some bytes of them.
fn rest(buffers: &[iovec], mut done: usize) -> Vec<iovec> {
    let mut rest = Vec::with_capacity(buffers.len());
    for buffer in buffers {
        let skipped = done.min(buffer.iov_len);
        done -= skipped;
        if skipped < buffer.iov_len {
            rest.push(iovec {
                iov_base: buffer.iov_base.wrapping_byte_add(skipped),
                iov_len: buffer.iov_len - skipped,
            });
        }
    }
    rest
}

/// # Safety
/// As for `readv` and `writev`.
unsafe fn vectored(number: c_long, fd: c_int, buffers: *const iovec, count: usize) -> Outcome {
    let at = -1_isize as usize;
    // SAFETY: the caller's promise. The offset is in two parts, of which -1 means none.
    unsafe { system_call(number, [fd as usize, buffers.expose_provenance(), count, at, at, libc::RWF_NOWAIT as usize]) }
}

/// # Safety
/// As for `readv`.
unsafe fn read_in_fiber(fd: c_int, buffers: *const iovec, count: c_int) -> Option<Outcome> {
    // SAFETY: the caller's promise.
    let attempt = |_| unsafe { vectored(libc::SYS_preadv2, fd, buffers, count as usize) };
    transfer(fd, Direction::In, None, attempt).map(|outcome| {
        // SAFETY: the caller's promise.
        let buffers = || unsafe { std::slice::from_raw_parts(buffers, count as usize) };
        match outcome {
            Ok(done) if done > 0 && borrow(fd).is_some_and(is_file) => {
                // Less than wanted would mean the end of the file.
                let rest = rest(buffers(), done as usize);
                // SAFETY: the caller's promise.
                let more = unsafe {
                    system_call(libc::SYS_readv, [fd as usize, rest.as_ptr().expose_provenance(), rest.len(), 0, 0, 0])
                };
                Ok(done + more.unwrap_or(0))
            }
            other => other,
        }
    })
}

/// # Safety
/// As for `writev`.
unsafe fn write_in_fiber(fd: c_int, buffers: *const iovec, count: c_int) -> Option<Outcome> {
    if !fiber_thread::is_outside_runtime() || borrow(fd).is_none_or(is_file) || !(0..=1024).contains(&count) {
        return None;
    }
    // SAFETY: the caller's promise.
    let all = unsafe { std::slice::from_raw_parts(buffers, count as usize) };
    let attempt = |done| {
        let rest = rest(all, done);
        // SAFETY: the caller's promise.
        unsafe { vectored(libc::SYS_pwritev2, fd, rest.as_ptr(), rest.len()) }
    };
    transfer(fd, Direction::Out, Some(all.iter().map(|buffer| buffer.iov_len).sum()), attempt)
}

/// # Safety
/// As for `recvfrom`.
unsafe fn receive(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    address: *mut sockaddr,
    size: *mut socklen_t,
) -> Option<Outcome> {
    if flags & libc::MSG_DONTWAIT != 0 {
        return None;
    }
    let receive = |flags: c_int| {
        let arguments = [fd as usize, buffer.expose_provenance(), length, flags as usize];
        let [a, b, c, d] = arguments;
        // SAFETY: the caller's promise.
        unsafe { system_call(libc::SYS_recvfrom, [a, b, c, d, address.expose_provenance(), size.expose_provenance()]) }
    };
    if flags & libc::MSG_WAITALL != 0 {
        return on_pool(|| receive(flags));
    }
    transfer(fd, Direction::In, None, |_| receive(flags | libc::MSG_DONTWAIT))
}

/// # Safety
/// As for `sendto`.
unsafe fn send_in_fiber(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
    address: *const sockaddr,
    size: socklen_t,
) -> Option<Outcome> {
    if flags & libc::MSG_DONTWAIT != 0 {
        return None;
    }
    transfer(fd, Direction::Out, Some(length), |done| {
        let rest = [fd as usize, buffer.addr() + done, length - done, (flags | libc::MSG_DONTWAIT) as usize];
        // SAFETY: the caller's promise.
        unsafe { system_call(libc::SYS_sendto, [rest[0], rest[1], rest[2], rest[3], address.addr(), size as usize]) }
    })
}

/// # Safety
/// As for `recvmsg`.
unsafe fn receive_message(fd: c_int, message: *mut msghdr, flags: c_int) -> Option<Outcome> {
    if flags & (libc::MSG_DONTWAIT | libc::MSG_WAITALL) != 0 {
        return None;
    }
    let flags = (flags | libc::MSG_DONTWAIT) as usize;
    // SAFETY: the caller's promise.
    transfer(fd, Direction::In, None, |_| unsafe {
        system_call(libc::SYS_recvmsg, [fd as usize, message.addr(), flags, 0, 0, 0])
    })
}

/// # Safety
/// As for `sendmsg`.
unsafe fn send_message(fd: c_int, message: *const msghdr, flags: c_int) -> Option<Outcome> {
    if flags & libc::MSG_DONTWAIT != 0 || !fiber_thread::is_outside_runtime() {
        return None;
    }
    // SAFETY: the caller's promise.
    let message = unsafe { message.as_ref() }?;
    let all = if message.msg_iovlen == 0 {
        &[]
    } else {
        // SAFETY: likewise.
        unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) }
    };
    let flags = (flags | libc::MSG_DONTWAIT) as usize;
    transfer(fd, Direction::Out, Some(all.iter().map(|buffer| buffer.iov_len).sum()), |done| {
        let (mut rest, mut message) = (rest(all, done), *message);
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
        // SAFETY: the caller's promise.
        unsafe { read_in_fiber(fd, &raw const buffer, 1) }
    };
    // SAFETY: the caller's promise.
    fn readv(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t = unsafe { read_in_fiber(fd, buffers, count) };
    fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t = {
        let buffer = iovec { iov_base: buffer.cast_mut(), iov_len: length };
        // SAFETY: the caller's promise.
        unsafe { write_in_fiber(fd, &raw const buffer, 1) }
    };
    // SAFETY: the caller's promise.
    fn writev(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t = unsafe { write_in_fiber(fd, buffers, count) };
    fn recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t = {
        // SAFETY: the caller's promise.
        unsafe { receive(fd, buffer, length, flags, std::ptr::null_mut(), std::ptr::null_mut()) }
    };
    fn recvfrom(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int, address: *mut sockaddr, size: *mut socklen_t) -> ssize_t = {
        // SAFETY: the caller's promise.
        unsafe { receive(fd, buffer, length, flags, address, size) }
    };
    // SAFETY: the caller's promise.
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t = unsafe { receive_message(fd, message, flags) };
    fn send(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t = {
        // SAFETY: the caller's promise.
        unsafe { send_in_fiber(fd, buffer, length, flags, std::ptr::null(), 0) }
    };
    fn sendto(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int, address: *const sockaddr, size: socklen_t) -> ssize_t = {
        // SAFETY: the caller's promise.
        unsafe { send_in_fiber(fd, buffer, length, flags, address, size) }
    };
    // SAFETY: the caller's promise.
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t = unsafe { send_message(fd, message, flags) };
}
