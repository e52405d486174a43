//! Loom models of two threads at queues: all interleavings, up to a number of preemptions.

use std::collections::VecDeque;
use std::sync::Arc;

use loom::model::Builder;
use loom::thread;
use wait::{Event, Reset, Rule, Waiting};

use super::{Queue, Taken};
use crate::activity::Activity;
use crate::buffer::Buffer;
use crate::entry::Entry;

const WAITING: Waiting = Waiting::by(Rule::AlwaysBlock);

type Threads = Queue<(), Arc<Event>>;

struct Run {
    free: Threads,
    full: Threads,
    activity: Activity,
}

impl Run {
    fn new(buffers: usize, rounds: u64) -> Arc<Run> {
        let (free, full) = (Queue::of_free(WAITING, Some(rounds)), Queue::new(WAITING));
        let run = Run { free, full, activity: Activity::new() };
        let mut entries = (0..buffers).map(|_| Entry::free(Buffer::new(0).unwrap())).collect();
        run.free.keep(&mut entries, &mut Vec::new());
        run.activity.join();
        run.activity.join();
        Arc::new(run)
    }

    /// As the engine does it. Returns nothing where the queue is closed; says whether all sleep.
    fn take(&self, queue: &Threads, own: &Arc<Event>, is_stuck: &mut bool) -> Option<Box<Entry<()>>> {
        let (mut hand, mut called) = (VecDeque::new(), Vec::new());
        loop {
            match queue.take(1, &mut hand, &mut called, own.clone()) {
                Taken::Some { .. } => {
                    self.call(&mut called);
                    return hand.pop_front();
                }
                Taken::Closed(_) => return None,
                Taken::Resting => {
                    if self.activity.sleep() {
                        *is_stuck = true;
                        return None;
                    }
                    own.wait();
                }
            }
        }
    }

    fn call(&self, called: &mut Vec<Arc<Event>>) {
        for event in called.drain(..) {
            self.activity.wake();
            event.set();
        }
    }

    fn convey(&self, queue: &Threads, entry: Box<Entry<()>>) {
        let mut called = Vec::new();
        queue.keep(&mut VecDeque::from([entry]), &mut called);
        self.call(&mut called);
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    (builder.preemption_bound, builder.max_duration) = testing::depth(2);
    builder.check(model);
}

#[test]
fn every_buffer_arrives_and_nobody_sleeps_for_ever() {
    check(|| {
        let run = Run::new(1, 2);
        let source = {
            let run = run.clone();
            thread::spawn(move || {
                let (own, mut is_stuck) = (Arc::new(Event::with(Reset::Auto, WAITING)), false);
                while let Some(entry) = run.take(&run.free, &own, &mut is_stuck) {
                    run.convey(&run.full, entry);
                }
                assert!(!is_stuck && !run.activity.leave());
            })
        };
        let (own, mut is_stuck, mut arrived) = (Arc::new(Event::with(Reset::Auto, WAITING)), false, Vec::new());
        while let Some(mut entry) = run.take(&run.full, &own, &mut is_stuck) {
            arrived.push((entry.number, entry.is_last));
            entry.is_last = false;
            run.convey(&run.free, entry);
        }
        assert!(!is_stuck && !run.activity.leave());
        source.join().unwrap();
        assert_eq!(arrived, [(0, false), (1, true)]);
        assert_eq!(run.free.look().0, 1);
    });
}

#[test]
fn of_two_that_wait_for_each_other_exactly_one_sees_it() {
    check(|| {
        let run = Run::new(0, 1);
        let other = {
            let run = run.clone();
            thread::spawn(move || {
                let (own, mut is_stuck) = (Arc::new(Event::with(Reset::Auto, WAITING)), false);
                assert!(run.take(&run.free, &own, &mut is_stuck).is_none());
                end(&run, is_stuck);
                is_stuck
            })
        };
        let (own, mut is_stuck) = (Arc::new(Event::with(Reset::Auto, WAITING)), false);
        assert!(run.take(&run.full, &own, &mut is_stuck).is_none());
        end(&run, is_stuck);
        assert_ne!(other.join().unwrap(), is_stuck);
    });
}

/// Who sees that all sleep ends the run, as the engine does, so that the other can go.
fn end(run: &Run, is_stuck: bool) {
    if is_stuck {
        for queue in [&run.free, &run.full] {
            let mut called = Vec::new();
            queue.close(&mut VecDeque::new(), &mut called);
            run.call(&mut called);
        }
    }
}
