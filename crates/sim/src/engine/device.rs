//! The device of the machine, and events that belong to no CPU.
//!
//! There is one device for all jobs. It serves as many requests at a time as its depth, and queues
//! the others in the order of their arrival. Each request takes the time that it asks for. The
//! device knows no priorities, and sequential requests are no faster.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use policy::{Instant, Span, ThreadId};

#[derive(Clone, Debug)]
pub(crate) struct Device {
    depth: u32,
    serves: u32,
    waiting: VecDeque<(ThreadId, Span)>,
    /// The time of all requests that it has served or is serving, up to `counted`.
    used: Span,
    counted: Instant,
}

impl Device {
    /// An idle device that serves up to `depth` requests at a time.
    pub(crate) fn new(depth: u32) -> Device {
        let (depth, waiting) = (depth.max(1), VecDeque::new());
        Device { depth, serves: 0, waiting, used: Span::ZERO, counted: Instant::ZERO }
    }

    /// Submits a request for `time`. Returns its end if the device serves it immediately.
    pub(crate) fn ask(&mut self, now: Instant, thread: ThreadId, time: Span) -> Option<Instant> {
        self.count(now);
        if self.serves < self.depth {
            self.serves += 1;
            return Some(now + time);
        }
        self.waiting.push_back((thread, time));
        None
    }

    /// A request has been served. Returns the thread of the next one, and its end.
    pub(crate) fn served(&mut self, now: Instant) -> Option<(ThreadId, Instant)> {
        self.count(now);
        let next = self.waiting.pop_front();
        self.serves -= u32::from(next.is_none());
        next.map(|(thread, time)| (thread, now + time))
    }

    /// How long the device was busy up to now. With several requests at a time, the average of all
    /// places.
    pub(crate) fn busy(&mut self, now: Instant) -> Span {
        self.count(now);
        Span::from_nanos(self.used.as_nanos() / u64::from(self.depth))
    }

    fn count(&mut self, now: Instant) {
        self.used += now.since(self.counted).scaled(1000 * u64::from(self.serves));
        self.counted = now;
    }
}

/// An event that belongs to no CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimedEvent {
    /// The device has served the request of this thread.
    Served(ThreadId),
    /// The message that this thread waited for has arrived.
    Delivered(ThreadId),
    /// The sleep of this thread is over.
    SleepOver(ThreadId),
    /// The controller of this job looks at its stages.
    PriorityControl(usize),
    JobArrival(usize),
    /// A message arrives.
    MessageArrives {
        from: ThreadId,
        to: ThreadId,
    },
    /// The hardware barrier completes. This thread was the last to arrive.
    BarrierCompletes(ThreadId),
    /// The server has created this job.
    JobCreated(usize),
    /// This cell looks whose turn it is.
    Look(usize),
    /// `original`: the cells are told which job the first one has run since this moment.
    Follow {
        job: usize,
        since: Instant,
    },
    /// This job waits for cells that no other one releases.
    NeverPlaced(usize),
    /// All jobs are classified.
    Classify,
    /// Some jobs idle in their turns from now on, or no longer.
    Accompany,
    /// An action of a test.
    #[cfg(test)]
    Act(super::script::Action),
}

/// The pending timed events, the earliest first. Events of one moment are in the order in which
/// they were set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    entries: BinaryHeap<Reverse<(Instant, u64, TimedEvent)>>,
    set: u64,
    /// The arrivals, the last one first: there may be a hundred thousand, which all are known at
    /// the start.
    arrivals: Vec<(Instant, u32, u32)>,
}

impl Agenda {
    pub(crate) fn set(&mut self, at: Instant, due: TimedEvent) {
        self.entries.push(Reverse((at, self.set, due)));
        self.set += 1;
    }

    /// Sets the arrival of a job, at the start of the run.
    pub(crate) fn set_arrival(&mut self, at: Instant, job: usize) {
        self.arrivals.push((at, self.set as u32, job as u32));
        self.set += 1;
    }

    /// All arrivals are set.
    pub(crate) fn sort_arrivals(&mut self) {
        self.arrivals.shrink_to_fit();
        self.arrivals.sort_unstable_by_key(|&arrival| Reverse(arrival));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        let entry = self.entries.peek().map(|Reverse((at, ..))| *at);
        let arrival = self.arrivals.last().map(|(at, ..)| *at);
        entry.into_iter().chain(arrival).min()
    }

    /// Whether nothing is pending but looks and classifications.
    pub(crate) fn has_only_turns(&self) -> bool {
        let is_of_turns =
            |due: &TimedEvent| matches!(due, TimedEvent::Look(_) | TimedEvent::Classify | TimedEvent::Accompany);
        self.arrivals.is_empty() && self.entries.iter().all(|Reverse((.., due))| is_of_turns(due))
    }

    pub(crate) fn pop(&mut self) -> Option<TimedEvent> {
        let entry = self.entries.peek().map(|Reverse((at, number, _))| (*at, *number));
        let is_next = |&mut (at, number, _): &mut _| entry.is_none_or(|entry| (at, u64::from(number)) < entry);
        if let Some((.., job)) = self.arrivals.pop_if(is_next) {
            return Some(TimedEvent::JobArrival(job as usize));
        }
        self.entries.pop().map(|Reverse((.., due))| due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn a_device_serves_as_many_at_once_as_it_is_deep_and_the_others_in_their_order() {
        let us = Span::from_micros;
        let [a, b, c, d] = [0, 1, 2, 3].map(ThreadId);
        let mut device = Device::new(2);
        assert_eq!(device.ask(at(0), a, us(10)), Some(at(10)));
        assert_eq!(device.ask(at(2), b, us(3)), Some(at(5)));
        assert_eq!(device.ask(at(3), c, us(4)), None);
        assert_eq!(device.ask(at(3), d, us(1)), None);
        assert_eq!(device.served(at(5)), Some((c, at(9))), "b's place");
        assert_eq!(device.served(at(9)), Some((d, at(10))));
        assert_eq!((device.served(at(10)), device.served(at(10))), (None, None));
        // 10 for a, 3 for b, 4 for c and 1 for d, on two places.
        assert_eq!(device.busy(at(100)), us(9));
    }

    #[test]
    fn events_of_one_moment_are_due_in_the_order_in_which_they_were_set() {
        let mut agenda = Agenda::default();
        let [late, first, second] =
            [TimedEvent::Served(ThreadId(1)), TimedEvent::PriorityControl(0), TimedEvent::Delivered(ThreadId(0))];
        [(2, late), (1, first), (1, second)].into_iter().for_each(|(micros, due)| agenda.set(at(micros), due));
        assert_eq!(agenda.next(), Some(at(1)));
        assert_eq!([agenda.pop(), agenda.pop(), agenda.pop()], [first, second, late].map(Some));
        assert_eq!(agenda.next(), None);
    }

    #[test]
    fn arrivals_keep_their_place_among_the_events_of_their_moment() {
        let mut agenda = Agenda::default();
        agenda.set_arrival(at(3), 0);
        agenda.set_arrival(at(1), 1);
        agenda.set(at(1), TimedEvent::Served(ThreadId(0)));
        agenda.set_arrival(at(1), 2);
        agenda.sort_arrivals();
        let [first, second, last] = [1, 2, 0].map(TimedEvent::JobArrival);
        assert_eq!(agenda.next(), Some(at(1)));
        let order = [first, TimedEvent::Served(ThreadId(0)), second, last];
        assert_eq!([(); 4].map(|()| agenda.pop()), order.map(Some));
        assert_eq!((agenda.next(), agenda.pop()), (None, None));
    }
}
