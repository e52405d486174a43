//! Loom models of two threads at queues: all interleavings, up to a number of preemptions.

use std::collections::VecDeque;
use std::sync::Arc;

use loom::model::Builder;
use loom::thread;
use wait::{Event, Reset, Waiting, WaitingRule};

use super::{Queue, QueuedBuffer, TakeResult};
use crate::activity::Activity;
use crate::buffer::Buffer;

const WAITING: Waiting = Waiting::by(WaitingRule::AlwaysBlock);

type Threads = Queue<(), Arc<Event>>;

struct Run {
    free: Threads,
    full: Threads,
    activity: Activity,
}

impl Run {
    fn new(buffers: usize, rounds: u64) -> Arc<Run> {
        let (free, full) = (Queue::of_free(WAITING, Some(rounds)), Queue::new(WAITING));
        let run = Run { free, full, activity: Activity::default() };
        let mut entries = (0..buffers).map(|_| QueuedBuffer::free(Buffer::new(0).unwrap())).collect();
        run.free.keep(&mut entries, &mut Vec::new());
        run.activity.join();
        run.activity.join();
        Arc::new(run)
    }

    /// Takes as the engine does. Returns `None` if the queue is closed or all threads sleep, and
    /// sets `is_stuck` in the latter case.
    fn take(&self, queue: &Threads, own: &Arc<Event>, is_stuck: &mut bool) -> Option<Box<QueuedBuffer<()>>> {
        let (mut input, mut woken) = (VecDeque::new(), Vec::new());
        loop {
            match queue.take(1, &mut input, &mut woken, own.clone()) {
                TakeResult::Buffers { .. } => {
                    self.wake_all(&mut woken);
                    return input.pop_front();
                }
                TakeResult::Closed(_) => return None,
                TakeResult::Sleeping => {
                    if self.activity.sleep() {
                        *is_stuck = true;
                        return None;
                    }
                    own.wait();
                }
            }
        }
    }

    fn wake_all(&self, woken: &mut Vec<Arc<Event>>) {
        for event in woken.drain(..) {
            self.activity.wake();
            event.set();
        }
    }

    fn convey(&self, queue: &Threads, entry: Box<QueuedBuffer<()>>) {
        let mut woken = Vec::new();
        queue.keep(&mut VecDeque::from([entry]), &mut woken);
        self.wake_all(&mut woken);
    }
}

/// The event of a thread, and whether the thread found that all sleep.
fn party() -> (Arc<Event>, bool) {
    (Arc::new(Event::with(Reset::Auto, WAITING)), false)
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    (builder.preemption_bound, builder.max_duration) = testing::depth(2);
    builder.check(model);
}

#[test]
fn every_buffer_arrives_and_no_thread_sleeps_forever() {
    check(|| {
        let run = Run::new(1, 2);
        let source = {
            let run = run.clone();
            thread::spawn(move || {
                let (own, mut is_stuck) = party();
                while let Some(entry) = run.take(&run.free, &own, &mut is_stuck) {
                    run.convey(&run.full, entry);
                }
                assert!(!is_stuck && !run.activity.leave());
            })
        };
        let ((own, mut is_stuck), mut arrived) = (party(), Vec::new());
        while let Some(mut entry) = run.take(&run.full, &own, &mut is_stuck) {
            arrived.push((entry.number, entry.is_last));
            entry.is_last = false;
            run.convey(&run.free, entry);
        }
        assert!(!is_stuck && !run.activity.leave());
        source.join().unwrap();
        assert_eq!(arrived, [(0, false), (1, true)]);
        assert_eq!(run.free.status().0, 1);
    });
}

#[test]
fn exactly_one_of_two_deadlocked_threads_detects_it() {
    check(|| {
        let run = Run::new(0, 1);
        let other = {
            let run = run.clone();
            thread::spawn(move || {
                let (own, mut is_stuck) = party();
                assert!(run.take(&run.free, &own, &mut is_stuck).is_none());
                end(&run, is_stuck);
                is_stuck
            })
        };
        let (own, mut is_stuck) = party();
        assert!(run.take(&run.full, &own, &mut is_stuck).is_none());
        end(&run, is_stuck);
        assert_ne!(other.join().unwrap(), is_stuck);
    });
}

/// Ends the run if this thread found that all sleep, as the engine does, so that the other can end.
fn end(run: &Run, is_stuck: bool) {
    if is_stuck {
        for queue in [&run.free, &run.full] {
            let mut woken = Vec::new();
            queue.close(&mut VecDeque::new(), &mut woken);
            run.wake_all(&mut woken);
        }
    }
}
