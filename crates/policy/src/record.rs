//! Records of policy decisions, and their replay.
//!
//! A policy is pure if its decisions follow from the recorded inputs alone. [`replay`] gives the
//! inputs to a fresh policy: a record made by real threads or by the simulator must give the same
//! decisions. Only the order of the steps of one thread matters; the interleaving of threads is in
//! the team state of each step.
//!
//! Records belong to this crate because the barrier writes them and must not know scenarios.

use crate::units::{CpuId, Instant, ThreadId};
use crate::waiting::{Costs, Decision, Missing, Observation, Team, TeamState, Turn, WaitingRule};

/// One step of a waiting rule, and its decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RecordedStep {
    /// The thread, by its number in the team.
    pub thread: ThreadId,
    /// The time on the world's clock.
    pub now: Instant,
    /// How many threads meet.
    pub threads: u32,
    /// How many rounds they have completed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub round: u64,
    /// How many CPUs they may use.
    pub cpus: u32,
    /// The CPU of the thread.
    pub own_cpu: CpuId,
    /// The missing threads, and where each was last seen.
    pub missing: Vec<Missing>,
    /// The shared memory of the team before the step.
    pub state: TeamState,
    /// Its [`Team::load`].
    pub load: u32,
    /// Its [`Team::movable`].
    pub movable: bool,
    /// Its [`Team::draw`].
    pub draw: u32,
    /// Its [`Team::turn`].
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Turn::is_none"))]
    pub turn: Turn,
    /// The observation of the thread.
    pub seen: Observation,
    /// The decision; `None` if the world only reported the end of the wait.
    pub decision: Option<Decision>,
}

impl RecordedStep {
    /// Records a step of `thread` with copies of its inputs.
    pub fn new(thread: ThreadId, team: &Team<'_>, state: TeamState, seen: Observation, decision: Decision) -> Self {
        let Team { now, threads, round, cpus, own_cpu, missing, load, movable, draw, turn } = *team;
        let (missing, decision) = (missing.to_vec(), Some(decision));
        RecordedStep {
            thread,
            now,
            threads,
            round,
            cpus,
            own_cpu,
            missing,
            state,
            load,
            movable,
            draw,
            turn,
            seen,
            decision,
        }
    }

    /// Records the end of a wait of `thread`, which has no decision.
    pub fn over(thread: ThreadId, now: Instant, state: TeamState, seen: Observation) -> RecordedStep {
        let team = Team { now, ..Team::default() };
        RecordedStep { decision: None, ..RecordedStep::new(thread, &team, state, seen, Decision::Block) }
    }
}

/// A recorder of a world's decisions.
///
/// A world is generic over its recorder. With [`Off`] the compiler removes the recording and
/// everything that is only collected for it.
pub trait Recorder {
    /// Whether anything is recorded; a constant, so that the collecting can be compiled away too.
    const ON: bool;

    /// Records one step. The steps of one thread come in their order.
    fn record(&self, entry: RecordedStep);

    /// All recorded steps, in the order of recording.
    fn entries(&self) -> Vec<RecordedStep>;
}

/// Records nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Recorder for Off {
    const ON: bool = false;

    fn record(&self, _: RecordedStep) {}

    fn entries(&self) -> Vec<RecordedStep> {
        Vec::new()
    }
}

/// Keeps every step in memory behind a lock: for tests and short runs, not for measurements.
#[derive(Debug, Default)]
pub struct Log(std::sync::Mutex<Vec<RecordedStep>>);

impl Recorder for Log {
    const ON: bool = true;

    fn record(&self, entry: RecordedStep) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(entry);
    }

    fn entries(&self) -> Vec<RecordedStep> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

/// A difference between a replay and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The index of the step in the record.
    pub index: usize,
    /// The recorded decision.
    pub recorded: Decision,
    /// The decision of the fresh policy.
    pub replayed: Decision,
}

/// Replays a record with fresh waiters of `rule`, one for each thread in it. Returns the steps at
/// which they decided otherwise.
pub fn replay(rule: WaitingRule, costs: Costs, record: &[RecordedStep]) -> Vec<Difference> {
    let mut waiters = std::collections::BTreeMap::new();
    let mut differences = Vec::new();
    for (index, entry) in record.iter().enumerate() {
        let waiter = waiters.entry(entry.thread).or_insert_with(|| rule.waiter(costs));
        let RecordedStep { now, threads, round, cpus, own_cpu, ref missing, load, movable, draw, turn, .. } = *entry;
        let mut state = entry.state;
        let Some(recorded) = entry.decision else {
            waiter.over(now, &mut state, entry.seen);
            continue;
        };
        let team = Team { now, threads, round, cpus, own_cpu, missing, load, movable, draw, turn };
        let replayed = waiter.step(&team, &mut state, entry.seen);
        if replayed != recorded {
            differences.push(Difference { index, recorded, replayed });
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    fn entry(thread: u32, seen: Observation, decision: Decision) -> RecordedStep {
        let team = Team { threads: 2, cpus: 2, ..Team::default() };
        RecordedStep::new(ThreadId(thread), &team, TeamState::default(), seen, decision)
    }

    #[test]
    fn replay_separates_the_threads_of_a_record_and_finds_a_forged_decision() {
        let (half, rest) = (Span::from_micros(3), Span::from_micros(6));
        let mut record = vec![
            entry(0, Observation::Arrived, Decision::Spin(rest)),
            entry(1, Observation::Arrived, Decision::Spin(rest)),
            entry(0, Observation::Spun(half), Decision::Spin(half)),
            entry(1, Observation::Spun(rest), Decision::Block),
        ];
        let costs = Costs { cs: rest, ..Costs::default() };
        let rule: WaitingRule = "cs".parse().unwrap();
        assert_eq!(replay(rule, costs, &record), []);

        record[3].decision = Some(Decision::Yield);
        let forged = Difference { index: 3, recorded: Decision::Yield, replayed: Decision::Block };
        assert_eq!(replay(rule, costs, &record), [forged]);
    }
}
