//! The words of a mutex. [`crate::mutex`] describes the protocol.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use policy::waiting::Running;
use policy::{Instant, Span};

use crate::deadline::TimedOut;
use crate::protocol::wait_loop::Awaited;
use crate::protocol::wait_state::WaitState;
use crate::sync::{self, AtomicU32, Futex, Scope};
use crate::waiting::Waiting;

/// The mutex is held.
const HELD: u32 = 1;
/// A thread sleeps, or is about to.
const SLEEPERS: u32 = 2;
/// A thread polls the mutex, and will acquire it, or clear this bit before it sleeps.
const SPINNER: u32 = 4;
/// One more release past sleepers, for the spinner.
const PASSED: u32 = 8;

/// How often in a row sleepers may be passed over.
const MAX_PASSED: u32 = if cfg!(loom) { PASSED } else { 64 * PASSED };

/// How long a sleeper relies on the spinner, each time. The spinner may be preempted for long. The
/// child of a fork has the word of its parent, but not the thread that spins.
const SPINNER_TIMEOUT: Span = Span::from_millis(5);

/// The longest pause between two polls, in processor pauses.
const LONGEST_PAUSE: u32 = if cfg!(loom) { 1 } else { 32 };

/// The memory of a mutex: without pointers, and valid as zeros, when it is free.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawMutex {
    pub(crate) wait_state: WaitState,
    /// The number of its owner's [CPU clock](sync::own_clock). Zero if no owner has published it.
    owner: AtomicU32,
    /// The last field, so that it lies beside the guarded value.
    word: Futex,
}

impl RawMutex {
    sync::const_fn! {
        pub(crate) fn new() -> RawMutex {
            RawMutex { wait_state: WaitState::new(), owner: AtomicU32::new(0), word: Futex::new(AtomicU32::new(0)) }
        }
    }

    /// Acquires the mutex if it is free. Returns whether it was.
    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        let word = self.word.word();
        let mut seen = match word.compare_exchange(0, HELD, Acquire, Relaxed) {
            Ok(_) => return true,
            Err(seen) => seen,
        };
        while seen & HELD == 0 {
            match word.compare_exchange_weak(seen, seen | HELD, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(actual) => seen = actual,
            }
        }
        false
    }

    /// Waits until it has the mutex, at most until the deadline.
    #[inline]
    pub(crate) fn lock(&self, waiting: &Waiting, deadline: Option<Instant>) -> Result<(), TimedOut> {
        if self.word.word().compare_exchange(0, HELD, Acquire, Relaxed).is_ok() {
            return Ok(());
        }
        self.lock_contended(waiting, deadline)
    }

    #[cold]
    fn lock_contended(&self, waiting: &Waiting, deadline: Option<Instant>) -> Result<(), TimedOut> {
        let mut attempt = self.attempt();
        if attempt.poll() {
            return Ok(());
        }
        self.wait_state.wait(&mut attempt, *waiting, deadline).inspect_err(|_| attempt.give_up())
    }

    /// An attempt to acquire the mutex. After a failed wait, [`LockAttempt::give_up`] must follow.
    pub(crate) const fn attempt(&self) -> LockAttempt<'_> {
        LockAttempt { mutex: self, is_spinner: false, slept: false, pause: 1 }
    }

    /// Lets waiters find out whether the caller runs, for rules that ask. It holds the mutex.
    pub(crate) fn publish_owner(&self) {
        self.owner.store(sync::own_clock(), Relaxed);
    }

    /// Releases the mutex. The caller holds it.
    #[inline]
    pub(crate) fn unlock(&self) {
        let release = if cfg!(rowlock_canary = "a-mutex-unlocks-relaxed") { Relaxed } else { Release };
        if self.word.word().compare_exchange(HELD, 0, release, Relaxed).is_err() {
            self.unlock_contended();
        }
    }

    #[cold]
    fn unlock_contended(&self) {
        let release = |seen: u32| match seen & SLEEPERS {
            0 => (seen & !HELD, false),
            _ if seen & SPINNER != 0 && seen < MAX_PASSED => ((seen & !HELD) + PASSED, false),
            _ => (seen & SPINNER, true),
        };
        let seen = self.word.word().fetch_update(Release, Relaxed, |seen| Some(release(seen).0));
        if seen.is_ok_and(|seen| release(seen).1) {
            self.word.wake(1, Scope::Process);
        }
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.word.word().load(Relaxed) & HELD != 0
    }
}

/// An attempt of one thread to acquire the mutex.
pub(crate) struct LockAttempt<'a> {
    mutex: &'a RawMutex,
    /// Whether this thread has set the spinner bit.
    is_spinner: bool,
    /// Whether it has slept: then it may have been woken in place of others that still sleep.
    slept: bool,
    /// The length of its next pause.
    pause: u32,
}

impl LockAttempt<'_> {
    /// The word after this thread acquires the mutex or goes to sleep, except for the bit that says
    /// so: it no longer spins, and keeps the sleepers bit for the others.
    fn after(&self, seen: u32) -> u32 {
        let without_spinner = if self.is_spinner { seen & !SPINNER } else { seen };
        if self.slept { without_spinner | SLEEPERS } else { without_spinner }
    }

    /// Abandons the attempt, although the thread may have been woken for it.
    pub(crate) fn give_up(&self) {
        // If the mutex is held, its owner will wake a sleeper. Otherwise this thread does.
        let is_free = |seen| seen & HELD == 0;
        let give_up = |seen| if is_free(seen) { self.after(seen) & SPINNER } else { self.after(seen) };
        let seen = self.mutex.word.word().fetch_update(Relaxed, Relaxed, |seen| Some(give_up(seen)));
        if seen.is_ok_and(|seen| is_free(seen) && self.after(seen) & SLEEPERS != 0) {
            self.mutex.word.wake(1, Scope::Process);
        }
    }
}

impl Awaited for LockAttempt<'_> {
    #[inline]
    fn poll(&mut self) -> bool {
        let acquire = |seen| (seen & HELD == 0).then(|| self.after(seen) | HELD);
        self.mutex.word.word().fetch_update(Acquire, Relaxed, acquire).is_ok()
    }

    fn pause(&mut self) -> u32 {
        if !self.is_spinner {
            let before = self.mutex.word.word().fetch_or(SPINNER, Relaxed);
            self.is_spinner = before & SPINNER == 0;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        (0..pause).for_each(|_| sync::spin_loop());
        pause
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        let word = self.mutex.word.word();
        let mut seen = word.load(Relaxed);
        while seen & HELD != 0 {
            let next = self.after(seen) | SLEEPERS;
            if next == seen {
                break;
            }
            match word.compare_exchange_weak(seen, next, Relaxed, Relaxed) {
                Ok(_) => seen = next,
                Err(actual) => {
                    seen = actual;
                    continue;
                }
            }
            break;
        }
        if seen & HELD == 0 {
            return;
        }
        (self.is_spinner, self.slept, self.pause) = (false, true, 1);
        let until = if seen & SPINNER == 0 {
            deadline
        } else {
            let spinner_deadline = sync::now() + SPINNER_TIMEOUT;
            Some(deadline.map_or(spinner_deadline, |deadline| deadline.min(spinner_deadline)))
        };
        self.mutex.word.sleep(seen, until, Scope::Process);
    }

    fn running(&mut self) -> Running {
        match sync::is_running(self.mutex.owner.load(Relaxed)) {
            Some(true) => Running::All,
            Some(false) => Running::NotAll,
            None => Running::Unknown,
        }
    }
}
