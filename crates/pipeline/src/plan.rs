//! The plan of a run: assigns the stages to threads and workers according to the structure. A pure
//! function.

use std::ops::Range;

use policy::priority::StageKind;
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::pipeline::{Pipeline, StageSpec};
use crate::structure::{StageTurn, Structure, Threads};

/// The assignment of stages to threads and workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The stage groups of all pipelines, those of each in order.
    pub(crate) groups: Vec<StageGroupPlan>,
    /// The threads, without workers and junctions. Each has turns: a group, and how many buffers it
    /// processes before the next turn.
    pub(crate) threads: Vec<Vec<(usize, usize)>>,
    /// The number of workers: at most one for each copy of a stage, since more have nothing to do.
    pub(crate) workers: usize,
}

/// One or several stages that run as one, with a queue before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StageGroupPlan {
    /// The index of the pipeline.
    pub(crate) pipeline: usize,
    /// The indices of its stages.
    pub(crate) stages: Range<usize>,
    pub(crate) copies: usize,
    pub(crate) is_ordered: bool,
    pub(crate) place: Place,
}

impl StageGroupPlan {
    /// Whether it has the stage of this name.
    pub(crate) fn has_stage<T>(&self, name: &str, pipelines: &[Pipeline<'_, T>]) -> bool {
        pipelines[self.pipeline].stages[self.stages.clone()].iter().any(|stage| stage.name == name)
    }
}

/// The runner of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Any worker.
    Workers,
    /// A thread for each copy, or one that it shares with other stages.
    #[default]
    Threads,
    /// The thread of a junction.
    Junction,
}

