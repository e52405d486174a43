//! The first adaptive rule, for comparison: spin if that can help, yield if no other program takes
//! advantage of it, else block. It does not check whether the awaited threads run.
//!
//! Source: our own. Two-phase waiting and its bound of slightly more than two context switches are
//! from Tsafrir and Feitelson (sections 4.1 and 4.2), and so is the idea of telling fine grains
//! from coarse ones by a clock (section 6).
//!
//! # What a thread decides alone
//!
//! * **Occupancy.** While a missing sibling was last seen on the waiter's own CPU, spinning would
//!   keep that sibling from running. Then the waiter does not spin.
//! * **Bound.** It spins for 2.4 times CS, where CS is the cost of waking a blocked sibling.
//! * **Timed yield.** Then it yields, and the duration tells which other threads need this CPU. As
//!   short as a lone yield: none, and the waiter spins again for a while. Longer: a sibling, or
//!   another brief thread. A good part of a tick: another program that used the CPU it was offered.
//! * **Grain.** A thread that computes for longer than CS between its waits is coarse. If there are
//!   more threads than CPUs, coarse threads do not yield: a sibling that is off its CPU gets one
//!   sooner from a waiter that blocks.
//! * **Limit.** No thread spins and yields for more than 10 ms in one wait.
//!
//! # What the team decides together
//!
//! Losing a tick to another program twice within few yields sets an *overload mark*: on this
//! machine yielding does not pay. For 50 ms, after the next mark for 100 ms, and so on up to 1.6 s,
//! the team then waits in another way (see the module `overload_response`):
//!
//! * **Carefully**: by occupancy and bound alone, without yields. A thread whose spins all fail
//!   leaves most of them out. With more than two threads for each CPU every thread blocks
//!   immediately.
//! * **Colocated**: a fine-grained team of at least two threads for each CPU moves to one CPU, away
//!   from the marked one, and continues to yield there: a round of one thread is cheaper there than
//!   waking a thread elsewhere. The team loses its share of the other CPUs to other programs,
//!   but no member waits behind a foreign timeslice.
//! * **Colocated and blocking**, if the colocated team was marked as well: waking a sibling on the
//!   own CPU costs one switch, and no yield helps another program.
//!
//! Threads are moved, not bound: a thread that the scheduler takes elsewhere comes back at most
//! once a tick. So a team that turns to long computations without waiting is spread over the
//! machine as usual. The host moves a thread by an affinity of one CPU for an instant, the
//! simulated eevdf by its queues. Kernels with one queue cannot, and the rule does without.
//!
//! # Locks
//!
//! If it is unknown which threads will come, as at a lock, the thread spins for a quarter of CS and
//! then blocks. A lock is mostly released within a fraction of the cost of a wakeup, or else its
//! owner has lost its CPU and releases it after milliseconds. So a short spin succeeds nearly as
//! often as a long one. If more threads than CPUs compete for a lock, each one that spins longer
//! delays the owner. Karlin, Li, Manasse and Owicki found the same for locks in real programs
//! ("Empirical studies of competitive spinning for a shared-memory multiprocessor", 1991).

mod overload_response;

use self::overload_response::{OverloadResponse, TeamMode};
use super::grain::Grain;
use super::spin_predictor::SpinPredictor;
use super::step::{Costs, Decision, Observation, Team, TeamState};
use crate::units::{CpuId, Instant, Span};

/// The bound as a multiple of CS, in thousandths.
const BOUND: u64 = 2_400;
/// The same at a lock.
const BOUND_AT_A_LOCK: u64 = 250;
/// Losing two ticks within this many yields sets an overload mark.
const FEW_YIELDS: u32 = 64;
/// How long one wait may take before it blocks.
const LONGEST_WAIT: Span = Span::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Adaptive1 {
    costs: Costs,
    bound: Span,
    // The present wait.
    began: Instant,
    mode: TeamMode,
    /// How long to spin between two yields.
    chunk: Span,
    // Kept from wait to wait.
    /// Its CPU when it last checked, and another one on which a sibling was.
    here: CpuId,
    elsewhere: Option<CpuId>,
    /// Whether colocation could pay for its team, apart from its grain.
    can_colocate: bool,
    /// The yields since the last one that let another program run.
    yields: u32,
    overload_marks: u32,
    /// When it last moved.
    moved: Instant,
    grain: Grain,
    /// Records its spins in careful mode.
    predictor: SpinPredictor,
}

impl Adaptive1 {
    pub(super) const fn new(costs: Costs) -> Adaptive1 {
        Adaptive1 {
            costs: costs.with_tick(),
            bound: costs.cs.scaled(BOUND),
            began: Instant::ZERO,
            mode: TeamMode::Independent,
            chunk: Span::ZERO,
            here: CpuId(0),
            elsewhere: None,
            can_colocate: false,
            yields: FEW_YIELDS,
            overload_marks: 0,
            moved: Instant::ZERO,
            grain: Grain::UNKNOWN,
            predictor: SpinPredictor::NEW,
        }
    }

    pub(super) const fn overload_marks(&self) -> u32 {
        self.overload_marks
    }

