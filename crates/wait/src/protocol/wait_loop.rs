//! The wait loop of all objects: ask the rule, follow its decision, poll.

use std::sync::atomic::Ordering::Relaxed;

use policy::record::{RecordedStep, Recorder};
use policy::waiting::{Decision, Missing, Observation, Team, TeamState, Waiter};
use policy::{Instant, Span, ThreadId};

use crate::deadline::TimedOut;
use crate::draw;
use crate::machine;
use crate::observer::{Observer, WaitEvent};
use crate::statistics::{Counters, Statistics};
use crate::sync::{self, AtomicU64};
use crate::waiting::Waiting;

/// The maximum running time charged for one spin step, from one clock reading to the next.
///
/// A step takes 0.2 to 1 us. A preemption costs the spinning thread two context switches (2 to 4
/// us) and usually a timeslice (milliseconds), and time off the CPU is not spinning. But every step
/// must be charged something. Otherwise a spin would never end if all steps are that long.
const LONGEST_STEP: Span = Span::from_micros(5);

/// How often a waiting thread checks whether the awaited processes are alive.
const LIVENESS_INTERVAL: Span = Span::from_millis(100);

/// An event that a thread waits for.
pub trait Awaited {
    /// Checks once whether the event has occurred. Acquires what is awaited, if it can be acquired.
    fn poll(&mut self) -> bool;

    /// Pauses between two polls of a spin. Returns the number of processor pauses.
    #[inline]
    fn pause(&mut self) -> u32 {
        sync::spin_loop();
        1
    }

    /// Blocks until woken or until the deadline, unless the event has occurred. May return early.
    fn sleep(&mut self, deadline: Option<Instant>);

    /// The missing threads, as far as known. For rules that need them, and for records.
    fn missing(&mut self) -> &[Missing] {
        &[]
    }
}

/// The context of a wait.
pub(crate) struct Wait<'a, R: Recorder> {
    /// The number of the thread in the records.
    pub(crate) thread: ThreadId,
    /// [`Team::threads`].
    pub(crate) threads: u32,
    pub(crate) waiting: &'a Waiting,
    /// The rule's [`TeamState`].
    pub(crate) state: &'a AtomicU64,
    pub(crate) counters: &'a Counters,
    pub(crate) recorder: &'a R,
    /// Returns `false` if the event has become impossible. `None` if it always is possible.
    pub(crate) is_possible: Option<&'a dyn Fn() -> bool>,
    /// When the thread stops waiting.
    pub(crate) deadline: Option<Instant>,
}

