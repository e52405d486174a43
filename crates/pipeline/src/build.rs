//! Builds a run from its description: the plan, the buffers and the copies of stages.

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
use crate::plan::{Place, Plan, plan};
use crate::program::{Junction, Program};
use crate::queue::{Queue, QueuedBuffer};
use crate::registry::{Registry, StageRecord};
use crate::report::{PipelineReport, RunReport, StageReport};
use crate::scheduling::Scheduling;
use crate::stage_thread::ThreadTurn;
use crate::structure::{RequestedAttribute, Structure};
use crate::trace::CallLog;

/// A run that is ready to start.
pub(crate) struct Built<'a, T> {
    pub(crate) engine: Engine<'a, T>,
    /// The turns of each thread, and the requested scheduling.
    pub(crate) threads: Vec<(Vec<ThreadTurn<'a, T>>, Scheduling)>,
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
    let Program { name, mut pipelines, junctions } = program;
    let shows_progress = pipelines.iter().any(|pipeline| pipeline.shows_progress);
    let structure = structure_of(&pipelines)?;
    let rule = structure.priority.unwrap_or_default();
    let cpus = sys::cpus::usable() as usize;
    for pipeline in &mut pipelines {
        pipeline.buffers = structure.buffers.unwrap_or(pipeline.buffers);
        pipeline.block = structure.block.unwrap_or(pipeline.block);
    }
    check_junctions(&pipelines, &junctions)?;
    let plan = plan(&pipelines, &structure, cpus)?;
    let free = pipelines.iter().map(|Pipeline { name, buffers, block, .. }| memory(name, *buffers, *block));
    let free = free.collect::<Result<Vec<_>, Error>>()?;
    let waiting = structure.waiting.map_or(Waiting::ADAPTIVE, Waiting::by);
    let machine = Machine::watch(cpus.try_into().unwrap_or(u32::MAX));
    let beginning = Instant::now();
    let reports = pipelines.iter().map(|Pipeline { name, buffers, block, .. }| {
        let (name, buffers, block) = (name.clone(), *buffers, *block);
        PipelineReport { name, buffers, block, ..PipelineReport::default() }
    });
    let run = RunReport {
        schema_version: 1,
        program: name,
        structure: resolved(&structure, &pipelines, &plan).to_string(),
        cpus,
        workers: plan.workers,
        pipelines: reports.collect(),
        ..RunReport::default()
    };
    let mut registry = Registry { run, stages: Vec::new() };

    let stages: Vec<_> = pipelines.iter_mut().flat_map(|pipeline| std::mem::take(&mut pipeline.stages)).collect();
    let mut stages = stages.into_iter();
    let (mut groups, mut first) = (Vec::new(), 0);
    let mut copies: Vec<Vec<Box<GroupCopy<'a, T>>>> = Vec::new();
    let mut ports: Vec<(String, Port<T>)> = Vec::new();
    for (at, planned) in plan.groups.iter().enumerate() {
        let pipeline = &pipelines[planned.pipeline];
        if planned.stages.start == 0 {
            first = at;
        }
        let is_final = plan.groups.get(at + 1).is_none_or(|next| next.pipeline != planned.pipeline);
        let log = || CallLog::new(beginning, environment::is_trace_wanted());
        let mut made: Vec<_> = (0..planned.copies).map(|_| Box::new(GroupCopy::new(log()))).collect();
        let mut names = Vec::new();
        for index in planned.stages.clone() {
            let Some(stage) = stages.next() else { continue };
            let (can_fork, doubles) = (stage.can_fork(), structure.double == Some(stage.kind));
            let StageSpec { name, kind, maker, auxiliary } = stage;
            let counters: Vec<Arc<Counters>> = (0..planned.copies).map(|_| Arc::default()).collect();
            let of_copies: Vec<_> = match maker {
                StageSource::Single(stage) => vec![stage],
                StageSource::Many(mut make) => (0..planned.copies).map(|_| make()).collect(),
                StageSource::Junction => {
                    let (pipeline, counters) = (pipeline.name.clone(), counters[0].clone());
                    ports.push((name.clone(), Port { pipeline, at, counters, held: None, is_over: false }));
                    Vec::new()
                }
            };
            let shared_name: Arc<str> = name.as_str().into();
            for ((copy, stage), counters) in made.iter_mut().zip(of_copies).zip(&counters) {
                let auxiliary = memory(&pipeline.name, auxiliary, pipeline.block)?;
                let (name, counters) = (shared_name.clone(), counters.clone());
                copy.parts.push(StageCopy { name, stage, auxiliary, counters, doubles, is_begun: false });
            }
            names.push(name.clone());
            let report = StageReport {
                name,
                pipeline: pipeline.name.clone(),
                kind,
                place: planned.place,
                can_fork,
                copies: planned.copies,
                is_ordered: planned.is_ordered,
                is_fused: index > planned.stages.start,
                ..StageReport::default()
            };
            registry.stages.push(StageRecord { report, at, is_first: index == 0, counters });
        }
        let queue = if at == first { Queue::of_free(waiting, pipeline.rounds) } else { Queue::new(waiting) };
        let join = (planned.copies > 1).then(|| Mutex::with(Join::new(planned.is_ordered), waiting));
        groups.push(StageGroup { name: names.join("+"), place: planned.place, first, is_final, queue, join });
        copies.push(made);
    }

    let engine = Engine::new(groups, ending.clone(), waiting, beginning);
    let mut threads = Vec::new();
    for thread in &plan.threads {
        let (mut turns, mut requested) = (Vec::new(), Scheduling::default());
        // If several stages of a thread request the same attribute, the first one wins.
        for &(at, repeat) in thread.iter().rev() {
            let Some(copy) = copies[at].pop() else { continue };
            let names: Vec<&str> = copy.parts.iter().map(|part| &*part.name).collect();
            let yields = add_requests(&structure, &names, &mut requested)?;
            let computes = registry.kind(at) == StageKind::Compute;
            let may_batch = computes && thread.len() == 1 && repeat == 1 && !yields;
            turns.push(ThreadTurn { at, repeat, copy, may_batch, yields });
        }
        turns.reverse();
        threads.push((turns, requested));
    }
    for (at, copies) in copies.into_iter().enumerate() {
        if engine.groups[at].place == Place::Workers {
            copies.into_iter().for_each(|copy| engine.groups[at].queue.add_sleeper(Sleeper::Copy(copy)));
        }
    }
    let last = engine.groups.iter().enumerate().filter(|(_, group)| group.is_final);
    for (((at, group), pipeline), free) in last.zip(&pipelines).zip(free) {
        let mut buffers = ThreadBuffers::for_thread();
        buffers.input = free.into_iter().map(QueuedBuffer::free).collect();
        engine.return_free(group.first, &mut buffers);
        if pipeline.rounds == Some(0) {
            engine.close_up_to(at, &mut buffers);
            engine.return_free(group.first, &mut buffers);
        }
    }
    let junctions = junctions.into_iter().map(|junction| {
        let mine = ports.extract_if(.., |(name, _)| *name == junction.name).map(|(_, port)| port).collect();
        let mut requested = Scheduling::default();
        add_requests(&structure, &[&junction.name], &mut requested)?;
        Ok((junction, mine, requested))
    });
    let junctions = junctions.collect::<Result<_, BuildError>>()?;
    Ok(Built { engine, threads, junctions, registry, machine, waiting, rule, shows_progress })
}

