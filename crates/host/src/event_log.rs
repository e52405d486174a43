//! Event logs: what each thread of a job does over time, as far as the thread itself can tell.
//!
//! Only the kernel knows when a thread loses its CPU. But a thread can ask which CPU it is on, and
//! infer that it was away if some work took much longer than expected. If a run asks for
//! event logs, each thread checks this every 20 us while it computes, and whenever its activity
//! changes at its barrier. A check takes some 50 ns. The memory of a log is allocated and touched
//! beforehand. A full log counts further events but does not store them.

use policy::{Instant, Span};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use wait::observer::{Observer, WaitEvent};
use wait::{Mutex, MutexGuard};

use crate::workload::{Rate, Workload};

/// The time that a thread computes between two checks.
const CHECK_INTERVAL: Span = Span::from_micros(20);

/// Delays up to this also happen to a thread that keeps its CPU: interrupts, caches, slow clock.
const TOLERATED_DELAY: Span = Span::from_micros(20);

/// The number of events that the threads of one job may log together: 4 MiB.
const JOB_CAPACITY: u32 = 1 << 18;

/// Bounds of the number of events that one thread may log.
const MIN_CAPACITY: u32 = 1 << 8;
const MAX_CAPACITY: u32 = 1 << 16;

/// An entry of an event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The time on `CLOCK_MONOTONIC`.
    pub at: Instant,
    /// The number of the thread's CPU.
    pub cpu: u32,
    /// The activity that begins then.
    pub activity: Activity,
}

/// An activity of a thread. It lasts until the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activity {
    /// Computes.
    Compute,
    /// Spins at its barrier: it has arrived, and others are missing, as in the next two.
    Spin,
    /// Yields its CPU, perhaps many times.
    Yield,
    /// Sleeps until it is woken.
    Block,
    /// Waits for a lock, spinning or asleep.
    Lock,
    /// Arrives last, which completes the round, and wakes those that sleep.
    Complete,
    /// Lost its CPU: this is the time of its last check before that.
    Away,
    /// Has its CPU back, or is on another CPU.
    Seen,
    /// Has done all that counts.
    End,
}

/// The events of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventLog {
    /// The number of the thread in its job, from zero.
    pub number: u32,
    /// The thread's id.
    pub thread: i32,
    /// The events, in the order of time.
    pub events: Vec<Event>,
    /// The number of events after the log was full.
    pub lost: u64,
}

/// Performs a thread's activities, and may log them. By default it logs nothing, at no cost.
pub(crate) trait ActivityLogger: Observer {
    /// Runs so many iterations of the workload, with regular checks for lost CPU time.
    fn run(&mut self, workload: &mut Workload, iterations: u64) {
        workload.run(iterations);
    }

    /// Acquires a lock.
    fn lock<'m>(&mut self, mutex: &'m Mutex<()>) -> MutexGuard<'m, ()> {
        mutex.lock()
    }

    /// Logs that the thread begins an activity now.
    fn log(&mut self, _: Activity) {}

    /// Returns the log, if there is one.
    fn finish(self) -> Option<EventLog>
    where
        Self: Sized,
    {
        None
    }
}

impl ActivityLogger for () {}

/// Writes the event log of one thread.
#[derive(Debug)]
pub(crate) struct EventLogger {
    log: EventLog,
    rate: Rate,
    /// The time of the last check, and the CPU at that time.
    checked: Instant,
    cpu: u32,
    /// The last activity, apart from `Away` and `Seen`.
    activity: Option<Activity>,
}

impl EventLogger {
    /// A logger for the calling thread, which has this number among `threads`.
    pub(crate) fn new(number: u32, threads: u32, rate: Rate) -> EventLogger {
        let capacity = (JOB_CAPACITY / threads.max(1)).clamp(MIN_CAPACITY, MAX_CAPACITY) as usize;
        let event = Event { at: Instant::ZERO, cpu: 0, activity: Activity::End };
        // Writing to the pages now avoids page faults later.
        let mut events = vec![event; capacity];
        events.clear();
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let log = EventLog { number, thread, events, lost: 0 };
        EventLogger { log, rate, checked: now(), cpu: sys::cpus::current(), activity: None }
    }

    fn push(&mut self, at: Instant, activity: Activity) {
        if self.log.events.len() < self.log.events.capacity() {
            self.log.events.push(Event { at, cpu: self.cpu, activity });
        } else {
            self.log.lost += 1;
        }
    }

    /// Checks at time `at` whether the thread lost its CPU since the last check. `expected` is the
    /// longest time that the work since then should have taken.
    fn check(&mut self, at: Instant, expected: Span) {
        let cpu = sys::cpus::current();
        let was_away = at.since(self.checked) > expected + TOLERATED_DELAY;
        if was_away {
            self.push(self.checked, Activity::Away);
        }
        if was_away || cpu != self.cpu {
            self.cpu = cpu;
            self.push(at, Activity::Seen);
        }
        self.checked = at;
    }

