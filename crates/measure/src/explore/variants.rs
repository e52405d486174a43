//! The variants of a structure that are worth a try. Each is a single change, because the effect of
//! several together is unpredictable.

use std::collections::BTreeSet;

use pipeline::structure::{Fork, StageTurn, Structure, Threads, did_you_mean};
use policy::priority::{PriorityRule, StageKind};
use report::distinct;

use super::profile::{PipelineProfile, Profile, StageProfile};

/// The smallest block: a page, below which direct input and output is impossible.
const SMALLEST_BLOCK: usize = 4096;
/// The largest block.
const LARGEST_BLOCK: usize = 64 << 20;

/// A kind of change of a structure.
#[derive(Clone, Copy, Debug)]
pub struct StructureChange {
    /// The key of a structure that makes it.
    pub name: &'static str,
    /// Its variants for a program, on a machine with this many CPUs.
    variants: fn(&Profile, usize) -> Vec<Structure>,
}

impl StructureChange {
    /// All changes.
    pub const ALL: [StructureChange; 8] = [
        // Fuses neighbouring stages, or splits fused ones.
        StructureChange { name: "fuse", variants: |of, _| of.pipelines.iter().flat_map(fused).collect() },
        StructureChange {
            name: "split",
            variants: |of, _| of.stages().filter(|stage| stage.is_fused).map(split).collect(),
        },
        // Runs a stage in more or fewer copies.
        StructureChange {
            name: "fork",
            variants: |of, cpus| of.stages().flat_map(|stage| forked(stage, cpus)).collect(),
        },
        // Runs two blocking stages on one thread, several buffers at a time.
        StructureChange { name: "thread", variants: |of, _| of.pipelines.iter().flat_map(threaded).collect() },
        // Uses more or fewer buffers, or larger or smaller ones.
        StructureChange { name: "buffers", variants: |of, _| buffers(of) },
        StructureChange { name: "block", variants: |of, _| blocks(of) },
        // Runs each compute stage on its own thread.
        StructureChange { name: "threads", variants: |of, _| threads(of).into_iter().collect() },
        // Prefers some stages.
        StructureChange { name: "priority", variants: |of, _| priorities(of) },
    ];

    /// The change of this name, or a message that lists the names.
    pub fn named(text: &str) -> Result<StructureChange, String> {
        let names = || StructureChange::ALL.into_iter().map(|change| change.name);
        StructureChange::ALL.into_iter().find(|change| change.name == text).ok_or_else(|| {
            let near = did_you_mean(text, names()).map_or(".".to_owned(), |near| format!("; did you mean `{near}`?"));
            let names = names().collect::<Vec<_>>().join(", ");
            format!("there are no variants of `{text}`{near} There are those of {names}")
        })
    }
}

/// The variants of a program's structure by these changes, on a machine with `cpus` CPUs. All are
/// distinct, and none is the program's own structure.
pub fn variants(profile: &Profile, cpus: usize, changes: &[StructureChange]) -> Vec<Structure> {
    let requested = StructureChange::ALL.into_iter().filter(|known| changes.iter().any(|of| of.name == known.name));
    distinct(requested.flat_map(|change| (change.variants)(profile, cpus)), ToString::to_string)
}

/// Each pair of neighbours, and each row of three or more compute stages.
fn fused(line: &PipelineProfile) -> Vec<Structure> {
    let fuse = |stages: &[StageProfile]| Structure { fuse: vec![names(stages)], ..Structure::default() };
    let is_apart = |stages: &&[StageProfile]| {
        stages[1..].iter().any(|stage| !stage.is_fused) && !stages.iter().any(|stage| stage.is_junction)
    };
    let pairs = line.stages.windows(2).filter(is_apart).map(fuse);
    let runs = line.stages.chunk_by(|one, next| is_compute(one) && is_compute(next));
    pairs.chain(runs.filter(|run| run.len() > 2).filter(is_apart).map(fuse)).collect()
}

fn split(stage: &StageProfile) -> Structure {
    Structure { split: vec![stage.name.clone()], ..Structure::default() }
}

/// One copy, two, one for each CPU, and twice as many.
fn forked(stage: &StageProfile, cpus: usize) -> Vec<Structure> {
    let copies = BTreeSet::from([1, 2, cpus, 2 * cpus]);
    let copies = copies.into_iter().filter(|&copies| stage.can_fork && copies != stage.copies);
    let fork = |copies| Fork { stage: stage.name.clone(), copies, ordered: true };
    copies.map(|copies| Structure { fork: vec![fork(copies)], ..Structure::default() }).collect()
}

