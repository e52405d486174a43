//! Workers: threads that carry copies of stages to where buffers are.
//!
//! A worker that has processed a buffer takes it on to the next stage itself, if nobody is at work there, before it looks for anything else. So a buffer goes
//! through many stages on one CPU while its bytes are in that CPU's cache, and nobody is woken for it. What the worker leaves behind, buffers
//! that wait where it was, is for others; it wakes one for that only when it is about to begin something that takes longer than waking.

use std::sync::Arc;

use wait::Event;

use crate::copy::{Copy, Processed};
use crate::engine::{Engine, Hands, Job, Rest};
use crate::patience::Patience;
use crate::queue::Taken;
use crate::ready::Found;

/// To wake a worker takes about as long, in nanoseconds.
const WAKING: u64 = 5_000;

impl<'a, T> Engine<'a, T> {
    /// Works until no stage that is carried will get a buffer any more. `own` is this worker's event.
    pub(crate) fn work(&self, own: &Arc<Event>) {
        let (mut hands, mut patience) = (Hands::of_worker(), Patience::new());
        loop {
            // What is nearest to the end of its pipeline comes first: so buffers get free.
            match self.ready.take(|job| self.stations.len() - job.at, own) {
                Found::Job(mut job) => {
                    job.is_found();
                    self.carry(job, &mut hands);
                }
                Found::Resting => {
                    self.sleep(own, &mut patience);
                }
                Found::Over => break,
            }
        }
        self.leave();
    }

    fn carry(&self, job: Job<'a, T>, hands: &mut Hands<'a, T>) {
        let mut job = Some(job);
        while let Some(Job { at, mut copy, .. }) = job.take() {
            let passed = hands.take_passed();
            if self.ending.is_ending() || !copy.begin(&self.ending) {
                self.give_back(self.stations[at].first, hands);
                self.retire(*copy);
                job = hands.next.take();
                continue;
            }
            let taken = match passed {
                Some(first) => Taken::Some { first, left: 0, taker: Rest::Copy(copy) },
                None => {
                    let most = copy.burst();
                    self.take(at, most, hands, Rest::Copy(copy))
                }
            };
            match taken {
                Taken::Some { first, left, taker: Rest::Copy(mut copy) } => {
                    copy.found_depths(left, hands.hand.len());
                    if self.ready.has_unattended() && copy.estimate(hands.hand.len()) > WAKING {
                        self.ready.sleeper().iter().for_each(|sleeper| self.wake(sleeper));
                    }
                    let processed = copy.process(&mut hands.hand, &mut hands.done, &self.ending);
                    let (depth, sent) = self.deliver(at, first, &processed, hands);
                    if sent > 0 {
                        copy.conveyed = Some(depth);
                    }
                    if processed == Processed::Broken {
                        self.retire(*copy);
                    } else if hands.next.is_none() {
                        hands.next = Some(Job::new(at, copy));
                    } else {
                        self.leave_behind(at, copy, hands);
                    }
                }
                Taken::Closed(Rest::Copy(copy)) => self.retire(*copy),
                // A thread's part, which no worker has.
                Taken::Resting | Taken::Some { .. } | Taken::Closed(Rest::Thread(_)) => {}
            }
            job = hands.next.take();
        }
    }

    /// A copy that will not be carried on now: it rests, or others find it where buffers wait for it.
    fn leave_behind(&self, at: usize, copy: Box<Copy<'a, T>>, hands: &mut Hands<'a, T>) {
        match self.take(at, 0, hands, Rest::Copy(copy)) {
            Taken::Some { taker: Rest::Copy(copy), .. } => self.add(Job::new(at, copy), false),
            Taken::Closed(Rest::Copy(copy)) => self.retire(*copy),
            _ => {}
        }
    }

    /// A copy has come to its end.
    pub(crate) fn retire(&self, copy: Copy<'a, T>) {
        let notes = copy.end(&self.ending);
        if notes.are_wanted() {
            self.notes.lock().push(notes);
        }
    }
}
