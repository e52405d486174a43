//! Signals, for a process that acts on behalf of another: it gets its signals, and ends like it.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::{from_ref, null, null_mut};
use std::time::Instant;

use rustix::process::{DumpableBehavior, Pid, set_dumpable_behavior};

use crate::errno;
use crate::identity::Stat;
use crate::previous_handler::PreviousHandler;

/// A signal that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Whether the kernel itself sent it, for example for a terminal, and not a process.
    pub from_kernel: bool,
}

/// The signals that a terminal sends to all processes of its foreground group.
const FROM_TERMINAL: [libc::c_int; 7] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGWINCH];
/// The other signals that are forwarded. Not among them are errors of a process and limits of its
/// own resources.
const OTHERS: [libc::c_int; 11] = [
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGABRT,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGURG,
];

/// The signals that stop a process by default, as those of a terminal. SIGSTOP, which cannot be
/// blocked, is not among them.
pub const STOPS: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// The signals that a process forwards to those on whose behalf it is there.
pub fn forwarded() -> impl Iterator<Item = i32> {
    FROM_TERMINAL.into_iter().chain(OTHERS).chain(real_time())
}

impl Signal {
    /// Whether other processes in the group of this one have not received the signal already.
    pub fn should_forward(self) -> bool {
        // Apart from those of the terminal, the kernel can only send an alarm that was set before
        // this program was executed. It tells the end of a terminal only to the process that leads
        // the session, whose own end it tells to the group.
        let is_for_group = self.from_kernel && FROM_TERMINAL.contains(&self.number);
        !is_for_group || self.number == libc::SIGHUP && leads_session()
    }
}

/// Whether this process leads its session.
fn leads_session() -> bool {
    Stat::of(std::process::id()).is_some_and(|stat| stat.session == stat.pid)
}

/// Signals that are blocked on the calling thread, to be fetched one by one. The previous mask is
/// restored when this is dropped.
///
/// It is for single-threaded programs: a signal sent to the process goes to any of its threads that
/// does not block it. If SIGCHLD was ignored, it is not while this lives: otherwise the kernel
/// would reap children without reporting how they ended.
#[derive(Debug)]
pub struct BlockedSignals {
    blocked: libc::sigset_t,
    before: libc::sigset_t,
    ignored_children: bool,
}

impl BlockedSignals {
    /// Blocks these signals. Fails if one of the numbers is not a signal.
    pub fn new(numbers: &[i32]) -> io::Result<BlockedSignals> {
        let blocked = set(numbers)?;
        let mut before = MaybeUninit::uninit();
        // SAFETY: the first set is initialized, and the second is written unless there is an error.
        let before = unsafe {
            check(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, before.as_mut_ptr()))?;
            before.assume_init()
        };
        // SAFETY: the default disposition runs no code.
        let children = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        Ok(BlockedSignals { blocked, before, ignored_children: children == libc::SIG_IGN })
    }

    /// Blocks the signals that a process forwards to others that it is about to start, and SIGCHLD.
    pub fn for_start() -> io::Result<BlockedSignals> {
        BlockedSignals::new(&forwarded().chain([libc::SIGCHLD]).collect::<Vec<_>>())
    }

    /// As [`for_start`](Self::for_start), for a thread that blocks some already: takes their place,
    /// so that none acts meanwhile.
    pub fn for_start_after(held: Option<BlockedSignals>) -> io::Result<BlockedSignals> {
        let mut signals = BlockedSignals::for_start()?;
        if let Some(held) = held {
            let BlockedSignals { before, ignored_children, .. } = *std::mem::ManuallyDrop::new(held);
            (signals.before, signals.ignored_children) = (before, ignored_children);
        }
        Ok(signals)
    }

    /// Fetches the next signal; blocks until one arrives.
    pub fn next(&self) -> io::Result<Signal> {
        loop {
            if let Some(signal) = fetch(&self.blocked, None)? {
                return Ok(signal);
            }
        }
    }

    /// Fetches the next signal; blocks until one arrives or the deadline has passed, and returns
    /// `None` then. A signal that is there already is fetched even if the deadline has passed.
    pub fn next_until(&self, deadline: Instant) -> io::Result<Option<Signal>> {
        fetch(&self.blocked, Some(deadline))
    }

    /// Lets one of these signals act on this process as if it were not blocked. A stop signal stops
    /// it, unless it is ignored, or the process group is orphaned so that nothing could continue
    /// it. Then this returns when the process continues.
    pub fn act(&self, number: i32) -> io::Result<()> {
        let one = set(&[number])?;
        // SAFETY: the set is initialized. A handler of this program, if there is one, may run at
        // any time anyway.
        unsafe {
            libc::raise(number);
            check(libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const one, null_mut()))?;
            check(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const one, null_mut()))
        }
    }

    /// Restores the previous signal mask of this process in the child of `command`.
    pub fn unblock_in(&self, command: &mut Command) {
        let (before, ignored_children) = (self.before, self.ignored_children);
        let prepare = move || restore(&before, ignored_children);
        // SAFETY: `restore` is async-signal-safe, as required between fork and exec.
        unsafe { command.pre_exec(prepare) };
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // The set was valid before, so there is no error.
        let _ = restore(&self.before, self.ignored_children);
    }
}

