//! Signals, for a process that stands between another one and the world: it takes what was meant for that one, and ends as
//! that one did.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::null_mut;

use rustix::process::{DumpableBehavior, Pid, set_dumpable_behavior};

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Whether the kernel itself has sent it, for a terminal for instance, and not a process.
    pub from_kernel: bool,
}

/// Signals that are held back from the calling thread, to be fetched one by one. They are let through again when this is dropped.
///
/// It is for programs of one thread: what is sent to the process goes to any of its threads that does not hold it back.
/// SIGCHLD, if it was ignored, no longer is while this lives: the kernel would bury children without telling how they ended.
#[derive(Debug)]
pub struct BlockedSignals {
    held: libc::sigset_t,
    before: libc::sigset_t,
    ignored_children: bool,
}

impl BlockedSignals {
    /// Holds these signals back from now on.
    ///
    /// # Errors
    /// When one of the numbers is that of no signal.
    pub fn new(numbers: &[i32]) -> io::Result<BlockedSignals> {
        let held = set(numbers)?;
        let mut before = MaybeUninit::uninit();
        // SAFETY: the first set is a set, and the second has room for one, which is written if there is no error.
        let before = unsafe {
            check(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, before.as_mut_ptr()))?;
            before.assume_init()
        };
        // SAFETY: the default disposition runs no code.
        let children = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        Ok(BlockedSignals { held, before, ignored_children: children == libc::SIG_IGN })
    }

    /// The next of them; blocks until one comes.
    ///
    /// # Errors
    /// None on Linux.
    pub fn next(&self) -> io::Result<Signal> {
        let mut about = MaybeUninit::<libc::siginfo_t>::zeroed();
        loop {
            // SAFETY: the set is a set, and there is room for one `siginfo_t`.
            let number = unsafe { libc::sigwaitinfo(&raw const self.held, about.as_mut_ptr()) };
            if number > 0 {
                // SAFETY: it has been written, and zeros would be valid as well.
                let code = unsafe { about.assume_init_ref() }.si_code;
                return Ok(Signal { number, from_kernel: code > 0 });
            }
            let why = io::Error::last_os_error();
            if why.kind() != io::ErrorKind::Interrupted {
                return Err(why);
            }
        }
    }

    /// Lets the child of `command` have its signals as this process had them before.
    pub fn unblock_in(&self, command: &mut Command) {
        let (before, ignored_children) = (self.before, self.ignored_children);
        let prepare = move || let_through(&before, ignored_children);
        // SAFETY: between fork and exec only async-signal-safe functions may run; `let_through` calls nothing else.
        unsafe {
            command.pre_exec(prepare);
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // The set was one before, so there is no error.
        let _ = let_through(&self.before, self.ignored_children);
    }
}

/// Async-signal-safe.
fn let_through(mask: &libc::sigset_t, ignored_children: bool) -> io::Result<()> {
    if ignored_children {
        // SAFETY: ignoring runs no code; `signal` is async-signal-safe.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
    // SAFETY: the set is a set; `pthread_sigmask` is async-signal-safe.
    check(unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, null_mut()) })
}

/// Ends the calling process by a signal, as if nobody had taken precautions against it, and without a core dump: that is for who died
/// of it first. By a signal that ends nobody it exits with 128 and its number, as shells say it.
pub fn die_of(number: i32) -> ! {
    // Where it fails there are two dumps.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Ok(set) = set(&[number]) {
        // SAFETY: the default disposition runs no code of ours, the set is a set, and nothing is asked for.
        unsafe {
            libc::signal(number, libc::SIG_DFL);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, null_mut());
            libc::raise(number);
        }
    }
    std::process::exit(128_i32.saturating_add(number))
}

