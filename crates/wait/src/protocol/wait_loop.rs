//! The wait loop of all objects: ask the rule, follow its decision, poll.

use std::sync::atomic::Ordering::Relaxed;

use policy::record::{RecordedStep, Recorder};
use policy::waiting::{Decision, Missing, Observation, Running, Team, TeamState, Turn, Waiter};
use policy::{Instant, Span, ThreadId};

use crate::deadline::TimedOut;
use crate::draw;
use crate::machine;
use crate::observer::{Observer, WaitEvent};
use crate::statistics::{Counters, Statistics};
use crate::sync::{self, AtomicU64};
use crate::turn::{self, TurnPage};
use crate::waiting::Waiting;

/// The maximum running time charged for one spin step, from one clock reading to the next.
///
/// A step takes 0.2 to 1 us. A preemption costs the spinning thread two context switches (2 to 4
/// us) and usually a timeslice (milliseconds), and time off the CPU is not spinning. But every step
/// must be charged something. Otherwise a spin would never end if all steps are that long.
const LONGEST_STEP: Span = Span::from_micros(5);

/// How often a waiting thread checks whether the awaited processes are alive.
pub const LIVENESS_INTERVAL: Span = Span::from_millis(100);

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

    /// Finds out whether the missing threads run, as far as that is possible. Takes a microsecond
    /// or a few.
    fn running(&mut self) -> Running {
        Running::Unknown
    }
}

