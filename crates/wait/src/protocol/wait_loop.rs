//! The wait itself, the same for every object: ask the rule, do as it says, look whether what is awaited has come.

use std::sync::atomic::Ordering::Relaxed;

use policy::record::{RecordedStep, Recorder};
use policy::waiting::{Decision, Missing, Observation, Team, TeamState, Waiter};
use policy::{Instant, Span, ThreadId};

use crate::deadline::TimedOut;
use crate::draw;
use crate::load;
use crate::machine;
use crate::observer::{Observer, WaitEvent};
use crate::statistics::{Counters, WaitCounts};
use crate::sync::{self, AtomicU64};

/// The most running time that one step of spinning is charged, from one reading of the clock to the next.
///
/// A step takes 0.2 to 1 us. Whoever takes the CPU from a spinning thread costs it two context switches (2 to 4 us) and
/// mostly a timeslice (milliseconds), and time off the CPU is not spinning. Something has to be charged nevertheless, or
/// a machine on which every step is that long would never come to the end of a spin.
const LONGEST_STEP: Span = Span::from_micros(5);

/// What a thread waits for.
pub trait Awaited {
    /// Looks, once, whether it has come, and takes it where it is something to be taken.
    fn poll(&mut self) -> bool;

    /// Lets some time pass before the next look of a spinning thread, and returns how many turns of the processor's pause
    /// that took.
    #[inline]
    fn pause(&mut self) -> u32 {
        sync::spin_loop();
        1
    }

    /// Sleeps until woken, unless it has come already, and no longer than to the deadline. May return at any time before.
    fn sleep(&mut self, deadline: Option<Instant>);

    /// When it is to be seen next whether what is awaited can still come; nothing where that is never in doubt.
    fn next_liveness_check(&self) -> Option<Instant> {
        None
    }

    /// Whether what is awaited can still come, as far as is known. Asked after each step; it has not come yet.
    fn check_liveness(&mut self, _now: Instant) -> bool {
        true
    }

    /// Who is missing, as far as anybody knows. Asked for by rules that want to know, and for records.
    fn missing(&mut self) -> &[Missing] {
        &[]
    }
}

/// Where a wait takes place, and who waits.
pub(crate) struct Wait<'a, R: Recorder> {
    /// Its number in the records.
    pub(crate) thread: ThreadId,
    /// [`Team::threads`].
    pub(crate) threads: u32,
    /// How many CPUs the threads may use; nothing where that is to be found out.
    pub(crate) cpus: Option<u32>,
    /// [`Team::movable`].
    pub(crate) movable: bool,
    /// The rule's [`TeamState`].
    pub(crate) state: &'a AtomicU64,
    pub(crate) counters: &'a Counters,
    pub(crate) recorder: &'a R,
    /// When the thread gives up.
    pub(crate) deadline: Option<Instant>,
}

impl<R: Recorder> Wait<'_, R> {
    /// Does as the rule decides until what is awaited has come, or cannot come, or the deadline has passed.
    ///
    /// The caller has looked already: a wait begins with the rule's decision.
    ///
    /// # Errors
    /// When the deadline has passed, or what is awaited says that it cannot come any more.
    #[inline]
    pub(crate) fn run<A: Awaited, W: Observer>(
        &self,
        awaited: &mut A,
        waiter: &mut Waiter,
        observer: &mut W,
    ) -> Result<(), TimedOut> {
        let mut counts = WaitCounts::default();
        let overload_marks = waiter.overload_marks();
        let mut now = sync::now();
        let mut seen = Observation::Arrived;
        let has_come = loop {
            let decision = self.decide(awaited, waiter, now, seen);
            if W::ON {
                observer.on_event(now, WaitEvent::of(decision));
            }
            let before = now;
            let until = [self.deadline, awaited.next_liveness_check()].into_iter().flatten().min();
            let has_come;
            (seen, has_come) = match decision {
                Decision::Spin(limit) => {
                    let (spent, has_come) = spin(awaited, limit, until, &mut now, observer);
                    counts.add_spin(spent, has_come);
                    (Observation::Spun(spent), has_come)
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
                    let _asleep = waiter.inputs().load.then(load::Asleep::begin);
                    awaited.sleep(until);
                    now = sync::now();
                    counts.blocks += 1;
                    counts.block_time += now.since(before);
                    (Observation::Woken, awaited.poll())
                }
            };
            if has_come || self.deadline.is_some_and(|deadline| now >= deadline) || !awaited.check_liveness(now) {
                break has_come;
            }
        };
        if W::ON {
            observer.on_event(now, WaitEvent::Resumed);
        }
        self.finish(waiter, now, seen);
        counts.overload_marks = waiter.overload_marks().wrapping_sub(overload_marks).into();
        self.counters.add(&counts);
        if has_come { Ok(()) } else { Err(TimedOut) }
    }

    /// Asks the rule, and records the answer.
    #[inline]
    fn decide<A: Awaited>(&self, awaited: &mut A, waiter: &mut Waiter, now: Instant, seen: Observation) -> Decision {
        let inputs = waiter.inputs();
        let team = Team {
            now,
            threads: self.threads,
            cpus: self.cpus.unwrap_or_else(|| machine::cpus(now)),
            own_cpu: sync::current_cpu(),
            missing: if inputs.missing || R::ON { awaited.missing() } else { &[] },
            load: if inputs.load { load::count(now).unwrap_or(self.threads) } else { 0 },
            movable: self.movable,
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

    /// Reads the team's state and publishes what became of it.
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

/// Looks until it has come, `limit` is spent or it is `until`, and returns the running time spent. `now` is the time before
/// and after.
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
        let has_come = loop {
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
        if has_come || spent >= limit || until.is_some_and(|until| *now >= until) {
            return (spent, has_come);
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
    fn a_jump_of_the_clock_is_charged_no_more_than_the_longest_step() {
        let clock = ScriptedClock::start();
        // The clock was last read at its zero, and stands at a second.
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
    fn a_spin_ends_with_its_time_even_if_it_did_not_run() {
        let clock = ScriptedClock::start();
        let mut now = Instant::ZERO;
        let until = Some(clock.time());
        assert_eq!(spin(&mut Never, Span::MAX, until, &mut now, &mut ()), (LONGEST_STEP, false));
    }
}