impl<R: Recorder> Wait<'_, R> {
    /// Follows the rule until the event occurs, becomes impossible, or the deadline passes.
    ///
    /// The caller has polled once: a wait begins with a decision of the rule.
    ///
    /// # Errors
    /// If the deadline passes or the event has become impossible.
    #[inline]
    pub(crate) fn run<A: Awaited, W: Observer>(
        &self,
        awaited: &mut A,
        waiter: &mut Waiter,
        observer: &mut W,
    ) -> Result<(), TimedOut> {
        let mut counts = Statistics::default();
        let overload_marks = waiter.overload_marks();
        let mut now = sync::now();
        let mut seen = Observation::Arrived;
        let mut next_check = self.is_possible.map(|_| now + LIVENESS_INTERVAL);
        let occurred = loop {
            let decision = self.decide(awaited, waiter, now, seen);
            if W::ON {
                observer.on_event(now, WaitEvent::of(decision));
            }
            let before = now;
            let until = [self.deadline, next_check].into_iter().flatten().min();
            let occurred;
            (seen, occurred) = match decision {
                Decision::Spin(limit) => {
                    let (spent, occurred) = spin(awaited, limit, until, &mut now, observer);
                    counts.add_spin(spent, occurred);
                    (Observation::Spun(spent), occurred)
                }
                Decision::Yield => {
                    sync::yield_now();
                    now = sync::now();
                    counts.yields += 1;
                    (Observation::Yielded(now.since(before)), awaited.poll())
                }
                Decision::Move(cpu) => {
                    sync::move_to(cpu);
                    now = sync::now();
                    counts.moves += 1;
                    (Observation::Moved, awaited.poll())
                }
                Decision::Block => {
                    let _asleep = waiter.inputs().load.then(machine::Asleep::begin);
                    awaited.sleep(until);
                    now = sync::now();
                    counts.blocks += 1;
                    counts.block_time += now.since(before);
                    (Observation::Woken, awaited.poll())
                }
            };
            if occurred || self.deadline.is_some_and(|deadline| now >= deadline) {
                break occurred;
            }
            if let (Some(is_possible), Some(check)) = (self.is_possible, &mut next_check)
                && now >= *check
            {
                *check = now + LIVENESS_INTERVAL;
                if !is_possible() {
                    break false;
                }
            }
        };
        if W::ON {
            observer.on_event(now, WaitEvent::Resumed);
        }
        self.finish(waiter, now, seen);
        counts.overload_marks = waiter.overload_marks().wrapping_sub(overload_marks).into();
        self.counters.merge(&counts);
        if occurred { Ok(()) } else { Err(TimedOut) }
    }

    /// Asks the rule and records its decision.
    #[inline]
    fn decide<A: Awaited>(&self, awaited: &mut A, waiter: &mut Waiter, now: Instant, seen: Observation) -> Decision {
        let inputs = waiter.inputs();
        let team = Team {
            now,
            threads: self.threads,
            cpus: self.waiting.cpus.unwrap_or_else(|| machine::cpus(now)),
            own_cpu: sync::current_cpu(),
            missing: if inputs.missing || R::ON { awaited.missing() } else { &[] },
            load: if inputs.load { machine::load(now).unwrap_or(self.threads) } else { 0 },
            movable: !self.waiting.no_moves,
            draw: if inputs.draw { draw::draw(now, self.thread) } else { 0 },
        };
        let mut decision = Decision::Block;
        self.with_state(|state| {
            let before = *state;
            decision = waiter.step(&team, state, seen);
            if R::ON {
                self.recorder.record(RecordedStep::new(self.thread, &team, before, seen, decision));
            }
        });
        decision
    }

    /// Tells the rule that the wait is over.
    #[inline]
    fn finish(&self, waiter: &mut Waiter, now: Instant, seen: Observation) {
        self.with_state(|state| {
            if R::ON {
                self.recorder.record(RecordedStep::over(self.thread, now, *state, seen));
            }
            waiter.over(now, state, seen);
        });
    }

    /// Reads the team's state and stores the new one.
    #[inline]
    fn with_state(&self, step: impl FnOnce(&mut TeamState)) {
        let before = TeamState(self.state.load(Relaxed));
        let mut state = before;
        step(&mut state);
        if state != before {
            self.state.store(state.0, Relaxed);
        }
    }
}

/// Polls until the event has occurred, `limit` is spent or `until` is reached. Returns the running
/// time spent. `now` is the time before and after.
#[inline]
fn spin<A: Awaited, W: Observer>(
    awaited: &mut A,
    limit: Span,
    until: Option<Instant>,
    now: &mut Instant,
    observer: &mut W,
) -> (Span, bool) {
    let mut spent = Span::ZERO;
    loop {
        let mut turns = 0;
        let occurred = loop {
            if awaited.poll() {
                break true;
            }
            turns += awaited.pause();
            if turns >= sync::POLLS {
                break false;
            }
        };
        let before = std::mem::replace(now, sync::now());
        let step = now.since(before);
        if W::ON && step > LONGEST_STEP {
            observer.on_off_cpu(before, *now);
        }
        spent += step.min(LONGEST_STEP);
        if occurred || spent >= limit || until.is_some_and(|until| *now >= until) {
            return (spent, occurred);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::script::{READING, ScriptedClock};

    struct Never;

    impl Awaited for Never {
        fn poll(&mut self) -> bool {
            false
        }

        fn sleep(&mut self, _: Option<Instant>) {}
    }

    #[test]
    fn a_jump_of_the_clock_is_charged_as_one_longest_step() {
        let clock = ScriptedClock::start();
        // The last reading of the clock was 0, and its time is 1 s.
        let mut now = Instant::ZERO;
        assert_eq!(spin(&mut Never, Span::from_nanos(1), None, &mut now, &mut ()), (LONGEST_STEP, false));
        assert_eq!(now, clock.time());
    }

    #[test]
    fn a_spin_is_charged_for_its_limit_to_within_a_step() {
        let clock = ScriptedClock::start();
        let (limit, mut now) = (READING.scaled(60_000), clock.time());
        assert_eq!(spin(&mut Never, limit, None, &mut now, &mut ()), (limit, false));
        let more = limit + Span::from_nanos(1);
        assert_eq!(spin(&mut Never, more, None, &mut now, &mut ()), (limit + READING, false));
    }

    #[test]
    fn a_spin_ends_at_its_deadline_even_if_it_was_preempted() {
        let clock = ScriptedClock::start();
        let mut now = Instant::ZERO;
        let until = Some(clock.time());
        assert_eq!(spin(&mut Never, Span::MAX, until, &mut now, &mut ()), (LONGEST_STEP, false));
    }
}
