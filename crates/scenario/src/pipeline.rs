//! A pipelined program: its stages, the buffers that go through them, and who carries them.

use policy::priority::{PriorityRule, StageKind};
use policy::waiting::WaitingRule;

use crate::distribution::Distribution;

/// A pipeline: buffers go through its stages in their order, round after round, and come back to the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// The stages, at least one; their names differ.
    pub stages: Vec<Stage>,
    /// How many buffers there are: no more rounds are under way at once. At least one.
    pub buffers: u32,
    /// How many buffers' worth of work goes through, at least one.
    pub rounds: u64,
    /// Which stages have a thread of their own.
    pub structure: Structure,
    /// Stages that share a thread, thread by thread: so many rounds of one stage, then of the next, and from the
    /// last the first again. No stage is in two of them, and none that is forked; they are in the order of the pipeline, each has as many
    /// rounds as the others of its thread, and no more than there are buffers.
    pub shared: Vec<Vec<StageTurn>>,
    /// Which stages are favoured, and when.
    pub priority: PriorityRule,
    /// How threads wait for buffers.
    pub waiting: WaitingRule,
}

/// One stage: with each buffer it computes, and then has the device do something, or waits for somebody far away.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// What it mostly does.
    pub kind: StageKind,
    /// The CPU time that it takes, if any.
    pub compute: Option<Distribution>,
    /// The time of the device, or of a message on its way; none for a computation.
    pub device: Option<Distribution>,
    /// How many copies of it work at once, at least one. The next stage has the rounds in their order all the same.
    pub fork: u32,
    /// Its nice value, -20 to 19.
    pub nice: i8,
}

impl Stage {
    /// The name of its random numbers in a job of this name. Each round has its own of them, by its number.
    pub fn stream_name(&self, job: &str) -> String {
        format!("stage {} of {job}", self.name)
    }
}

/// A stage's turn on a thread that it shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTurn {
    /// The stage's number.
    pub stage: usize,
    /// How many rounds it takes before the next stage has its turn, at least one.
    pub times: u32,
}

/// Which stages have a thread of their own, where nothing else is said of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Structure {
    /// Those that block; computations are carried by as many workers as there are CPUs.
    #[default]
    Workers,
    /// All.
    Threads,
}

impl Structure {
    /// Both, the default first.
    pub const ALL: [Structure; 2] = [Structure::Workers, Structure::Threads];

    /// As it is written in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Structure::Workers => "workers",
            Structure::Threads => "threads",
        }
    }
}

/// What a thread of a pipeline does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadRole {
    /// It carries out these stages in turn.
    Stages(Vec<StageTurn>),
    /// It carries out whichever of these stages has something to do, the one nearest to the end first.
    Worker(Vec<usize>),
}

/// Where a stage is carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place<'p> {
    /// On a thread with other stages.
    Shared(&'p [StageTurn]),
    /// On threads of its own, one a copy.
    Alone,
    Workers,
}

impl Pipeline {
    /// The threads on a machine with so many CPUs, in the order of their numbers: those with stages of their own, in the order
    /// of the stages, then the workers.
    pub fn thread_roles(&self, cpus: u32) -> Vec<ThreadRole> {
        let mut roles = Vec::new();
        let mut carried = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            match self.place(number) {
                Place::Shared(turns) if turns.first().is_some_and(|turn| turn.stage == number) => {
                    roles.push(ThreadRole::Stages(turns.to_vec()));
                }
                Place::Shared(_) => {}
                Place::Workers => carried.push(number),
                Place::Alone => {
                    let alone = ThreadRole::Stages(vec![StageTurn { stage: number, times: 1 }]);
                    roles.extend(std::iter::repeat_n(alone, stage.fork as usize));
                }
            }
        }
        roles.extend(std::iter::repeat_n(ThreadRole::Worker(carried), self.workers(cpus) as usize));
        roles
    }

    /// As many workers as there are CPUs, but no more than could be at work at once.
    fn workers(&self, cpus: u32) -> u32 {
        self.copies(|place| place == Place::Workers).min(cpus.max(1))
    }

    /// How many copies there are of stages at such a place.
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

    /// How many threads it has on a machine with so many CPUs: as many as [`Pipeline::thread_roles`].
    pub fn threads(&self, cpus: u32) -> u32 {
        let alone = self.copies(|place| place == Place::Alone);
        alone.saturating_add(self.shared.len() as u32).saturating_add(self.workers(cpus))
    }

    /// Whether threads that stages share come to wait for each other: each for a buffer that only another's next turn would bring. Told by
    /// letting all stages go on as far as they can, without time, for as many rounds as it takes until turns begin anew together (but no
    /// more than some thousands).
    pub fn can_deadlock(&self) -> bool {
        const MOST: u64 = 10_000;
        let turns = self.shared.iter().flatten();
        let together = turns.fold(1, |all, turn| least_common_multiple(all, turn.times.into()).min(MOST));
        let enough = self.rounds.min(2 * together + u64::from(self.buffers)).min(2 * MOST);
        let mut run = DryRun { pipeline: self, done: vec![0; self.stages.len()] };
        // Whose turn it is on each shared thread, and what is left of it.
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

    /// The mean time that one round takes of a CPU and of the device, all stages together, in nanoseconds.
    pub(crate) fn mean_of_a_round(&self) -> f64 {
        let lengths = self.stages.iter().flat_map(|stage| [&stage.compute, &stage.device]).flatten();
        lengths.map(Distribution::mean).sum()
    }
}

/// A pipeline played through without time.
struct DryRun<'p> {
    pipeline: &'p Pipeline,
    /// How many rounds each stage has done.
    done: Vec<u64>,
}

impl DryRun<'_> {
    /// A stage does a round, if there is a buffer for it.
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
    fn blocking_stages_and_those_with_a_nice_value_have_threads_and_the_others_workers() {
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
    fn threads_whose_turns_do_not_fit_each_other_get_stuck() {
        let thread = |stages: [usize; 2], times| stages.map(|stage| StageTurn { stage, times }).to_vec();
        let stuck = |buffers, shared| {
            let mut pipeline = pipeline(Structure::Threads, shared);
            pipeline.stages.iter_mut().for_each(|stage| stage.fork = 1);
            Pipeline { buffers, rounds: 100, ..pipeline }.can_deadlock()
        };
        assert!(!stuck(3, Vec::new()));
        assert!(!stuck(2, vec![thread([0, 1], 2), thread([2, 3], 2)]));
        // In its second turn the first thread waits for a third free buffer, the second thread for one that the first still has.
        assert!(stuck(3, vec![thread([0, 1], 3), thread([2, 3], 2)]));
        assert!(!stuck(4, vec![thread([0, 1], 3), thread([2, 3], 2)]));
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
