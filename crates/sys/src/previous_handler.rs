//! What handled a signal before this library did, for signals that are none of its business.

use std::mem::{MaybeUninit, transmute};
use std::ptr::null;

/// What a signal did earlier.
pub(crate) struct PreviousHandler(libc::sigaction);

impl PreviousHandler {
    /// What it does now.
    pub(crate) fn of(signal: libc::c_int) -> PreviousHandler {
        let mut action = MaybeUninit::zeroed();
        // SAFETY: nothing is set here, and there is room for what is; zeros are the default action.
        PreviousHandler(unsafe {
            libc::sigaction(signal, null(), action.as_mut_ptr());
            action.assume_init()
        })
    }

    /// Whether it was ignored because somebody wanted that, and not by default.
    pub(crate) fn is_ignored(&self) -> bool {
        self.0.sa_sigaction == libc::SIG_IGN
    }

    /// Calls the handler that there was. False if there was none.
    ///
    /// # Safety
    /// A handler of this signal got this from the kernel.
    pub(crate) unsafe fn call(
        &self,
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) -> bool {
        match self.0.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => return false,
            handler if self.0.sa_flags & libc::SA_SIGINFO != 0 => {
                // SAFETY: it was the handler, of this kind.
                unsafe {
                    let handler: unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                        transmute(handler);
                    handler(signal, info, context);
                }
            }
            handler => {
                // SAFETY: as above.
                unsafe {
                    let handler: unsafe extern "C" fn(libc::c_int) = transmute(handler);
                    handler(signal);
                }
            }
        }
        true
    }
}
