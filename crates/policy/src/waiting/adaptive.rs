//! The adaptive rule: spin where that can help, yield where nobody takes advantage of it, else block.
//!
//! Source: our own. Two-phase waiting and its bound of somewhat more than two context switches are those of Tsafrir and
//! Feitelson (sections 4.1 and 4.2), and so is the idea to tell fine grains from coarse ones by a clock (section 6).
//!
//! # What a thread does by itself
//!
//! * **Occupancy.** As long as a missing sibling was last seen on the waiter's own CPU, spinning keeps from running whom it
//!   waits for. Then the waiter does not spin.
//! * **Bound.** It spins for 2.4 times CS, where CS is what waking a blocked sibling costs.
//! * **Timed yield.** Then it yields, and the time that takes tells who else wants this CPU: as short as a lone yield is
//!   nobody, and the waiter spins on for a while; longer is a sibling, or somebody as brief; a good part of a tick is
//!   another program that took what it was offered.
//! * **Grain.** A thread that computes for longer than CS between its waits is coarse. With more threads than CPUs the coarse
//!   do not yield: a sibling that is off its CPU gets one sooner from a waiter that blocks.
//! * **Patience.** Nobody spins and yields for more than 10 ms in one wait.
//!
//! # What the team agrees on
//!
//! Losing a tick to another program twice within few yields is a *strike*: on this machine it does not pay to be kind.
//! For 50 ms, after the next strike for 100 ms, and so on up to 1.6 s, the team then waits in another way (the module
//! `agreement` says which):
//!
//! * **Carefully**: by occupancy and bound alone, without yields. A thread whose spins all fail leaves most of them out. With
//!   more than two threads for each CPU everybody blocks at once.
//! * **Gathered**: a fine-grained team of at least two threads for each CPU meets on one CPU, away from where it was
//!   struck, and goes on yielding there: one thread's round is cheaper there than waking anybody elsewhere. It loses to the
//!   other programs what it would get from the other CPUs, and wins that nobody waits behind a timeslice.
//! * **Gathered and blocking**, where the team was struck in the crowd as well: waking a sibling on one's own CPU costs a
//!   switch, and no yield feeds anybody.
//!
//! Threads are moved, not bound: where the scheduler takes one elsewhere, it comes back at most once a tick. So a team that
//! goes over to long computations without waiting is spread over the machine as usual.
//!
//! Where it is not known who will come, as at a lock, only the bound is of use (the module `lock`).

mod lock;
mod overload_response;

use self::overload_response::{OverloadResponse, TeamMode};
use super::{Costs, Decision, Observation, SpinPredictor, Team, TeamState};
use crate::units::{CpuId, Instant, Span};

/// What of CS the bound is, in thousandths.
const BOUND: u64 = 2_400;
/// A yield that takes no more than this many thousandths of a lone one was a lone one.
const LONE: u64 = 1_800;
/// A yield that takes this many thousandths of a tick has fed another program.
const FOREIGN: u64 = 250;
/// Losing two ticks within so many yields is a strike.
const FEW_YIELDS: u32 = 64;
/// The tick where nobody has said how long it is.
const USUAL_TICK: Span = Span::from_millis(4);
/// How long one wait may take before it blocks.
const PATIENCE: Span = Span::from_millis(10);
/// How many of a thread's latest computations tell its grain.
const SAMPLES: usize = 4;

/// The adaptive rule of one waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Adaptive {
    costs: Costs,
    bound: Span,
    // The wait under way.
    began: Instant,
    mode: TeamMode,
    /// How long to spin between two yields.
    chunk: Span,
    // What it remembers from wait to wait.
    /// Where it was when it last looked around, and where else a sibling was.
    here: CpuId,
    elsewhere: Option<CpuId>,
    /// Whether its team is one for which gathering could pay, but for its grain.
    can_colocate: bool,
    /// How many yields there have been since the last that fed another program.
    yields: u32,
    overload_marks: u32,
    /// When it last moved.
    moved: Instant,
    grain: Grain,
    /// Of its careful spins.
    predictor: SpinPredictor,
}

impl Adaptive {
    pub(super) const fn new(mut costs: Costs) -> Adaptive {
        if costs.tick.is_zero() {
            costs.tick = USUAL_TICK;
        }
        Adaptive {
            costs,
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
            grain: Grain { left: None, latest: [Span::MAX; SAMPLES] },
            predictor: SpinPredictor::NEW,
        }
    }

