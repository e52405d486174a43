//! The plan of a run: assigns the stages to threads and workers according to the structure. A pure
//! function.

use policy::priority::StageKind;

use crate::error::BuildError;
use crate::structure::{RequestedAttribute, Structure, Threads};

/// The facts about a pipeline that the plan needs.
#[derive(Clone, Debug)]
pub(crate) struct PipelineOutline {
    pub(crate) name: String,
    pub(crate) buffers: usize,
    pub(crate) stages: Vec<StageOutline>,
}

/// The facts about a stage that the plan needs.
#[derive(Clone, Debug)]
pub(crate) struct StageOutline {
    pub(crate) name: String,
    pub(crate) kind: StageKind,
    pub(crate) can_fork: bool,
    pub(crate) is_junction: bool,
}

/// The assignment of stages to threads and workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The stage groups of all pipelines, those of each in order.
    pub(crate) groups: Vec<StageGroupPlan>,
    /// The threads, without workers and junctions. Each has turns: a group, and how many buffers it
    /// processes before the next turn.
    pub(crate) threads: Vec<Vec<(usize, usize)>>,
    /// The number of workers. 0 if they would have nothing to do.
    pub(crate) workers: usize,
}

/// One or several stages that run as one, with a queue before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StageGroupPlan {
    /// The index of the pipeline.
    pub(crate) pipeline: usize,
    /// The indices of its stages.
    pub(crate) stages: std::ops::Range<usize>,
    pub(crate) copies: usize,
    pub(crate) is_ordered: bool,
    pub(crate) place: Place,
}

/// The runner of a stage group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Workers,
    Threads,
    Junction,
}

/// Makes the plan for these pipelines on this number of CPUs.
pub(crate) fn plan(outlines: &[PipelineOutline], structure: &Structure, cpus: usize) -> Result<Plan, BuildError> {
    check_outlines(outlines)?;
    let names: Vec<&str> =
        outlines.iter().flat_map(|outline| &outline.stages).map(|stage| stage.name.as_str()).collect();
    structure.check_stages(&names).map_err(|why| BuildError::new(why.to_string(), "see ROWLOCK_PIPELINE"))?;
    let workers = structure.workers.unwrap_or(cpus).max(1);
    let mut groups = Vec::new();
    for (pipeline, outline) in outlines.iter().enumerate() {
        for stages in fused_ranges(outline, structure)? {
            groups.push(group(pipeline, outline, stages, structure, workers)?);
        }
    }
    let threads = threads(outlines, &groups, structure)?;
    let has_work = groups.iter().any(|group| group.place == Place::Workers);
    Ok(Plan { groups, threads, workers: if has_work { workers } else { 0 } })
}

