//! ThreadSlots: which member of a barrier's team a thread is, for callers who pass a barrier and no member.
//!
//! That is how C comes to a barrier. But a rule wants to know who is missing and to remember what it has learnt. So each thread
//! that comes to a barrier gets a number of its team, as long as there are any left, and keeps it until the thread ends. Threads
//! beyond the team are anonymous.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};

use sys::per_thread::PerThread;

use crate::objects::barrier::{Arrival, Barrier, Party};

/// A barrier and its free slots.
pub struct ThreadSlots {
    barrier: Barrier,
    free: Mutex<Vec<u32>>,
    /// How many parties have left the team.
    left: AtomicU32,
    /// Somebody will come to it again.
    in_use: AtomicBool,
}

/// The slot of one thread at one barrier.
///
/// It keeps the barrier in memory, so whoever made it may let go of it while other threads are on their way out.
pub struct ThreadSlot {
    /// Borrows from the barrier below: it comes first, and so it is dropped first.
    party: Option<Party<'static>>,
    /// Nothing for who is anonymous.
    number: Option<u32>,
    slots: Arc<ThreadSlots>,
}

/// Those that each thread has, the one last used at the end.
static OWN: PerThread<RefCell<Vec<ThreadSlot>>> = PerThread::new();

impl ThreadSlots {
    /// With a slot for each of the barrier's parties.
    pub fn new(barrier: Barrier) -> ThreadSlots {
        let free = (0..barrier.parties()).rev().collect();
        ThreadSlots { barrier, free: Mutex::new(free), left: AtomicU32::new(0), in_use: AtomicBool::new(true) }
    }

    /// The barrier.
    pub fn barrier(&self) -> &Barrier {
        &self.barrier
    }

    /// Says that no thread will come any more: those that have a slot let go of it in time.
    pub fn close(&self) {
        self.in_use.store(false, Relaxed);
    }
}

impl ThreadSlot {
    /// The slot of the calling thread, which it keeps until it ends; or an anonymous one where none is free.
    ///
    /// The first slot of a thread takes memory.
    pub fn of_current_thread(slots: &Arc<ThreadSlots>) -> ThreadSlot {
        let kept = OWN.with(|own| {
            let mut own = own.try_borrow_mut().ok()?;
            let at = own.iter().rposition(|slot| Arc::ptr_eq(&slot.slots, slots))?;
            Some(own.swap_remove(at))
        });
        // A thread that waits within a wait of its own, as by a signal's handler, has no slot to be found.
        kept.flatten().unwrap_or_else(|| ThreadSlot::assign(slots.clone()))
    }

    /// Takes a free slot, or none.
    fn assign(slots: Arc<ThreadSlots>) -> ThreadSlot {
        let number = slots.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // SAFETY: the barrier lives behind an `Arc`, where it does not move, and for as long as this slot has that. The
        // borrow is dropped before, as the order of the fields has it, and never leaves the slot.
        let barrier = unsafe { &*std::ptr::from_ref(&slots.barrier) };
        let party = number.map_or_else(|| barrier.anonymous(), |number| barrier.party(number));
        ThreadSlot { party: Some(party), number, slots }
    }

    /// Does something as this member, and keeps the slot for the next time. Nothing where the member has left the team.
    pub fn with<R>(mut self, act: impl FnOnce(&mut Party<'_>, &Barrier) -> R) -> Option<R> {
        let result = self.party.as_mut().map(|party| act(party, &self.slots.barrier));
        if self.number.is_some() {
            self.keep();
        }
        result
    }

    /// Keeps the slot, and gives up those at barriers that are not used any more. Where nothing can be kept, the slot is
    /// given back.
    fn keep(self) {
        OWN.with(|own| {
            let Ok(mut own) = own.try_borrow_mut() else { return };
            if own.len() == own.capacity() {
                own.retain(|slot| slot.slots.in_use.load(Relaxed));
            }
            own.push(self);
        });
    }

    /// Leaves the team for ever: later rounds do without this member. Nothing happens where all have left already.
    pub fn leave(mut self, completion: impl FnOnce()) -> Option<Arrival> {
        let parties = self.slots.barrier.parties();
        let one_more = |left| (left < parties).then_some(left + 1);
        self.slots.left.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        // Its number is nobody's any more.
        self.number = None;
        self.party.take().map(|party| party.arrive_and_leave_and(completion))
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        // The next to have this number begins anew.
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

    /// Sits down for a moment, and tells on which slot.
    fn number(slots: &Arc<ThreadSlots>) -> Option<u32> {
        let slot = ThreadSlot::of_current_thread(slots);
        let number = slot.number;
        slot.with(|_, _| ());
        number
    }

    #[test]
    fn a_thread_keeps_its_seat_at_each_barrier() {
        let (one, other) = (slots(2), slots(2));
        for _ in 0..3 {
            assert_eq!((number(&one), number(&other)), (Some(0), Some(0)));
        }
    }

    #[test]
    fn each_thread_has_a_seat_of_its_own_until_it_ends() {
        let slots = slots(2);
        assert_eq!(number(&slots), Some(0));
        for _ in 0..3 {
            let next = std::thread::scope(|scope| scope.spawn(|| number(&slots)).join().unwrap());
            assert_eq!(next, Some(1));
            // A scope ends when the thread's work has, and its own things may be dropped later.
            while slots.free.lock().unwrap().is_empty() {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn who_comes_when_all_seats_are_taken_is_anonymous() {
        let slots = slots(1);
        assert_eq!(number(&slots), Some(0));
        std::thread::scope(|scope| assert_eq!(scope.spawn(|| number(&slots)).join().unwrap(), None));
    }

    #[test]
    fn the_seat_of_who_has_left_stays_empty() {
        let slots = slots(2);
        assert!(ThreadSlot::of_current_thread(&slots).leave(|| ()).is_some());
        assert_eq!(number(&slots), Some(1));
        assert!(slots.free.lock().unwrap().is_empty());
    }

    #[test]
    fn a_barrier_that_is_closed_is_forgotten_in_time() {
        let closed = slots(1);
        number(&closed);
        closed.close();
        let others: Vec<_> = (0..64).map(|_| slots(1)).collect();
        others.iter().for_each(|other| assert_eq!(number(other), Some(0)));
        assert_eq!(Arc::strong_count(&closed), 1);
    }

    #[test]
    fn no_more_leave_than_there_are_parties() {
        let slots = slots(2);
        assert!(ThreadSlot::of_current_thread(&slots).leave(|| ()).is_some());
        assert!(ThreadSlot::of_current_thread(&slots).leave(|| ()).is_some());
        assert!(ThreadSlot::of_current_thread(&slots).leave(|| ()).is_none());
    }
}
