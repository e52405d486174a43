//! Calls that a thread of a pool makes, while the fiber waits. They do not depend on the thread
//! that makes them. A call that does not wait is tried first, if there is one.

use std::cell::Cell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use libc::{
    addrinfo, c_char, c_int, c_long, c_uint, c_void, fd_set, id_t, idtype_t, off64_t, pid_t, pthread_barrier_t,
    pthread_t, rusage, sem_t, siginfo_t, size_t, ssize_t, timespec, timeval,
};
use rustix::io::Errno;
use sys::futex::{self as kernel, Scope};

use super::settings::change;
use super::{Outcome, futex, in_fiber, interposed, outcome_of};
use crate::errno::{last_error, set_last_error};
use crate::fiber_thread;
use crate::pool;

/// A call, on the stack of the fiber that waits for it: its result, and the last error.
struct Call<R> {
    result: Cell<Option<(R, c_int)>>,
    is_done: AtomicU32,
}

/// What a thread of the pool gets.
struct Sent<T>(T);

// SAFETY: the fiber waits meanwhile, and what a call refers to does not depend on the thread.
unsafe impl<T> Send for Sent<T> {}

/// Makes a real call, which may wait for other threads, on a thread of the pool. `None` if the
/// caller is no fiber, or is pinned.
pub(super) fn on_pool<R>(real: impl FnOnce() -> R) -> Option<R> {
    make_on_pool(real, true)
}

/// The same for a call that waits for the outside alone, such as a disk.
pub(super) fn work_on_pool<R>(real: impl FnOnce() -> R) -> Option<R> {
    make_on_pool(real, false)
}

fn make_on_pool<R>(real: impl FnOnce() -> R, waits: bool) -> Option<R> {
    in_fiber(|here| (here.current().thread().pins.get() == 0).then_some(()))?;
    let call = Call { result: Cell::new(None), is_done: AtomicU32::new(0) };
    let sent = Sent((real, &raw const call));
    let job = move || {
        let Sent((real, call)) = { sent };
        let result = (real(), last_error());
        // SAFETY: the fiber does not leave before it is done. Then only the address is used.
        let word = unsafe {
            (*call).result.set(Some(result));
            &raw const (*call).is_done
        };
        // SAFETY: likewise.
        unsafe { (*word).store(1, Release) };
        futex::wake_all(word);
    };
    let job: Box<dyn FnOnce() + '_> = Box::new(job);
    // SAFETY: only the lifetime differs, and the bound. The fiber does not leave before it is done.
    let job = unsafe { std::mem::transmute::<Box<dyn FnOnce() + '_>, pool::Job>(job) };
    pool::submit(job, waits).ok()?;
    while call.is_done.load(Acquire) == 0 {
        if in_fiber(|here| Some(futex::wait(here, &call.is_done, 0, u32::MAX, None))).is_none() {
            kernel::wait(&call.is_done, 0, None, Scope::Process);
        }
    }
    let (result, error) = call.result.take()?;
    set_last_error(error);
    Some(result)
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

/// Whether a call has failed with one of these errors.
fn failed(with: &'static [Errno]) -> impl Fn(c_int) -> bool {
    move |result| result == -1 && with.iter().any(|why| why.raw_os_error() == last_error())
}

fn is_zero(result: c_int) -> bool {
    result == 0
}

interposed! {
    fn getaddrinfo(node: *const c_char, service: *const c_char, hints: *const addrinfo, found: *mut *mut addrinfo) -> c_int =
        work_on_pool(|| real::getaddrinfo(node, service, hints, found)).map(|result| Ok(result.into()));
    fn splice(from: c_int, at: *mut off64_t, to: c_int, offset: *mut off64_t, length: size_t, flags: c_uint) -> ssize_t =
        on_pool(|| outcome_of(real::splice(from, at, to, offset, length, flags) as c_long));
    fn sendfile(to: c_int, from: c_int, offset: *mut off64_t, length: size_t) -> ssize_t =
        on_pool(|| outcome_of(real::sendfile(to, from, offset, length) as c_long));
    fn sendfile64(to: c_int, from: c_int, offset: *mut off64_t, length: size_t) -> ssize_t =
        on_pool(|| outcome_of(real::sendfile64(to, from, offset, length) as c_long));
    fn fsync(fd: c_int) -> c_int = work_on_pool(|| outcome_of(real::fsync(fd)));
    fn fdatasync(fd: c_int) -> c_int = work_on_pool(|| outcome_of(real::fdatasync(fd)));
    fn select(count: c_int, reads: *mut fd_set, writes: *mut fd_set, others: *mut fd_set, time: *mut timeval) -> c_int =
        on_pool(|| outcome_of(real::select(count, reads, writes, others, time)));
    fn wait(status: *mut c_int) -> pid_t =
        tried(|| libc::waitpid(-1, status, libc::WNOHANG), is_zero, || real::wait(status));
    fn waitpid(process: pid_t, status: *mut c_int, options: c_int) -> pid_t = {
        let wait = |options| real::waitpid(process, status, options);
        let waits = options & libc::WNOHANG == 0;
        if waits { tried(|| wait(options | libc::WNOHANG), is_zero, || wait(options)) } else { None }
    };
    fn wait4(process: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t = {
        let wait = |options| real::wait4(process, status, options, usage);
        let waits = options & libc::WNOHANG == 0;
        if waits { tried(|| wait(options | libc::WNOHANG), is_zero, || wait(options)) } else { None }
    };
    fn waitid(of: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int =
        if options & libc::WNOHANG != 0 { None } else { on_pool(|| outcome_of(real::waitid(of, id, info, options))) };
    fn flock(fd: c_int, operation: c_int) -> c_int = {
        let lock = |operation| real::flock(fd, operation);
        let waits = operation & libc::LOCK_NB == 0;
        if waits { tried(|| lock(operation | libc::LOCK_NB), failed(&[Errno::WOULDBLOCK]), || lock(operation)) } else { None }
    };
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int =
        lock_file(command, |command| real::fcntl(fd, command, argument));
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int =
        lock_file(command, |command| real::fcntl64(fd, command, argument));
    fn sem_wait(semaphore: *mut sem_t) -> c_int =
        tried(|| libc::sem_trywait(semaphore), failed(&[Errno::AGAIN]), || real::sem_wait(semaphore));
    fn sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int =
        tried(|| libc::sem_trywait(semaphore), failed(&[Errno::AGAIN]), || real::sem_timedwait(semaphore, until));
    fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int =
        on_pool(|| real::pthread_barrier_wait(barrier)).map(|result| Ok(result.into()));
    fn pthread_join(thread: pthread_t, value: *mut *mut c_void) -> c_int = {
        let is_busy = |result| result == libc::EBUSY;
        let join = || real::pthread_join(thread, value);
        if thread == libc::pthread_self() { None } else { tried(|| pthread_tryjoin_np(thread, value), is_busy, join) }
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
        libc::F_SETFL | libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => return change(|| call(command)),
        _ => return None,
    };
    tried(|| call(attempt), failed(&[Errno::AGAIN, Errno::ACCESS]), || call(command))
}
