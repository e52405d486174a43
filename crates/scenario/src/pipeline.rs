//! A pipelined program: its stages, the buffers that pass through them, and its threads.

use policy::priority::{PriorityRule, StageKind};
use policy::waiting::WaitingRule;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
pub use crate::named::Structure;

/// A pipeline: buffers pass through its stages in order, round after round, and return to the
/// first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// The stages, at least one; their names are unique.
    pub stages: Vec<Stage>,
    /// The number of buffers, at least one: at most this many rounds are in progress.
    pub buffers: u32,
    /// The number of rounds, at least one.
    pub rounds: u64,
    /// The stages that have threads of their own.
    pub structure: Structure,
    /// The stages that share a thread, thread by thread: a number of rounds of one stage, then of
    /// the next, and the first again after the last. No stage is on two of them, and no forked
    /// stage is on any. They are in the order of the pipeline. Each has as many rounds as the
    /// others of its thread, and at most as many as there are buffers.
    pub shared: Vec<Vec<StageTurn>>,
    /// The stages that are raised or lowered, and when.
    pub priority: PriorityRule,
    /// How threads wait for buffers.
    pub waiting: WaitingRule,
}

/// One stage. With each buffer it computes, and then uses the device or waits for a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Its main activity.
    pub kind: StageKind,
    /// Its CPU time, if any.
    pub compute: Option<Distribution>,
    /// The time of the device, or of a message in transit; `None` for a computation.
    pub device: Option<Distribution>,
    /// How many copies of it work at the same time, at least one. The next stage still receives the
    /// rounds in order.
    pub fork: u32,
    /// Its nice value, -20 to 19.
    pub nice: i8,
}

impl Stage {
    /// The name of its random streams in a job of this name. Each round has its own, by its number.
    pub fn stream_name(&self, job: &str) -> String {
        format!("stage {} of {job}", self.name)
    }
}

/// A stage's turn on a thread that it shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTurn {
    /// The stage's number.
    pub stage: usize,
    /// How many rounds it takes before the next stage, at least one.
    pub times: u32,
}

/// The work of a thread of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadRole {
    /// Runs these stages in turn.
    Stages(Vec<StageTurn>),
    /// Runs any of these stages that has work, the one nearest to the end first.
    Worker(Vec<usize>),
}

/// The threads on which a stage runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place<'p> {
    /// On a thread with other stages.
    Shared(&'p [StageTurn]),
    /// On threads of its own, one for each copy.
    Alone,
    Workers,
}

impl Pipeline {
    /// The threads on a machine with this many CPUs, in the order of their numbers: those with
    /// stages of their own, in the order of the stages, then the workers.
    pub fn thread_roles(&self, cpus: u32) -> Vec<ThreadRole> {
        let mut roles = Vec::new();
        let mut on_workers = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            match self.place(number) {
                Place::Shared(turns) if turns.first().is_some_and(|turn| turn.stage == number) => {
                    roles.push(ThreadRole::Stages(turns.to_vec()));
                }
                Place::Shared(_) => {}
                Place::Workers => on_workers.push(number),
                Place::Alone => {
                    let alone = ThreadRole::Stages(vec![StageTurn { stage: number, times: 1 }]);
                    roles.extend(std::iter::repeat_n(alone, stage.fork as usize));
                }
            }
        }
        roles.extend(std::iter::repeat_n(ThreadRole::Worker(on_workers), self.workers(cpus) as usize));
        roles
    }

    /// As many workers as there are CPUs, but at most as many as can work at the same time.
    fn workers(&self, cpus: u32) -> u32 {
        self.copies(|place| place == Place::Workers).min(cpus.max(1))
    }

    /// The number of copies of the stages at such places.
    fn copies(&self, is_counted: impl Fn(Place<'_>) -> bool) -> u32 {
        let stages = self.stages.iter().enumerate().filter(|(number, _)| is_counted(self.place(*number)));
        stages.fold(0, |copies: u32, (_, stage)| copies.saturating_add(stage.fork))
    }

    fn place(&self, number: usize) -> Place<'_> {
        let shares = |turns: &&Vec<StageTurn>| turns.iter().any(|turn| turn.stage == number);
        match (self.shared.iter().find(shares), self.stages.get(number)) {
            (Some(turns), _) => Place::Shared(turns),
            (None, Some(stage)) if stage.kind == StageKind::Compute && stage.nice == 0 => match self.structure {
                Structure::Workers => Place::Workers,
                Structure::Threads => Place::Alone,
            },
            _ => Place::Alone,
        }
    }

    /// The number of threads on a machine with this many CPUs: as many as
    /// [`Pipeline::thread_roles`].
    pub fn threads(&self, cpus: u32) -> u32 {
        let alone = self.copies(|place| place == Place::Alone);
        alone.saturating_add(self.shared.len() as u32).saturating_add(self.workers(cpus))
    }

    /// Whether shared threads can deadlock: each waits for a buffer that only a later turn of
    /// another would bring. Determined by a dry run without time, in which all stages advance as
    /// far as they can, for as many rounds as it takes until all turns start over together (but at
    /// most some thousands).
    pub fn can_deadlock(&self) -> bool {
        const MOST: u64 = 10_000;
        let turns = self.shared.iter().flatten();
        let together = turns.fold(1, |all, turn| least_common_multiple(all, turn.times.into()).min(MOST));
        let enough = self.rounds.min(2 * together + u64::from(self.buffers)).min(2 * MOST);
        let mut run = DryRun { pipeline: self, done: vec![0; self.stages.len()] };
        // For each shared thread, whose turn it is and the rest of that turn.
        let mut turns: Vec<(usize, u32)> = vec![(0, 0); self.shared.len()];
        for (thread, (_, left)) in self.shared.iter().zip(&mut turns) {
            *left = thread.first().map_or(0, |turn| turn.times);
        }
        while run.done.last().is_some_and(|&done| done < enough) {
            let before: u64 = run.done.iter().sum();
            for stage in (0..self.stages.len()).filter(|&stage| !matches!(self.place(stage), Place::Shared(_))) {
                while run.advance(stage) {}
            }
            for (thread, (at, left)) in self.shared.iter().zip(&mut turns) {
                while thread.iter().any(|turn| run.done[turn.stage] < self.rounds) {
                    let stage = thread[*at].stage;
                    if *left == 0 || run.done[stage] == self.rounds {
                        *at = (*at + 1) % thread.len();
                        *left = thread[*at].times;
                    } else if run.advance(stage) {
                        *left -= 1;
                    } else {
                        break;
                    }
                }
            }
            if run.done.iter().sum::<u64>() == before {
                return true;
            }
        }
        false
    }

    /// The mean time that one round takes of a CPU and of the device, all stages together, in
    /// nanoseconds.
    pub(crate) fn mean_of_a_round(&self) -> f64 {
        let lengths = self.stages.iter().flat_map(|stage| [&stage.compute, &stage.device]).flatten();
        lengths.map(Distribution::mean).sum()
    }
}