    fn set_activity(&mut self, at: Instant, activity: Activity) {
        // Many yields in sequence are one event.
        if self.activity.replace(activity) != Some(activity) {
            self.push(at, activity);
        }
    }
}

impl Observer for EventLogger {
    const ON: bool = true;

    fn on_event(&mut self, at: Instant, what: WaitEvent) {
        match self.activity {
            // A spinning thread reads the clock and has reported lost CPU time already. Sleeping
            // and waking others have no expected length.
            Some(Activity::Spin | Activity::Block | Activity::Complete) => {
                self.checked = at;
                self.cpu = sys::cpus::current();
            }
            _ => self.check(at, Span::ZERO),
        }
        self.set_activity(
            at,
            match what {
                WaitEvent::Spinning => Activity::Spin,
                WaitEvent::Yielding => Activity::Yield,
                WaitEvent::Blocking => Activity::Block,
                WaitEvent::RoundCompleted => Activity::Complete,
                WaitEvent::Resumed => Activity::Compute,
            },
        );
    }

    fn on_off_cpu(&mut self, from: Instant, to: Instant) {
        self.checked = from;
        self.check(to, Span::ZERO);
    }
}

impl ActivityLogger for EventLogger {
    fn run(&mut self, workload: &mut Workload, iterations: u64) {
        let interval = self.rate.iterations(CHECK_INTERVAL).max(1);
        let mut left = iterations;
        while left > 0 {
            let now_done = left.min(interval);
            workload.run(now_done);
            left -= now_done;
            self.check(now(), CHECK_INTERVAL);
        }
    }

    fn lock<'m>(&mut self, mutex: &'m Mutex<()>) -> MutexGuard<'m, ()> {
        mutex.try_lock().unwrap_or_else(|| {
            self.log(Activity::Lock);
            let guard = mutex.lock();
            self.log(Activity::Compute);
            guard
        })
    }

    fn log(&mut self, activity: Activity) {
        let at = now();
        self.checked = at;
        self.cpu = sys::cpus::current();
        self.set_activity(at, activity);
    }

    fn finish(self) -> Option<EventLog> {
        Some(self.log)
    }
}

/// The time on `CLOCK_MONOTONIC`.
fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The logged activities, without `Seen` events of migrations, which can happen at any time.
    fn activities(logger: EventLogger) -> Vec<Activity> {
        let events = logger.finish().unwrap().events;
        let mut activities: Vec<_> = events.iter().map(|event| event.activity).collect();
        let mut before = None;
        activities.retain(|&activity| {
            let migrated = activity == Activity::Seen && before != Some(Activity::Away);
            before = Some(activity);
            !migrated
        });
        activities
    }

    fn logger(threads: u32) -> (EventLogger, Instant) {
        let logger = EventLogger::new(0, threads, Rate { iteration_ps: 2_000, start_ps: 0 });
        let start = logger.checked;
        (logger, start)
    }

    #[test]
    fn a_thread_was_away_if_its_work_took_much_longer_than_expected() {
        let (mut logger, start) = logger(1);
        logger.check(start + CHECK_INTERVAL + TOLERATED_DELAY, CHECK_INTERVAL);
        logger.check(start + CHECK_INTERVAL + TOLERATED_DELAY + CHECK_INTERVAL, CHECK_INTERVAL);
        assert_eq!(activities(logger), []);

        let (mut logger, start) = self::logger(1);
        logger.check(start + CHECK_INTERVAL + TOLERATED_DELAY + Span::from_nanos(1), CHECK_INTERVAL);
        assert_eq!(activities(logger), [Activity::Away, Activity::Seen]);
    }

    #[test]
    fn yields_are_one_event_unless_another_thread_got_the_cpu() {
        let (mut logger, start) = logger(1);
        for nanos in [0, 1_000, 2_000, 90_000, 91_000] {
            logger.on_event(start + Span::from_nanos(nanos), WaitEvent::Yielding);
        }
        logger.on_event(start + Span::from_nanos(92_000), WaitEvent::Resumed);
        assert_eq!(activities(logger), [Activity::Yield, Activity::Away, Activity::Seen, Activity::Compute]);
    }

    #[test]
    fn a_sleeping_thread_is_not_away() {
        let (mut logger, start) = logger(1);
        logger.on_event(start, WaitEvent::Blocking);
        logger.on_event(start + Span::from_millis(5), WaitEvent::Resumed);
        assert_eq!(activities(logger), [Activity::Block, Activity::Compute]);
    }

    #[test]
    fn events_that_find_the_log_full_are_counted() {
        let (mut logger, start) = logger(u32::MAX);
        for round in 0..u64::from(MIN_CAPACITY) {
            let at = start + Span::from_nanos(round);
            logger.on_event(at, WaitEvent::RoundCompleted);
            logger.on_event(at, WaitEvent::Resumed);
        }
        let log = logger.finish().unwrap();
        assert_eq!(log.events.len(), MIN_CAPACITY as usize);
        assert!(log.lost >= u64::from(MIN_CAPACITY), "{}", log.lost);
    }
}
