//! A worker's inbox: fibers that other kernel threads make ready on this worker.
//!
//! An item is a fiber. If it is blocked, it belongs to the worker, and a thread elsewhere has taken
//! it off the list on which it waited: it becomes ready. If it has not started, it will start
//! there.
//!
//! # One word
//! An inbox is one word: [empty](EMPTY); or the address of the newest item, whose link leads to the
//! next older one; or that the worker sleeps, and how. A sender exchanges the word for the address
//! of its item, and the old value tells it whether it must wake the worker. The worker goes to
//! sleep by exchanging "empty" for "asleep". So it never sleeps beside an item without a sender
//! that knows that it must wake the worker:
//!
//! * An item that came before makes the exchange for "asleep" fail, and the worker takes it.
//! * The sender of an item that comes after finds "asleep" there. Only this sender has replaced it,
//!   so it wakes the worker, once.
//!
//! The kernel compares the word again before the worker sleeps, so a wakeup between the exchange
//! and the sleep is not lost either. There are other reasons for which a worker must not sleep: an
//! unstarted fiber that any worker may take, the end of the last [`Remote`](crate::Remote). The
//! worker checks them after the exchange. A thread that brings such a reason about does that first,
//! and then [wakes a sleeper](Inbox::wake_if_asleep). Both steps are sequentially consistent on
//! both sides, so one of the two sees the other.
//!
//! # Interrupted fibers
//! Some items are sent only to a worker that sleeps, and that can take them at once: fibers that
//! were [interrupted outside the runtime](crate::moving). It says that it can by a bit of the word.
//! The sender replaces exactly this word, so these items are the oldest ones in the inbox, and the
//! worker does nothing for which it could wait before it takes them. The new word says that they
//! are there, as long as they are: another worker takes them only if it can do the same.
//!
//! The links are written before the exchange, which releases them, and read after the worker's own
//! exchange, which acquires them: each sender's exchange is in the release sequence of those before
//! it. The model below explores all this.
//!
//! A worker that is awake looks at its inbox at the safepoints of the fibers that it runs. If a
//! fiber reaches no safepoint for long, a sender [requests a tick](tick_request).

pub(crate) mod tick_request;

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use self::tick_request::{FireTimer, TickRequest};
use crate::preempt::ticks::Ticks;
use crate::sync::{AtomicU64, Ordering, fence, futex};

const EMPTY: u64 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Until another thread wakes it: nothing else will.
    ForGood = 1,
    Timed = 2,
    /// At its descriptors, where its eventfd wakes it.
    AtDescriptors = 3,
}

/// The word of a worker that sleeps has this bit, too, if it can take interrupted fibers.
const TAKES_INTERRUPTED: u64 = 4;

/// The address in the word has this bit as well, if there are interrupted fibers in the inbox.
const HAS_INTERRUPTED: u64 = 1;

/// The addresses of items, which are multiples of this, are not below it.
const ADDRESSES: u64 = 8;

/// An item that can be sent; links through the items keep them in order.
pub(crate) trait InboxItem: Copy {
    fn address(self) -> u64;

    /// # Safety
    /// It is the address of an item that was sent and has not been taken.
    unsafe fn at(address: u64) -> Self;

    /// Only the sender, or the worker that has taken the item, touches its link.
    fn link(self, older: u64);

    fn older(self) -> u64;
}

/// A worker's inbox; see the module.
pub(crate) struct Inbox<T = Ticks> {
    word: AtomicU64,
    /// [`TAKES_INTERRUPTED`] or 0. Only the worker itself changes it.
    takes: AtomicU64,
    /// Becomes readable with each wakeup of a worker that sleeps at its descriptors. It is never
    /// read: the worker waits for the event, not for the count.
    eventfd: OnceLock<OwnedFd>,
    pub(crate) tick_request: TickRequest<T>,
}

impl<T: FireTimer> Inbox<T> {
    pub(crate) fn new() -> Inbox<T> {
        Inbox {
            word: AtomicU64::new(EMPTY),
            takes: AtomicU64::new(0),
            eventfd: OnceLock::new(),
            tick_request: TickRequest::new(),
        }
    }

    /// Sends an item. The inbox must exist until this returns, even if the worker takes the item
    /// earlier.
    pub(crate) fn send<L: InboxItem>(&self, item: L) {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            item.link(address(old));
            let new = item.address() | interrupted(old);
            match self.word.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        if !cfg!(rowlock_canary = "a-letter-wakes-no-worker") {
            self.wake(old);
        }
        if old == EMPTY {
            let _ = self.tick_request.fire();
        }
    }

