//! The signal handler that was installed before ours, for signals that this library does not handle
//! itself.

use std::mem::{MaybeUninit, transmute};
use std::ptr::null;

/// The previous action of a signal.
pub(crate) struct PreviousHandler(libc::sigaction);

impl PreviousHandler {
    /// The current action of a signal.
    pub(crate) fn of(signal: libc::c_int) -> PreviousHandler {
        let mut action = MaybeUninit::zeroed();
        // SAFETY: no action is set, and there is room for the current one; zeros are the default
        // action.
        PreviousHandler(unsafe {
            libc::sigaction(signal, null(), action.as_mut_ptr());
            action.assume_init()
        })
    }

    /// Whether the signal was ignored explicitly, and not by default.
    pub(crate) fn is_ignored(&self) -> bool {
        self.0.sa_sigaction == libc::SIG_IGN
    }

    /// Calls the previous handler. Returns `false` if there was none.
    ///
    /// # Safety
    /// The arguments are those that the kernel passed to a handler of this signal.
    pub(crate) unsafe fn call(
        &self,
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) -> bool {
        match self.0.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => return false,
            handler if self.0.sa_flags & libc::SA_SIGINFO != 0 => {
                // SAFETY: it was installed as a handler of this type.
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
