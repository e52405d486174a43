//! Records: what a world asked a policy and what it was told, so that the answer can be checked later.
//!
//! A policy is pure when its decisions follow from the recorded inputs alone. [`replay`] puts them to a fresh policy: a
//! record made by real threads or by the simulator must come out the same, decision by decision. An order of entries
//! within one thread is all that matters; how threads interleaved is in the team state that each entry carries.

use crate::units::{CpuId, Instant, ThreadId};
use crate::waiting::{Costs, Decision, Missing, Observation, Team, TeamState, WaitingRule};

/// One question to a waiting rule and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RecordedStep {
    /// Who asked: its number in the team.
    pub thread: ThreadId,
    /// The world's clock.
    pub now: Instant,
    /// How many threads meet.
    pub threads: u32,
    /// How many CPUs they may use.
    pub cpus: u32,
    /// The CPU of the thread that asked.
    pub own_cpu: CpuId,
    /// Who was missing, and where each was last seen.
    pub missing: Vec<Missing>,
    /// What the team remembered before the step.
    pub state: TeamState,
    /// Its [`Team::load`].
    pub load: u32,
    /// Its [`Team::movable`].
    pub movable: bool,
    /// Its [`Team::draw`].
    pub draw: u32,
    /// What the thread had seen.
    pub seen: Observation,
    /// The answer; nothing where the world only said that the wait was over.
    pub decision: Option<Decision>,
}

impl RecordedStep {
    /// An entry for a step of `thread`, copying what the step was given.
    pub fn new(
        thread: ThreadId,
        team: &Team<'_>,
        state: TeamState,
        seen: Observation,
        decision: Decision,
    ) -> RecordedStep {
        let Team { now, threads, cpus, own_cpu, missing, load, movable, draw } = *team;
        let (missing, decision) = (missing.to_vec(), Some(decision));
        RecordedStep { thread, now, threads, cpus, own_cpu, missing, state, load, movable, draw, seen, decision }
    }

    /// An entry for the end of a wait of `thread`, which nobody asked about.
    pub fn over(thread: ThreadId, now: Instant, state: TeamState, seen: Observation) -> RecordedStep {
        let (missing, own_cpu) = (Vec::new(), CpuId(0));
        RecordedStep {
            thread,
            now,
            threads: 0,
            cpus: 0,
            own_cpu,
            missing,
            state,
            load: 0,
            movable: false,
            draw: 0,
            seen,
            decision: None,
        }
    }
}

/// Where a world's decisions go.
///
/// A world is generic over its recorder, and with [`Off`] the compiler removes the recording and all that is only
/// collected for it.
pub trait Recorder {
    /// Whether anything is recorded; a constant, so that the collecting can be compiled away too.
    const ON: bool;

    /// Takes one entry. Entries of one thread come in the order of its steps.
    fn record(&self, entry: RecordedStep);

    /// What it has kept so far, in the order in which it came.
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

/// Keeps every entry in memory. A lock guards it: for tests and short runs, not for measuring.
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

/// Where a replay differed from its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the entry in the record.
    pub index: usize,
    /// What the record says.
    pub recorded: Decision,
    /// What the fresh policy decided.
    pub replayed: Decision,
}

/// Puts a record to fresh waiters of `rule`, one for each thread in it, and returns where they decided otherwise.
pub fn replay(rule: WaitingRule, costs: Costs, record: &[RecordedStep]) -> Vec<Difference> {
    let mut waiters = std::collections::BTreeMap::new();
    let mut differences = Vec::new();
    for (index, entry) in record.iter().enumerate() {
        let waiter = waiters.entry(entry.thread).or_insert_with(|| rule.waiter(costs));
        let RecordedStep { now, threads, cpus, own_cpu, ref missing, load, movable, draw, .. } = *entry;
        let mut state = entry.state;
        let Some(recorded) = entry.decision else {
            waiter.over(now, &mut state, entry.seen);
            continue;
        };
        let team = Team { now, threads, cpus, own_cpu, missing, load, movable, draw };
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
        let team = Team {
            now: Instant::ZERO,
            threads: 2,
            cpus: 2,
            own_cpu: CpuId(0),
            missing: &[],
            load: 0,
            movable: false,
            draw: 0,
        };
        RecordedStep::new(ThreadId(thread), &team, TeamState::default(), seen, decision)
    }

    #[test]
    fn replay_keeps_the_threads_of_a_record_apart_and_finds_a_forged_decision() {
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