/// Makes the plan for these pipelines on this number of CPUs.
pub(crate) fn plan<T>(pipelines: &[Pipeline<'_, T>], structure: &Structure, cpus: usize) -> Result<Plan, BuildError> {
    check_pipelines(pipelines)?;
    let stages = pipelines.iter().flat_map(|pipeline| &pipeline.stages);
    let names: Vec<&str> = stages.map(|stage| stage.name.as_str()).collect();
    structure.check_stages(&names).map_err(|why| BuildError::new(why.to_string(), "see ROWLOCK_PIPELINE"))?;
    let workers = structure.workers.unwrap_or(cpus).max(1);
    let mut groups = Vec::new();
    for (index, pipeline) in pipelines.iter().enumerate() {
        for stages in fused_ranges(pipeline, structure)? {
            groups.push(group(index, pipeline, stages, structure, workers)?);
        }
    }
    let threads = threads(pipelines, &groups, structure)?;
    // A worker runs one copy at a time.
    let copies = groups.iter().filter(|group| group.place == Place::Workers).map(|group| group.copies).sum();
    Ok(Plan { groups, threads, workers: workers.min(copies) })
}

fn check_pipelines<T>(pipelines: &[Pipeline<'_, T>]) -> Result<(), BuildError> {
    let mut names: Vec<&str> = Vec::new();
    for Pipeline { name, stages, buffers, .. } in pipelines {
        if stages.is_empty() {
            return Err(BuildError::new(format!("pipeline '{name}' has no stage"), "give it one, as with `.io(..)`"));
        }
        if *buffers == 0 {
            return Err(BuildError::new(format!("pipeline '{name}' has no buffer"), "give it one at least"));
        }
        for stage in stages.iter().filter(|stage| !stage.is_junction()) {
            if names.contains(&stage.name.as_str()) {
                let what = format!("two stages are called '{}'", stage.name);
                return Err(BuildError::new(what, "names must be unique in all pipelines of a program"));
            }
            names.push(&stage.name);
        }
    }
    Ok(())
}

/// Divides the stages of a pipeline into groups: fused stages, and single ones.
fn fused_ranges<T>(pipeline: &Pipeline<'_, T>, structure: &Structure) -> Result<Vec<Range<usize>>, BuildError> {
    let stages = &pipeline.stages;
    let place = |name: &str| stages.iter().position(|stage| stage.name == name);
    let mut is_joined = vec![false; stages.len()];
    for group in &structure.fuse {
        for pair in group.windows(2) {
            let (Some(first), Some(second)) = (place(&pair[0]), place(&pair[1])) else { continue };
            let refused = |why| BuildError::new(format!("'{}' and '{}' cannot be fused", pair[0], pair[1]), why);
            if second != first + 1 {
                return Err(refused("only neighbours can, in the order of the pipeline"));
            }
            if stages[first].is_junction() || stages[second].is_junction() {
                return Err(refused("a junction always has a queue before it"));
            }
            is_joined[second] = !structure.split.contains(&pair[1]);
        }
        let pipelines = group.iter().filter(|name| place(name).is_some()).count();
        if pipelines != 0 && pipelines != group.len() {
            let what = format!("'{}' cannot be fused", group.join("+"));
            return Err(BuildError::new(what, "they belong to different pipelines"));
        }
    }
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (index, is_joined) in is_joined.into_iter().enumerate() {
        match groups.last_mut() {
            Some(last) if is_joined => last.end = index + 1,
            _ => groups.push(index..index + 1),
        }
    }
    Ok(groups)
}

fn group<T>(
    index: usize,
    pipeline: &Pipeline<'_, T>,
    stages: Range<usize>,
    structure: &Structure,
    workers: usize,
) -> Result<StageGroupPlan, BuildError> {
    let members = &pipeline.stages[stages.clone()];
    let is_named = |name: &str| members.iter().any(|stage| stage.name == name);
    let computes = members.iter().all(|stage| stage.kind == StageKind::Compute);
    // Scheduling is requested from the kernel for a thread, and workers do not yield each round. So
    // a stage with a request needs a thread.
    let is_requested = structure.requested.iter().any(|attribute| is_named(&attribute.stage));
    let has_turn = structure.thread.iter().flatten().any(|turn| is_named(&turn.stage));
    let place = match members {
        [stage, ..] if stage.is_junction() => Place::Junction,
        _ if computes && !is_requested && !has_turn && structure.threads != Some(Threads::Each) => Place::Workers,
        _ => Place::Threads,
    };
    let can_fork = members.iter().all(StageSpec::can_fork);
    let fork = structure.fork.iter().find(|fork| is_named(&fork.stage));
    let is_ordered = fork.is_none_or(|fork| fork.ordered);
    let copies = match fork {
        Some(fork) if fork.copies > 1 && !can_fork => {
            let culprit =
                members.iter().find(|stage| !stage.can_fork()).map_or(fork.stage.as_str(), |stage| &stage.name);
            let what = format!("stage '{}' cannot run in {} copies", fork.stage, fork.copies);
            return Err(BuildError::new(what, format!("'{culprit}' was not added as forkable")));
        }
        Some(fork) if fork.copies > 0 => fork.copies,
        // The turns of one thread run in sequence anyway.
        _ if can_fork && computes && !has_turn => workers,
        _ => 1,
    };
    Ok(StageGroupPlan { pipeline: index, stages, copies, is_ordered, place })
}

fn threads<T>(
    pipelines: &[Pipeline<'_, T>],
    groups: &[StageGroupPlan],
    structure: &Structure,
) -> Result<Vec<Vec<(usize, usize)>>, BuildError> {
    let mut threads: Vec<Vec<(usize, usize)>> = Vec::new();
    for turns in &structure.thread {
        let mut places: Vec<(usize, usize)> = Vec::new();
        for StageTurn { stage, repeat } in turns {
            let Some(index) = groups.iter().position(|group| group.has_stage(stage, pipelines)) else { continue };
            let group = &groups[index];
            let buffers = pipelines[group.pipeline].buffers;
            let is_later = |&(other, _): &(usize, usize)| groups[other].pipeline == group.pipeline && other > index;
            let (what, hint) = if *repeat > buffers {
                (format!("stage '{stage}' cannot have {repeat} buffers at a time"), &*format!("there are {buffers}"))
            } else if group.place == Place::Junction {
                (format!("'{stage}' cannot share a thread"), "a junction always has a thread of its own")
            } else if places.iter().any(|&(other, _)| other == index) {
                (format!("stage '{stage}' has two turns on a thread"), "fused stages have one turn together")
            } else if places.iter().any(is_later) {
                let hint = "turns are in the order of the pipeline, or nothing would ever begin";
                (format!("stage '{stage}' comes too late on its thread"), hint)
            } else {
                places.push((index, *repeat));
                continue;
            };
            return Err(BuildError::new(what, hint));
        }
        // A forked stage alone has a thread for each copy.
        match places[..] {
            [(index, repeat)] => threads.extend(vec![vec![(index, repeat)]; groups[index].copies]),
            _ if places.iter().any(|&(index, _)| groups[index].copies > 1) => {
                let names: Vec<&str> = turns.iter().map(|turn| turn.stage.as_str()).collect();
                let what = format!("'{}' cannot share a thread", names.join("', '"));
                return Err(BuildError::new(what, "one of them runs in copies"));
            }
            _ => threads.push(places),
        }
    }
    for (index, group) in groups.iter().enumerate().filter(|(_, group)| group.place == Place::Threads) {
        if !threads.iter().flatten().any(|&(other, _)| other == index) {
            threads.extend(vec![vec![(index, 1)]; group.copies]);
        }
    }
    Ok(threads)
}
