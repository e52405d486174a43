#![doc = include_str!("../protocol.md")]

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use policy::record::{Entry, Off, Recorder};
use policy::waiting::{Costs, Decision, Missing, Observation, Rule, Team, TeamState, Waiter};
use policy::{Instant, Span, ThreadId};

use crate::generation::{Round, Word};
use crate::sighting::Sighting;
use crate::statistics::{Counters, Statistics};
use crate::sync::{self, AtomicU64};
use crate::watch::{Moment, Watch};

/// The most running time that one step of spinning is charged, from one reading of the clock to the next.
///
/// A step takes 0.2 to 1 us. Whoever takes the CPU from a spinning thread costs it two context switches (2 to 4 us) and
/// mostly a timeslice (milliseconds), and time off the CPU is not spinning. Something has to be charged nevertheless, or
/// a machine on which every step is that long would never come to the end of a spin.
const LONGEST_STEP: Span = Span::from_micros(5);

/// On a pair of cache lines of its own: adjacent lines are fetched together.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

/// What a member of the team writes down: it alone writes, others read now and then.
#[derive(Debug)]
struct Slot {
    sighting: Sighting,
    counters: Counters,
}

/// A place where a team of threads meets: each waits there until all have arrived, again and again.
///
/// As [`std::sync::Barrier`], but how a thread waits is decided by a waiting rule, and what that came to is counted. A
/// wait allocates no memory. With a recorder other than [`Off`] every decision is recorded.
///
/// All that happened before a party's arrival is visible to all parties after that round's wait.
pub struct Barrier<R: Recorder = Off> {
    /// All arrivals since the beginning: the ticket counter.
    arrivals: Padded<AtomicU64>,
    word: Padded<Word>,
    /// The rule's [`TeamState`].
    state: Padded<AtomicU64>,
    parties: NonZeroU64,
    cpus: u32,
    /// What every member's waiter is a copy of.
    waiter: Waiter,
    /// One for each party by its number, and the last one for the anonymous.
    slots: Box<[Padded<Slot>]>,
    recorder: R,
}

impl Barrier {
    /// A barrier for `parties` threads (for one, where it says none) that wait by `rule` on a machine with these costs,
    /// of which they may use `cpus` CPUs.
    pub fn new(parties: u32, rule: Rule, costs: Costs, cpus: u32) -> Barrier {
        Barrier::with_recorder(parties, rule, costs, cpus, Off)
    }
}

impl<R: Recorder> Barrier<R> {
    /// As [`Barrier::new`], recording every decision.
    pub fn with_recorder(parties: u32, rule: Rule, costs: Costs, cpus: u32, recorder: R) -> Barrier<R> {
        let parties = NonZeroU64::new(parties.into()).unwrap_or(NonZeroU64::MIN);
        let slot = |_| Padded(Slot { sighting: Sighting::none(), counters: Counters::new() });
        Barrier {
            arrivals: Padded(AtomicU64::new(0)),
            word: Padded(Word::new()),
            state: Padded(AtomicU64::new(TeamState::default().0)),
            parties,
            cpus,
            waiter: rule.waiter(costs),
            slots: (0..=parties.get()).map(slot).collect(),
            recorder,
        }
    }

    /// How many threads meet here.
    pub fn parties(&self) -> u32 {
        self.parties.get() as u32
    }

    /// Where decisions are recorded.
    pub fn recorder(&self) -> &R {
        &self.recorder
    }

    /// Waits until as many threads as there are parties have arrived, the caller included. One of them, the last to
    /// arrive, is told that it leads.
    ///
    /// The wait is anonymous: the rule knows nothing about who else is missing, and remembers nothing from wait to wait.
    /// A record shows each such wait as a thread of its own, numbered from the size of the team upwards.
    pub fn wait(&self) -> BarrierWaitResult {
        self.member(None).wait()
    }

