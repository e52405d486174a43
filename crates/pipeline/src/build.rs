//! Builds a run from its description: the plan, the buffers and the copies of stages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use policy::priority::{PriorityRule, StageKind};
use wait::{Mutex, Waiting};

use crate::buffer::Buffer;
use crate::copy::{GroupCopy, StageCopy};
use crate::counters::Counters;
use crate::ending::Ending;
use crate::engine::{Engine, Sleeper, StageGroup, ThreadBuffers};
use crate::environment;
use crate::error::{BuildError, Error};
use crate::join::Join;
use crate::junction::Port;
use crate::machine::Machine;
use crate::pipeline::{Pipeline, StageSource, StageSpec};
use crate::plan::{PipelineOutline, Place, Plan, StageOutline, plan};
use crate::program::{Junction, Program};
use crate::queue::Queue;
use crate::queued_buffer::QueuedBuffer;
use crate::registry::{PipelineRecord, Registry, StageRecord};
use crate::scheduling::Scheduling;
use crate::stage_thread::ThreadTurn;
use crate::structure::{RequestedAttribute, Structure};
use crate::trace::CallLog;

/// A run that is ready to start.
pub(crate) struct Built<'a, T> {
    pub(crate) engine: Engine<'a, T>,
    /// The turns of each thread.
    pub(crate) turns: Vec<Vec<ThreadTurn<'a, T>>>,
    pub(crate) workers: usize,
    /// Each with its ports and the requested scheduling of its thread.
    pub(crate) junctions: Vec<(Junction<'a, T>, Vec<Port<T>>, Scheduling)>,
    pub(crate) registry: Registry,
    /// Started before all clocks of the run.
    pub(crate) machine: Machine,
    pub(crate) waiting: Waiting,
    pub(crate) rule: PriorityRule,
    pub(crate) shows_progress: bool,
}

