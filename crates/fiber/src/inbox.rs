//! What other kernel threads have for a worker: fibers that are to run there.
//!
//! A item is a fiber. If it is blocked, it is the worker's own, and somebody elsewhere has taken it off the list on which it waited: it is ready from now
//! on. If it has not started, it is to start there.
//!
//! # One word
//! A worker's inbox is one word: [nothing](EMPTY); or the address of the newest item, whose link leads to the next older one; or that the worker
//! sleeps, and how. Whoever has a item exchanges the word for its address, and what was there tells whether the worker must be awakened. The worker goes to sleep by exchanging
//! "nothing" for "asleep". So there is no moment at which a item lies there and the worker sleeps without anybody who knows that it must be awakened:
//!
//! * a item that came before makes the exchange for "asleep" fail, and the worker takes it;
//! * one that comes after finds "asleep" there, and its sender alone has replaced that, so it wakes the worker, once.
//!
//! The kernel compares the word again before the worker sleeps, so a wake-up between the exchange and the sleep is not lost either. The other
//! reasons for which a worker must not sleep (an unstarted fiber that everybody may take, the end of the last [`Remote`](crate::Remote)) are looked at after the exchange, and whoever
//! brings such a thing about does that first and then [nudges](Inbox::wake_if_asleep) who is asleep; both steps are sequentially consistent on both sides, so one of the two sees the other.
//!
//! The links are written before the exchange, which releases them, and read after the worker's own exchange, which acquires: each sender's is in the
//! release sequence of those before it. The model below tries all this.
//!
//! A worker that does not sleep looks at its inbox at the points of the fibers that it runs. One that runs a fiber without points for long is [made to look](stopped_timer).

pub(crate) mod stopped_timer;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use self::stopped_timer::{FireTimer, StoppedTimer};
use crate::eventcount::EventCount;
use crate::preempt::Ticks;
use crate::sync::{AtomicU64, Ordering, fence, futex};

/// No item.
const EMPTY: u64 = 0;

/// How a worker sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Until it is awakened: nothing else will.
    ForGood = 1,
    /// For a time at most.
    Timed = 2,
    /// At its descriptors, where its eventcount wakes it.
    AtDescriptors = 3,
}

/// The addresses of items are above this.
const ADDRESSES: u64 = 8;

/// What can be sent; links through the items keep them in order.
pub(crate) trait InboxItem: Copy {
    fn address(self) -> u64;

    /// # Safety
    /// It is one's address, and that one was sent and not taken yet.
    unsafe fn at(address: u64) -> Self;

    /// Whoever sends it or has taken it alone comes to its link.
    fn link(self, older: u64);

    fn older(self) -> u64;
}

/// A worker's inbox; see the module.
pub(crate) struct Inbox<T = Ticks> {
    word: AtomicU64,
    eventcount: OnceLock<Arc<EventCount>>,
    pub(crate) stopped_timer: StoppedTimer<T>,
}

impl<T: FireTimer> Inbox<T> {
    pub(crate) fn new() -> Inbox<T> {
        Inbox { word: AtomicU64::new(EMPTY), eventcount: OnceLock::new(), stopped_timer: StoppedTimer::new() }
    }

    /// Sends a item. The inbox must stay for as long as this takes, even if the item is taken meanwhile.
    pub(crate) fn send<L: InboxItem>(&self, item: L) {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            item.link(if old < ADDRESSES { EMPTY } else { old });
            match self.word.compare_exchange_weak(old, item.address(), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        if !cfg!(rowlock_canary = "a-item-wakes-no-worker") {
            self.wake(old);
        }
        if old == EMPTY {
            let _ = self.stopped_timer.fire_if_stopped();
        }
    }

    /// Wakes the worker if it sleeps. False if it did not, or somebody else does so.
    pub(crate) fn wake_if_asleep(&self) -> bool {
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
            if let Some(eventcount) = self.eventcount.get() {
                eventcount.notify();
            }
        } else if old != EMPTY && old < ADDRESSES {
            futex::wake(&self.word);
        }
    }

    /// What wakes the worker when it sleeps at its descriptors.
    pub(crate) fn set_eventcount(&self, eventcount: &Arc<EventCount>) {
        self.eventcount.get_or_init(|| Arc::clone(eventcount));
    }

    /// Whether there are items, for the worker itself.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.word.load(Ordering::Relaxed) != EMPTY
    }

    /// Whether the worker is asleep, and nothing but others will wake it.
    pub(crate) fn is_asleep_for_good(&self) -> bool {
        self.word.load(Ordering::SeqCst) == Sleep::ForGood as u64
    }

    /// Takes all items, oldest first. For the worker itself.
    pub(crate) fn take<L: InboxItem>(&self, mut each: impl FnMut(L)) {
        let mut newest = self.word.swap(EMPTY, Ordering::Acquire);
        let mut oldest = EMPTY;
        while newest != EMPTY {
            // SAFETY: it was sent, and taken with this exchange.
            let item = unsafe { L::at(newest) };
            let older = item.older();
            item.link(oldest);
            (newest, oldest) = (older, newest);
        }
        while oldest != EMPTY {
            // SAFETY: as above.
            let item = unsafe { L::at(oldest) };
            oldest = item.older();
            each(item);
        }
    }

    /// Says that the worker sleeps. False if there are items, or `awake` knows another reason why it must not.
    pub(crate) fn prepare_to_sleep(&self, how: Sleep, awake: impl FnOnce() -> bool) -> bool {
        if self.word.compare_exchange(EMPTY, how as u64, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        fence(Ordering::SeqCst);
        let may_sleep = !awake();
        if !may_sleep {
            self.stop_sleeping(how);
        }
        may_sleep
    }

    /// Whether nobody has awakened the worker yet.
    pub(crate) fn is_sleeping(&self, how: Sleep) -> bool {
        self.word.load(Ordering::SeqCst) == how as u64
    }

    /// Sleeps until somebody wakes the worker, which has [lain down](Inbox::prepare_to_sleep), or for this time; may end before.
    pub(crate) fn sleep(&self, how: Sleep, time: Option<Duration>) {
        futex::sleep(&self.word, how as u32, time);
        self.stop_sleeping(how);
    }

    /// The worker is awake.
    pub(crate) fn stop_sleeping(&self, how: Sleep) {
        // If this fails, somebody has awakened it, and maybe left a item.
        let _ = self.word.compare_exchange(how as u64, EMPTY, Ordering::SeqCst, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod model;
