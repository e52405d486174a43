//! Blocking calls of the C library, interposed: a fiber that would block in the kernel waits like
//! at any object of this crate, and lets others run.
//!
//! The linker binds an executable's references to a function of the C library to a definition in
//! the executable, if there is one, also those in the standard library and in C. It exports the
//! definition, so that libraries that are loaded dynamically find it first as well. So this module
//! defines the functions, and an executable that is linked with this crate uses them. A function
//! asks whether the caller is a fiber outside of the runtime, which costs the check of a
//! thread-local. For all other callers it calls the *real symbol*.
//!
//! | call of a fiber | how it waits |
//! |---|---|
//! | futexes: `std::sync`, `park`, parking_lot | in a [table](futex), by the word's address |
//! | `nanosleep` and others | as [`sleep`](crate::sleep()) |
//! | `sched_yield` | lets another fiber run, if one is ready |
//! | `read`, `write`, `recv`, `send` and others | tries, and again when the descriptor is ready |
//! | `poll`, `epoll_wait`, `accept`, `connect` | until a descriptor is [ready](ready) |
//! | `pthread_mutex_lock`, `pthread_once` and others | until it is [unlocked](locks) |
//! | `pthread_cond_wait` and others | in a table, until it is [signaled](conditions) |
//! | `getaddrinfo`, `fsync`, `waitpid` and others | a thread of a [pool](pooled) calls |
//! | `pthread_getattr_np`, which never waits | it tells the bounds of the fiber's stack |
//! | `fcntl`, `ioctl`, `setsockopt`, `dup` and others | does not wait, and ends [trust](settings) |
//! | `sigaction`, `pthread_sigmask` and others | does not wait, and is [noted](signals) |
//!
//! # What is not noticed
//! Code that calls the kernel by instructions of its own, as the C library itself does between its
//! functions, and the crate `rustix`; and a library that binds its own references first. There the
//! worker stops, as any thread does. If such code changes the mode or the time-out of a socket,
//! that is noticed [late](crate::trust).
//!
//! # A thread's semantics
//! A call ends as it does for a thread, with its result and `errno`. It is not interrupted by
//! signals. It cannot be unwound, because its callers have no code for that. If the runtime ends
//! meanwhile, a wait for a descriptor fails with `ECANCELED`. In other calls, and if it makes such
//! calls again and again, the fiber [continues as a kernel thread](crate::preempt::orphan), which
//! makes the real call.
//!
//! These make the real call, too: a fiber that shares its worker's thread-locals, since the code
//! that calls may rely on being alone with them; a signal handler, which is recognized by its stack
//! or, once the program has [installed](signals) one, by the signals that are blocked; and a child
//! process that a fiber has forked, in which the other workers do not exist.

mod conditions;
mod connections;
mod descriptors;
mod futex;
mod locks;
mod pooled;
mod ready;
mod real_symbol;
mod settings;
mod signals;
mod sleep;
mod stack_bounds;
mod table;

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use libc::{c_int, c_long};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use sys::tick::SignalMask;

use crate::current_worker::CurrentWorker;
use crate::errno::{last_error, set_last_error};
use crate::fiber_thread;

/// Whether the workers exist: in memory that the kernel clears in the child of a fork.
static DO_WORKERS_EXIST: OnceLock<Option<&'static AtomicBool>> = OnceLock::new();

/// A kernel thread becomes a worker.
pub(crate) fn prepare() {
    let exist = DO_WORKERS_EXIST.get_or_init(|| {
        // SAFETY: it is new memory, which is never freed.
        unsafe {
            let page = mmap_anonymous(std::ptr::null_mut(), 1, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            let page = page.ok()?;
            madvise(page, 1, Advice::LinuxWipeOnFork).ok()?;
            Some(AtomicBool::from_ptr(page.cast()))
        }
    });
    exist.inspect(|exist| exist.store(true, Relaxed));
}

/// Whether the fibers of this process have workers: not in the child of a fork.
fn do_workers_exist() -> bool {
    DO_WORKERS_EXIST.get().is_some_and(|exist| exist.is_some_and(|exist| exist.load(Relaxed)))
}

/// What a call of the C library returns: a number, or an error for `errno`.
type Outcome = Result<c_long, Errno>;

/// Calls a function in the runtime if the caller is a fiber that may wait. `None` if it is not, or
/// if the function returns that: then the caller makes the real call.
#[inline]
fn in_fiber<R>(then: impl FnOnce(CurrentWorker) -> Option<R>) -> Option<R> {
    if !fiber_thread::is_outside_runtime() {
        return None;
    }
    CurrentWorker::visit(|here| here.filter(may_wait).and_then(then))
}

/// Whether the current fiber may wait in this call.
fn may_wait(here: &CurrentWorker) -> bool {
    let (me, local) = (here.current(), 0_u8);
    !me.is_sharing.get()
        && me.stack.get().is_none_or(|stack| stack.contains((&raw const local).addr()))
        && do_workers_exist()
        && (me.stack.get().is_some() && !signals::are_used()
            || here.preemption.mask.get().is_none_or(|mask| mask == SignalMask::of_this_thread()))
}

/// The outcome of a call of the C library.
fn outcome_of(result: impl Into<c_long>) -> Outcome {
    let result = result.into();
    if result == -1 { Err(Errno::from_raw_os_error(last_error())) } else { Ok(result) }
}

/// The result of a call as C expects it.
fn returned(outcome: Outcome) -> c_long {
    outcome.unwrap_or_else(|why| {
        set_last_error(why.raw_os_error());
        -1
    })
}

/// Defines functions of the C library: what they do in a fiber, and otherwise the real symbol.
macro_rules! interposed {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $in_fiber:expr;)*) => {
        $crate::interposed::real_symbol::real_symbols! { $(fn $name($($argument: $type),*) -> $result;)* }
        $(
            /// # Safety
            /// As for the real symbol of this name.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
                // SAFETY: both get what the caller has promised for the real symbol.
                unsafe {
                    match $in_fiber {
                        Some(outcome) => $crate::interposed::returned(outcome) as $result,
                        None => real::$name($($argument),*),
                    }
                }
            }
        )*
    };
}
use interposed;

interposed! {
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long = {
        if number == libc::SYS_futex { futex::call(a, b as c_int, c as u32, d, e, f as u32) } else { None }
    };
}

/// Calls the kernel.
///
/// # Safety
/// As for the system call.
unsafe fn system_call(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> Outcome {
    // SAFETY: the caller's promise.
    outcome_of(unsafe { real::syscall(number, a, b, c, d, e, f) })
}