/// Does everything that precedes the start of the first thread.
pub(crate) fn build<'a, T: Default + Send + 'a>(
    program: Program<'a, T>,
    ending: &Arc<Ending>,
) -> Result<Built<'a, T>, Error> {
    let Program { name, mut pipelines, junctions, shows_progress } = program;
    let shows_progress = shows_progress || pipelines.iter().any(|pipeline| pipeline.shows_progress);
    let structure = structure_of(&pipelines)?;
    let rule = structure.priority.unwrap_or_default();
    let cpus = sys::cpus::usable() as usize;
    let outlines: Vec<PipelineOutline> = pipelines.iter().map(|pipeline| outline(pipeline, &structure)).collect();
    check_junctions(&pipelines, &junctions)?;
    let plan = plan(&outlines, &structure, cpus)?;
    for pipeline in &mut pipelines {
        pipeline.buffers = structure.buffers.unwrap_or(pipeline.buffers);
        pipeline.block = structure.block.unwrap_or(pipeline.block);
    }
    let blocks: Vec<usize> = pipelines.iter().map(|pipeline| pipeline.block).collect();
    let free = pipelines.iter().map(buffers).collect::<Result<Vec<_>, Error>>()?;
    let waiting = structure.waiting.map_or(Waiting::ADAPTIVE, Waiting::by);
    let machine = Machine::watch(cpus.try_into().unwrap_or(u32::MAX));
    let beginning = Instant::now();
    let mut registry = Registry {
        program: name,
        structure: resolved(&structure, &outlines, &plan).to_string(),
        cpus,
        workers: plan.workers,
        pipelines: pipelines
            .iter()
            .map(|Pipeline { name, buffers, block, .. }| PipelineRecord {
                name: name.clone(),
                buffers: *buffers,
                block: *block,
            })
            .collect(),
        stages: Vec::new(),
    };

    let rounds: Vec<Option<u64>> = pipelines.iter().map(|pipeline| pipeline.rounds).collect();
    let mut stages: Vec<Vec<Option<StageSpec<'a, T>>>> =
        pipelines.into_iter().map(|pipeline| pipeline.stages.into_iter().map(Some).collect()).collect();
    let mut groups = Vec::new();
    let mut copies: Vec<Vec<Box<GroupCopy<'a, T>>>> = Vec::new();
    let mut ports: Vec<(String, Port<T>)> = Vec::new();
    for (at, planned) in plan.groups.iter().enumerate() {
        let pipeline = planned.pipeline;
        let first = plan.groups.iter().position(|other| other.pipeline == pipeline).unwrap_or(at);
        let is_final = plan.groups.get(at + 1).is_none_or(|next| next.pipeline != pipeline);
        let names: Vec<&str> =
            planned.stages.clone().map(|index| outlines[pipeline].stages[index].name.as_str()).collect();
        let mut made: Vec<Box<GroupCopy<'a, T>>> = (0..planned.copies)
            .map(|_| {
                Box::new(GroupCopy {
                    parts: Vec::new(),
                    untimed: 0,
                    left: 0,
                    output_depth: None,
                    mean: None,
                    notes: CallLog::new(beginning, environment::is_trace_wanted()),
                })
            })
            .collect();
        for index in planned.stages.clone() {
            let listed = &outlines[pipeline].stages[index];
            let Some(StageSpec { name, kind, maker, auxiliary }) = stages[pipeline][index].take() else { continue };
            let mut counters = Vec::new();
            let doubles = structure.double == Some(kind);
            let mut made_stages: VecDeque<_> = match maker {
                StageSource::Single(stage) => [stage].into(),
                StageSource::Many(mut make) => (0..planned.copies).map(|_| make()).collect(),
                StageSource::Junction => {
                    let counted = Arc::new(Counters::default());
                    counters.push(counted.clone());
                    let pipeline = outlines[pipeline].name.clone();
                    ports.push((name.clone(), Port { pipeline, at, counters: counted, held: None, is_over: false }));
                    VecDeque::new()
                }
            };
            let shared_name: Arc<str> = name.as_str().into();
            for copy in &mut made {
                let Some(stage) = made_stages.pop_front() else { break };
                let counted = Arc::new(Counters::default());
                counters.push(counted.clone());
                let auxiliary = memory(&outlines[pipeline].name, auxiliary, blocks[pipeline])?;
                let name = shared_name.clone();
                copy.parts.push(StageCopy { name, stage, auxiliary, counters: counted, doubles, is_begun: false });
            }
            registry.stages.push(StageRecord {
                name,
                pipeline,
                kind,
                at,
                place: planned.place,
                can_fork: listed.can_fork,
                is_ordered: planned.is_ordered,
                is_fused: index > planned.stages.start,
                is_first: index == 0,
                counters,
            });
        }
        let queue = if at == first { Queue::of_free(waiting, rounds[pipeline]) } else { Queue::new(waiting) };
        let join = (planned.copies > 1).then(|| Mutex::with(Join::new(planned.is_ordered), waiting));
        let (name, place, is_first) = (names.join("+"), planned.place, at == first);
        groups.push(StageGroup { name, place, first, is_first, is_final, queue, join });
        copies.push(made);
    }

    let engine = Engine::new(groups, ending.clone(), waiting, beginning);
    let mut turns = Vec::new();
    for thread in &plan.threads {
        let mut own = Vec::new();
        for &(at, repeat) in thread {
            let Some(copy) = copies[at].pop() else { continue };
            let names: Vec<&str> = copy.parts.iter().map(|part| &*part.name).collect();
            let scheduling = scheduling(&structure, &names)?;
            let computes = registry.kind(at) == StageKind::Compute;
            let may_batch = computes && thread.len() == 1 && repeat == 1 && !scheduling.yield_each_round;
            own.push(ThreadTurn { at, repeat, copy, may_batch, scheduling });
        }
        turns.push(own);
    }
    for (at, copies) in copies.into_iter().enumerate() {
        if engine.groups[at].place == Place::Workers {
            copies.into_iter().for_each(|copy| engine.groups[at].queue.add_sleeper(Sleeper::Copy(copy)));
        }
    }
    for (pipeline, free) in free.into_iter().enumerate() {
        let Some(first) = plan.groups.iter().position(|group| group.pipeline == pipeline) else { continue };
        let mut buffers = ThreadBuffers::for_thread();
        buffers.input = free.into_iter().map(QueuedBuffer::free).collect();
        engine.return_free(first, &mut buffers);
        if rounds[pipeline] == Some(0) {
            let last = plan.groups.iter().rposition(|group| group.pipeline == pipeline).unwrap_or(first);
            engine.close_up_to(last, &mut buffers);
            engine.return_free(first, &mut buffers);
        }
    }
    let junctions = junctions.into_iter().map(|junction| {
        let (mine, others) = std::mem::take(&mut ports).into_iter().partition(|(name, _)| *name == junction.name);
        ports = others;
        let mine: Vec<(String, Port<T>)> = mine;
        let scheduling = scheduling(&structure, &[&junction.name])?;
        Ok((junction, mine.into_iter().map(|(_, port)| port).collect(), scheduling))
    });
    let junctions = junctions.collect::<Result<_, BuildError>>()?;
    Ok(Built { engine, turns, workers: plan.workers, junctions, registry, machine, waiting, rule, shows_progress })
}