    pub(super) const fn overload_marks(&self) -> u32 {
        self.overload_marks
    }

    pub(super) fn step(&mut self, team: &Team<'_>, state: &mut TeamState, seen: Observation) -> Decision {
        if team.threads == 0 {
            return lock::step(lock::bound(self.costs), seen);
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
            Observation::Spun(_) if self.is_impatient(team) => Decision::Block,
            Observation::Spun(_) => Decision::Yield,
            Observation::Yielded(_) if self.has_strayed(team) && !self.is_impatient(team) => self.first_decision(team),
            Observation::Yielded(took) => {
                self.here = team.own_cpu;
                if self.record_yield(took, team.now, state) || self.is_impatient(team) {
                    Decision::Block
                } else if took <= self.costs.lone_yield.scaled(LONE) {
                    let chunk = self.chunk;
                    self.chunk = chunk.scaled(2_000).min(self.bound);
                    Decision::Spin(chunk)
                } else {
                    Decision::Yield
                }
            }
            Observation::Woken => Decision::Block,
        }
    }

    pub(super) fn over(&mut self, now: Instant, state: &mut TeamState, seen: Observation) {
        self.grain.end_wait(now);
        match seen {
            Observation::Spun(_) => self.predictor.record_success(),
            Observation::Yielded(took) => {
                self.record_yield(took, now, state);
            }
            Observation::Arrived | Observation::Woken | Observation::Moved => {}
        }
    }

    /// Looks around, and learns how the team waits now.
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

    /// The first thing to do, or the next after it has found itself away from the crowd.
    fn first_decision(&mut self, team: &Team<'_>) -> Decision {
        match self.mode {
            TeamMode::Colocated { cpu, .. } if cpu != team.own_cpu && self.may_move(team.now) => {
                self.moved = team.now;
                Decision::Move(cpu)
            }
            _ => self.decide_here(team),
        }
    }

    /// The first thing to do on this CPU.
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

    fn is_impatient(&self, team: &Team<'_>) -> bool {
        team.now.since(self.began) >= PATIENCE
    }

    fn is_coarse(&self) -> bool {
        self.grain.length() > self.costs.cs
    }

    /// Whether it should be in a crowd that yields, and is not.
    fn has_strayed(&self, team: &Team<'_>) -> bool {
        matches!(self.mode, TeamMode::Colocated { cpu, yields: true } if cpu != team.own_cpu) && self.may_move(team.now)
    }

    fn may_move(&self, now: Instant) -> bool {
        now.since(self.moved) > self.costs.tick
    }

    /// Takes down a yield, and whether the team is to stop yielding for it.
    fn record_yield(&mut self, took: Span, now: Instant, state: &mut TeamState) -> bool {
        self.yields = self.yields.saturating_add(1);
        if took < self.costs.tick.scaled(FOREIGN) {
            return false;
        }
        let few = std::mem::replace(&mut self.yields, 0) < FEW_YIELDS;
        let response = OverloadResponse::from(*state);
        let overload = match response.mode(now) {
            // The team that was struck before is on its guard.
            TeamMode::Independent => few || response.has_marks(),
            TeamMode::Colocated { cpu, yields: true } => few && cpu == self.here,
            // Somebody else was struck meanwhile.
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

/// How long a thread computes between its waits, as far as it can tell.
///
/// Of a few latest computations it is the second longest: one that lost its CPU, or in which the thread was the last to
/// arrive in a round and did not wait, does not make a thread coarse. Before there are enough of them it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grain {
    /// When the last wait was over.
    left: Option<Instant>,
    latest: [Span; SAMPLES],
}

impl Grain {
    fn end_wait(&mut self, now: Instant) {
        self.left = Some(now);
    }

    fn begin_wait(&mut self, now: Instant) {
        if let Some(left) = self.left.take() {
            self.latest.rotate_right(1);
            self.latest[0] = now.since(left);
        }
    }

    fn length(&self) -> Span {
        let mut latest = self.latest;
        latest.sort_unstable();
        latest[SAMPLES - 2]
    }
}

#[cfg(test)]
mod tests;
