//! Thread slots: the parties of threads that use a barrier without a party.
//!
//! The C interface uses barriers like that. But a rule needs to know which parties are missing, and
//! to remember what it has learnt. So each thread that uses a barrier gets a number of the team, as
//! long as one is free, and keeps it until the thread ends. Additional threads are anonymous.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};

use sys::per_thread::PerThread;

use crate::objects::barrier::{Arrival, Barrier, Party};

/// A barrier and its free numbers.
pub struct ThreadSlots {
    barrier: Barrier,
    free: Mutex<Vec<u32>>,
    /// The number of parties that have left the team.
    left: AtomicU32,
    /// Whether threads will still use the barrier.
    in_use: AtomicBool,
}

/// The slot of one thread at one barrier.
///
/// It shares the ownership of the barrier, so its creator may drop it while other threads leave.
pub struct ThreadSlot {
    /// Borrows from the barrier in `slots`. It precedes `slots`, so it is dropped first.
    party: Option<Party<'static>>,
    /// `None` if the thread is anonymous.
    number: Option<u32>,
    slots: Arc<ThreadSlots>,
}

/// The slots of each thread. The last one used is at the end.
static OWN: PerThread<RefCell<Vec<ThreadSlot>>> = PerThread::new();

impl ThreadSlots {
    /// Creates a slot for each party of the barrier.
    pub fn new(barrier: Barrier) -> ThreadSlots {
        let free = (0..barrier.parties()).rev().collect();
        ThreadSlots { barrier, free: Mutex::new(free), left: AtomicU32::new(0), in_use: AtomicBool::new(true) }
    }

    /// The barrier.
    pub fn barrier(&self) -> &Barrier {
        &self.barrier
    }

    /// Declares that no thread will use the barrier any more. Threads with a slot drop it later.
    pub fn close(&self) {
        self.in_use.store(false, Relaxed);
    }
}

impl ThreadSlot {
    /// The slot of the calling thread until it ends. An anonymous one if none is free.
    ///
    /// The first slot of a thread allocates memory. Without it, the thread may get another number
    /// each time.
    pub fn of_current_thread(slots: &Arc<ThreadSlots>) -> ThreadSlot {
        let kept = OWN.with(|own| {
            let mut own = own.try_borrow_mut().ok()?;
            let at = own.iter().rposition(|slot| Arc::ptr_eq(&slot.slots, slots))?;
            Some(own.swap_remove(at))
        });
        // A nested wait of the same thread, as in a signal handler, does not find the slot.
        kept.flatten().unwrap_or_else(|| ThreadSlot::assign(slots.clone()))
    }

    /// Assigns a free number, or none.
    fn assign(slots: Arc<ThreadSlots>) -> ThreadSlot {
        let number = slots.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // SAFETY: the barrier is in an `Arc`, so it does not move, and this slot keeps the `Arc`.
        // The order of the fields drops the borrow first, and it never leaves the slot.
        let barrier = unsafe { &*std::ptr::from_ref(&slots.barrier) };
        let party = number.map_or_else(|| barrier.anonymous(), |number| barrier.party(number));
        ThreadSlot { party: Some(party), number, slots }
    }

    /// Calls `act` with this party, and keeps the slot. Returns `None` if the party has left.
    pub fn with<R>(mut self, act: impl FnOnce(&mut Party<'_>, &Barrier) -> R) -> Option<R> {
        let result = self.party.as_mut().map(|party| act(party, &self.slots.barrier));
        if self.number.is_some() {
            self.keep();
        }
        result
    }

    /// Keeps the slot, and drops those of closed barriers. Without memory for that, releases it.
    fn keep(self) {
        OWN.with(|own| {
            let Ok(mut own) = own.try_borrow_mut() else { return };
            if own.len() == own.capacity() {
                own.retain(|slot| slot.slots.in_use.load(Relaxed));
            }
            if own.try_reserve(1).is_ok() {
                own.push(self);
            }
        });
    }

    /// Leaves the team: later rounds do not wait for this party. `None` if all parties have left.
    pub fn leave(mut self, completion: impl FnOnce()) -> Option<Arrival> {
        let parties = self.slots.barrier.parties();
        let one_more = |left| (left < parties).then_some(left + 1);
        self.slots.left.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        // The number is not reused.
        self.number = None;
        self.party.take().map(|party| party.arrive_and_leave_and(completion))
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        // The next thread with this number begins with a new party.
        self.party = None;
        if let Some(number) = self.number {
            self.slots.free.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use policy::waiting::WaitingRule;

    use super::*;
    use crate::waiting::Waiting;

    fn slots(parties: u32) -> Arc<ThreadSlots> {
        Arc::new(ThreadSlots::new(Barrier::with(parties, Waiting::by(WaitingRule::AlwaysBlock))))
    }

    /// Uses a slot once. Returns its number.
    fn number(slots: &Arc<ThreadSlots>) -> Option<u32> {
        let slot = ThreadSlot::of_current_thread(slots);
        let number = slot.number;
        slot.with(|_, _| ());
        number
    }

    #[test]
    fn a_thread_keeps_its_slot_at_each_barrier() {
        let (one, other) = (slots(2), slots(2));
        for _ in 0..3 {
            assert_eq!((number(&one), number(&other)), (Some(0), Some(0)));
        }
    }

    #[test]
    fn each_thread_has_its_own_slot_until_it_ends() {
        let slots = slots(2);
        assert_eq!(number(&slots), Some(0));
        for _ in 0..3 {
            let next = std::thread::scope(|scope| scope.spawn(|| number(&slots)).join().unwrap());
            assert_eq!(next, Some(1));
            // The thread-local values may be dropped after the end of the scope.
            while slots.free.lock().unwrap().is_empty() {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_thread_is_anonymous_if_all_slots_are_assigned() {
        let slots = slots(1);
        assert_eq!(number(&slots), Some(0));
        std::thread::scope(|scope| assert_eq!(scope.spawn(|| number(&slots)).join().unwrap(), None));
    }

    #[test]
    fn the_slot_of_a_party_that_has_left_is_not_reused() {
        let slots = slots(2);
        assert!(ThreadSlot::of_current_thread(&slots).leave(|| ()).is_some());
        assert_eq!(number(&slots), Some(1));
        assert!(slots.free.lock().unwrap().is_empty());
    }

    #[test]
    fn a_closed_barrier_is_dropped_eventually() {
        let closed = slots(1);
        number(&closed);
        closed.close();
        let others: Vec<_> = (0..64).map(|_| slots(1)).collect();
        others.iter().for_each(|other| assert_eq!(number(other), Some(0)));
        assert_eq!(Arc::strong_count(&closed), 1);
    }

    #[test]
    fn at_most_all_parties_leave() {
        let slots = slots(2);
        assert!(ThreadSlot::of_current_thread(&slots).leave(|| ()).is_some());
        assert!(ThreadSlot::of_current_thread(&slots).leave(|| ()).is_some());
        assert!(ThreadSlot::of_current_thread(&slots).leave(|| ()).is_none());
    }
}
