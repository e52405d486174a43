//! Signal handlers: installs ours, and calls the previous one for signals that are not for us.

use std::io;
use std::mem::{MaybeUninit, transmute, zeroed};
use std::ptr::{null, null_mut};

use crate::errno;

/// A signal handler as the kernel calls it.
pub(crate) type SignalHandler = unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Installs a handler, during which the signals in `blocked` are blocked as well.
///
/// # Safety
/// The handler is async-signal-safe at any point of the program.
pub(crate) unsafe fn install(
    signal: libc::c_int,
    handler: SignalHandler,
    flags: libc::c_int,
    blocked: &[libc::c_int],
) -> io::Result<()> {
    // SAFETY: zeros are a valid action, with an empty set. The caller guarantees the rest.
    errno::check(unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        for &signal in blocked {
            libc::sigaddset(&raw mut action.sa_mask, signal);
        }
        libc::sigaction(signal, &raw const action, null_mut())
    })?;
    Ok(())
}

/// Restores the default action of a signal.
pub(crate) fn restore_default(signal: libc::c_int) {
    // SAFETY: the default action runs no code.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// The previous action of a signal.
pub(crate) struct PreviousHandler(libc::sigaction);

impl PreviousHandler {
    /// The current action of a signal.
    pub(crate) fn of(signal: libc::c_int) -> PreviousHandler {
        let mut action = MaybeUninit::zeroed();
        // SAFETY: this only reads the action, into room for one; zeros are the default action.
        PreviousHandler(unsafe {
            libc::sigaction(signal, null(), action.as_mut_ptr());
            action.assume_init()
        })
    }

    /// Whether the signal has its default action.
    pub(crate) fn is_default(&self) -> bool {
        self.0.sa_sigaction == libc::SIG_DFL
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
            // SAFETY: it was installed as a handler of this type.
            handler if self.0.sa_flags & libc::SA_SIGINFO != 0 => unsafe {
                transmute::<usize, SignalHandler>(handler)(signal, info, context);
            },
            // SAFETY: as above.
            handler => unsafe { transmute::<usize, unsafe extern "C" fn(libc::c_int)>(handler)(signal) },
        }
        true
    }
}