    /// The member of the team with this number, counted from zero, for one thread to keep from wait to wait.
    ///
    /// A number outside the team makes an anonymous member, whose waits are those of [`Barrier::wait`].
    pub fn party(&self, number: u32) -> Party<'_, R> {
        self.member((number < self.parties()).then_some(number))
    }

    fn member(&self, number: Option<u32>) -> Party<'_, R> {
        let others = if number.is_some() && self.looks() { self.parties() as usize } else { 0 };
        Party { barrier: self, number, waiter: self.waiter, missing: Vec::with_capacity(others) }
    }

    /// What waiting has come to so far. Waits that are under way count as waits, but what they have done is added when
    /// they are over.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics { waits: self.arrivals.0.load(Relaxed), ..Statistics::default() };
        self.slots.iter().for_each(|slot| slot.0.counters.add_to(&mut sum));
        sum
    }

    /// Whether anybody asks who is missing.
    fn looks(&self) -> bool {
        self.waiter.looks() || R::ON
    }

    /// Looks for the end of `round` until it is there or `limit` is spent, and returns the running time spent. `now` is
    /// the time before and after.
    #[inline]
    fn spin<W: Watch>(&self, round: Round, limit: Span, now: &mut Instant, watch: &mut W) -> Span {
        let mut spent = Span::ZERO;
        loop {
            let over = (0..sync::POLLS).any(|_| {
                let over = self.word.0.has_completed(round);
                if !over {
                    sync::spin_loop();
                }
                over
            });
            let before = std::mem::replace(now, sync::now());
            let step = now.since(before);
            if W::ON && step > LONGEST_STEP {
                watch.was_away(before, *now);
            }
            spent += step.min(LONGEST_STEP);
            if over || spent >= limit {
                return spent;
            }
        }
    }
}

impl<R: Recorder> fmt::Debug for Barrier<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("parties", &self.parties).field("waiter", &self.waiter).finish_non_exhaustive()
    }
}

/// A member of a barrier's team: it remembers what its rule has learnt, and lets the others see where it was last.
///
/// Two of the same number at a time are harmless but for the rule: each overwrites where the other was seen.
pub struct Party<'b, R: Recorder = Off> {
    barrier: &'b Barrier<R>,
    /// Nothing for an anonymous member.
    number: Option<u32>,
    waiter: Waiter,
    /// Who is missing, while a step is decided; kept so that a wait need not allocate.
    missing: Vec<Missing>,
}

