//! Waiting until any atomic word changes, like C++20's `std::atomic::wait`.
//!
//! The word belongs to the caller and has no room for other data. So the number of sleepers and the
//! rule's state are kept in one of a fixed number of sites of the process, chosen by the address of
//! the word. Words with the same site share what the rule has learnt, and may cause needless calls.
//!
//! # The race, and why no wakeup is lost
//!
//! A thread goes to sleep in three steps: (1) it counts itself in the site, (2) it executes a
//! fence, (3) the kernel compares the word with the expected value, and refuses the sleep if they
//! differ. A waking thread (a) has changed the word, (b) executes a fence, (c) reads the count, and
//! calls the kernel unless it is zero. Both fences are sequentially consistent, so one of them is
//! first. If it is the sleeper's, (c) sees the sleeper counted and calls the kernel, which either
//! finds the thread asleep and wakes it, or has not compared yet and will see the changed word. If
//! it is the waker's, (3) sees the changed word.
//!
//! A thread that is woken while the word still has the expected value asks the rule again, and
//! usually goes back to sleep. As in C++, a word that has changed back has not changed.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use policy::Instant;

use crate::deadline::{Deadline, TimedOut};
use crate::protocol::wait_loop::Awaited;
use crate::protocol::wait_state::WaitState;
use crate::statistics::Statistics;
use crate::sync::{self, AtomicU32, Scope};
use crate::waiting::Waiting;

/// Waits until `word` differs from `expected`, and returns its value. All that precedes the store
/// of that value with release is visible.
///
/// A thread that changes the word must call [`wake_one`] or [`wake_all`] afterwards.
///
/// ```
/// # use std::sync::atomic::{AtomicU32, Ordering};
/// # use rowlock_wait::{Waiting, word};
/// let lights = AtomicU32::new(0);
/// std::thread::scope(|scope| {
///     let waiter = scope.spawn(|| word::wait(&lights, 0, &Waiting::ADAPTIVE));
///     lights.store(3, Ordering::Release);
///     word::wake_all(&lights);
///     assert_eq!(waiter.join().unwrap(), 3);
/// });
/// ```
pub fn wait(word: &AtomicU32, expected: u32, waiting: &Waiting) -> u32 {
    loop {
        // Without a deadline, this always succeeds.
        if let Ok(value) = wait_timeout(word, expected, Deadline::NEVER, waiting) {
            return value;
        }
    }
}

/// Like [`wait`], but waits at most until the deadline.
///
/// # Errors
/// If the deadline passes and the word has the expected value.
pub fn wait_timeout(
    word: &AtomicU32,
    expected: u32,
    deadline: impl Into<Deadline>,
    waiting: &Waiting,
) -> Result<u32, TimedOut> {
    let deadline = deadline.into().0;
    let value = word.load(Acquire);
    if value != expected {
        return Ok(value);
    }
    let mut change = Change { word, expected, value };
    site(word).wait_state.wait(&mut change, *waiting, deadline)?;
    Ok(change.value)
}

/// Wakes one thread that sleeps until `word` changes. The caller has changed it. Never blocks.
///
/// If threads wait for different values, the woken one may have to wait on: use [`wake_all`].
pub fn wake_one(word: &AtomicU32) {
    wake(word, 1);
}

/// Wakes all threads that sleep until `word` changes. The caller has changed it. Never blocks.
pub fn wake_all(word: &AtomicU32) {
    wake(word, u32::MAX);
}

/// The counts of all waits on words in this process so far.
pub fn statistics() -> Statistics {
    sites().iter().map(|site| site.wait_state.statistics()).fold(Statistics::default(), Statistics::plus)
}

fn wake(word: &AtomicU32, count: u32) {
    sync::fence(SeqCst);
    if site(word).sleepers.load(Relaxed) > 0 {
        sync::wake_on(word, count, Scope::Process);
    }
}

/// A change of the word.
struct Change<'a> {
    word: &'a AtomicU32,
    expected: u32,
    /// The last value read.
    value: u32,
}

impl Awaited for Change<'_> {
    #[inline]
    fn poll(&mut self) -> bool {
        self.value = self.word.load(Acquire);
        self.value != self.expected
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        let sleepers = &site(self.word).sleepers;
        sleepers.fetch_add(1, Relaxed);
        sync::fence(SeqCst);
        sync::sleep_on(self.word, self.expected, deadline, Scope::Process);
        sleepers.fetch_sub(1, Relaxed);
    }
}

/// The data of the waits on some words, on its own cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Site {
    sleepers: AtomicU32,
    wait_state: WaitState,
}

impl Site {
    sync::const_fn! {
        fn new() -> Site {
            Site { sleepers: AtomicU32::new(0), wait_state: WaitState::new() }
        }
    }
}

fn site(word: &AtomicU32) -> &'static Site {
    let sites = sites();
    // Multiplying spreads adjacent addresses. The upper bits of the product depend on all of them.
    let spread = (std::ptr::from_ref(word).addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &sites[(spread >> 32) as usize % sites.len()]
}

#[cfg(not(loom))]
fn sites() -> &'static [Site] {
    static SITES: [Site; 64] = [const { Site::new() }; 64];
    &SITES
}

#[cfg(loom)]
fn sites() -> &'static [Site] {
    loom::lazy_static! {
        static ref SITES: [Site; 1] = [Site::new()];
    }
    &*SITES
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_are_spread_over_the_sites() {
        let words: Vec<AtomicU32> = (0..1_000).map(AtomicU32::new).collect();
        let mut used: Vec<*const Site> = words.iter().map(|word| std::ptr::from_ref(site(word))).collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), sites().len());
    }
}
