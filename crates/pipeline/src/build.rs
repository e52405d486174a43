//! From the description to a run that is ready to begin: plan, buffers, copies of stages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use policy::priority::{PriorityRule, StageKind};
use wait::{Mutex, Waiting};

use crate::buffer::Buffer;
use crate::copy::{Copy, Part};
use crate::counters::Counters;
use crate::crew::ThreadTurn;
use crate::ending::Ending;
use crate::engine::{Engine, Hands, Rest, Station};
use crate::entry::Entry;
use crate::environment;
use crate::error::{BuildError, Error};
use crate::join::Join;
use crate::junction::Port;
use crate::machine::Machine;
use crate::pipeline::{Maker, Pipeline, Spec};
use crate::plan::{Line, Listed, Place, Plan, plan};
use crate::program::{Junction, Program};
use crate::queue::Queue;
use crate::registry::{Lane, Registered, Registry};
use crate::scheduling::Scheduling;
use crate::structure::{RequestedAttribute, Structure};
use crate::trace::Notes;

/// A run that can begin.
pub(crate) struct Built<'a, T> {
    pub(crate) engine: Engine<'a, T>,
    /// The threads, and what each does.
    pub(crate) turns: Vec<Vec<ThreadTurn<'a, T>>>,
    pub(crate) workers: usize,
    /// Each with its ports and how its thread is to be scheduled.
    pub(crate) junctions: Vec<(Junction<'a, T>, Vec<Port<T>>, Scheduling)>,
    pub(crate) registry: Registry,
    /// Watched from a moment before all clocks of the run.
    pub(crate) machine: Machine,
    pub(crate) waiting: Waiting,
    pub(crate) rule: PriorityRule,
    pub(crate) shows_progress: bool,
}

