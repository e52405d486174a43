//! The second adaptive rule: the team measures which way of waiting is the fastest.
//!
//! Source: our own. Two-phase waiting and its bound of slightly more than two context switches are
//! from Tsafrir and Feitelson (sections 4.1 and 4.2). Spinning only while the awaited thread runs
//! is from Karlin, Li, Manasse and Owicki ("Empirical studies of competitive spinning for a
//! shared-memory multiprocessor", 1991).
//!
//! # At barriers
//!
//! All members wait in the same way, since a spin pays only if the siblings spin, too:
//!
//! * **Spin** for 2.4 times CS, then check whether all missing siblings run. Go on if they do, else
//!   block. If a missing sibling was last seen on the own CPU, check at once.
//! * **Block** at once.
//! * **Yield** while a missing sibling was last seen on the own CPU, else spin for the bound first.
//!   A yield that was as short as on an empty CPU is followed by a spin.
//! * **Colocate**: move to the CPU where the team meets, and yield there. A thread is not bound to
//!   it. If the scheduler takes it elsewhere, it comes back at most once a tick.
//!
//! A team spins until there is trouble: a sibling that is missing and does not run, or more threads
//! than CPUs. From then on it [measures](trials) the ways that suit it, unless its rounds are not
//! counted, as those of messages between processes. Yields suit only a team that computes for at
//! most CS between its waits, and shares a CPU. Colocation suits such a team if it also has two
//! threads for each CPU and another program uses the CPUs that it yields.
//!
//! In every way, a thread blocks if its wait takes more than 10 ms, or if it yields and another
//! program uses the CPU for a quarter of a tick.
//!
//! # At locks, and for single events
//!
//! It is unknown which threads will come, so there are no rounds to measure. The thread spins for a
//! quarter of CS, and goes on up to CS in total while the owner runs. Then it blocks. So a wait
//! never costs more than twice of what the better of spinning and blocking would have cost. If it
//! is unknown whether the owner runs, the thread blocks after the first quarter: a lock is mostly
//! released within a fraction of the cost of a wakeup, or else its owner has lost its CPU.

mod trials;

use self::trials::{Moment, Trials, Way, Ways};
use super::grain::Grain;
use super::step::{Costs, Decision, Observation, Running, Team, TeamState};
use crate::units::{Instant, Span};

/// The bound as a multiple of CS, in thousandths.
const BOUND: u64 = 2_400;
/// The first spin at a lock, and each further one.
const SPIN_AT_A_LOCK: u64 = 250;
/// How long one wait may take before it blocks.
const LONGEST_WAIT: Span = Span::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Adaptive2 {
    costs: Costs,
    bound: Span,
    // The present wait.
    began: Instant,
    way: Way,
    is_trial: bool,
    /// At a lock, how long it has spun; at a barrier, how long to spin between two yields.
    spin: Span,
    // Kept from wait to wait.
    moved: Instant,
    grain: Grain,
}

impl Adaptive2 {
    pub(super) const fn new(costs: Costs) -> Adaptive2 {
        Adaptive2 {
            costs: costs.with_tick(),
            bound: costs.cs.scaled(BOUND),
            began: Instant::ZERO,
            way: Way::Spin,
            is_trial: false,
            spin: Span::ZERO,
            moved: Instant::ZERO,
            grain: Grain::UNKNOWN,
        }
    }

    pub(super) fn step(&mut self, team: &Team<'_>, state: &mut TeamState, seen: Observation) -> Decision {
        if team.threads == 0 {
            return self.step_at_a_lock(seen);
        }
        let mut trials = Trials::from(*state);
        let decision = self.step_at_a_barrier(team, &mut trials, seen);
        *state = trials.into();
        decision
    }