impl<R: Recorder> Party<'_, R> {
    /// Waits until as many threads as there are parties have arrived, the caller included. One of them, the last to
    /// arrive, is told that it leads.
    pub fn wait(&mut self) -> BarrierWaitResult {
        self.wait_watched(&mut ())
    }

    /// As [`Party::wait`], telling `watch` what this member does meanwhile.
    pub fn wait_watched<W: Watch>(&mut self, watch: &mut W) -> BarrierWaitResult {
        let barrier = self.barrier;
        let ticket = barrier.arrivals.0.fetch_add(1, AcqRel);
        let round = Round(ticket / barrier.parties);
        if barrier.looks() && self.number.is_some() {
            self.slot().sighting.publish(round, sync::current_cpu());
        }
        let leads = ticket % barrier.parties == barrier.parties.get() - 1;
        if leads {
            if W::ON {
                watch.sees(sync::now(), Moment::Completes);
            }
            barrier.word.0.complete(round);
            if W::ON {
                watch.sees(sync::now(), Moment::GoesOn);
            }
        } else {
            self.outlast(round, ticket, watch);
        }
        BarrierWaitResult { leads }
    }

    /// Does as the rule decides until `round` is over.
    #[inline]
    fn outlast<W: Watch>(&mut self, round: Round, ticket: u64, watch: &mut W) {
        let barrier = self.barrier;
        let thread = ThreadId(self.number.unwrap_or_else(|| barrier.parties().wrapping_add(ticket as u32)));
        if self.number.is_none() {
            self.waiter = barrier.waiter;
        }
        let mut tally = Statistics::default();
        let mut now = sync::now();
        let mut seen = Observation::Arrived;
        loop {
            let decision = self.decide(thread, round, now, seen);
            let before = now;
            if W::ON {
                watch.sees(now, Moment::of(decision));
            }
            seen = match decision {
                Decision::Spin(limit) => {
                    let spent = barrier.spin(round, limit, &mut now, watch);
                    tally.spins = 1;
                    tally.spin_time += spent;
                    Observation::Spun(spent)
                }
                Decision::Yield => {
                    sync::yield_now();
                    now = sync::now();
                    tally.yields += 1;
                    Observation::Yielded(now.since(before))
                }
                Decision::Block => {
                    barrier.word.0.sleep(round);
                    now = sync::now();
                    tally.blocks += 1;
                    Observation::Woken
                }
            };
            if barrier.word.0.has_completed(round) {
                tally.successful_spins = u64::from(matches!(decision, Decision::Spin(_)));
                if W::ON {
                    watch.sees(now, Moment::GoesOn);
                }
                break;
            }
        }
        self.slot().counters.add(&tally);
    }

    /// Asks the rule, and records the answer.
    #[inline]
    fn decide(&mut self, thread: ThreadId, round: Round, now: Instant, seen: Observation) -> Decision {
        let barrier = self.barrier;
        if barrier.looks() && self.number.is_some() {
            let (others, _) = barrier.slots.split_at(barrier.parties() as usize);
            self.missing.clear();
            self.missing.extend((0..).zip(others).filter_map(|(number, slot)| {
                let last_seen = slot.0.sighting.missing_from(round)?;
                Some(Missing { thread: ThreadId(number), last_seen })
            }));
        }
        let team = Team {
            now,
            threads: barrier.parties(),
            cpus: barrier.cpus,
            own_cpu: sync::current_cpu(),
            missing: &self.missing,
        };
        let before = TeamState(barrier.state.0.load(Relaxed));
        let mut state = before;
        let decision = self.waiter.step(&team, &mut state, seen);
        if state != before {
            barrier.state.0.store(state.0, Relaxed);
        }
        if R::ON {
            barrier.recorder.record(Entry::new(thread, &team, before, seen, decision));
        }
        decision
    }

    fn slot(&self) -> &Slot {
        // The anonymous share the last slot.
        let number = self.number.unwrap_or(self.barrier.parties());
        &self.barrier.slots[number as usize].0
    }
}

impl<R: Recorder> fmt::Debug for Party<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Party").field("number", &self.number).field("waiter", &self.waiter).finish_non_exhaustive()
    }
}

/// What a thread is told when a round is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    leads: bool,
}

impl BarrierWaitResult {
    /// Whether the caller leads: true for exactly one of the threads of each round.
    pub fn is_leader(&self) -> bool {
        self.leads
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use policy::record::Log;

    use super::*;

    #[test]
    fn a_spurious_waking_is_seen_by_the_rule_and_ends_no_wait() {
        let barrier = Barrier::with_recorder(2, Rule::AlwaysBlock, Costs::default(), 2, Log::default());
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| barrier.party(0).wait());
            while !barrier.recorder().entries().iter().any(|entry| entry.seen == Observation::Woken) {
                barrier.word.0.wake_spuriously();
                std::thread::yield_now();
            }
            assert!(!sleeper.is_finished());
            assert!(barrier.party(1).wait().is_leader());
            assert!(!sleeper.join().unwrap().is_leader());
        });
        assert!(barrier.statistics().blocks >= 2);
    }

    #[test]
    fn a_jump_of_the_clock_is_charged_no_more_than_the_longest_step() {
        let barrier = Barrier::new(2, Rule::AlwaysSpin, Costs::default(), 2);
        // A clock that was last read at its zero has jumped by the time since the machine was started.
        let mut now = Instant::ZERO;
        assert_eq!(barrier.spin(Round(0), Span::from_nanos(1), &mut now, &mut ()), LONGEST_STEP);
        assert!(now > Instant::ZERO + LONGEST_STEP);
    }

    #[test]
    fn a_spin_is_charged_for_at_least_its_limit() {
        let barrier = Barrier::new(2, Rule::AlwaysSpin, Costs::default(), 2);
        let limit = Span::from_micros(30);
        let spent = barrier.spin(Round(0), limit, &mut sync::now(), &mut ());
        assert!(spent >= limit && spent < limit + LONGEST_STEP, "{spent}");
    }
}
