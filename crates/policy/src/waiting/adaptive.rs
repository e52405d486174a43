//! The adaptive rule: spin while the awaited threads run, yield while only siblings use the CPU,
//! else block.
//!
//! Source: our own. Two-phase waiting and its bound of slightly more than two context switches are
//! from Tsafrir and Feitelson (sections 4.1 and 4.2), and so is the idea of telling fine grains
//! from coarse ones by a clock (section 6). Spinning only while the awaited thread runs is from
//! Karlin, Li, Manasse and Owicki ("Empirical studies of competitive spinning for a shared-memory
//! multiprocessor", 1991).
//!
//! # What a thread decides alone
//!
//! A spin is at most 2.4 times CS long, where CS is the cost of waking a blocked sibling. Then the
//! thread checks whether the missing siblings run, and spins again if all do. Otherwise it depends
//! on the grain: how long the thread computes between its waits.
//!
//! * **Eager**: up to CS. The thread yields, and the duration tells which other threads need this
//!   CPU. As short as a lone yield: none, and the thread spins again for a while. Longer: a
//!   sibling, or another brief thread, and it yields again. A good part of a tick: another program
//!   that used the CPU it was offered. The thread yields before it spins if a missing sibling was
//!   last seen on its own CPU, or if there are more than two threads for each CPU and no tick was
//!   lost recently.
//! * **Careful**: longer than CS. The thread blocks, since a sibling that is off its CPU gets one
//!   sooner from a thread that sleeps. It checks before it spins if a missing sibling was last
//!   seen on its own CPU, or if recent spins have failed.
//!
//! While the grain is unknown, a thread is careful if there are more threads than CPUs. If it is
//! unknown whether the siblings run, as between processes, an eager thread yields, and a careful
//! one does if there are enough CPUs for all threads. No thread spins and yields for more than 10
//! ms in one wait.
//!
//! # What the team decides together
//!
//! Losing a tick to another program twice within few yields begins a [*backoff*](backoff): on this
//! machine yielding does not pay. From their next wait on, all members wait in another way, for 16
//! times as long as the yield took:
//!
//! * **Carefully.**
//! * **Colocated**: a fine-grained team of at least two threads for each CPU moves to one CPU,
//!   away from the one that was lost, and continues to yield there: a round of one thread is
//!   cheaper there than waking a thread elsewhere. The team loses its share of the other CPUs to
//!   other programs, but no member waits behind a foreign timeslice. If ticks are lost there as
//!   well, it tries another CPU.
//! * **Colocated and blocking**, if that does not help either: waking a sibling on the own CPU
//!   costs one switch, and no yield helps another program.
//!
//! Threads are moved, not bound: a thread that the scheduler takes elsewhere comes back at most
//! once a tick. So a team that turns to long computations without waiting is spread over the
//! machine as usual. The host moves a thread by an affinity of one CPU for an instant, the
//! simulated eevdf by its queues. Kernels with one queue cannot, and the rule does without.
//!
//! # Bounds
//!
//! * **A spin that does not pay** costs a careful thread 2.4 CS and a check, unless its siblings
//!   run at every check. Then it goes on, for 10 ms at most. If a world checks only some of many
//!   siblings, one of the others may be off its CPU meanwhile.
//! * **Lost ticks**: once a thread has begun a backoff, it loses at most one tick to each 16 ticks
//!   of backoff, and while losses are recent, each further one begins the next backoff. A loss of
//!   more than 100 ms counts as one of 100 ms. Losses that are rarer than one in 64 yields of a
//!   thread begin none.
//!
//! # Locks, and single events
//!
//! It is unknown which threads will come. The thread spins for a quarter of CS, and goes on up to
//! CS in total while the owner runs. Then it blocks. So a wait costs at most CS and three checks
//! more than blocking at once. If it is unknown whether the owner runs, the thread blocks after
//! the first quarter: a lock is mostly released within a fraction of the cost of a wakeup, or else
//! its owner has lost its CPU.

mod backoff;

use self::backoff::{Backoff, Response};
use super::grain::Grain;
use super::spin_predictor::SpinPredictor;
use super::step::{Costs, Decision, Observation, Running, Team, TeamState};
use crate::units::{CpuId, Instant, Span};

