//! The plan of a run: from the stages as described and the structure, what runs where. A pure function.

use policy::priority::StageKind;

use crate::error::BuildError;
use crate::structure::{RequestedAttribute, Structure, Threads};

/// What the plan has to know of a pipeline.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) buffers: usize,
    pub(crate) stages: Vec<Listed>,
}

/// What the plan has to know of a stage.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) kind: StageKind,
    pub(crate) can_fork: bool,
    pub(crate) is_junction: bool,
}

/// What runs where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The stations of all pipelines, those of each in order.
    pub(crate) stations: Vec<StationPlan>,
    /// The threads, but for workers and junctions: each takes turns at stations, so many buffers at a time.
    pub(crate) threads: Vec<Vec<(usize, usize)>>,
    /// How many workers there are; none where nothing is left for them.
    pub(crate) workers: usize,
}

/// One or several stages that are run as one, with a queue before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StationPlan {
    /// Of which pipeline.
    pub(crate) lane: usize,
    /// Which of its stages.
    pub(crate) stages: std::ops::Range<usize>,
    pub(crate) copies: usize,
    pub(crate) is_ordered: bool,
    pub(crate) place: Place,
}

/// What runs a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Workers,
    Threads,
    Junction,
}

/// The plan for these pipelines on so many CPUs.
pub(crate) fn plan(lines: &[Line], structure: &Structure, cpus: usize) -> Result<Plan, BuildError> {
    check_lines(lines)?;
    let names: Vec<&str> = lines.iter().flat_map(|line| &line.stages).map(|stage| stage.name.as_str()).collect();
    structure.check_stages(&names).map_err(|why| BuildError::new(why.to_string(), "see ROWLOCK_PIPELINE"))?;
    let workers = structure.workers.unwrap_or(cpus).max(1);
    let mut stations = Vec::new();
    for (lane, line) in lines.iter().enumerate() {
        for stages in groups(line, structure)? {
            stations.push(station(lane, line, stages, structure, workers)?);
        }
    }
    let threads = threads(lines, &stations, structure)?;
    let has_work = stations.iter().any(|station| station.place == Place::Workers);
    Ok(Plan { stations, threads, workers: if has_work { workers } else { 0 } })
}

fn check_lines(lines: &[Line]) -> Result<(), BuildError> {
    let mut names: Vec<&str> = Vec::new();
    for line in lines {
        let pipeline = &line.name;
        if line.stages.is_empty() {
            return Err(BuildError::new(
                format!("pipeline '{pipeline}' has no stage"),
                "give it one, as with `.io(..)`",
            ));
        }
        if line.buffers == 0 {
            return Err(BuildError::new(format!("pipeline '{pipeline}' has no buffer"), "give it one at least"));
        }
        for stage in line.stages.iter().filter(|stage| !stage.is_junction) {
            if names.contains(&stage.name.as_str()) {
                let what = format!("two stages are called '{}'", stage.name);
                return Err(BuildError::new(what, "names tell stages apart, in all pipelines of a program"));
            }
            names.push(&stage.name);
        }
    }
    Ok(())
}

/// The stages of a pipeline, those together that are run as one.
fn groups(line: &Line, structure: &Structure) -> Result<Vec<std::ops::Range<usize>>, BuildError> {
    let place = |name: &str| line.stages.iter().position(|stage| stage.name == name);
    let mut is_joined = vec![false; line.stages.len()];
    for group in &structure.fuse {
        for pair in group.windows(2) {
            let (Some(first), Some(second)) = (place(&pair[0]), place(&pair[1])) else { continue };
            if second != first + 1 {
                let what = format!("'{}' and '{}' cannot be fused", pair[0], pair[1]);
                return Err(BuildError::new(what, "only neighbours can, in the order of the pipeline"));
            }
            if line.stages[first].is_junction || line.stages[second].is_junction {
                let what = format!("'{}' and '{}' cannot be fused", pair[0], pair[1]);
                return Err(BuildError::new(what, "where pipelines meet there is always a queue"));
            }
            is_joined[second] = !structure.split.contains(&pair[1]);
        }
        let lanes = group.iter().filter(|name| place(name).is_some()).count();
        if lanes != 0 && lanes != group.len() {
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

fn station(
    lane: usize,
    line: &Line,
    stages: std::ops::Range<usize>,
    structure: &Structure,
    workers: usize,
) -> Result<StationPlan, BuildError> {
    let members = &line.stages[stages.clone()];
    let is_named = |name: &str| members.iter().any(|stage| stage.name == name);
    let computes = members.iter().all(|stage| stage.kind == StageKind::Compute);
    // A wish is the kernel's business only for a thread; yielding too says nothing to workers.
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
        // Several turns of one thread are one after the other anyway.
        _ if can_fork && computes && !has_turn => workers,
        _ => 1,
    };
    Ok(StationPlan { lane, stages, copies, is_ordered, place })
}

fn threads(
    lines: &[Line],
    stations: &[StationPlan],
    structure: &Structure,
) -> Result<Vec<Vec<(usize, usize)>>, BuildError> {
    let mut threads: Vec<Vec<(usize, usize)>> = Vec::new();
    for turns in &structure.thread {
        let mut places: Vec<(usize, usize)> = Vec::new();
        for turn in turns {
            let is_it = |station: &StationPlan| {
                lines[station.lane].stages[station.stages.clone()].iter().any(|stage| stage.name == turn.stage)
            };
            let Some(index) = stations.iter().position(is_it) else { continue };
            let station = &stations[index];
            let buffers = structure.buffers.unwrap_or(lines[station.lane].buffers);
            if turn.repeat > buffers {
                let what = format!("stage '{}' cannot have {} buffers at a time", turn.stage, turn.repeat);
                return Err(BuildError::new(what, format!("there are {buffers}")));
            }
            if station.place == Place::Junction {
                let what = format!("'{}' cannot share a thread", turn.stage);
                return Err(BuildError::new(what, "where pipelines meet there is always a thread of its own"));
            }
            if let Some(&(before, _)) = places.last() {
                if before == index {
                    let what = format!("stage '{}' has two turns on a thread", turn.stage);
                    return Err(BuildError::new(what, "stages that are fused have one turn together"));
                }
                if stations[before].lane == station.lane && before > index {
                    let what = format!("stage '{}' comes too late on its thread", turn.stage);
                    return Err(BuildError::new(
                        what,
                        "turns are in the order of the pipeline, or nothing would ever begin",
                    ));
                }
            }
            places.push((index, turn.repeat));
        }
        // A forked stage by itself has a thread for each copy.
        match places[..] {
            [(index, repeat)] => threads.extend(vec![vec![(index, repeat)]; stations[index].copies]),
            _ if places.iter().any(|&(index, _)| stations[index].copies > 1) => {
                let names: Vec<&str> = turns.iter().map(|turn| turn.stage.as_str()).collect();
                let what = format!("'{}' cannot share a thread", names.join("', '"));
                return Err(BuildError::new(what, "one of them runs in copies"));
            }
            _ => threads.push(places),
        }
    }
    for (index, station) in stations.iter().enumerate().filter(|(_, station)| station.place == Place::Threads) {
        if !threads.iter().flatten().any(|&(other, _)| other == index) {
            threads.extend(vec![vec![(index, 1)]; station.copies]);
        }
    }
    Ok(threads)
}