/// Ignores a signal from now on, in this process and those that it starts.
///
/// # Errors
/// When there is no such signal, or it cannot be ignored.
pub fn ignore(number: i32) -> io::Result<()> {
    // SAFETY: ignoring runs no code.
    let failed = unsafe { libc::signal(number, libc::SIG_IGN) } == libc::SIG_ERR;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Starts the child of `command` with the default disposition of every signal and with none blocked.
///
/// Without it a child inherits ignored signals, as under `nohup` or in a shell's background.
pub fn restore_defaults_in(command: &mut Command) {
    let prepare = || {
        for number in 1..=libc::SIGRTMAX() {
            // SAFETY: the default disposition runs no code; `signal` is async-signal-safe. Signals
            // that have no other disposition are refused.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
        let mut none = MaybeUninit::uninit();
        // SAFETY: there is room for a set, which is one once it was emptied; both functions are
        // async-signal-safe.
        check(unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), null_mut())
        })
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run; `prepare` calls
    // nothing else and allocates nothing.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Sends a signal to a process. It may be a real-time signal.
///
/// # Errors
/// The kernel's, where there is no such process or signal, or the process is another user's.
pub fn send(process: Pid, number: i32) -> io::Result<()> {
    // SAFETY: numbers are passed, and checked by the kernel.
    let failed = unsafe { libc::kill(process.as_raw_nonzero().get(), number) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The numbers of the real-time signals that programs may use.
pub fn real_time() -> std::ops::RangeInclusive<i32> {
    libc::SIGRTMIN()..=libc::SIGRTMAX()
}

fn set(numbers: &[i32]) -> io::Result<libc::sigset_t> {
    #[cfg(rowlock_canary = "a-set-of-signals-is-too-small")]
    // SAFETY: none, which is what the sanitizer must find.
    unsafe {
        libc::sigemptyset(Box::new(0_u64).as_mut() as *mut u64 as *mut libc::sigset_t);
    }
    let mut set = MaybeUninit::uninit();
    // SAFETY: there is room for a set, and it is one once it was emptied.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for &number in numbers {
        // SAFETY: the set is a set; numbers that are none are refused.
        if unsafe { libc::sigaddset(&raw mut set, number) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(set)
}

/// What functions of threads return.
fn check(error: libc::c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, which is what signals are held back from, and sent to.
    fn alone(test: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(test).join().unwrap());
    }

    fn raise(number: i32) {
        // SAFETY: the signal is held back, so nothing runs.
        assert_eq!(unsafe { libc::raise(number) }, 0);
    }

    #[test]
    fn what_is_held_back_is_fetched() {
        alone(|| {
            let held = BlockedSignals::new(&[libc::SIGUSR1, libc::SIGUSR2]).unwrap();
            raise(libc::SIGUSR2);
            assert_eq!(held.next().unwrap(), Signal { number: libc::SIGUSR2, from_kernel: false });
            // Two at a time: that with the lower number comes first.
            raise(libc::SIGUSR2);
            raise(libc::SIGUSR1);
            assert_eq!([held.next().unwrap().number, held.next().unwrap().number], [libc::SIGUSR1, libc::SIGUSR2]);
        });
    }

    #[test]
    fn a_child_has_its_signals_as_they_were() {
        alone(|| {
            let held = BlockedSignals::new(&[libc::SIGUSR1]).unwrap();
            // The shell must start as this thread is: with the signal blocked.
            let mut command = Command::new("sh");
            command.args(["-c", "kill -USR1 $$; exit 7"]);
            assert_eq!(command.status().unwrap().code(), Some(7), "held back in the child as well");
            held.unblock_in(&mut command);
            assert_eq!(command.status().unwrap().code(), None);
        });
    }

    #[test]
    fn a_child_starts_with_default_dispositions_and_no_blocked_signal() {
        alone(|| {
            let held = BlockedSignals::new(&[libc::SIGUSR1]).unwrap();
            let mut command = Command::new("sh");
            // A shell cannot trap what was ignored when it began.
            command.args(["-c", "trap 'exit 9' USR1; kill -USR1 $$; exit 7"]);
            restore_defaults_in(&mut command);
            assert_eq!(command.status().unwrap().code(), Some(9));
            drop(held);
        });
    }

    #[test]
    fn what_is_no_signal_is_refused() {
        assert!(BlockedSignals::new(&[libc::SIGUSR1, 1_000]).is_err());
        assert!(BlockedSignals::new(&[0]).is_err());
        assert!(ignore(libc::SIGKILL).is_err());
    }
}