/// Fetches this signal, which must be a blocked one, if it is there. Returns whether it was.
pub fn take(number: i32) -> io::Result<bool> {
    Ok(fetch(&set(&[number])?, Some(Instant::now()))?.is_some())
}

/// Fetches the next signal of a set that is blocked; blocks until one arrives or the deadline has
/// passed.
fn fetch(blocked: &libc::sigset_t, deadline: Option<Instant>) -> io::Result<Option<Signal>> {
    let mut about = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        let timeout = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            let seconds = left.as_secs().try_into().unwrap_or(libc::time_t::MAX);
            libc::timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() }
        });
        let timeout = timeout.as_ref().map_or(null(), from_ref);
        // SAFETY: the set is initialized, and there is room for one `siginfo_t`. The timeout is
        // null or refers to one.
        let number = unsafe { libc::sigtimedwait(blocked, about.as_mut_ptr(), timeout) };
        if number > 0 {
            // SAFETY: it has been written, and zeros would be valid as well.
            let code = unsafe { about.assume_init_ref() }.si_code;
            return Ok(Some(Signal { number, from_kernel: code > 0 }));
        }
        let why = io::Error::last_os_error();
        match why.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => return Ok(None),
            _ => return Err(why),
        }
    }
}

/// Restores a signal mask and the disposition of SIGCHLD. Async-signal-safe.
fn restore(mask: &libc::sigset_t, ignored_children: bool) -> io::Result<()> {
    if ignored_children {
        // SAFETY: ignoring runs no code; `signal` is async-signal-safe.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
    // SAFETY: the set is initialized; `pthread_sigmask` is async-signal-safe.
    check(unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, null_mut()) })
}

/// Ends the calling process by a signal with its default action, and without a core dump, which
/// belongs to the process that died of it first. If that does not end it, exits with 128 plus the
/// number, as shells do.
pub fn die_of(number: i32) -> ! {
    // If it fails there are two dumps.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Ok(set) = set(&[number]) {
        // SAFETY: the default disposition runs no code, and the set is initialized.
        unsafe {
            libc::signal(number, libc::SIG_DFL);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, null_mut());
            libc::raise(number);
        }
    }
    std::process::exit(128_i32.saturating_add(number))
}

/// Blocks all signals on the calling thread, so that other threads of this process get them.
pub fn leave_to_other_threads() {
    let mut all = MaybeUninit::uninit();
    // SAFETY: filling initializes the set. The call fails only for an invalid request.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), null_mut());
    }
}

/// Ignores a signal in this process and those that it starts. Fails if that is impossible.
pub fn ignore(number: i32) -> io::Result<()> {
    // SAFETY: ignoring runs no code.
    let failed = unsafe { libc::signal(number, libc::SIG_IGN) } == libc::SIG_ERR;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether this process ignores a signal, as under `nohup`, and not by default.
pub fn is_ignored(number: i32) -> bool {
    PreviousHandler::of(number).is_ignored()
}

/// Starts the child of `command` with the default disposition of every signal and none blocked.
///
/// Otherwise a child inherits ignored signals, as under `nohup` or in the background.
pub fn restore_defaults_in(command: &mut Command) {
    let prepare = || {
        for number in 1..=libc::SIGRTMAX() {
            // SAFETY: the default disposition runs no code; `signal` is async-signal-safe. Signals
            // whose disposition cannot change are refused.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
        let mut none = MaybeUninit::uninit();
        // SAFETY: emptying initializes the set; both functions are async-signal-safe.
        check(unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), null_mut())
        })
    };
    // SAFETY: `prepare` is async-signal-safe, as required between fork and exec.
    unsafe { command.pre_exec(prepare) };
}

/// Sends a signal to a process. It may be a real-time signal. Fails if the process or signal does
/// not exist, or the process is another user's.
pub fn send(process: Pid, number: i32) -> io::Result<()> {
    // SAFETY: the call takes numbers, which the kernel checks.
    errno::check(unsafe { libc::kill(process.as_raw_nonzero().get(), number) })?;
    Ok(())
}

/// The numbers of the real-time signals available to programs.
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
    // SAFETY: there is room for a set, which is initialized by emptying it.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for &number in numbers {
        // SAFETY: the set is initialized; invalid numbers are refused.
        errno::check(unsafe { libc::sigaddset(&raw mut set, number) })?;
    }
    Ok(set)
}

