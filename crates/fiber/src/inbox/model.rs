//! A loom model of a worker and its senders: all interleavings, up to a number of preemptions, and
//! all values that a load may return.
//!
//! A worker that sleeps beside an item is a deadlock, which loom reports. A worker that reads an
//! item before it is complete is a data race.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::*;

/// An item: its value and its link.
#[repr(align(8))]
struct Note {
    says: UnsafeCell<u32>,
    older: UnsafeCell<u64>,
}

#[derive(Clone, Copy)]
struct Sent(*const Note);

// SAFETY: loom reports conflicting accesses.
unsafe impl Send for Sent {}

impl Sent {
    fn new(says: u32) -> Sent {
        Sent(Box::into_raw(Box::new(Note { says: UnsafeCell::new(says), older: UnsafeCell::new(0) })))
    }

    fn open(self) -> u32 {
        // SAFETY: it was made by `Box::into_raw`, and was taken.
        let note = unsafe { Box::from_raw(self.0.cast_mut()) };
        // SAFETY: loom reports conflicting accesses.
        note.says.with(|says| unsafe { *says })
    }
}

impl InboxItem for Sent {
    fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }

    unsafe fn at(address: u64) -> Sent {
        Sent(std::ptr::with_exposed_provenance(address as usize))
    }

    fn link(self, older: u64) {
        // SAFETY: as above.
        unsafe { (*self.0).older.with_mut(|link| *link = older) }
    }

    fn older(self) -> u64 {
        // SAFETY: as above.
        unsafe { (*self.0).older.with(|link| *link) }
    }
}

/// The tick of a worker whose timer is stopped. The worker waits for it, because its fiber reaches
/// no safepoint.
#[derive(Default)]
struct Tick {
    has_fired: Mutex<bool>,
    changed: Condvar,
}