/// The scheduling that the structure requests for a group of these stages.
fn scheduling(structure: &Structure, stages: &[&str]) -> Result<Scheduling, BuildError> {
    let mut scheduling = Scheduling::default();
    for RequestedAttribute { key, stage, value } in
        structure.requested.iter().filter(|attribute| stages.contains(&attribute.stage.as_str()))
    {
        let wrong = |why| BuildError::new(format!("stage '{stage}': {why}"), format!("`{key}=..` in a structure"));
        scheduling.set(key, value).map_err(wrong)?;
    }
    Ok(scheduling)
}

/// The structure that results from the environment, the program and its pipelines, in this order of
/// precedence.
fn structure_of<T>(pipelines: &[Pipeline<'_, T>]) -> Result<Structure, BuildError> {
    let nothing = Structure::default();
    let own = pipelines.iter().fold(nothing.clone(), |all, pipeline| pipeline.own.laid_over(&all));
    let structured = pipelines.iter().fold(nothing, |all, pipeline| pipeline.structured.laid_over(&all));
    Ok(environment::structure()?.laid_over(&structured.laid_over(&own)))
}

fn outline<T>(pipeline: &Pipeline<'_, T>, structure: &Structure) -> PipelineOutline {
    let stages = pipeline.stages.iter().map(|spec| StageOutline {
        name: spec.name.clone(),
        kind: spec.kind,
        can_fork: matches!(spec.maker, StageSource::Many(_)),
        is_junction: matches!(spec.maker, StageSource::Junction),
    });
    let buffers = structure.buffers.unwrap_or(pipeline.buffers);
    PipelineOutline { name: pipeline.name.clone(), buffers, stages: stages.collect() }
}

fn check_junctions<T>(pipelines: &[Pipeline<'_, T>], junctions: &[Junction<'_, T>]) -> Result<(), BuildError> {
    let places = || pipelines.iter().flat_map(|pipeline| pipeline.stages.iter().map(move |stage| (pipeline, stage)));
    let met = || places().filter(|(_, stage)| matches!(stage.maker, StageSource::Junction));
    for (pipeline, stage) in met() {
        if !junctions.iter().any(|junction| junction.name == stage.name) {
            let what = format!("pipeline '{}' joins at '{}', but there is no such junction", pipeline.name, stage.name);
            return Err(BuildError::new(what, "add it to the program with `.junction(..)`"));
        }
        if met().filter(|(other, place)| other.name == pipeline.name && place.name == stage.name).count() > 1 {
            let what = format!("pipeline '{}' joins at '{}' twice", pipeline.name, stage.name);
            return Err(BuildError::new(what, "use two junctions, or two pipelines"));
        }
    }
    for (index, junction) in junctions.iter().enumerate() {
        if !met().any(|(_, stage)| stage.name == junction.name) {
            let what = format!("no pipeline joins at '{}'", junction.name);
            return Err(BuildError::new(what, "add `.join_at(..)` to one"));
        }
        let is_stage =
            places().any(|(_, stage)| stage.name == junction.name && !matches!(stage.maker, StageSource::Junction));
        if is_stage || junctions[..index].iter().any(|other| other.name == junction.name) {
            let what = format!("two stages or junctions are called '{}'", junction.name);
            return Err(BuildError::new(what, "names must be unique in a program"));
        }
    }
    Ok(())
}

fn buffers<T: Default>(pipeline: &Pipeline<'_, T>) -> Result<Vec<Buffer<T>>, Error> {
    memory(&pipeline.name, pipeline.buffers, pipeline.block)
}

fn memory<T: Default>(pipeline: &str, buffers: usize, block: usize) -> Result<Vec<Buffer<T>>, Error> {
    let made = (0..buffers).map(|_| Buffer::new(block)).collect::<std::io::Result<Vec<_>>>();
    made.map_err(|why| Error::Memory { pipeline: pipeline.to_owned(), buffers, block, why })
}

/// The structure with the numbers of copies that the plan chose, for the report.
fn resolved(structure: &Structure, outlines: &[PipelineOutline], plan: &Plan) -> Structure {
    let mut resolved = structure.clone();
    for fork in &mut resolved.fork {
        let is_it = |index: usize, pipeline: usize| outlines[pipeline].stages[index].name == fork.stage;
        let group = plan.groups.iter().find(|group| group.stages.clone().any(|index| is_it(index, group.pipeline)));
        fork.copies = group.map_or(fork.copies, |group| group.copies);
    }
    resolved
}
