//! What other kernel threads have for a worker: fibers that are to run there.
//!
//! A letter is a fiber. If it is blocked, it is the worker's own, and somebody elsewhere has taken it off the list on which it waited: it is ready from now
//! on. If it has not started, it is to start there.
//!
//! # One word
//! A worker's mail is one word: [nothing](EMPTY); or the address of the newest letter, whose link leads to the next older one; or that the worker
//! sleeps, and how. Whoever has a letter exchanges the word for its address, and what was there tells whether the worker must be awakened. The worker goes to sleep by exchanging
//! "nothing" for "asleep". So there is no moment at which a letter lies there and the worker sleeps without anybody who knows that it must be awakened:
//!
//! * a letter that came before makes the exchange for "asleep" fail, and the worker takes it;
//! * one that comes after finds "asleep" there, and its sender alone has replaced that, so it wakes the worker, once.
//!
//! The kernel compares the word again before the worker sleeps, so a wake-up between the exchange and the sleep is not lost either. The other
//! reasons for which a worker must not sleep (an unstarted fiber that everybody may take, the end of the last [`Remote`](crate::Remote)) are looked at after the exchange, and whoever
//! brings such a thing about does that first and then [nudges](Mail::nudge) who is asleep; both steps are sequentially consistent on both sides, so one of the two sees the other.
//!
//! The links are written before the exchange, which releases them, and read after the worker's own exchange, which acquires: each sender's is in the
//! release sequence of those before it. The model below tries all this.
//!
//! A worker that does not sleep looks at its mail at the points of the fibers that it runs. One that runs a fiber without points for long is [made to look](quiet).

pub(crate) mod quiet;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use self::quiet::{Quiet, SetOff};
use crate::bell::Bell;
use crate::preempt::Ticks;
use crate::sync::{AtomicU64, Ordering, fence, futex};

/// No letter.
const EMPTY: u64 = 0;

/// How a worker sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Until it is awakened: nothing else will.
    ForGood = 1,
    /// For a time at most.
    Timed = 2,
    /// At its descriptors, where its bell wakes it.
    AtDescriptors = 3,
}

/// The addresses of letters are above this.
const ADDRESSES: u64 = 8;

/// What can be sent; links through the letters keep them in order.
pub(crate) trait Letter: Copy {
    fn address(self) -> u64;

    /// # Safety
    /// It is one's address, and that one was sent and not taken yet.
    unsafe fn at(address: u64) -> Self;

    /// Whoever sends it or has taken it alone comes to its link.
    fn link(self, older: u64);

    fn older(self) -> u64;
}

/// A worker's mail; see the module.
pub(crate) struct Mail<T = Ticks> {
    word: AtomicU64,
    bell: OnceLock<Arc<Bell>>,
    pub(crate) quiet: Quiet<T>,
}

impl<T: SetOff> Mail<T> {
    pub(crate) fn new() -> Mail<T> {
        Mail { word: AtomicU64::new(EMPTY), bell: OnceLock::new(), quiet: Quiet::new() }
    }

    /// Sends a letter. The mail must stay for as long as this takes, even if the letter is taken meanwhile.
    pub(crate) fn send<L: Letter>(&self, letter: L) {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            letter.link(if old < ADDRESSES { EMPTY } else { old });
            match self.word.compare_exchange_weak(old, letter.address(), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        if !cfg!(rowlock_canary = "a-letter-wakes-no-worker") {
            self.wake(old);
        }
        if old == EMPTY {
            let _ = self.quiet.disturb();
        }
    }

    /// Wakes the worker if it sleeps. False if it did not, or somebody else does so.
    pub(crate) fn nudge(&self) -> bool {
        let old = self.word.load(Ordering::SeqCst);
        let sleeps = old != EMPTY && old < ADDRESSES;
        let ours = sleeps && self.word.compare_exchange(old, EMPTY, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if ours {
            self.wake(old);
        }
        ours
    }

    fn wake(&self, old: u64) {
        if old == Sleep::AtDescriptors as u64 {
            if let Some(bell) = self.bell.get() {
                bell.ring();
            }
        } else if old != EMPTY && old < ADDRESSES {
            futex::wake(&self.word);
        }
    }

    /// What wakes the worker when it sleeps at its descriptors.
    pub(crate) fn has_bell(&self, bell: &Arc<Bell>) {
        self.bell.get_or_init(|| Arc::clone(bell));
    }

    /// Whether there are letters, for the worker itself.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.word.load(Ordering::Relaxed) != EMPTY
    }

    /// Whether the worker is asleep, and nothing but others will wake it.
    pub(crate) fn sleeps_for_good(&self) -> bool {
        self.word.load(Ordering::SeqCst) == Sleep::ForGood as u64
    }

    /// Takes all letters, oldest first. For the worker itself.
    pub(crate) fn take<L: Letter>(&self, mut each: impl FnMut(L)) {
        let mut newest = self.word.swap(EMPTY, Ordering::Acquire);
        let mut oldest = EMPTY;
        while newest != EMPTY {
            // SAFETY: it was sent, and taken with this exchange.
            let letter = unsafe { L::at(newest) };
            let older = letter.older();
            letter.link(oldest);
            (newest, oldest) = (older, newest);
        }
        while oldest != EMPTY {
            // SAFETY: as above.
            let letter = unsafe { L::at(oldest) };
            oldest = letter.older();
            each(letter);
        }
    }

    /// Says that the worker sleeps. False if there are letters, or `awake` knows another reason why it must not.
    pub(crate) fn lie_down(&self, how: Sleep, awake: impl FnOnce() -> bool) -> bool {
        if self.word.compare_exchange(EMPTY, how as u64, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        fence(Ordering::SeqCst);
        let lies = !awake();
        if !lies {
            self.get_up(how);
        }
        lies
    }

    /// Whether nobody has awakened the worker yet.
    pub(crate) fn lies(&self, how: Sleep) -> bool {
        self.word.load(Ordering::SeqCst) == how as u64
    }

    /// Sleeps until somebody wakes the worker, which has [lain down](Mail::lie_down), or for this time; may end before.
    pub(crate) fn sleep(&self, how: Sleep, time: Option<Duration>) {
        futex::sleep(&self.word, how as u32, time);
        self.get_up(how);
    }

    /// The worker is awake.
    pub(crate) fn get_up(&self, how: Sleep) {
        // If this fails, somebody has awakened it, and maybe left a letter.
        let _ = self.word.compare_exchange(how as u64, EMPTY, Ordering::SeqCst, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod model;