/// A dry run of a pipeline, without time.
struct DryRun<'p> {
    pipeline: &'p Pipeline,
    /// How many rounds each stage has completed.
    done: Vec<u64>,
}

impl DryRun<'_> {
    /// Runs one round of a stage. Returns whether there was a buffer for it.
    fn advance(&mut self, stage: usize) -> bool {
        let (buffers, rounds) = (u64::from(self.pipeline.buffers), self.pipeline.rounds);
        let there = match stage.checked_sub(1) {
            Some(before) => self.done[before],
            None => rounds.min(buffers + self.done.last().copied().unwrap_or(0)),
        };
        let has_buffer = self.done[stage] < there;
        self.done[stage] += u64::from(has_buffer);
        has_buffer
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor.max(1) * b
}

#[cfg(test)]
mod tests {
    use policy::Span;

    use super::*;

    fn stage(name: &str, kind: StageKind, fork: u32, nice: i8) -> Stage {
        let lengths = Some(Distribution::Normal { mean: Span::from_micros(5), sd: Span::ZERO });
        Stage { name: name.into(), kind, compute: lengths, device: None, fork, nice }
    }

    fn pipeline(structure: Structure, shared: Vec<Vec<StageTurn>>) -> Pipeline {
        let stages = vec![
            stage("read", StageKind::Io, 1, 0),
            stage("sort", StageKind::Compute, 3, 0),
            stage("merge", StageKind::Compute, 1, 5),
            stage("send", StageKind::Communicate, 2, 0),
            stage("write", StageKind::Io, 1, 0),
        ];
        let (priority, waiting) = (PriorityRule::Default, WaitingRule::Adaptive);
        Pipeline { stages, buffers: 4, rounds: 10, structure, shared, priority, waiting }
    }

    fn alone(stage: usize) -> ThreadRole {
        ThreadRole::Stages(vec![StageTurn { stage, times: 1 }])
    }

    #[test]
    fn blocking_stages_and_those_with_a_nice_value_have_threads_and_the_others_run_on_workers() {
        let roles = pipeline(Structure::Workers, Vec::new()).thread_roles(2);
        let worker = ThreadRole::Worker(vec![1]);
        assert_eq!(roles, [alone(0), alone(2), alone(3), alone(3), alone(4), worker.clone(), worker]);
    }

    #[test]
    fn stages_that_share_a_thread_have_none_of_their_own() {
        let turns = vec![StageTurn { stage: 0, times: 2 }, StageTurn { stage: 4, times: 2 }];
        let roles = pipeline(Structure::Threads, vec![turns.clone()]).thread_roles(2);
        let shared = ThreadRole::Stages(turns);
        assert_eq!(roles, [shared, alone(1), alone(1), alone(1), alone(2), alone(3), alone(3)]);
    }

    #[test]
    fn threads_whose_turns_do_not_match_can_deadlock() {
        let thread = |stages: [usize; 2], times| stages.map(|stage| StageTurn { stage, times }).to_vec();
        let deadlocks = |buffers, shared| {
            let mut pipeline = pipeline(Structure::Threads, shared);
            pipeline.stages.iter_mut().for_each(|stage| stage.fork = 1);
            Pipeline { buffers, rounds: 100, ..pipeline }.can_deadlock()
        };
        assert!(!deadlocks(3, Vec::new()));
        assert!(!deadlocks(2, vec![thread([0, 1], 2), thread([2, 3], 2)]));
        // In its second turn the first thread waits for a third free buffer, and the second thread
        // for one that the first still has.
        assert!(deadlocks(3, vec![thread([0, 1], 3), thread([2, 3], 2)]));
        assert!(!deadlocks(4, vec![thread([0, 1], 3), thread([2, 3], 2)]));
    }

    #[test]
    fn there_are_as_many_threads_as_roles() {
        for structure in Structure::ALL {
            for cpus in 1..6 {
                let pipeline = pipeline(structure, vec![vec![StageTurn { stage: 4, times: 1 }]]);
                assert_eq!(pipeline.threads(cpus) as usize, pipeline.thread_roles(cpus).len());
            }
        }
    }
}