    pub(super) fn step(&mut self, team: &Team<'_>, state: &mut TeamState, seen: Observation) -> Decision {
        if team.threads == 0 {
            let bound = self.costs.cs.scaled(BOUND_AT_A_LOCK);
            let spins = seen == Observation::Arrived && !bound.is_zero();
            return if spins { Decision::Spin(bound) } else { Decision::Block };
        }
        match seen {
            Observation::Arrived => {
                self.begin_wait(team, state);
                self.first_decision(team)
            }
            Observation::Moved => self.decide_here(team),
            Observation::Spun(_) if self.mode == TeamMode::Careful => {
                self.predictor.record_failure();
                Decision::Block
            }
            Observation::Spun(_) if self.is_out_of_time(team) => Decision::Block,
            Observation::Spun(_) => Decision::Yield,
            Observation::Yielded(_) if self.has_strayed(team) && !self.is_out_of_time(team) => {
                self.first_decision(team)
            }
            Observation::Yielded(took) => {
                self.here = team.own_cpu;
                if self.record_yield(took, team.now, state) || self.is_out_of_time(team) {
                    Decision::Block
                } else if self.costs.is_lone_yield(took) {
                    let chunk = self.chunk;
                    self.chunk = chunk.scaled(2_000).min(self.bound);
                    Decision::Spin(chunk)
                } else {
                    Decision::Yield
                }
            }
            // It asks for no check.
            Observation::Woken | Observation::Checked(_) => Decision::Block,
        }
    }

    pub(super) fn over(&mut self, now: Instant, state: &mut TeamState, seen: Observation) {
        self.grain.end_wait(now);
        match seen {
            Observation::Spun(_) => self.predictor.record_success(),
            Observation::Yielded(took) => {
                self.record_yield(took, now, state);
            }
            Observation::Arrived | Observation::Woken | Observation::Moved | Observation::Checked(_) => {}
        }
    }

    /// Notes the CPUs of the team, and how it waits now.
    fn begin_wait(&mut self, team: &Team<'_>, state: &mut TeamState) {
        self.began = team.now;
        self.chunk = self.bound.scaled(63);
        self.grain.begin_wait(team.now);
        self.here = team.own_cpu;
        let others = team.missing.iter().filter_map(|missing| missing.last_seen);
        self.elsewhere = others.chain(self.elsewhere).find(|&cpu| cpu != team.own_cpu);
        self.can_colocate = team.movable && team.cpus > 1 && team.threads >= 2 * team.cpus;

        let response = OverloadResponse::from(*state);
        self.mode = match response.mode(team.now) {
            TeamMode::Colocated { .. } if self.is_coarse() => {
                *state = response.without_colocation().into();
                TeamMode::Careful
            }
            TeamMode::Independent if self.is_coarse() && team.threads > team.cpus => TeamMode::Careful,
            mode => mode,
        };
    }

    /// The first decision of a wait, or the next one after the thread has found itself away from
    /// its colocated team.
    fn first_decision(&mut self, team: &Team<'_>) -> Decision {
        match self.mode {
            TeamMode::Colocated { cpu, .. } if cpu != team.own_cpu && self.may_move(team.now) => {
                self.moved = team.now;
                Decision::Move(cpu)
            }
            _ => self.decide_here(team),
        }
    }

    /// The first decision on this CPU.
    fn decide_here(&mut self, team: &Team<'_>) -> Decision {
        let missing_here = team.missing.iter().any(|missing| missing.last_seen == Some(team.own_cpu));
        match self.mode {
            TeamMode::Independent if missing_here => Decision::Yield,
            TeamMode::Independent => Decision::Spin(self.bound),
            TeamMode::Careful if missing_here || team.threads > 2 * team.cpus => Decision::Block,
            TeamMode::Careful if self.predictor.decide_spin() => Decision::Spin(self.bound),
            TeamMode::Careful => Decision::Block,
            TeamMode::Colocated { yields: true, .. } => Decision::Yield,
            TeamMode::Colocated { yields: false, .. } => Decision::Block,
        }
    }

    fn is_out_of_time(&self, team: &Team<'_>) -> bool {
        team.now.since(self.began) >= LONGEST_WAIT
    }

    fn is_coarse(&self) -> bool {
        self.grain.length() > self.costs.cs
    }

    /// Whether its team is colocated and yields on another CPU.
    fn has_strayed(&self, team: &Team<'_>) -> bool {
        matches!(self.mode, TeamMode::Colocated { cpu, yields: true } if cpu != team.own_cpu) && self.may_move(team.now)
    }

    fn may_move(&self, now: Instant) -> bool {
        now.since(self.moved) > self.costs.tick
    }

    /// Records a yield. Returns whether the team should stop yielding because of it.
    fn record_yield(&mut self, took: Span, now: Instant, state: &mut TeamState) -> bool {
        self.yields = self.yields.saturating_add(1);
        if !self.costs.is_lost_tick(took) {
            return false;
        }
        let few = std::mem::replace(&mut self.yields, 0) < FEW_YIELDS;
        let response = OverloadResponse::from(*state);
        let overload = match response.mode(now) {
            // A team with marks needs only one lost tick.
            TeamMode::Independent => few || response.has_marks(),
            TeamMode::Colocated { cpu, yields: true } => few && cpu == self.here,
            // Another member has set a mark meanwhile.
            TeamMode::Careful | TeamMode::Colocated { yields: false, .. } => return true,
        };
        if overload {
            self.overload_marks = self.overload_marks.wrapping_add(1);
            let colocates = self.can_colocate && !self.is_coarse();
            *state = response.after_overload(now, self.here, self.elsewhere, colocates).into();
        }
        overload
    }
}

#[cfg(test)]
mod tests;
