//! A worker and who sends to it under loom: all interleavings, up to a number of preemptions, and all values that a load may return.
//!
//! A worker that sleeps though there is something for it is a deadlock, which loom reports; a letter that is read before it is complete is a race.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::*;

/// A letter: what it says, and its link.
#[repr(align(8))]
struct Note {
    says: UnsafeCell<u32>,
    older: UnsafeCell<u64>,
}

#[derive(Clone, Copy)]
struct Sent(*const Note);

// SAFETY: loom reports who comes to one that another has.
unsafe impl Send for Sent {}

impl Sent {
    fn new(says: u32) -> Sent {
        Sent(Box::into_raw(Box::new(Note { says: UnsafeCell::new(says), older: UnsafeCell::new(0) })))
    }

    fn open(self) -> u32 {
        // SAFETY: it was made so, and was taken.
        let note = unsafe { Box::from_raw(self.0.cast_mut()) };
        // SAFETY: loom reports who else is at it.
        note.says.with(|says| unsafe { *says })
    }
}

impl Letter for Sent {
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

/// The tick of a worker that is quiet: it waits for that, as its fiber comes to no point.
#[derive(Default)]
struct Tick {
    is_set_off: Mutex<bool>,
    changed: Condvar,
}

impl SetOff for Tick {
    fn now(&self) {
        *self.is_set_off.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

impl Tick {
    fn wait(&self) {
        let mut is_set_off = self.is_set_off.lock().unwrap();
        while !*is_set_off {
            is_set_off = self.changed.wait(is_set_off).unwrap();
        }
    }
}

fn model(preemptions: usize, what: impl Fn() + Send + Sync + 'static) {
    let mut model = Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(what);
}

/// The worker's side: takes letters, and sleeps while there are none, until it has so many.
fn receive(mail: &Mail<Tick>, many: usize, how: Sleep) -> Vec<u32> {
    let mut said = Vec::new();
    while said.len() < many {
        if mail.any() {
            mail.take(|letter: Sent| said.push(letter.open()));
        } else if mail.lie_down(how, || false) {
            mail.sleep(how, None);
        }
    }
    said
}

#[test]
fn every_letter_of_two_senders_is_read_whole_and_in_order() {
    model(2, || {
        let mail = Arc::new(Mail::<Tick>::new());
        let sender = |says: std::ops::Range<u32>| {
            let mail = Arc::clone(&mail);
            thread::spawn(move || says.for_each(|says| mail.send(Sent::new(says))))
        };
        let senders = [sender(10..12), sender(20..21)];
        let mut said = receive(&mail, 3, Sleep::ForGood);
        assert!(said.iter().position(|says| *says == 10) < said.iter().position(|says| *says == 11), "{said:?}");
        said.sort_unstable();
        assert_eq!(said, [10, 11, 20]);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn a_worker_does_not_sleep_while_there_is_another_reason_to_be_awake() {
    model(4, || {
        let world = Arc::new((Mail::<Tick>::new(), AtomicBool::new(false)));
        let other = Arc::clone(&world);
        let outside = thread::spawn(move || {
            let (mail, reason) = &*other;
            // As who puts up a fiber that any worker may take.
            reason.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            mail.nudge();
        });
        let (mail, reason) = &*world;
        while !reason.load(Ordering::SeqCst) {
            if mail.lie_down(Sleep::ForGood, || reason.load(Ordering::SeqCst)) {
                mail.sleep(Sleep::ForGood, None);
            }
        }
        outside.join().unwrap();
    });
}

#[test]
fn a_nudge_and_a_letter_at_a_time_lose_neither() {
    model(3, || {
        let mail = Arc::new(Mail::<Tick>::new());
        let (nudging, sending) = (Arc::clone(&mail), Arc::clone(&mail));
        let nudger = thread::spawn(move || nudging.nudge());
        let sender = thread::spawn(move || sending.send(Sent::new(1)));
        assert_eq!(receive(&mail, 1, Sleep::Timed), [1]);
        nudger.join().unwrap();
        sender.join().unwrap();
    });
}

/// A tick that never comes is a deadlock, which loom reports.
#[test]
fn a_quiet_worker_sees_a_letter_or_is_disturbed() {
    model(3, || {
        let (mail, tick) = (Arc::new(Mail::<Tick>::new()), std::sync::Arc::<Tick>::default());
        let senders: Vec<_> = (0..2)
            .map(|says| {
                let mail = Arc::clone(&mail);
                thread::spawn(move || mail.send(Sent::new(says)))
            })
            .collect();
        // SAFETY: here is a share of it.
        unsafe { mail.quiet.set(&tick) };
        if !mail.any() {
            tick.wait();
            assert!(mail.any());
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        mail.take(|letter: Sent| {
            letter.open();
        });
        drop(mail.quiet.take());
        assert_eq!(std::sync::Arc::strong_count(&tick), 1, "no share is lost, and none is given back twice");
    });
}

#[test]
fn a_quiet_worker_sees_a_fiber_for_whoever_comes_first_or_is_disturbed() {
    model(4, || {
        let world = Arc::new((Mail::<Tick>::new(), AtomicBool::new(false)));
        let tick = std::sync::Arc::<Tick>::default();
        let other = Arc::clone(&world);
        let outside = thread::spawn(move || {
            let (mail, reason) = &*other;
            reason.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let _ = mail.nudge() || mail.quiet.disturb();
        });
        let (mail, reason) = &*world;
        // SAFETY: here is a share of it.
        unsafe { mail.quiet.set(&tick) };
        if !reason.load(Ordering::Relaxed) {
            tick.wait();
        }
        outside.join().unwrap();
        drop(mail.quiet.take());
        assert_eq!(std::sync::Arc::strong_count(&tick), 1);
    });
}

#[test]
fn whoever_disturbs_a_worker_or_is_the_worker_takes_the_share_alone() {
    model(4, || {
        let (mail, tick) = (Arc::new(Mail::<Tick>::new()), std::sync::Arc::<Tick>::default());
        // SAFETY: here is a share of it.
        unsafe { mail.quiet.set(&tick) };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let mail = Arc::clone(&mail);
                thread::spawn(move || mail.quiet.disturb())
            })
            .collect();
        let mut many = u32::from(mail.quiet.take().is_some());
        for other in others {
            many += u32::from(other.join().unwrap());
        }
        assert_eq!((many, std::sync::Arc::strong_count(&tick)), (1, 1));
    });
}
