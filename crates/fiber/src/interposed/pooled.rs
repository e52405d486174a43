//! Calls that a thread of a pool makes, while the fiber waits. They do not depend on the thread
//! that makes them. A call that does not wait is tried first, if there is one.

use std::cell::Cell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use libc::{
    c_int, c_void, fd_set, id_t, idtype_t, pid_t, pthread_t, rusage, sem_t, siginfo_t, sockaddr, socklen_t, timespec,
    timeval,
};
use rustix::io::Errno;
use sys::futex::{self as kernel, Scope};

use super::descriptors::{borrow, is_nonblocking};
use super::{Outcome, futex, in_fiber, interposed};
use crate::fiber_thread;
use crate::pool;

/// A call, on the stack of the fiber that waits for it.
struct Call {
    outcome: Cell<Outcome>,
    is_done: AtomicU32,
}

/// What a thread of the pool gets.
struct Sent<T>(T);

// SAFETY: the fiber waits meanwhile, and what a call refers to does not depend on the thread.
unsafe impl<T> Send for Sent<T> {}

/// Makes a real call on a thread of the pool. `None` if the caller is no fiber, or is pinned.
pub(super) fn on_pool(real: impl FnOnce() -> Outcome) -> Option<Outcome> {
    in_fiber(|here| (here.current().thread().pins.get() == 0).then_some(()))?;
    let call = Call { outcome: Cell::new(Ok(0)), is_done: AtomicU32::new(0) };
    let sent = Sent((real, &raw const call));
    let job = move || {
        let Sent((real, call)) = { sent };
        let outcome = real();
        // SAFETY: the fiber does not leave before it is done. Then only the address is used.
        let word = unsafe {
            (*call).outcome.set(outcome);
            &raw const (*call).is_done
        };
        // SAFETY: likewise.
        unsafe { (*word).store(1, Release) };
        futex::wake_all(word);
    };
    let job: Box<dyn FnOnce() + '_> = Box::new(job);
    // SAFETY: only the lifetime differs, and the bound. The fiber does not leave before it is done.
    let job = unsafe { std::mem::transmute::<Box<dyn FnOnce() + '_>, pool::Job>(job) };
    pool::submit(job).ok()?;
    while call.is_done.load(Acquire) == 0 {
        if in_fiber(|here| Some(futex::wait(here, &call.is_done, 0, u32::MAX, None))).is_none() {
            kernel::wait(&call.is_done, 0, None, Scope::Process);
        }
    }
    Some(call.outcome.get())
}

/// Tries a real call that does not wait, and then makes one that waits elsewhere. `would_wait` gets
/// the result of the first.
fn tried(
    attempt: impl FnOnce() -> c_int,
    would_wait: impl FnOnce(c_int) -> bool,
    real: impl FnOnce() -> c_int,
) -> Option<Outcome> {
    if !fiber_thread::is_outside_runtime() {
        return None;
    }
    let result = attempt();
    if would_wait(result) {
        return on_pool(|| outcome_of(real()));
    }
    Some(outcome_of(result))
}

/// What a call has returned, or set as the last error.
fn outcome_of(result: c_int) -> Outcome {
    if result == -1 { Err(last_error()) } else { Ok(result.into()) }
}

fn last_error() -> Errno {
    // SAFETY: it is the calling thread's own.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Whether a call has failed with one of these errors.
fn failed(with: &'static [Errno]) -> impl Fn(c_int) -> bool {
    move |result| result == -1 && with.contains(&last_error())
}

fn is_zero(result: c_int) -> bool {
    result == 0
}

interposed! {
    fn connect(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int = {
        // SAFETY: the caller's promise.
        if borrow(fd).is_none_or(is_nonblocking) { None } else { on_pool(|| outcome_of(unsafe { real::connect(fd, address, size) })) }
    };
    fn select(count: c_int, reads: *mut fd_set, writes: *mut fd_set, others: *mut fd_set, time: *mut timeval) -> c_int = {
        // SAFETY: the caller's promise.
        on_pool(|| outcome_of(unsafe { real::select(count, reads, writes, others, time) }))
    };
    fn wait(status: *mut c_int) -> pid_t = {
        // SAFETY: the caller's promise.
        unsafe { tried(|| libc::waitpid(-1, status, libc::WNOHANG), is_zero, || real::wait(status)) }
    };
    fn waitpid(process: pid_t, status: *mut c_int, options: c_int) -> pid_t = {
        // SAFETY: the caller's promise.
        let wait = |options| unsafe { real::waitpid(process, status, options) };
        if options & libc::WNOHANG != 0 { None } else { tried(|| wait(options | libc::WNOHANG), is_zero, || wait(options)) }
    };
    fn wait4(process: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t = {
        // SAFETY: the caller's promise.
        let wait = |options| unsafe { real::wait4(process, status, options, usage) };
        if options & libc::WNOHANG != 0 { None } else { tried(|| wait(options | libc::WNOHANG), is_zero, || wait(options)) }
    };
    fn waitid(of: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int = {
        // SAFETY: the caller's promise.
        if options & libc::WNOHANG != 0 { None } else { on_pool(|| outcome_of(unsafe { real::waitid(of, id, info, options) })) }
    };
    fn flock(fd: c_int, operation: c_int) -> c_int = {
        // SAFETY: the caller's promise.
        let lock = |operation| unsafe { real::flock(fd, operation) };
        if operation & libc::LOCK_NB != 0 { None } else { tried(|| lock(operation | libc::LOCK_NB), failed(&[Errno::WOULDBLOCK]), || lock(operation)) }
    };
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int = {
        // SAFETY: the caller's promise.
        lock_file(command, |command| unsafe { real::fcntl(fd, command, argument) })
    };
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int = {
        // SAFETY: the caller's promise.
        lock_file(command, |command| unsafe { real::fcntl64(fd, command, argument) })
    };
    fn sem_wait(semaphore: *mut sem_t) -> c_int = {
        // SAFETY: the caller's promise.
        unsafe { tried(|| libc::sem_trywait(semaphore), failed(&[Errno::AGAIN]), || real::sem_wait(semaphore)) }
    };
    fn sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int = {
        // SAFETY: the caller's promise.
        unsafe { tried(|| libc::sem_trywait(semaphore), failed(&[Errno::AGAIN]), || real::sem_timedwait(semaphore, until)) }
    };
    fn pthread_join(thread: pthread_t, value: *mut *mut c_void) -> c_int = {
        // SAFETY: the caller's promise. These return the error.
        unsafe {
            if thread == libc::pthread_self() { None } else {
                tried(|| pthread_tryjoin_np(thread, value), |result| result == libc::EBUSY, || real::pthread_join(thread, value))
            }
        }
    };
}

unsafe extern "C" {
    fn pthread_tryjoin_np(thread: pthread_t, value: *mut *mut c_void) -> c_int;
}

/// The commands of `fcntl` that wait.
fn lock_file(command: c_int, call: impl Fn(c_int) -> c_int) -> Option<Outcome> {
    let attempt = match command {
        libc::F_SETLKW => libc::F_SETLK,
        libc::F_OFD_SETLKW => libc::F_OFD_SETLK,
        _ => return None,
    };
    tried(|| call(attempt), failed(&[Errno::AGAIN, Errno::ACCESS]), || call(command))
}