/// Each pair of stages of the same blocking kind on one thread, one, two or four buffers at a time.
fn threaded(line: &PipelineProfile) -> Vec<Structure> {
    let may_share =
        |stage: &&StageProfile| stage.kind.blocks() && !stage.is_junction && stage.copies == 1 && !stage.is_fused;
    let blocking: Vec<&StageProfile> = line.stages.iter().filter(may_share).collect();
    let mut made = Vec::new();
    for (place, first) in blocking.iter().enumerate() {
        for second in blocking[place + 1..].iter().filter(|second| second.kind == first.kind) {
            for repeat in [1, 2, 4].into_iter().filter(|&repeat| repeat <= line.buffers) {
                let turns = [first, second].map(|stage| StageTurn { stage: stage.name.clone(), repeat });
                made.push(Structure { thread: vec![turns.to_vec()], ..Structure::default() });
            }
        }
    }
    made
}

/// Half, twice and four times the buffers of the pipeline with the most.
fn buffers(profile: &Profile) -> Vec<Structure> {
    let most = profile.pipelines.iter().map(|line| line.buffers).max().unwrap_or(0);
    let other = [most / 2, most * 2, most * 4].into_iter().filter(|&buffers| buffers > 0);
    other.map(|buffers| Structure { buffers: Some(buffers), ..Structure::default() }).collect()
}

/// A quarter and four times the largest block.
fn blocks(profile: &Profile) -> Vec<Structure> {
    let largest = profile.pipelines.iter().map(|line| line.block).max().unwrap_or(0);
    let other = [largest / 4, largest * 4].into_iter().filter(|block| (SMALLEST_BLOCK..=LARGEST_BLOCK).contains(block));
    other.map(|block| Structure { block: Some(block), ..Structure::default() }).collect()
}

/// A thread for each stage, if workers would run some of them.
fn threads(profile: &Profile) -> Option<Structure> {
    profile.has(StageKind::Compute).then(|| Structure { threads: Some(Threads::Each), ..Structure::default() })
}

/// Every rule. A kind is raised or lowered only if the program has other kinds. Compute stages are
/// neither: lowering the others has the same effect.
fn priorities(profile: &Profile) -> Vec<Structure> {
    let fixed = |rule: &PriorityRule| match rule {
        PriorityRule::NiceDown(kind) | PriorityRule::NiceUp(kind) => {
            *kind != StageKind::Compute && profile.has(*kind) && profile.stages().any(|stage| stage.kind != *kind)
        }
        _ => *rule != PriorityRule::Default,
    };
    PriorityRule::ALL
        .into_iter()
        .filter(fixed)
        .map(|rule| Structure { priority: Some(rule), ..Structure::default() })
        .collect()
}

fn is_compute(stage: &StageProfile) -> bool {
    stage.kind == StageKind::Compute && !stage.is_junction
}

fn names(stages: &[StageProfile]) -> Vec<String> {
    stages.iter().map(|stage| stage.name.clone()).collect()
}

