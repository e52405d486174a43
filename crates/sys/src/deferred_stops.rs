//! Stops of a terminal, deferred while programs are being started.
//!
//! A terminal sends SIGTSTP to all processes of a group. It could stop a child between fork and
//! exec. Its parent, which waits for the exec and has blocked the signal to act on it later, would
//! never stop as well, and the terminal would hang.
//!
//! So the parent gives these signals a handler that does nothing. A child inherits it, and no such
//! signal stops the child until it executes its program, which resets handlers to the default. The
//! program has missed the signal then, but the parent, where it is pending, has not.

use std::io;

use crate::previous_handler::{PreviousHandler, install, restore_default};
use crate::signals::{STOPS, take};

/// As long as this exists, the [`STOPS`] stop no child of this process that has not executed its
/// program yet.
///
/// They are to be blocked on the calling thread, which is to be the only one, until after this is
/// dropped. Then those that have arrived meanwhile are pending as if another process had sent them:
/// they are to be forwarded, also to programs that the terminal has sent them to, since these may
/// have missed them.
#[derive(Debug)]
pub struct DeferredStops {
    /// Those that had the default action.
    changed: Vec<i32>,
}

impl DeferredStops {
    /// Defers the stops from now on. Signals that are ignored or handled stay so.
    ///
    /// # Errors
    /// If a handler cannot be installed.
    pub fn new() -> io::Result<DeferredStops> {
        let mut deferred = DeferredStops { changed: Vec::new() };
        for number in STOPS.into_iter().filter(|&number| PreviousHandler::of(number).is_default()) {
            // SAFETY: the handler does nothing.
            unsafe { install(number, do_nothing, libc::SA_RESTART, &[])? };
            deferred.changed.push(number);
        }
        Ok(deferred)
    }
}

impl Drop for DeferredStops {
    fn drop(&mut self) {
        for &number in &self.changed {
            restore_default(number);
            if let Ok(true) = take(number) {
                // SAFETY: it only sends a signal, whose action is the default one.
                unsafe { libc::raise(number) };
            }
        }
    }
}

extern "C" fn do_nothing(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;
    use crate::signals::{BlockedSignals, Signal};

    #[test]
    fn a_child_that_was_sent_a_stop_before_it_executes_its_program_does_so_and_its_parent_gets_the_stop() {
        testing::isolated(|| {
            let blocked = BlockedSignals::for_start().unwrap();
            let deferred = DeferredStops::new().unwrap();
            let mut command = Command::new("true");
            blocked.unblock_in(&mut command);
            // SAFETY: `raise` is async-signal-safe, and the handler does nothing.
            let stop = || unsafe { libc::raise(libc::SIGTSTP) };
            // SAFETY: likewise.
            unsafe { command.pre_exec(move || (stop() == 0).then_some(()).ok_or_else(io::Error::last_os_error)) };
            assert!(command.status().unwrap().success());
            stop();
            drop(deferred);
            let stopped = std::iter::from_fn(|| blocked.next().ok()).find(|signal| signal.number != libc::SIGCHLD);
            assert_eq!(stopped, Some(Signal { number: libc::SIGTSTP, from_kernel: false }));
            assert!(STOPS.into_iter().all(|number| PreviousHandler::of(number).is_default()));
        });
    }

    #[test]
    fn a_stop_that_is_ignored_stays_ignored_in_the_program() {
        testing::isolated(|| {
            crate::signals::ignore(libc::SIGTSTP).unwrap();
            let _blocked = BlockedSignals::for_start().unwrap();
            let _deferred = DeferredStops::new().unwrap();
            assert!(Command::new("sh").args(["-c", "kill -TSTP $$"]).status().unwrap().success());
        });
    }
}