/// The context of a wait.
pub(crate) struct Wait<'a, R: Recorder> {
    /// The number of the thread in the records.
    pub(crate) thread: ThreadId,
    /// [`Team::threads`].
    pub(crate) threads: u32,
    /// [`Team::round`].
    pub(crate) round: u64,
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
        let page = turn::page();
        let mut now = sync::now();
        let mut seen = Observation::Arrived;
        let mut next_check = self.is_possible.map(|_| now + LIVENESS_INTERVAL);
        let occurred = loop {
            let turn = page.map_or(Turn::NoTurns, |page| page.turn(now));
            let decision = self.decide(awaited, waiter, now, seen, turn);
            if W::ON
                && let Some(event) = WaitEvent::of(decision)
            {
                observer.on_event(now, event);
            }
            let before = now;
            let until = [self.deadline, next_check].into_iter().flatten().min();
            let occurred;
            (seen, occurred) = match decision {
                Decision::Spin(limit) => {
                    let (spent, occurred) = spin(awaited, limit, until, page, &mut now, observer);
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
                Decision::CheckRunning => {
                    let running = awaited.running();
                    now = sync::now();
                    (Observation::Checked(running), awaited.poll())
                }
                Decision::Block => {
                    let _asleep = waiter.inputs().load.then(machine::Asleep::begin);
                    let ended = match (turn, page) {
                        // The awaited threads are of this job, so a team that goes on would take
                        // time from another one. In its turn they are there again at once.
                        (Turn::OthersUntil(_), Some(page)) if self.threads > 0 => {
                            page.await_turn(until);
                            Observation::Arrived
                        }
                        (Turn::OthersUntil(boundary), _) if waiter.spins_after_block() => {
                            awaited.sleep(Some(until.map_or(boundary, |until| until.min(boundary))));
                            Observation::Woken
                        }
                        _ => {
                            awaited.sleep(until);
                            Observation::Woken
                        }
                    };
                    now = sync::now();
                    counts.blocks += 1;
                    counts.block_time += now.since(before);
                    (ended, awaited.poll())
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
    fn decide<A: Awaited>(
        &self,
        awaited: &mut A,
        waiter: &mut Waiter,
        now: Instant,
        seen: Observation,
        turn: Turn,
    ) -> Decision {
        let inputs = waiter.inputs();
        let team = Team {
            now,
            threads: self.threads,
            round: self.round,
            cpus: self.waiting.cpus_at(now),
            own_cpu: sync::current_cpu(),
            missing: if inputs.missing || R::ON { awaited.missing() } else { &[] },
            load: if inputs.load { machine::load(now).unwrap_or(self.threads) } else { 0 },
            movable: !self.waiting.no_moves,
            draw: if inputs.draw { draw::draw(now, self.thread) } else { 0 },
            turn,
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

/// Polls until the event has occurred, `limit` is spent, `until` is reached or it is the turn of
/// another job. Returns the running time spent. `now` is the time before and after.
#[inline]
fn spin<A: Awaited, W: Observer>(
    awaited: &mut A,
    limit: Span,
    until: Option<Instant>,
    page: Option<&TurnPage>,
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
        let is_to_end =
            until.is_some_and(|until| *now >= until) || page.is_some_and(|page| page.turn(*now).is_others());
        if occurred || spent >= limit || is_to_end {
            return (spent, occurred);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
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
        assert_eq!(spin(&mut Never, Span::from_nanos(1), None, None, &mut now, &mut ()), (LONGEST_STEP, false));
        assert_eq!(now, clock.time());
    }

    #[test]
    fn a_spin_is_charged_for_its_limit_to_within_a_step() {
        let clock = ScriptedClock::start();
        let (limit, mut now) = (READING.scaled(60_000), clock.time());
        assert_eq!(spin(&mut Never, limit, None, None, &mut now, &mut ()), (limit, false));
        let more = limit + Span::from_nanos(1);
        assert_eq!(spin(&mut Never, more, None, None, &mut now, &mut ()), (limit + READING, false));
    }

    #[test]
    fn a_spin_ends_at_its_deadline_even_if_it_was_preempted() {
        let clock = ScriptedClock::start();
        let mut now = Instant::ZERO;
        let until = Some(clock.time());
        assert_eq!(spin(&mut Never, Span::MAX, until, None, &mut now, &mut ()), (LONGEST_STEP, false));
    }

    /// It occurs when the thread has slept twice, or some time after its spin was over.
    struct Later {
        slept: Vec<Option<Instant>>,
        at: Instant,
    }

    impl Awaited for Later {
        fn poll(&mut self) -> bool {
            self.slept.len() == 2 || sync::now() >= self.at
        }

        fn sleep(&mut self, deadline: Option<Instant>) {
            self.slept.push(deadline);
            if deadline.is_some() {
                sync::sleep_on(&std::sync::atomic::AtomicU32::new(0), 0, deadline, sync::Scope::Process);
            }
        }
    }

    /// Waits by a rule, from a spin in the own turn on, which ends soon. No switch follows. The
    /// event occurs after this time. Returns how long it spun and until when it slept, and the time
    /// from the boundary to its end.
    fn wait_out_of_turn(rule: &str, threads: u32, at: Span) -> (Span, Vec<Option<Span>>, Span) {
        let clock = ScriptedClock::start();
        let (written, page) = turn::tests::written();
        clock.take_turns_by(page);
        let begun = clock.time();
        let boundary = begun + Span::from_millis(20);
        written.set(Turn::OursUntil(boundary));
        clock.after(Span::from_micros(50), move || written.set(Turn::OthersUntil(boundary)));
        let costs = policy::waiting::Costs { cs: Span::from_millis(1), ..Default::default() };
        let waiting = Waiting::by(rule.parse().unwrap()).with_cpus(2).with_costs(costs);
        let (counters, state, mut sum) = (Counters::default(), AtomicU64::new(0), Statistics::default());
        let wait = Wait {
            thread: ThreadId(0),
            threads,
            round: 0,
            waiting: &waiting,
            state: &state,
            counters: &counters,
            recorder: &policy::record::Off,
            is_possible: None,
            deadline: None,
        };
        let mut awaited = Later { slept: Vec::new(), at: begun + at };
        wait.run(&mut awaited, &mut waiting.waiter(), &mut ()).unwrap();
        counters.add_to(&mut sum);
        let from = |until: Instant| until.since(begun);
        (sum.spin_time, awaited.slept.iter().map(|until| until.map(from)).collect(), clock.time().since(boundary))
    }

    #[test]
    fn the_wait_of_a_team_ends_in_its_turn_whatever_the_rule() {
        let rules = ["always-spin", "always-yield", "owner-running", "cs", "adaptive"];
        // Others arrive at once, or only when its turn has come: then the rule decides anew.
        let times = [(1_000, 100), (61_600, 1_000)].map(|(at, spun)| (Span::from_micros(at), Span::from_micros(spun)));
        for (rule, (at, most)) in rules.into_iter().flat_map(|rule| times.map(|times| (rule, times))) {
            let (spun, slept, after) = wait_out_of_turn(rule, 2, at);
            assert!(spun < most, "{rule}: {spun}");
            assert_eq!(slept, [], "{rule}: what it waits for does not wake it");
            // As no switch follows, there are no turns any more after two slices.
            assert!(after > Span::from_millis(40) && after < Span::from_millis(42), "{rule}: {after}");
        }
    }

    #[test]
    fn a_wait_for_unknown_threads_out_of_its_turn_blocks_and_is_repeated_in_it_by_rules_that_never_block() {
        let boundary = Some(Span::from_millis(20));
        for (rule, until) in [("always-spin", boundary), ("always-yield", boundary), ("cs", None), ("adaptive", None)] {
            let (spun, slept, _) = wait_out_of_turn(rule, 0, Span::from_millis(1));
            assert!(spun <= Span::from_micros(250), "{rule}: {spun}");
            assert_eq!(slept[0], until, "{rule}");
        }
    }
}
