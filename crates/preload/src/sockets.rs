//! Calls on sockets with SO_RCVTIMEO or SO_SNDTIMEO that a stop ends: `recv`, `send` and relatives.
//!
//! The time belongs to the socket, so no call could be repeated with the rest of it. A call that
//! receives or connects first waits by `ppoll` for the rest. One that sends is repeated as it is,
//! and may wait for the whole time again: the kernel lets a blocked call send earlier than it says
//! that there is room. After the time, a stop ends a call as the time does. See
//! [`stops`](crate::stops) for when a call is repeated. Calls that return a part are not.
//!
//! A handler that runs just before the repeated call ends it at the next stop, or when its time is
//! over.
//!
//! The clock is read before a call only if the program has set such a time for any socket. The
//! beginning of a call on a socket that came with one is unknown, and the program gets the EINTR.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use libc::{EAGAIN, EINPROGRESS, EINTR, POLLIN, POLLOUT, SO_RCVTIMEO, SO_SNDTIMEO, SOL_SOCKET};
use libc::{c_uint, iovec, mmsghdr, msghdr, pollfd, sockaddr, socklen_t, timespec, timeval};

use crate::real_symbols::real_symbols;
use crate::stops::{Begun, repeat_with_mask, to_timespec};
use crate::{handlers, set_errno};

/// Whether the program may have set a time for a socket. Only in a job, and never cleared.
static HAS_TIMES: AtomicBool = AtomicBool::new(false);

/// The event for which a call waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Receive,
    Send,
    Connect,
}

impl Kind {
    /// The option with the time, and the event.
    fn waits_for(self) -> (c_int, i16) {
        if self == Kind::Receive { (SO_RCVTIMEO, POLLIN) } else { (SO_SNDTIMEO, POLLOUT) }
    }

    /// The error after the time.
    fn timed_out(self) -> c_int {
        if self == Kind::Connect { EINPROGRESS } else { EAGAIN }
    }
}

/// Defines functions that are repeated, with their real symbols.
macro_rules! repeated {
    ($($kind:ident: fn $name:ident($socket:ident: c_int, $($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        real_symbols! {
            fn setsockopt(socket: c_int, level: c_int, option: c_int, value: *const c_void, length: socklen_t) -> c_int;
            $(fn $name($socket: c_int, $($argument: $type),*) -> $result;)*
        }

        $(
            /// # Safety
            /// As for the real symbol.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($socket: c_int, $($argument: $type),*) -> $result {
                // SAFETY: the caller's own call. One that ends with EINTR leaves the arguments.
                repeat(Kind::$kind, $socket, || unsafe { real::$name($socket, $($argument),*) })
            }
        )*
    };
}
repeated! {
    Receive: fn recv(socket: c_int, bytes: *mut c_void, count: usize, flags: c_int) -> isize;
    Receive: fn __recv_chk(socket: c_int, bytes: *mut c_void, count: usize, most: usize, flags: c_int) -> isize;
    Receive: fn recvfrom(
        socket: c_int, bytes: *mut c_void, count: usize, flags: c_int, address: *mut sockaddr, length: *mut socklen_t,
    ) -> isize;
    Receive: fn __recvfrom_chk(
        socket: c_int, bytes: *mut c_void, count: usize, most: usize, flags: c_int, address: *mut sockaddr,
        length: *mut socklen_t,
    ) -> isize;
    Receive: fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> isize;
    Receive: fn recvmmsg(
        socket: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec,
    ) -> c_int;
    Receive: fn read(socket: c_int, bytes: *mut c_void, count: usize) -> isize;
    Receive: fn __read_chk(socket: c_int, bytes: *mut c_void, count: usize, most: usize) -> isize;
    Receive: fn readv(socket: c_int, parts: *const iovec, count: c_int) -> isize;
    Receive: fn accept(socket: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    Receive: fn accept4(socket: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    Send: fn send(socket: c_int, bytes: *const c_void, count: usize, flags: c_int) -> isize;
    Send: fn sendto(
        socket: c_int, bytes: *const c_void, count: usize, flags: c_int, address: *const sockaddr, length: socklen_t,
    ) -> isize;
    Send: fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> isize;
    Send: fn sendmmsg(socket: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    Send: fn write(socket: c_int, bytes: *const c_void, count: usize) -> isize;
    Send: fn writev(socket: c_int, parts: *const iovec, count: c_int) -> isize;
    Connect: fn connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
}

/// The time that is set for a socket. `None` without one, or if it is no socket.
fn time_of(socket: c_int, option: c_int) -> Option<Duration> {
    let (mut time, mut length) = (MaybeUninit::<timeval>::zeroed(), size_of::<timeval>() as socklen_t);
    // SAFETY: there is room for the answer, and zeros are a time too.
    let time = unsafe {
        let result = libc::getsockopt(socket, SOL_SOCKET, option, time.as_mut_ptr().cast(), &raw mut length);
        (result == 0).then(|| time.assume_init())?
    };
    let time = Duration::new(time.tv_sec.try_into().ok()?, u32::try_from(time.tv_usec).ok()?.checked_mul(1000)?);
    (!time.is_zero()).then_some(time)
}

/// Makes a call, and repeats it as long as only stops end it.
#[inline]
fn repeat<R: Copy + PartialOrd + From<i8>>(kind: Kind, socket: c_int, call: impl Fn() -> R) -> R {
    if !HAS_TIMES.load(Relaxed) {
        return call();
    }
    let begun = Begun::now(true);
    let result = call();
    if begun.is_stopped(result) { repeat_stopped(kind, socket, &begun, call) } else { result }
}

#[cold]
fn repeat_stopped<R: Copy + PartialOrd + From<i8>>(
    kind: Kind,
    socket: c_int,
    begun: &Begun,
    call: impl Fn() -> R,
) -> R {
    let fail = |error| {
        set_errno(error);
        R::from(-1)
    };
    let (option, events) = kind.waits_for();
    let Some(time) = time_of(socket, option) else { return fail(EINTR) };
    let until = begun.until(Some(time));
    let remaining = || until.remaining().unwrap_or_default();
    loop {
        // While signals are blocked, it is checked whether a handler has run.
        let ready = repeat_with_mask(begun, std::ptr::null(), |mask| {
            let time = if kind == Kind::Send { Duration::ZERO } else { remaining() };
            let mut poll = pollfd { fd: socket, events, revents: 0 };
            // SAFETY: all of them are valid during the call.
            unsafe { libc::ppoll(&raw mut poll, 1, &to_timespec(time), mask) }
        });
        if ready < 0 {
            return fail(EINTR);
        }
        if ready == 0 && remaining().is_zero() {
            return fail(kind.timed_out());
        }
        let result = call();
        if !begun.is_stopped(result) {
            return begun.ended(result);
        }
        if remaining().is_zero() {
            return fail(EAGAIN);
        }
    }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn setsockopt(
    socket: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    if level == SOL_SOCKET && [SO_RCVTIMEO, SO_SNDTIMEO].contains(&option) && handlers::is_in_job() {
        HAS_TIMES.store(true, Relaxed);
    }
    // SAFETY: the caller's own call.
    unsafe { real::setsockopt(socket, level, option, value, length) }
}
