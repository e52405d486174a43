//! Makes unmodified programs wait by a waiting rule: the functions that they call to wait are
//! interposed by `LD_PRELOAD`.
//!
//! Each family of functions has a file. All of them follow these principles:
//!
//! * **Only the way a thread waits changes.** If that cannot be guaranteed, the call is passed
//!   through to the real symbol, and the statistics region records the reason.
//! * **Objects remain those of the C library** if possible: mutexes, condition variables and
//!   semaphores keep their layout, so that other users and other functions continue to work. Only
//!   barriers are replaced, from their initialization on.
//! * **No allocation and no locks** while the program may hold a lock: the mutex of an allocator is
//!   a pthread mutex too. Barriers allocate when they are initialized, and when a thread first
//!   arrives.
//! * **No measurements.** Costs are set by the process that starts the program
//!   ([`counters::Environment`]), or are defaults.
//! * **Before initialization**, which happens before the program begins, every call is passed
//!   through: other libraries may be initialized first. A barrier that is created earlier triggers
//!   the initialization.
//!
//! A thread may unwind out of a real symbol, for example when it is cancelled. So no value that
//! needs to be dropped is on the stack while a real symbol runs; `cancellation` cleans up
//! instead.
//!
//! An object may be destroyed, and its memory freed, as soon as the program knows that no thread
//! uses it. So once a call has taken effect for another thread, this library touches no byte of the
//! object: its own state is in static memory or, at barriers, owned by all who use it. Each module
//! says why that holds.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files as they like"))]
#![allow(unsafe_code)] // Exports symbols and takes pointers from C.

mod backoff;
mod barrier;
mod barrier_table;
mod bypass;
mod caller;
mod cancellation;
mod condition;
mod family;
mod findings;
mod forks;
mod gomp;
mod handlers;
mod layout;
mod libomp;
mod mpi;
mod mutex;
mod objects;
mod ranks;
mod real_symbols;
mod sandbox;
mod semaphore;
mod settings;
mod site;
mod sockets;
mod steps;
mod stops;
mod team;
mod yields;

use std::ffi::c_int;

use crate::settings::Settings;

/// Called by the loader before the program begins, and when it exits.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn begin() {
    preserve_errno(|| {
        sandbox::prepare();
        forks::prepare();
        Settings::get_or_init();
        barrier::real::resolve();
        bypass::resolve();
        cancellation::real::resolve();
        condition::prepare();
        handlers::real::resolve();
        mutex::real::resolve();
        semaphore::real::resolve();
        sockets::real::resolve();
        stops::real::resolve();
    });
}

extern "C" fn end() {
    // The child of a fork counts here too, but the statistics are those of its parent.
    if let Some(settings) = Settings::get().filter(|_| forks::count() == 0) {
        settings.statistics.end();
    }
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

fn errno() -> c_int {
    // SAFETY: each thread has its own `errno`.
    unsafe { *libc::__errno_location() }
}

fn set_errno(errno: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno }
}

/// Runs a closure that may change `errno`, on behalf of a function that preserves it.
fn preserve_errno<R>(act: impl FnOnce() -> R) -> R {
    let before = errno();
    let result = act();
    set_errno(before);
    result
}
