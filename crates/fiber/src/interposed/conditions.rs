//! Condition variables of the C library.
//!
//! A fiber that waits is in a [table](super::table), and the C library does not know of it. The
//! fiber unlocks the mutex when it is listed, and locks it again as any other. A signal first wakes
//! fibers there, and then threads in the C library. The thread that signals has had the mutex since
//! the fiber unlocked it, or the fiber has seen before why it signals, so no fiber is missed.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use libc::{ETIMEDOUT, c_int, clockid_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t, timespec};

use super::locks::{ahead, unlock_quietly, wake_for};
use super::table::{Key, Table};
use super::{Outcome, in_fiber, interposed};
use crate::fiber_thread;
use crate::time;
use crate::waitable::Woken;

static CONDITIONS: Table = Table::new("a condition variable of the C library");

const WORDS: usize = size_of::<pthread_cond_t>() / size_of::<u32>();

/// Where a condition variable says what it was created with.
#[derive(Clone, Copy)]
struct Attributes {
    word: usize,
    is_shared: u32,
    is_monotonic: u32,
}

impl Attributes {
    /// Finds this out by comparing condition variables. `None` if they differ in more than a word.
    fn find() -> Option<Attributes> {
        let plain = create(|_| 0)?;
        let differs = |other: [u32; WORDS]| {
            let mut all = (0..WORDS).filter(|word| other[*word] != plain[*word]);
            all.next().filter(|_| all.next().is_none()).map(|word| (word, other[word] ^ plain[word]))
        };
        // SAFETY: the attributes exist.
        let (shared, monotonic) = unsafe {
            let shared = create(|new| libc::pthread_condattr_setpshared(new, libc::PTHREAD_PROCESS_SHARED))?;
            (differs(shared)?, differs(create(|new| libc::pthread_condattr_setclock(new, libc::CLOCK_MONOTONIC))?)?)
        };
        let found = Attributes { word: shared.0, is_shared: shared.1, is_monotonic: monotonic.1 };
        (shared.0 == monotonic.0 && shared.1 & monotonic.1 == 0).then_some(found)
    }

    /// Whether a condition variable is for other processes as well, and the clock of its times.
    /// `None` if that is not known.
    ///
    /// # Safety
    /// The pointer is valid.
    unsafe fn of(condition: *mut pthread_cond_t) -> Option<(bool, clockid_t)> {
        static ALL: OnceLock<Option<Attributes>> = OnceLock::new();
        let all = (*ALL.get_or_init(Attributes::find))?;
        // SAFETY: it has so many words, and the C library changes this one by atomic operations.
        let word = unsafe { AtomicU32::from_ptr(condition.cast::<u32>().add(all.word)) }.load(Relaxed);
        let is_monotonic = word & all.is_monotonic != 0;
        let clock = if is_monotonic { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME };
        Some((word & all.is_shared != 0, clock))
    }
}

/// The words of a new condition variable with these attributes.
fn create(set: impl FnOnce(*mut pthread_condattr_t) -> c_int) -> Option<[u32; WORDS]> {
    // SAFETY: zeros are memory for both, which are destroyed before they are gone. Other threads
    // do not know of them.
    unsafe {
        let (mut new, mut attributes) = (std::mem::zeroed::<pthread_cond_t>(), std::mem::zeroed());
        let is_created = libc::pthread_condattr_init(&raw mut attributes) == 0
            && set(&raw mut attributes) == 0
            && libc::pthread_cond_init(&raw mut new, &raw const attributes) == 0;
        let words = (&raw const new).cast::<[u32; WORDS]>().read();
        libc::pthread_condattr_destroy(&raw mut attributes);
        libc::pthread_cond_destroy(&raw mut new);
        is_created.then_some(words)
    }
}

/// # Safety
/// As for `pthread_cond_clockwait`, but for the clock and the time, of which there may be none: the
/// condition variable says which clock it is then.
unsafe fn wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: Option<clockid_t>,
    until: Option<*const timespec>,
) -> Option<Outcome> {
    if !fiber_thread::is_outside_runtime() {
        return None;
    }
    // SAFETY: the caller's promise.
    let (is_shared, own_clock) = unsafe { Attributes::of(condition) }?;
    if is_shared {
        return None;
    }
    let deadline = match until {
        // SAFETY: likewise.
        Some(until) => Some(time::after(unsafe { ahead((clock.unwrap_or(own_clock), until)) }?)),
        None => None,
    };
    let mut result = 0;
    let woken = in_fiber(|here| {
        let unlock = || {
            // SAFETY: likewise. It does not wait.
            result = unsafe { unlock_quietly(mutex) };
            result == 0
        };
        Some(CONDITIONS.wait(here, Key::at(condition), unlock, || wake_for(here, mutex), deadline))
    })?;
    // An orphaned fiber returns as well: a wait may end without a signal.
    if let Some(woken) = woken {
        // SAFETY: likewise.
        result = unsafe { libc::pthread_mutex_lock(mutex) };
        if result == 0 && woken == Woken::TimedOut {
            result = ETIMEDOUT;
        }
    }
    Some(Ok(result.into()))
}

interposed! {
    fn pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int =
        wait(condition, mutex, None, None);
    fn pthread_cond_timedwait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, until: *const timespec) -> c_int =
        wait(condition, mutex, None, Some(until));
    fn pthread_cond_clockwait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, until: *const timespec) -> c_int =
        wait(condition, mutex, Some(clock), Some(until));
    fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int =
        (CONDITIONS.wake(Key::at(condition), 1) > 0).then_some(Ok(0));
    fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int = {
        CONDITIONS.wake(Key::at(condition), u32::MAX);
        None
    };
}