    pub(super) fn over(&mut self, now: Instant) {
        self.grain.end_wait(now);
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

    fn step_at_a_barrier(&mut self, team: &Team<'_>, trials: &mut Trials, seen: Observation) -> Decision {
        let at = Moment { now: team.now, round: team.round, tick: self.costs.tick };
        match seen {
            Observation::Arrived => {
                self.begin_wait(team, trials, at);
                self.move_to_team(team, trials).unwrap_or_else(|| self.decide_here(team))
            }
            Observation::Moved => self.decide_here(team),
            Observation::Woken => Decision::Block,
            // Another member may have ended the trial.
            _ if trials.cut_off(at) || self.is_trial && !trials.is_trial() => Decision::Block,
            _ if team.now.since(self.began) >= LONGEST_WAIT => Decision::Block,
            Observation::Spun(_) if self.way == Way::Spin => Decision::CheckRunning,
            Observation::Spun(_) => Decision::Yield,
            Observation::Checked(Running::All) => Decision::Spin(self.bound),
            Observation::Checked(_) => {
                if self.can_measure(team) {
                    trials.leave_calm(Way::Spin, at);
                }
                Decision::Block
            }
            Observation::Yielded(took) if self.costs.is_lost_tick(took) => {
                trials.lose_tick(team.own_cpu, at, self.suitable(team, trials));
                Decision::Block
            }
            Observation::Yielded(took) if !self.costs.is_lone_yield(took) => Decision::Yield,
            Observation::Yielded(_) => {
                let spin = self.spin;
                self.spin = spin.scaled(2_000).min(self.bound);
                Decision::Spin(spin)
            }
        }
    }

    fn begin_wait(&mut self, team: &Team<'_>, trials: &mut Trials, at: Moment) {
        self.grain.begin_wait(team.now);
        self.began = team.now;
        self.spin = self.bound.scaled(63);
        let suitable = self.suitable(team, trials);
        if team.threads > team.cpus && self.can_measure(team) {
            trials.leave_calm(if suitable.contain(Way::Yield) { Way::Yield } else { Way::Spin }, at);
        }
        trials.advance(at, suitable);
        (self.way, self.is_trial) = (trials.way(), trials.is_trial());
    }

    /// The ways that may pay for the team.
    fn suitable(&self, team: &Team<'_>, trials: &Trials) -> Ways {
        let is_fine = self.grain.is_known() && self.grain.length() <= self.costs.cs;
        let shares_cpu = team.threads > team.cpus || has_sibling_here(team);
        let can_colocate = team.movable && team.cpus > 1 && team.threads >= 2 * team.cpus;
        Ways::BASIC
            .and(Way::Yield, is_fine && shares_cpu)
            .and(Way::Colocate, is_fine && can_colocate && trials.has_competition())
    }

    /// Moves to a colocated team, if there is one elsewhere.
    fn move_to_team(&mut self, team: &Team<'_>, trials: &mut Trials) -> Option<Decision> {
        if self.way != Way::Colocate {
            return None;
        }
        let siblings = team.missing.iter().filter_map(|missing| missing.last_seen);
        let elsewhere = siblings.into_iter().find(|&cpu| cpu != team.own_cpu);
        let cpu = trials.meeting_cpu(team.own_cpu, elsewhere)?;
        let moves = cpu != team.own_cpu && team.now.since(self.moved) > self.costs.tick;
        moves.then(|| {
            self.moved = team.now;
            Decision::Move(cpu)
        })
    }

    /// The first decision on this CPU.
    fn decide_here(&self, team: &Team<'_>) -> Decision {
        match self.way {
            Way::Spin if has_sibling_here(team) => Decision::CheckRunning,
            Way::Yield if has_sibling_here(team) => Decision::Yield,
            Way::Spin | Way::Yield => Decision::Spin(self.bound),
            Way::Block => Decision::Block,
            Way::Colocate => Decision::Yield,
        }
    }

    /// Whether it has met its team a few times, and rounds are counted.
    fn can_measure(&self, team: &Team<'_>) -> bool {
        self.grain.is_known() && team.round > 0
    }
}

/// Whether a missing sibling was last seen on the CPU of the waiting thread.
fn has_sibling_here(team: &Team<'_>) -> bool {
    team.missing.iter().any(|missing| missing.last_seen == Some(team.own_cpu))
}

#[cfg(test)]
mod tests;