impl FireTimer for Tick {
    fn fire(&self) {
        *self.has_fired.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

impl Tick {
    fn wait(&self) {
        let mut has_fired = self.has_fired.lock().unwrap();
        while !*has_fired {
            has_fired = self.changed.wait(has_fired).unwrap();
        }
    }
}

fn model(preemptions: usize, what: impl Fn() + Send + Sync + 'static) {
    let mut model = Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(what);
}

/// The worker's side: takes items, and sleeps while there are none, until it has `many`.
fn receive(inbox: &Inbox<Tick>, many: usize, how: Sleep) -> Vec<u32> {
    let mut said = Vec::new();
    while said.len() < many {
        if inbox.any() {
            inbox.take(|item: Sent| said.push(item.open()));
        } else if inbox.prepare_to_sleep(how, || false) {
            inbox.sleep(how, None);
        }
    }
    said
}

#[test]
fn every_item_of_two_senders_is_read_whole_and_in_order() {
    model(2, || {
        let inbox = Arc::new(Inbox::<Tick>::new());
        let sender = |says: std::ops::Range<u32>| {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || says.for_each(|says| inbox.send(Sent::new(says))))
        };
        let senders = [sender(10..12), sender(20..21)];
        let mut said = receive(&inbox, 3, Sleep::ForGood);
        assert!(said.iter().position(|says| *says == 10) < said.iter().position(|says| *says == 11), "{said:?}");
        said.sort_unstable();
        assert_eq!(said, [10, 11, 20]);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn an_item_is_read_once_if_another_worker_takes_items_too() {
    model(3, || {
        let inbox = Arc::new(Inbox::<Tick>::new());
        let (sending, stealing) = (Arc::clone(&inbox), Arc::clone(&inbox));
        let sender = thread::spawn(move || (0..2).for_each(|says| sending.send(Sent::new(says))));
        let thief = thread::spawn(move || {
            let mut said = Vec::new();
            stealing.steal(|item: Sent| said.push(item.open()));
            said
        });
        let mut said = Vec::new();
        inbox.take(|item: Sent| said.push(item.open()));
        sender.join().unwrap();
        said.extend(thief.join().unwrap());
        inbox.take(|item: Sent| said.push(item.open()));
        said.sort_unstable();
        assert_eq!(said, [0, 1]);
    });
}

#[test]
fn a_worker_does_not_sleep_while_there_is_another_reason_to_be_awake() {
    model(4, || {
        let world = Arc::new((Inbox::<Tick>::new(), AtomicBool::new(false)));
        let other = Arc::clone(&world);
        let outside = thread::spawn(move || {
            let (inbox, reason) = &*other;
            // Like a thread that offers a fiber to any worker.
            reason.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            inbox.wake_if_asleep();
        });
        let (inbox, reason) = &*world;
        while !reason.load(Ordering::SeqCst) {
            if inbox.prepare_to_sleep(Sleep::ForGood, || reason.load(Ordering::SeqCst)) {
                inbox.sleep(Sleep::ForGood, None);
            }
        }
        outside.join().unwrap();
    });
}

#[test]
fn a_wakeup_and_an_item_at_a_time_are_both_seen() {
    model(3, || {
        let inbox = Arc::new(Inbox::<Tick>::new());
        let (nudging, sending) = (Arc::clone(&inbox), Arc::clone(&inbox));
        let nudger = thread::spawn(move || nudging.wake_if_asleep());
        let sender = thread::spawn(move || sending.send(Sent::new(1)));
        assert_eq!(receive(&inbox, 1, Sleep::Timed), [1]);
        nudger.join().unwrap();
        sender.join().unwrap();
    });
}

/// A tick that never comes is a deadlock, which loom reports.
#[test]
fn a_worker_with_a_stopped_timer_sees_an_item_or_its_timer_fires() {
    model(3, || {
        let (inbox, tick) = (Arc::new(Inbox::<Tick>::new()), std::sync::Arc::<Tick>::default());
        let senders: Vec<_> = (0..2)
            .map(|says| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || inbox.send(Sent::new(says)))
            })
            .collect();
        // SAFETY: `tick` is a share of it.
        unsafe { inbox.stopped_timer.set(&tick) };
        if !inbox.any() {
            tick.wait();
            assert!(inbox.any());
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        inbox.take(|item: Sent| {
            item.open();
        });
        drop(inbox.stopped_timer.take());
        assert_eq!(std::sync::Arc::strong_count(&tick), 1, "no share is lost or released twice");
    });
}

#[test]
fn a_worker_with_a_stopped_timer_sees_an_unstarted_fiber_or_its_timer_fires() {
    model(4, || {
        let world = Arc::new((Inbox::<Tick>::new(), AtomicBool::new(false)));
        let tick = std::sync::Arc::<Tick>::default();
        let other = Arc::clone(&world);
        let outside = thread::spawn(move || {
            let (inbox, reason) = &*other;
            reason.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let _ = inbox.wake_if_asleep() || inbox.stopped_timer.fire_if_stopped();
        });
        let (inbox, reason) = &*world;
        // SAFETY: `tick` is a share of it.
        unsafe { inbox.stopped_timer.set(&tick) };
        if !reason.load(Ordering::Relaxed) {
            tick.wait();
        }
        outside.join().unwrap();
        drop(inbox.stopped_timer.take());
        assert_eq!(std::sync::Arc::strong_count(&tick), 1);
    });
}

#[test]
fn one_thread_alone_takes_the_share_of_a_stopped_timer() {
    model(4, || {
        let (inbox, tick) = (Arc::new(Inbox::<Tick>::new()), std::sync::Arc::<Tick>::default());
        // SAFETY: `tick` is a share of it.
        unsafe { inbox.stopped_timer.set(&tick) };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || inbox.stopped_timer.fire_if_stopped())
            })
            .collect();
        let mut many = u32::from(inbox.stopped_timer.take().is_some());
        for other in others {
            many += u32::from(other.join().unwrap());
        }
        assert_eq!((many, std::sync::Arc::strong_count(&tick)), (1, 1));
    });
}
