//! A loom model of a worker and its senders: all interleavings, up to a number of preemptions, and
//! all values that a load may return.
//!
//! A worker that sleeps beside an item, or waits for a tick that never comes, is a deadlock, which
//! loom reports. A worker that reads an item before it is complete is a data race.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread::{JoinHandle, spawn};

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
    fn says(self) -> u32 {
        // SAFETY: it has not been read; loom reports conflicting accesses.
        unsafe { (*self.0).says.with(|says| *says) }
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

/// The timer of a worker whose fiber reaches no safepoint. It fires soon, or never.
#[derive(Default)]
struct Timer {
    is_soon: Mutex<bool>,
    changed: Condvar,
}

impl FireTimer for Timer {
    fn fire(&self) {
        *self.is_soon.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

impl Timer {
    fn stop(&self) {
        *self.is_soon.lock().unwrap() = false;
    }

    fn wait(&self) {
        let mut is_soon = self.is_soon.lock().unwrap();
        while !*is_soon {
            is_soon = self.changed.wait(is_soon).unwrap();
        }
    }
}

/// An inbox, another reason for the worker to be awake, and its timer.
struct World {
    inbox: Inbox<Timer>,
    reason: AtomicBool,
    timer: std::sync::Arc<Timer>,
    /// How many items were sent and not read.
    unread: std::sync::atomic::AtomicUsize,
}

impl World {
    fn note(&self, says: u32) -> Sent {
        self.unread.fetch_add(1, Ordering::Relaxed);
        Sent(Box::into_raw(Box::new(Note { says: UnsafeCell::new(says), older: UnsafeCell::new(0) })))
    }

    fn send(&self, says: u32) {
        self.inbox.send(self.note(says));
    }

    /// Like a worker with two interrupted fibers.
    fn send_interrupted(&self) {
        let notes = INTERRUPTED.map(|says| self.note(says));
        if !self.inbox.takes_interrupted() || !self.inbox.send_to_taker(notes.into_iter()) {
            notes.into_iter().for_each(|note| _ = self.read(note));
        }
    }

    fn read(&self, item: Sent) -> u32 {
        self.unread.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: it was made by `Box::into_raw`, and was taken.
        let note = unsafe { Box::from_raw(item.0.cast_mut()) };
        // SAFETY: loom reports conflicting accesses.
        note.says.with(|says| unsafe { *says })
    }

    /// The worker's side: takes items, and sleeps while there are none, until it has `many`.
    fn receive(&self, many: usize, how: Sleep) -> Vec<u32> {
        let mut said = Vec::new();
        while said.len() < many {
            if self.inbox.any() {
                self.inbox.take(|item| said.push(self.read(item)));
            } else {
                self.inbox.sleep(how, || false, || self.inbox.block(how, None));
            }
        }
        said
    }

    /// Sets the timer to never fire, and publishes it.
    fn publish(&self) {
        self.timer.stop();
        // SAFETY: the world has a share of it.
        unsafe { self.inbox.tick_request.publish(&self.timer, false) };
    }

    /// Like a thread that offers a fiber to any worker.
    fn give_reason(&self) {
        self.reason.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let _ = self.inbox.wake_if_asleep() || self.inbox.tick_request.fire_if_stopped();
    }
}

const INTERRUPTED: [u32; 2] = [100, 101];

/// Explores what a worker and other threads do. No share of the timer is lost or released twice.
fn model<const N: usize>(preemptions: usize, others: [fn(&World); N], worker: fn(&World)) {
    let mut model = Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(move || {
        let timer = std::sync::Arc::<Timer>::default();
        let world = Arc::new(World {
            inbox: Inbox::new(),
            reason: AtomicBool::new(false),
            timer: timer.clone(),
            unread: 0.into(),
        });
        let others = others.map(|other| -> JoinHandle<()> {
            let world = Arc::clone(&world);
            spawn(move || other(&world))
        });
        worker(&world);
        others.into_iter().for_each(|other| other.join().unwrap());
        world.inbox.take(|item| _ = world.read(item));
        assert_eq!(world.unread.load(Ordering::Relaxed), 0);
        drop(world.inbox.tick_request.take());
        assert_eq!(std::sync::Arc::strong_count(&timer), 2);
    });
}

#[test]
fn every_item_of_two_senders_is_read_whole_and_in_order() {
    let send: [fn(&World); 2] = [|world| (10..12).for_each(|says| world.send(says)), |world| world.send(20)];
    model(2, send, |world| {
        let mut said = world.receive(3, Sleep::ForGood);
        assert!(said.iter().position(|says| *says == 10) < said.iter().position(|says| *says == 11), "{said:?}");
        said.sort_unstable();
        assert_eq!(said, [10, 11, 20]);
    });
}

#[test]
fn an_item_is_read_once_if_another_worker_takes_items_too() {
    let others: [fn(&World); 2] = [
        |world| (0..2).for_each(|says| world.send(says)),
        |world| world.inbox.steal(true, |item| assert!(world.read(item) < 2)),
    ];
    model(3, others, |world| world.inbox.take(|item| assert!(world.read(item) < 2)));
}

#[test]
fn a_worker_that_has_slept_gets_interrupted_fibers_first_and_from_there_alone() {
    let others: [fn(&World); 2] = [World::send_interrupted, |world| {
        world.send(1);
        // It cannot take interrupted fibers itself.
        world.inbox.steal(false, |item: Sent| {
            assert!(!INTERRUPTED.contains(&item.says()));
            world.inbox.send(item);
        });
        world.send(2);
    }];
    model(2, others, |world| {
        world.inbox.set_takes_interrupted(true);
        let mut said = Vec::new();
        let take = |said: &mut Vec<u32>, has_slept: bool| {
            let mut new = Vec::new();
            world.inbox.take(|item| new.push(world.read(item)));
            let interrupted = new.iter().filter(|says| INTERRUPTED.contains(says)).count();
            assert!(interrupted == 0 || has_slept && new.starts_with(&INTERRUPTED), "{new:?}");
            said.extend(new);
            said.contains(&1) && said.contains(&2)
        };
        let mut has_slept = false;
        while !take(&mut said, has_slept) {
            // If it does not sleep, none can be there.
            has_slept = !world.inbox.any();
            world.inbox.sleep(Sleep::ForGood, || false, || world.inbox.block(Sleep::ForGood, None));
        }
    });
}

#[test]
fn a_worker_does_not_sleep_while_there_is_another_reason_to_be_awake() {
    model(4, [World::give_reason], |world| {
        let World { inbox, reason, .. } = world;
        while !reason.load(Ordering::SeqCst) {
            let is_awake = || reason.load(Ordering::SeqCst);
            inbox.sleep(Sleep::ForGood, is_awake, || inbox.block(Sleep::ForGood, None));
        }
    });
}

#[test]
fn a_wakeup_and_an_item_at_a_time_are_both_seen() {
    let others: [fn(&World); 2] = [|world| _ = world.inbox.wake_if_asleep(), |world| world.send(1)];
    model(3, others, |world| assert_eq!(world.receive(1, Sleep::Timed), [1]));
}

#[test]
fn a_worker_that_sets_its_timer_sees_an_item_or_its_timer_fires() {
    let send: fn(&World) = |world| world.send(1);
    model(3, [send, send], |world| {
        // The second time it may override a timer that a sender has fired.
        for _ in 0..2 {
            world.publish();
        }
        if !world.inbox.any() {
            world.timer.wait();
            assert!(world.inbox.any());
        }
    });
}

#[test]
fn a_worker_that_stops_its_timer_sees_an_unstarted_fiber_or_its_timer_fires() {
    model(4, [World::give_reason], |world| {
        world.publish();
        if !world.reason.load(Ordering::Relaxed) {
            world.timer.wait();
        }
    });
}

#[test]
fn one_thread_alone_takes_the_share_of_a_timer() {
    let fire: fn(&World) = |world| _ = world.inbox.tick_request.fire();
    model(4, [fire, fire], |world| {
        world.publish();
        drop(world.inbox.tick_request.take());
    });
}