/// Each pair of these, and all of them together, unless one overrides a part of another.
pub(super) fn combinations(best: &[Structure]) -> Vec<Structure> {
    let pairs =
        best.iter().enumerate().flat_map(|(place, one)| best[place + 1..].iter().map(move |other| vec![one, other]));
    let all = (best.len() > 2).then(|| best.iter().collect::<Vec<_>>());
    let together = |parts: Vec<&Structure>| {
        let both = parts.iter().fold(Structure::default(), |both, part| part.laid_over(&both));
        let words =
            |structure: &Structure| structure.to_string().split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
        let is_whole = words(&both) == parts.iter().flat_map(|part| words(part)).collect() && both.check().is_ok();
        is_whole.then_some(both)
    };
    distinct(pairs.chain(all).filter_map(together), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Read, parse and count in one, hash in two copies, write.
    fn profile() -> Profile {
        let stages = vec![
            StageProfile::plain("read", StageKind::Io),
            StageProfile::plain("parse", StageKind::Compute),
            StageProfile { is_fused: true, ..StageProfile::plain("count", StageKind::Compute) },
            StageProfile { can_fork: true, copies: 2, ..StageProfile::plain("hash", StageKind::Compute) },
            StageProfile::plain("write", StageKind::Io),
        ];
        Profile { pipelines: vec![PipelineProfile { name: "demo".into(), buffers: 3, block: 65536, stages }] }
    }

    fn made(profile: &Profile, changes: &[&str]) -> Vec<String> {
        let changes: Vec<StructureChange> = changes.iter().map(|name| StructureChange::named(name).unwrap()).collect();
        variants(profile, 4, &changes).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_change_makes_its_variants() {
        for (change, expected) in [
            ("fuse", &["fuse=read+parse", "fuse=count+hash", "fuse=hash+write", "fuse=parse+count+hash"][..]),
            ("split", &["split=count"]),
            ("fork", &["fork=hash*1", "fork=hash*4", "fork=hash*8"]),
            ("thread", &["thread=read,write", "thread=read*2,write*2"]),
            ("buffers", &["buffers=1", "buffers=6", "buffers=12"]),
            ("block", &["block=16KiB", "block=256KiB"]),
            ("threads", &["threads=each"]),
            (
                "priority",
                &[
                    "priority=nice-down-io",
                    "priority=nice-up-io",
                    "priority=dynamic-up",
                    "priority=dynamic-up-down",
                    "priority=input-queue",
                    "priority=limiting-resource",
                ],
            ),
        ] {
            assert_eq!(made(&profile(), &[change]), expected, "{change}");
        }
        assert_eq!(variants(&profile(), 4, &StructureChange::ALL).len(), 22);
    }

    #[test]
    fn changes_without_effect_are_not_tried() {
        let mut profile = profile();
        let line = &mut profile.pipelines[0];
        (line.buffers, line.block) = (1, 0);
        line.stages = vec![StageProfile::plain("a", StageKind::Io), StageProfile::plain("b", StageKind::Communicate)];
        assert_eq!(made(&profile, &["fork", "thread", "block", "threads"]), [""; 0]);
        assert_eq!(made(&profile, &["buffers"]), ["buffers=2", "buffers=4"]);
        let priorities = made(&profile, &["priority"]);
        assert!(
            priorities.contains(&"priority=nice-up-communicate".into())
                && !priorities.iter().any(|rule| rule.contains("compute"))
        );
    }

    #[test]
    fn a_stage_in_which_pipelines_meet_is_not_fused_and_shares_no_thread() {
        let mut profile = profile();
        profile.pipelines[0].stages = vec![
            StageProfile::plain("a", StageKind::Io),
            StageProfile { is_junction: true, ..StageProfile::plain("merge", StageKind::Io) },
            StageProfile::plain("b", StageKind::Io),
        ];
        assert_eq!(made(&profile, &["fuse"]), [""; 0]);
        assert_eq!(made(&profile, &["thread"]), ["thread=a,b", "thread=a*2,b*2"]);
    }

    #[test]
    fn variants_of_several_pipelines_are_listed_once() {
        let mut profile = profile();
        let mut other = profile.pipelines[0].clone();
        other.buffers = 8;
        profile.pipelines.push(other);
        assert_eq!(made(&profile, &["buffers"]), ["buffers=4", "buffers=16", "buffers=32"]);
        assert_eq!(made(&profile, &["split"]), ["split=count"]);
    }

    #[test]
    fn all_variants_make_sense() {
        for variant in variants(&profile(), 2, &StructureChange::ALL) {
            assert_eq!(variant.check(), Ok(()), "{variant}");
            assert_eq!(variant.to_string().parse(), Ok(variant));
        }
    }

    #[test]
    fn contradictory_changes_are_not_combined() {
        let pairs = ["buffers=4 fork=a*2", "buffers=4 threads=each", "threads=each fork=a*2"];
        let all = "buffers=4 threads=each fork=a*2";
        for (best, together) in [
            (&["buffers=4", "fork=a*2", "threads=each"][..], &[pairs[0], pairs[1], pairs[2], all][..]),
            (&["fork=a*2", "fork=b*2"], &["fork=a*2 fork=b*2"]),
            (&["buffers=4", "buffers=8"], &[]),
            (&["fuse=a+b", "split=b"], &[]),
            (&["fuse=a+b", "fuse=b+c"], &[]),
            (&["buffers=4"], &[]),
        ] {
            let best: Vec<Structure> = best.iter().map(|text| text.parse().unwrap()).collect();
            assert_eq!(combinations(&best).iter().map(ToString::to_string).collect::<Vec<_>>(), together);
        }
    }

    #[test]
    fn changes_have_the_names_of_keys() {
        for change in StructureChange::ALL {
            assert!(pipeline::structure::KEYS.iter().any(|key| key.name == change.name));
            assert_eq!(StructureChange::named(change.name).unwrap().name, change.name);
        }
        for (name, near) in [("forks", "; did you mean `fork`?"), ("oars", ".")] {
            let all = "There are those of fuse, split, fork, thread, buffers, block, threads, priority";
            let why = StructureChange::named(name).unwrap_err();
            assert_eq!(why, format!("there are no variants of `{name}`{near} {all}"));
        }
    }
}