/// Adds what the structure requests for a group of these stages. Returns whether it requests a
/// yield after each round.
fn add_requests(structure: &Structure, stages: &[&str], scheduling: &mut Scheduling) -> Result<bool, BuildError> {
    let mut yields = false;
    for RequestedAttribute { key, stage, value } in
        structure.requested.iter().filter(|attribute| stages.contains(&attribute.stage.as_str()))
    {
        let wrong = |why| BuildError::new(format!("stage '{stage}': {why}"), format!("`{key}=..` in a structure"));
        scheduling.set(key, value).map_err(wrong)?;
        yields |= *key == "yield";
    }
    Ok(yields)
}

/// The structure that results from the environment, the program and its pipelines, in this order of
/// precedence.
fn structure_of<T>(pipelines: &[Pipeline<'_, T>]) -> Result<Structure, BuildError> {
    let empty = Structure::default();
    let own = pipelines.iter().fold(empty.clone(), |all, pipeline| pipeline.own.laid_over(&all));
    let structured = pipelines.iter().fold(empty, |all, pipeline| pipeline.structured.laid_over(&all));
    Ok(environment::structure()?.laid_over(&structured.laid_over(&own)))
}

fn check_junctions<T>(pipelines: &[Pipeline<'_, T>], junctions: &[Junction<'_, T>]) -> Result<(), BuildError> {
    let places = || pipelines.iter().flat_map(|pipeline| pipeline.stages.iter().map(move |stage| (pipeline, stage)));
    let joins = || places().filter(|(_, stage)| stage.is_junction());
    for (pipeline, stage) in joins() {
        if !junctions.iter().any(|junction| junction.name == stage.name) {
            let what = format!("pipeline '{}' joins at '{}', but there is no such junction", pipeline.name, stage.name);
            return Err(BuildError::new(what, "add it to the program with `.junction(..)`"));
        }
        if joins().filter(|(other, place)| other.name == pipeline.name && place.name == stage.name).count() > 1 {
            let what = format!("pipeline '{}' joins at '{}' twice", pipeline.name, stage.name);
            return Err(BuildError::new(what, "use two junctions, or two pipelines"));
        }
    }
    for (index, junction) in junctions.iter().enumerate() {
        if !joins().any(|(_, stage)| stage.name == junction.name) {
            let what = format!("no pipeline joins at '{}'", junction.name);
            return Err(BuildError::new(what, "add `.join_at(..)` to one"));
        }
        let is_stage = places().any(|(_, stage)| stage.name == junction.name && !stage.is_junction());
        if is_stage || junctions[..index].iter().any(|other| other.name == junction.name) {
            let what = format!("two stages or junctions are called '{}'", junction.name);
            return Err(BuildError::new(what, "names must be unique in a program"));
        }
    }
    Ok(())
}

fn memory<T: Default>(pipeline: &str, buffers: usize, block: usize) -> Result<Vec<Buffer<T>>, Error> {
    let make = || -> std::io::Result<_> {
        let mut made = Vec::new();
        made.try_reserve_exact(buffers)?;
        for _ in 0..buffers {
            made.push(Buffer::new(block)?);
        }
        Ok(made)
    };
    make().map_err(|why| Error::Memory { pipeline: pipeline.to_owned(), buffers, block, why })
}

/// The structure with the numbers of copies that the plan chose, for the report.
fn resolved<T>(structure: &Structure, pipelines: &[Pipeline<'_, T>], plan: &Plan) -> Structure {
    let mut resolved = structure.clone();
    for fork in &mut resolved.fork {
        let group = plan.groups.iter().find(|group| group.has_stage(&fork.stage, pipelines));
        fork.copies = group.map_or(fork.copies, |group| group.copies);
    }
    resolved
}
