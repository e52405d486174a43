//! Lets unmodified programs wait by a rule: what they call to wait is found here first, by `LD_PRELOAD`.
//!
//! Each family of calls has a file. All of them keep to this:
//!
//! * **Nothing changes but how a thread waits.** Where that could not be kept, the call goes on to the original, and the book of
//!   accounts says why.
//! * **Objects stay the C library's own** where that is possible: mutexes, condition variables and semaphores keep their layout, so that it does not
//!   matter who else uses them, and by which calls. Only barriers are ours, from their beginning.
//! * **No memory and no locks** where the program could hold a lock of its own: an allocator's mutex is a pthread mutex too. Barriers
//!   take memory when they are made, and when a thread first comes to one.
//! * **Nothing is measured.** What things cost is told by who starts the program ([`counters::Environment`]), or is what is usual.
//! * **Before it is ready**, which it is before the program begins, every call goes on to the original: libraries may begin before it. A barrier that
//!   is made earlier makes it ready.
//!
//! Functions may be left by unwinding, as by a thread's cancellation: nothing is kept on their stacks that would have to be
//! dropped while an original runs.
#![allow(unsafe_code)] // Names for the linker, and what C passes.
#![allow(clippy::missing_safety_doc)] // To those who call them, all functions of C are unsafe.

mod backoff;
mod barrier;
mod barrier_table;
mod bypass;
mod caller;
mod condition;
mod family;
mod findings;
mod gomp;
mod layout;
mod libomp;
mod mpi;
mod mutex;
mod objects;
mod ranks;
mod real_symbols;
mod semaphore;
mod settings;
mod site;
mod steps;
mod team;
mod yields;

use std::ffi::c_int;

use crate::settings::Settings;

/// What the loader calls before the program begins, and when it ends by itself.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn begin() {
    preserve_errno(|| {
        Settings::get_or_init();
        barrier::real::resolve();
        bypass::resolve();
        condition::resolve();
        mutex::real::resolve();
        semaphore::real::resolve();
    });
}

extern "C" fn end() {
    if let Some(settings) = Settings::get() {
        settings.statistics.end(std::process::id());
    }
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

fn errno() -> c_int {
    // SAFETY: the C library gives each thread a place for it.
    unsafe { *libc::__errno_location() }
}

fn set_errno(errno: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno }
}

/// Does something that may change errno, for a caller whose original does not.
fn preserve_errno<R>(act: impl FnOnce() -> R) -> R {
    let before = errno();
    let result = act();
    set_errno(before);
    result
}
