//! Calls that install signal handlers or change masks. Before the first one no fiber is in a
//! handler, nor does it block other signals than its worker, so none has to ask the kernel whether
//! it does. Code that calls the kernel by itself for that is not seen: if such a handler waits in a
//! call of the C library, it lets other fibers run, which block the same signals as it does.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use libc::{c_int, sighandler_t, sigset_t};

use super::{Outcome, interposed};

static ARE_USED: AtomicBool = AtomicBool::new(false);

/// Whether a fiber may be in a handler of the program, or have other signals blocked than its
/// worker.
pub(super) fn are_used() -> bool {
    ARE_USED.load(Relaxed)
}

/// Notes a use before the real call.
fn note_if(is_use: bool) -> Option<Outcome> {
    if is_use {
        ARE_USED.store(true, Relaxed);
    }
    None
}

/// Whether this installs a handler in which a fiber may call. Handlers of faults are on a stack of
/// their own, by which they are recognized; and ours does not call.
fn is_handler(signal: c_int, handler: sighandler_t, flags: c_int) -> bool {
    let is_for_faults = [libc::SIGSEGV, libc::SIGBUS].contains(&signal) && flags & libc::SA_ONSTACK != 0;
    !is_for_faults && ![libc::SIG_DFL, libc::SIG_IGN, sys::tick::handler_address()].contains(&handler)
}

interposed! {
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int =
        note_if(new.as_ref().is_some_and(|new| is_handler(signal, new.sa_sigaction, new.sa_flags)));
    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t = note_if(is_handler(signal, handler, 0));
    fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t = note_if(is_handler(signal, handler, 0));
    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t = note_if(is_handler(signal, handler, 0));
    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t = note_if(is_handler(signal, handler, 0));
    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t = note_if(is_handler(signal, handler, 0));
    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t = note_if(is_handler(signal, handler, 0));
    fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int = note_if(!set.is_null());
    fn pthread_sigmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int = note_if(!set.is_null());
    fn sigblock(mask: c_int) -> c_int = note_if(true);
    fn sigsetmask(mask: c_int) -> c_int = note_if(true);
    fn sighold(signal: c_int) -> c_int = note_if(true);
    fn sigrelse(signal: c_int) -> c_int = note_if(true);
}