    /// Wakes the worker if it sleeps. Returns false if it does not, or if another thread wakes it.
    pub(crate) fn wake_if_asleep(&self) -> bool {
        let old = self.word.load(Ordering::SeqCst);
        let ours =
            is_asleep(old) && self.word.compare_exchange(old, EMPTY, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if ours {
            self.wake(old);
        }
        ours
    }

    fn wake(&self, old: u64) {
        if !is_asleep(old) {
            // It is awake, or another thread has woken it.
        } else if old & !TAKES_INTERRUPTED == Sleep::AtDescriptors as u64 {
            if let Some(eventfd) = self.eventfd.get() {
                // It fails only after 2^64 wakeups, and then the descriptor is readable anyway.
                let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
            }
        } else {
            futex::wake(&self.word);
        }
    }

    /// Says whether the worker can take interrupted fibers when it sleeps. For the worker itself.
    pub(crate) fn set_takes_interrupted(&self, takes: bool) {
        self.takes.store(if takes { TAKES_INTERRUPTED } else { 0 }, Ordering::Relaxed);
    }

    /// Whether the worker sleeps and can take interrupted fibers.
    pub(crate) fn takes_interrupted(&self) -> bool {
        takes_interrupted(self.word.load(Ordering::Relaxed))
    }

    /// Sends items, the oldest first, if the worker sleeps and can take interrupted fibers. It
    /// takes them before it does anything for which it could wait. Returns false if it does not
    /// sleep, or there are no items.
    pub(crate) fn send_to_taker<L: InboxItem>(&self, items: impl Iterator<Item = L>) -> bool {
        let old = self.word.load(Ordering::Relaxed);
        let newest = items.fold(EMPTY, |older, item| {
            item.link(older);
            item.address()
        });
        let sends = newest != EMPTY
            && takes_interrupted(old)
            && self.word.compare_exchange(old, newest | HAS_INTERRUPTED, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if sends {
            self.wake(old);
        }
        sends
    }

    /// What wakes the worker when it sleeps at its descriptors, made if there is none.
    pub(crate) fn make_eventfd(&self) -> std::io::Result<&OwnedFd> {
        if let Some(eventfd) = self.eventfd.get() {
            return Ok(eventfd);
        }
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(self.eventfd.get_or_init(|| made))
    }

    /// Whether there are items. For the worker itself.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.word.load(Ordering::Relaxed) != EMPTY
    }

    /// Whether the worker is asleep.
    pub(crate) fn is_asleep(&self) -> bool {
        is_asleep(self.word.load(Ordering::Relaxed))
    }

    /// Whether the worker is asleep until another thread wakes it.
    pub(crate) fn is_asleep_for_good(&self) -> bool {
        self.word.load(Ordering::SeqCst) & !TAKES_INTERRUPTED == Sleep::ForGood as u64
    }

    /// Takes all items, oldest first. For the worker itself.
    pub(crate) fn take<L: InboxItem>(&self, each: impl FnMut(L)) {
        visit_oldest_first(self.word.swap(EMPTY, Ordering::Acquire), each);
    }

    /// The same for another worker, if this one is awake. It takes no items if there are
    /// interrupted fibers among them, unless it can take these.
    pub(crate) fn steal<L: InboxItem>(&self, takes_interrupted: bool, each: impl FnMut(L)) {
        let newest = self.word.load(Ordering::Relaxed);
        if newest >= ADDRESSES
            && (takes_interrupted || interrupted(newest) == 0)
            && self.word.compare_exchange(newest, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            visit_oldest_first(newest, each);
        }
    }

    /// Announces that the worker sleeps, and calls `block`, which returns at the latest when
    /// another thread wakes the worker. Does not block if there are items, or if `awake` returns
    /// true, which is called when other threads already see the worker as asleep.
    pub(crate) fn sleep(&self, how: Sleep, awake: impl FnOnce() -> bool, block: impl FnOnce()) {
        let asleep = self.asleep(how);
        if self.word.compare_exchange(EMPTY, asleep, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return;
        }
        fence(Ordering::SeqCst);
        if !awake() {
            block();
        }
        // If this fails, another thread has woken it, and may have left an item.
        let _ = self.word.compare_exchange(asleep, EMPTY, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// The word while the worker sleeps in this way.
    fn asleep(&self, how: Sleep) -> u64 {
        how as u64 | self.takes.load(Ordering::Relaxed)
    }

    /// Blocks the worker, which [sleeps](Inbox::sleep) elsewhere than at its descriptors.
    pub(crate) fn block(&self, how: Sleep, time: Option<Duration>) {
        futex::sleep(&self.word, self.asleep(how) as u32, time);
    }
}

fn is_asleep(word: u64) -> bool {
    word != EMPTY && word < ADDRESSES
}

/// The newest item, if the word leads to one.
fn address(word: u64) -> u64 {
    if word < ADDRESSES { EMPTY } else { word & !HAS_INTERRUPTED }
}

/// [`HAS_INTERRUPTED`], if the word leads to an item and has it.
fn interrupted(word: u64) -> u64 {
    if word < ADDRESSES { 0 } else { word & HAS_INTERRUPTED }
}

fn takes_interrupted(word: u64) -> bool {
    is_asleep(word) && word & TAKES_INTERRUPTED != 0
}

/// Visits the items of a list that was taken, oldest first.
fn visit_oldest_first<L: InboxItem>(word: u64, mut each: impl FnMut(L)) {
    let (mut newest, mut oldest) = (address(word), EMPTY);
    while newest != EMPTY {
        // SAFETY: it was sent, and taken with the exchange of the word.
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

#[cfg(all(test, loom))]
mod model;