/// Converts the result of a pthread function.
fn check(error: libc::c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a test in a thread of its own, on which signals are blocked and to which they are sent.
    fn alone(test: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(test).join().unwrap());
    }

    fn raise(number: i32) {
        // SAFETY: the signal is blocked, so no handler runs.
        assert_eq!(unsafe { libc::raise(number) }, 0);
    }

    #[test]
    fn blocked_signals_are_fetched() {
        alone(|| {
            let blocked = BlockedSignals::new(&[libc::SIGUSR1, libc::SIGUSR2]).unwrap();
            raise(libc::SIGUSR2);
            assert_eq!(blocked.next().unwrap(), Signal { number: libc::SIGUSR2, from_kernel: false });
            // If two are pending, the one with the lower number comes first.
            raise(libc::SIGUSR2);
            raise(libc::SIGUSR1);
            assert_eq!(
                [blocked.next().unwrap().number, blocked.next().unwrap().number],
                [libc::SIGUSR1, libc::SIGUSR2]
            );
        });
    }

    #[test]
    fn a_wait_with_a_deadline_returns_what_is_there_and_ends_without() {
        alone(|| {
            let blocked = BlockedSignals::new(&[libc::SIGUSR1]).unwrap();
            assert_eq!(blocked.next_until(Instant::now()).unwrap(), None);
            raise(libc::SIGUSR1);
            let usr1 = Some(Signal { number: libc::SIGUSR1, from_kernel: false });
            assert_eq!(blocked.next_until(Instant::now()).unwrap(), usr1);
        });
    }

    #[test]
    fn a_signal_acts_as_if_it_were_not_blocked_and_is_blocked_again() {
        testing::isolated_by(
            |mut this| {
                testing::run(&mut this).expect_signal(libc::SIGUSR2);
            },
            || {
                let blocked = BlockedSignals::new(&[libc::SIGUSR2, libc::SIGURG]).unwrap();
                // Its default action does nothing.
                blocked.act(libc::SIGURG).unwrap();
                raise(libc::SIGURG);
                assert_eq!(blocked.next().unwrap().number, libc::SIGURG);
                blocked.act(libc::SIGUSR2).unwrap();
            },
        );
    }

    #[test]
    fn one_signal_is_taken_before_others() {
        alone(|| {
            let blocked = BlockedSignals::new(&[libc::SIGUSR1, libc::SIGUSR2]).unwrap();
            raise(libc::SIGUSR1);
            raise(libc::SIGUSR2);
            assert_eq!([(); 2].map(|()| take(libc::SIGUSR2).unwrap()), [true, false]);
            assert_eq!(blocked.next().unwrap().number, libc::SIGUSR1);
        });
    }

    #[test]
    fn terminal_signals_are_not_forwarded() {
        let signal = |number, from_kernel| Signal { number, from_kernel };
        assert!(!signal(libc::SIGINT, true).should_forward() && signal(libc::SIGINT, false).should_forward());
        assert!(signal(libc::SIGALRM, true).should_forward() && signal(libc::SIGTERM, false).should_forward());
    }

    #[test]
    fn a_child_gets_the_previous_mask() {
        alone(|| {
            let blocked = BlockedSignals::new(&[libc::SIGUSR1]).unwrap();
            // The shell must start with the mask of this thread: with the signal blocked.
            let mut command = Command::new("sh");
            command.args(["-c", "kill -USR1 $$; exit 7"]);
            assert_eq!(command.status().unwrap().code(), Some(7), "blocked in the child as well");
            blocked.unblock_in(&mut command);
            assert_eq!(command.status().unwrap().code(), None);
        });
    }

    #[test]
    fn a_child_starts_with_default_dispositions_and_no_blocked_signal() {
        alone(|| {
            let blocked = BlockedSignals::new(&[libc::SIGUSR1]).unwrap();
            let mut command = Command::new("sh");
            // A shell cannot trap a signal that was ignored when it started.
            command.args(["-c", "trap 'exit 9' USR1; kill -USR1 $$; exit 7"]);
            restore_defaults_in(&mut command);
            assert_eq!(command.status().unwrap().code(), Some(9));
            drop(blocked);
        });
    }

    #[test]
    fn an_ignored_signal_is_told_from_others() {
        testing::isolated(|| {
            assert!(!is_ignored(libc::SIGUSR1));
            ignore(libc::SIGUSR1).unwrap();
            assert!(is_ignored(libc::SIGUSR1) && !is_ignored(libc::SIGUSR2) && !is_ignored(1_000));
        });
    }

    #[test]
    fn an_invalid_signal_is_refused() {
        assert!(BlockedSignals::new(&[libc::SIGUSR1, 1_000]).is_err());
        assert!(BlockedSignals::new(&[0]).is_err());
        assert!(ignore(libc::SIGKILL).is_err());
    }
}