fn check_outlines(outlines: &[PipelineOutline]) -> Result<(), BuildError> {
    let mut names: Vec<&str> = Vec::new();
    for outline in outlines {
        let pipeline = &outline.name;
        if outline.stages.is_empty() {
            return Err(BuildError::new(
                format!("pipeline '{pipeline}' has no stage"),
                "give it one, as with `.io(..)`",
            ));
        }
        if outline.buffers == 0 {
            return Err(BuildError::new(format!("pipeline '{pipeline}' has no buffer"), "give it one at least"));
        }
        for stage in outline.stages.iter().filter(|stage| !stage.is_junction) {
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
fn fused_ranges(outline: &PipelineOutline, structure: &Structure) -> Result<Vec<std::ops::Range<usize>>, BuildError> {
    let place = |name: &str| outline.stages.iter().position(|stage| stage.name == name);
    let mut is_joined = vec![false; outline.stages.len()];
    for group in &structure.fuse {
        for pair in group.windows(2) {
            let (Some(first), Some(second)) = (place(&pair[0]), place(&pair[1])) else { continue };
            if second != first + 1 {
                let what = format!("'{}' and '{}' cannot be fused", pair[0], pair[1]);
                return Err(BuildError::new(what, "only neighbours can, in the order of the pipeline"));
            }
            if outline.stages[first].is_junction || outline.stages[second].is_junction {
                let what = format!("'{}' and '{}' cannot be fused", pair[0], pair[1]);
                return Err(BuildError::new(what, "a junction always has a queue before it"));
            }
            is_joined[second] = !structure.split.contains(&pair[1]);
        }
        let pipelines = group.iter().filter(|name| place(name).is_some()).count();
        if pipelines != 0 && pipelines != group.len() {
            let what = format!("'{}' cannot be fused", group.join("+"));
            return Err(BuildError::new(what, "they belong to different pipelines"));
        }
    }
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, is_joined) in is_joined.into_iter().enumerate() {
        match groups.last_mut() {
            Some(last) if is_joined => last.end = index + 1,
            _ => groups.push(index..index + 1),
        }
    }
    Ok(groups)
}

fn group(
    pipeline: usize,
    outline: &PipelineOutline,
    stages: std::ops::Range<usize>,
    structure: &Structure,
    workers: usize,
) -> Result<StageGroupPlan, BuildError> {
    let members = &outline.stages[stages.clone()];
    let is_named = |name: &str| members.iter().any(|stage| stage.name == name);
    let computes = members.iter().all(|stage| stage.kind == StageKind::Compute);
    // Scheduling is requested from the kernel for a thread, and workers do not yield each round. So
    // a stage with a request needs a thread.
    let is_wished = structure.requested.iter().any(|attribute: &RequestedAttribute| is_named(&attribute.stage));
    let has_turn = structure.thread.iter().flatten().any(|turn| is_named(&turn.stage));
    let place = match members {
        [stage, ..] if stage.is_junction => Place::Junction,
        _ if computes && !is_wished && !has_turn && structure.threads != Some(Threads::Each) => Place::Workers,
        _ => Place::Threads,
    };
    let can_fork = members.iter().all(|stage| stage.can_fork) && place != Place::Junction;
    let fork = structure.fork.iter().find(|fork| is_named(&fork.stage));
    let is_ordered = fork.is_none_or(|fork| fork.ordered);
    let copies = match fork {
        Some(fork) if fork.copies > 1 && !can_fork => {
            let culprit = members.iter().find(|stage| !stage.can_fork).map_or(fork.stage.as_str(), |stage| &stage.name);
            let what = format!("stage '{}' cannot run in {} copies", fork.stage, fork.copies);
            return Err(BuildError::new(what, format!("'{culprit}' was not added as forkable")));
        }
        Some(fork) if fork.copies > 0 => fork.copies,
        // The turns of one thread run in sequence anyway.
        _ if can_fork && computes && !has_turn => workers,
        _ => 1,
    };
    Ok(StageGroupPlan { pipeline, stages, copies, is_ordered, place })
}

fn threads(
    outlines: &[PipelineOutline],
    groups: &[StageGroupPlan],
    structure: &Structure,
) -> Result<Vec<Vec<(usize, usize)>>, BuildError> {
    let mut threads: Vec<Vec<(usize, usize)>> = Vec::new();
    for turns in &structure.thread {
        let mut places: Vec<(usize, usize)> = Vec::new();
        for turn in turns {
            let is_it = |group: &StageGroupPlan| {
                outlines[group.pipeline].stages[group.stages.clone()].iter().any(|stage| stage.name == turn.stage)
            };
            let Some(index) = groups.iter().position(is_it) else { continue };
            let group = &groups[index];
            let buffers = structure.buffers.unwrap_or(outlines[group.pipeline].buffers);
            if turn.repeat > buffers {
                let what = format!("stage '{}' cannot have {} buffers at a time", turn.stage, turn.repeat);
                return Err(BuildError::new(what, format!("there are {buffers}")));
            }
            if group.place == Place::Junction {
                let what = format!("'{}' cannot share a thread", turn.stage);
                return Err(BuildError::new(what, "a junction always has a thread of its own"));
            }
            if let Some(&(before, _)) = places.last() {
                if before == index {
                    let what = format!("stage '{}' has two turns on a thread", turn.stage);
                    return Err(BuildError::new(what, "fused stages have one turn together"));
                }
                if groups[before].pipeline == group.pipeline && before > index {
                    let what = format!("stage '{}' comes too late on its thread", turn.stage);
                    return Err(BuildError::new(
                        what,
                        "turns are in the order of the pipeline, or nothing would ever begin",
                    ));
                }
            }
            places.push((index, turn.repeat));
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
