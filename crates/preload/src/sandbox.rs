//! `prctl`: records whether the program may have forbidden itself system calls.
//!
//! A filter of system calls (seccomp) allows those that its author knows of, and any other may end
//! the program. So as soon as the program may have set one, this library calls the kernel only to
//! wait. A filter from before the program began has let the loader read files, so only calls of
//! other kinds are left out.
//!
//! To set a filter, a program first gives up new privileges, as libseccomp does by default, or it
//! needs a privilege. A privileged program that calls `syscall(SYS_seccomp)` without giving them up
//! is not noticed: to interpose `syscall` would make other calls slower.

use std::ffi::{c_int, c_ulong};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::real_symbols::real_symbols;

real_symbols! {
    fn prctl(request: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong) -> c_int;
}

/// Whether the program began with a filter.
static INHERITED: AtomicBool = AtomicBool::new(false);
/// Whether the program may have set a filter itself. Never cleared.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Whether the program may have forbidden itself system calls. This becomes true before it does.
pub(crate) fn is_requested() -> bool {
    REQUESTED.load(SeqCst)
}

/// Whether there may be any filter.
pub(crate) fn is_possible() -> bool {
    is_requested() || INHERITED.load(SeqCst)
}

/// Resolves the real symbol, and finds out whether the program begins with a filter.
pub(crate) fn prepare() {
    real::resolve();
    // The first reading of the clock asks the kernel where to find it.
    let _ = wait::Deadline::from(Duration::ZERO);
    // SAFETY: the request only asks.
    if unsafe { real::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) } > 0 {
        INHERITED.store(true, SeqCst);
    }
}

/// The real symbol has a variable number of arguments. They are in registers, like these. Those
/// that the caller does not pass have any value, here as there.
///
/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn prctl(
    request: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if matches!(request, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP) {
        REQUESTED.store(true, SeqCst);
    }
    // SAFETY: the caller's own call.
    unsafe { real::prctl(request, second, third, fourth, fifth) }
}
