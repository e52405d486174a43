//! `setuid` and similar functions beside blocks.
//!
//! Linux keeps credentials for each thread. To change them for the process, the C library sends a
//! signal to each of its threads, whose handler makes the call, and then notes in the calling
//! thread's block that this thread has done so. The C library asks each thread again until its
//! block says so, which a kernel thread's own block never would while another block is in use. So
//! the handler runs with the kernel thread's own block.

use std::mem::transmute;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::{call_within, robust_list, thread_pointer};

/// The signal (`SIGSETXID`), which the C library hides.
const SIGNAL: libc::c_int = 33;

/// A handler as the kernel knows it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    /// The signals that are blocked meanwhile.
    mask: u64,
}

/// The C library's handler.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// The offset from the thread pointer of what the kernel knows of a kernel thread's own block: its
/// list of robust mutexes.
static KNOWN: AtomicUsize = AtomicUsize::new(0);

/// Replaces the C library's handler, which exists as there have been threads. The caller uses the
/// block of its kernel thread.
pub(super) fn prepare() {
    let mut action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
    let change = |new: *const Action, old: *mut Action| {
        // SAFETY: there is room, and the new handler does what the old one did. The functions of
        // the C library refuse the signal.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, SIGNAL, new, old, size_of::<u64>()) }
    };
    let Some(list) = robust_list() else { return };
    if change(std::ptr::null(), &raw mut action) != 0 || action.handler <= libc::SIG_IGN {
        return;
    }
    HANDLER.store(action.handler, Release);
    // SAFETY: it has no conditions.
    let description = unsafe { libc::pthread_self() } as usize;
    KNOWN.store(description.wrapping_sub(thread_pointer()).wrapping_add(list), Release);
    action = Action { handler: handle as *const () as usize, mask: u64::MAX, ..action };
    change(&raw const action, std::ptr::null_mut());
}

/// The thread pointer of the calling kernel thread's own block.
fn own_thread_pointer() -> Option<usize> {
    let (mut head, mut length) = (0_usize, 0_usize);
    // SAFETY: there is room for both.
    let result = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut length) };
    (result == 0 && head != 0).then(|| head.wrapping_sub(KNOWN.load(Acquire)))
}

/// A call of the C library's handler.
struct Call(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// # Safety
/// The kernel calls it.
unsafe extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    /// # Safety
    /// It is a [`Call`].
    unsafe extern "C" fn call(call: *mut ()) {
        // SAFETY: the caller's promise, and the C library's handler has this type.
        unsafe {
            let Call(signal, info, context) = call.cast::<Call>().read();
            let handler = transmute::<usize, crate::previous_handler::SignalHandler>(HANDLER.load(Acquire));
            handler(signal, info, context);
        }
    }
    let mut this = Call(signal, info, context);
    let this = (&raw mut this).cast();
    // SAFETY: all signals are blocked. The block is that of this kernel thread, and the stack that
    // uses it otherwise waits.
    unsafe {
        match own_thread_pointer() {
            Some(own) if own != thread_pointer() => call_within(own, call, this),
            _ => call(this),
        }
    }
}