/// Everything that happens before the first thread starts.
pub(crate) fn build<'a, T: Default + Send + 'a>(
    program: Program<'a, T>,
    ending: &Arc<Ending>,
) -> Result<Built<'a, T>, Error> {
    let Program { name, mut pipelines, junctions, shows_progress } = program;
    let shows_progress = shows_progress || pipelines.iter().any(|pipeline| pipeline.shows_progress);
    let structure = structure_of(&pipelines)?;
    let rule = structure.priority.unwrap_or_default();
    let cpus = sys::cpus::usable() as usize;
    let lines: Vec<Line> = pipelines.iter().map(|pipeline| line(pipeline, &structure)).collect();
    check_junctions(&pipelines, &junctions)?;
    let plan = plan(&lines, &structure, cpus)?;
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
        structure: resolved(&structure, &lines, &plan).to_string(),
        cpus,
        workers: plan.workers,
        lanes: pipelines
            .iter()
            .map(|Pipeline { name, buffers, block, .. }| Lane { name: name.clone(), buffers: *buffers, block: *block })
            .collect(),
        stages: Vec::new(),
    };

    let rounds: Vec<Option<u64>> = pipelines.iter().map(|pipeline| pipeline.rounds).collect();
    let mut stages: Vec<Vec<Option<Spec<'a, T>>>> =
        pipelines.into_iter().map(|pipeline| pipeline.stages.into_iter().map(Some).collect()).collect();
    let mut stations = Vec::new();
    let mut copies: Vec<Vec<Box<Copy<'a, T>>>> = Vec::new();
    let mut ports: Vec<(String, Port<T>)> = Vec::new();
    for (at, planned) in plan.stations.iter().enumerate() {
        let lane = planned.lane;
        let first = plan.stations.iter().position(|other| other.lane == lane).unwrap_or(at);
        let is_final = plan.stations.get(at + 1).is_none_or(|next| next.lane != lane);
        let names: Vec<&str> = planned.stages.clone().map(|index| lines[lane].stages[index].name.as_str()).collect();
        let mut made: Vec<Box<Copy<'a, T>>> = (0..planned.copies)
            .map(|_| {
                Box::new(Copy {
                    parts: Vec::new(),
                    untimed: 0,
                    left: 0,
                    conveyed: None,
                    mean: None,
                    notes: Notes::new(beginning, environment::wants_trace()),
                })
            })
            .collect();
        for index in planned.stages.clone() {
            let listed = &lines[lane].stages[index];
            let Some(Spec { name, kind, maker, auxiliary }) = stages[lane][index].take() else { continue };
            let mut counters = Vec::new();
            let doubles = structure.double == Some(kind);
            let mut made_stages: VecDeque<_> = match maker {
                Maker::Single(stage) => [stage].into(),
                Maker::Many(mut make) => (0..planned.copies).map(|_| make()).collect(),
                Maker::Junction => {
                    let counted = Arc::new(Counters::default());
                    counters.push(counted.clone());
                    let pipeline = lines[lane].name.clone();
                    ports.push((name.clone(), Port { pipeline, at, counters: counted, held: None, is_over: false }));
                    VecDeque::new()
                }
            };
            let shared_name: Arc<str> = name.as_str().into();
            for copy in &mut made {
                let Some(stage) = made_stages.pop_front() else { break };
                let counted = Arc::new(Counters::default());
                counters.push(counted.clone());
                let auxiliary = memory(&lines[lane].name, auxiliary, blocks[lane])?;
                let name = shared_name.clone();
                copy.parts.push(Part { name, stage, auxiliary, counters: counted, doubles, is_begun: false });
            }
            registry.stages.push(Registered {
                name,
                lane,
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
        let queue = if at == first { Queue::of_free(waiting, rounds[lane]) } else { Queue::new(waiting) };
        let join = (planned.copies > 1).then(|| Mutex::with(Join::new(planned.is_ordered), waiting));
        let (name, place, is_first) = (names.join("+"), planned.place, at == first);
        stations.push(Station { name, place, first, is_first, is_final, queue, join });
        copies.push(made);
    }

    let engine = Engine::new(stations, ending.clone(), waiting, beginning);
    let mut turns = Vec::new();
    for thread in &plan.threads {
        let mut own = Vec::new();
        for &(at, repeat) in thread {
            let Some(copy) = copies[at].pop() else { continue };
            let names: Vec<&str> = copy.parts.iter().map(|part| &*part.name).collect();
            let scheduling = scheduling(&structure, &names)?;
            let computes = registry.kind(at) == StageKind::Compute;
            let may_hurry = computes && thread.len() == 1 && repeat == 1 && !scheduling.yield_each_round;
            own.push(ThreadTurn { at, repeat, copy, may_hurry, scheduling });
        }
        turns.push(own);
    }
    for (at, copies) in copies.into_iter().enumerate() {
        if engine.stations[at].place == Place::Workers {
            copies.into_iter().for_each(|copy| engine.stations[at].queue.rest(Rest::Copy(copy)));
        }
    }
    for (lane, free) in free.into_iter().enumerate() {
        let Some(first) = plan.stations.iter().position(|station| station.lane == lane) else { continue };
        let mut hands = Hands::of_thread();
        hands.hand = free.into_iter().map(Entry::free).collect();
        engine.give_back(first, &mut hands);
        if rounds[lane] == Some(0) {
            let last = plan.stations.iter().rposition(|station| station.lane == lane).unwrap_or(first);
            engine.close_up_to(last, &mut hands);
            engine.give_back(first, &mut hands);
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

/// What is wished for a station of these stages.
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

/// What the pipelines say of themselves, what the program says, and what the environment does.
fn structure_of<T>(pipelines: &[Pipeline<'_, T>]) -> Result<Structure, BuildError> {
    let nothing = Structure::default();
    let own = pipelines.iter().fold(nothing.clone(), |all, pipeline| pipeline.own.laid_over(&all));
    let structured = pipelines.iter().fold(nothing, |all, pipeline| pipeline.structured.laid_over(&all));
    Ok(environment::structure()?.laid_over(&structured.laid_over(&own)))
}

fn line<T>(pipeline: &Pipeline<'_, T>, structure: &Structure) -> Line {
    let stages = pipeline.stages.iter().map(|spec| Listed {
        name: spec.name.clone(),
        kind: spec.kind,
        can_fork: matches!(spec.maker, Maker::Many(_)),
        is_junction: matches!(spec.maker, Maker::Junction),
    });
    let buffers = structure.buffers.unwrap_or(pipeline.buffers);
    Line { name: pipeline.name.clone(), buffers, stages: stages.collect() }
}

fn check_junctions<T>(pipelines: &[Pipeline<'_, T>], junctions: &[Junction<'_, T>]) -> Result<(), BuildError> {
    let places = || pipelines.iter().flat_map(|pipeline| pipeline.stages.iter().map(move |stage| (pipeline, stage)));
    let met = || places().filter(|(_, stage)| matches!(stage.maker, Maker::Junction));
    for (pipeline, stage) in met() {
        if !junctions.iter().any(|junction| junction.name == stage.name) {
            let what = format!("pipeline '{}' goes through '{}', which is not there", pipeline.name, stage.name);
            return Err(BuildError::new(what, "add it to the program with `.junction(..)`"));
        }
        if met().filter(|(other, place)| other.name == pipeline.name && place.name == stage.name).count() > 1 {
            let what = format!("pipeline '{}' goes through '{}' twice", pipeline.name, stage.name);
            return Err(BuildError::new(what, "two junctions can do that, or pipelines of different names"));
        }
    }
    for (index, junction) in junctions.iter().enumerate() {
        if !met().any(|(_, stage)| stage.name == junction.name) {
            let what = format!("no pipeline goes through '{}'", junction.name);
            return Err(BuildError::new(what, "a pipeline says so with `.join_at(..)`"));
        }
        let is_stage =
            places().any(|(_, stage)| stage.name == junction.name && !matches!(stage.maker, Maker::Junction));
        if is_stage || junctions[..index].iter().any(|other| other.name == junction.name) {
            let what = format!("there are two of the name '{}'", junction.name);
            return Err(BuildError::new(what, "names tell stages and junctions apart"));
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

/// The structure with what the plan made of what it left open: for people who want to know what was run.
fn resolved(structure: &Structure, lines: &[Line], plan: &Plan) -> Structure {
    let mut resolved = structure.clone();
    for fork in &mut resolved.fork {
        let is_it = |index: usize, lane: usize| lines[lane].stages[index].name == fork.stage;
        let station =
            plan.stations.iter().find(|station| station.stages.clone().any(|index| is_it(index, station.lane)));
        fork.copies = station.map_or(fork.copies, |station| station.copies);
    }
    resolved
}