/// The bound as a multiple of CS, in thousandths.
const BOUND: u64 = 2_400;
/// The first spin at a lock, and each further one.
const SPIN_AT_A_LOCK: u64 = 250;
/// The first spin after a lone yield, in thousandths of the bound; each further one is twice as
/// long.
const SPIN_AFTER_YIELD: u64 = 63;
/// Losing two ticks within this many yields begins a backoff.
const FEW_YIELDS: u32 = 64;
/// A thread does not check more often than this, even if a wakeup costs nothing.
const SHORTEST_SPIN: Span = Span::from_micros(1);
/// How long one wait may take before it blocks.
const LONGEST_WAIT: Span = Span::from_millis(10);

/// How a thread waits for its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Eager,
    Careful,
    /// On this CPU.
    Colocated {
        cpu: CpuId,
        yields: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Adaptive {
    costs: Costs,
    bound: Span,
    // The present wait.
    began: Instant,
    mode: Mode,
    /// At a barrier, how long to spin after the next lone yield; at a lock, how long it has spun.
    spin: Span,
    /// Whether its first spin is not yet recorded.
    records_spin: bool,
    // Kept from wait to wait.
    /// Its CPU at its last step, and another one on which a sibling was.
    here: CpuId,
    elsewhere: Option<CpuId>,
    /// Whether colocation could pay for its team.
    can_colocate: bool,
    /// The yields since the last one that let another program run.
    yields: u32,
    backoffs: u32,
    /// When it last moved.
    moved: Instant,
    grain: Grain,
    /// Records the first spins of careful waits.
    predictor: SpinPredictor,
}

impl Adaptive {
    pub(super) const fn new(costs: Costs) -> Adaptive {
        Adaptive {
            costs: costs.with_tick(),
            bound: costs.cs.scaled(BOUND),
            began: Instant::ZERO,
            mode: Mode::Eager,
            spin: Span::ZERO,
            records_spin: false,
            here: CpuId(0),
            elsewhere: None,
            can_colocate: false,
            yields: FEW_YIELDS,
            backoffs: 0,
            moved: Instant::ZERO,
            grain: Grain::UNKNOWN,
            predictor: SpinPredictor::NEW,
        }
    }

    pub(super) const fn backoffs(&self) -> u32 {
        self.backoffs
    }

    pub(super) fn step(&mut self, team: &Team<'_>, state: &mut TeamState, seen: Observation) -> Decision {
        if team.threads == 0 {
            return self.step_at_a_lock(seen);
        }
        self.here = team.own_cpu;
        let is_out_of_time = team.now.since(self.began) >= LONGEST_WAIT;
        match seen {
            Observation::Arrived => {
                self.begin_wait(team, *state);
                self.move_to_team(team).unwrap_or_else(|| self.decide_here(team, *state))
            }
            Observation::Moved => {
                self.moved = team.now;
                self.decide_here(team, *state)
            }
            Observation::Woken => Decision::Block,
            Observation::Spun(_) => {
                self.record_spin(false);
                if is_out_of_time { Decision::Block } else { Decision::CheckRunning }
            }
            Observation::Yielded(took) if self.record_yield(took, team.now, state) => Decision::Block,
            _ if is_out_of_time => Decision::Block,
            Observation::Yielded(took) => self.move_to_team(team).unwrap_or_else(|| self.decide_after_yield(took)),
            Observation::Checked(Running::All) => Decision::Spin(self.bound.max(SHORTEST_SPIN)),
            Observation::Checked(Running::Unknown) if self.has_cpus(team, *state) => Decision::Yield,
            Observation::Checked(_) if self.mode == Mode::Careful => Decision::Block,
            Observation::Checked(_) => Decision::Yield,
        }
    }

    pub(super) fn over(&mut self, now: Instant, state: &mut TeamState, seen: Observation) {
        self.grain.end_wait(now);
        match seen {
            Observation::Spun(_) => self.record_spin(true),
            Observation::Yielded(took) => {
                self.record_yield(took, now, state);
            }
            Observation::Arrived | Observation::Woken | Observation::Moved | Observation::Checked(_) => {}
        }
    }

    fn step_at_a_lock(&mut self, seen: Observation) -> Decision {
        let spin = self.costs.cs.scaled(SPIN_AT_A_LOCK);
        match seen {
            Observation::Arrived if !spin.is_zero() => {
                self.spin = Span::ZERO;
                Decision::Spin(spin)
            }
            Observation::Spun(spun) => {
                self.spin += spun;
                if self.spin < self.costs.cs { Decision::CheckRunning } else { Decision::Block }
            }
            Observation::Checked(Running::All) => Decision::Spin(spin),
            _ => Decision::Block,
        }
    }

    /// Notes the CPUs of the team, and how it waits now.
    fn begin_wait(&mut self, team: &Team<'_>, state: TeamState) {
        self.began = team.now;
        self.spin = self.bound.scaled(SPIN_AFTER_YIELD);
        self.records_spin = false;
        self.grain.begin_wait(team.now);
        let others = team.missing.iter().filter_map(|missing| missing.last_seen);
        self.elsewhere = others.chain(self.elsewhere).find(|&cpu| cpu != team.own_cpu);
        let is_fine = self.grain.is_known() && self.grain.length() <= self.costs.cs;
        self.can_colocate = is_fine && team.movable && team.cpus > 1 && team.threads >= 2 * team.cpus;
        let is_eager = if self.grain.is_known() { is_fine } else { team.threads <= team.cpus };
        self.mode = match Backoff::from(state).response(team.now) {
            Some(Response::Colocate { cpu, yields }) if is_fine => Mode::Colocated { cpu, yields },
            None if is_eager => Mode::Eager,
            _ => Mode::Careful,
        };
    }

    /// Moves to a colocated team, if it is elsewhere.
    fn move_to_team(&mut self, team: &Team<'_>) -> Option<Decision> {
        let Mode::Colocated { cpu, .. } = self.mode else { return None };
        let moves = cpu != team.own_cpu && team.now.since(self.moved) > self.costs.tick;
        moves.then_some(Decision::Move(cpu))
    }

    /// The first decision on this CPU.
    fn decide_here(&mut self, team: &Team<'_>, state: TeamState) -> Decision {
        let has_sibling_here = team.missing.iter().any(|missing| missing.last_seen == Some(team.own_cpu));
        let is_crowded = team.threads > 2 * team.cpus;
        match self.mode {
            Mode::Eager if has_sibling_here => Decision::Yield,
            Mode::Eager if is_crowded && !Backoff::from(state).is_recent(team.now) => Decision::Yield,
            Mode::Eager => Decision::Spin(self.bound),
            Mode::Careful if !has_sibling_here && self.predictor.decide_spin() => {
                self.records_spin = true;
                Decision::Spin(self.bound)
            }
            Mode::Careful => Decision::CheckRunning,
            Mode::Colocated { yields: true, .. } => Decision::Yield,
            Mode::Colocated { yields: false, .. } => Decision::Block,
        }
    }

    /// The decision after a yield that took this long, and no tick.
    fn decide_after_yield(&mut self, took: Span) -> Decision {
        if !self.costs.is_lone_yield(took) {
            return Decision::Yield;
        }
        let spin = self.spin;
        self.spin = spin.scaled(2_000).min(self.bound);
        Decision::Spin(spin)
    }

    /// Whether there are enough CPUs for all threads, and no other program has taken one of them
    /// for long.
    fn has_cpus(&self, team: &Team<'_>, state: TeamState) -> bool {
        team.threads <= team.cpus && Backoff::from(state).response(team.now).is_none()
    }

    /// Records the first spin of a careful wait, once.
    fn record_spin(&mut self, succeeded: bool) {
        if std::mem::take(&mut self.records_spin) {
            if succeeded {
                self.predictor.record_success();
            } else {
                self.predictor.record_failure();
            }
        }
    }

    /// Records a yield. Returns whether the team should stop yielding because of it.
    fn record_yield(&mut self, took: Span, now: Instant, state: &mut TeamState) -> bool {
        self.yields = self.yields.saturating_add(1);
        if !self.costs.is_lost_tick(took) || took < self.bound {
            return false;
        }
        let few = std::mem::replace(&mut self.yields, 0) < FEW_YIELDS;
        let backoff = Backoff::from(*state);
        let is_overload = match backoff.response(now) {
            None => few || backoff.is_recent(now),
            Some(Response::Colocate { cpu, yields: true }) => few && cpu == self.here,
            // Another member has begun it meanwhile.
            Some(_) => return true,
        };
        if is_overload {
            self.backoffs = self.backoffs.wrapping_add(1);
            let elsewhere = self.elsewhere;
            *state = backoff.after_loss(now, took, self.here, elsewhere, self.can_colocate).into();
        }
        is_overload
    }
}

#[cfg(test)]
mod tests;
