//! Which variants of a structure are worth a try: one change each, since what several of them do together is anybody's guess.

use std::collections::BTreeSet;
use std::fmt;

use pipeline::structure::{Fork, StageTurn, Structure, Threads, did_you_mean};
use policy::priority::{PriorityRule, StageKind};

use super::profile::{Line, Profile, Stage};

/// A block is not made smaller than this: a page, below which direct input and output is not possible.
const SMALLEST_BLOCK: usize = 4096;
/// Nor larger than this.
const LARGEST_BLOCK: usize = 64 << 20;

/// What can be changed. Each is named as the key of a structure that does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Neighbours run as one.
    Fuse,
    /// What was fused does not.
    Split,
    /// Stages run in more or fewer copies.
    Fork,
    /// Two blocking stages share a thread, and handle some buffers at a time.
    Thread,
    /// There are more or fewer buffers.
    Buffers,
    /// They are larger or smaller.
    Block,
    /// Compute stages have threads of their own.
    Threads,
    /// Some stages are favoured.
    Priority,
}

impl Change {
    /// All of them.
    pub const ALL: [Change; 8] = [
        Change::Fuse,
        Change::Split,
        Change::Fork,
        Change::Thread,
        Change::Buffers,
        Change::Block,
        Change::Threads,
        Change::Priority,
    ];

    /// The key of a structure that does it.
    pub const fn name(self) -> &'static str {
        match self {
            Change::Fuse => "fuse",
            Change::Split => "split",
            Change::Fork => "fork",
            Change::Thread => "thread",
            Change::Buffers => "buffers",
            Change::Block => "block",
            Change::Threads => "threads",
            Change::Priority => "priority",
        }
    }

    /// The change of this name.
    ///
    /// # Errors
    /// With what there is.
    pub fn named(text: &str) -> Result<Change, String> {
        let names = || Change::ALL.iter().map(|change| change.name());
        Change::ALL.into_iter().find(|change| change.name() == text).ok_or_else(|| {
            let near = did_you_mean(text, names()).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            format!(
                "there are no variants of `{text}`{near} There are those of {}",
                names().collect::<Vec<_>>().join(", ")
            )
        })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The variants of a program's structure by these changes, on so many CPUs. None is the structure that the program has, and no two are the same.
pub fn variants(profile: &Profile, cpus: usize, changes: &[Change]) -> Vec<Structure> {
    let mut made = Vec::new();
    for change in Change::ALL.into_iter().filter(|change| changes.contains(change)) {
        match change {
            Change::Fuse => made.extend(profile.pipelines.iter().flat_map(fused)),
            Change::Split => made.extend(profile.stages().filter(|stage| stage.is_fused).map(split)),
            Change::Fork => made.extend(profile.stages().flat_map(|stage| forked(stage, cpus))),
            Change::Thread => made.extend(profile.pipelines.iter().flat_map(threaded)),
            Change::Buffers => made.extend(buffers(profile)),
            Change::Block => made.extend(blocks(profile)),
            Change::Threads => made.extend(threads(profile)),
            Change::Priority => made.extend(priorities(profile)),
        }
    }
    without_repetitions(made)
}

/// Each two neighbours; and all compute stages that are neighbours, where there are three or more.
fn fused(line: &Line) -> Vec<Structure> {
    let fuse = |stages: &[Stage]| Structure { fuse: vec![names(stages)], ..Structure::default() };
    let is_apart =
        |stages: &&[Stage]| stages[1..].iter().any(|stage| !stage.is_fused) && !stages.iter().any(is_junction);
    let pairs = line.stages.windows(2).filter(is_apart).map(fuse);
    let runs = line.stages.chunk_by(|one, next| computes(one) && computes(next));
    pairs.chain(runs.filter(|run| run.len() > 2).filter(is_apart).map(fuse)).collect()
}

fn split(stage: &Stage) -> Structure {
    Structure { split: vec![stage.name.clone()], ..Structure::default() }
}

/// One copy, two, as many as there are CPUs, and twice as many.
fn forked(stage: &Stage, cpus: usize) -> Vec<Structure> {
    let copies = BTreeSet::from([1, 2, cpus, 2 * cpus]);
    let copies = copies.into_iter().filter(|&copies| stage.can_fork && copies != stage.copies);
    let fork = |copies| Fork { stage: stage.name.clone(), copies, ordered: true };
    copies.map(|copies| Structure { fork: vec![fork(copies)], ..Structure::default() }).collect()
}

/// Each two stages of the same blocking kind by turns on one thread, one, two and four buffers at a time.
fn threaded(line: &Line) -> Vec<Structure> {
    let may_share = |stage: &&Stage| stage.kind.blocks() && !stage.is_junction && stage.copies == 1 && !stage.is_fused;
    let blocking: Vec<&Stage> = line.stages.iter().filter(may_share).collect();
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

/// Half as many, twice and four times as many, as the pipeline with the most has.
fn buffers(profile: &Profile) -> Vec<Structure> {
    let most = profile.pipelines.iter().map(|line| line.buffers).max().unwrap_or(0);
    let other = [most / 2, most * 2, most * 4].into_iter().filter(|&buffers| buffers > 0);
    other.map(|buffers| Structure { buffers: Some(buffers), ..Structure::default() }).collect()
}

/// A fourth and four times as large, as the largest.
fn blocks(profile: &Profile) -> Vec<Structure> {
    let largest = profile.pipelines.iter().map(|line| line.block).max().unwrap_or(0);
    let other = [largest / 4, largest * 4].into_iter().filter(|block| (SMALLEST_BLOCK..=LARGEST_BLOCK).contains(block));
    other.map(|block| Structure { block: Some(block), ..Structure::default() }).collect()
}

/// A thread for each stage, where workers would carry some.
fn threads(profile: &Profile) -> Option<Structure> {
    profile.has(StageKind::Compute).then(|| Structure { threads: Some(Threads::Each), ..Structure::default() })
}

/// Every rule. A kind is favoured or lowered only where there are others to be favoured over, and compute stages not at all: lowering the
/// others does the same for them.
fn priorities(profile: &Profile) -> Vec<Structure> {
    let fixed = |rule: &PriorityRule| match rule {
        PriorityRule::Fixed { kind, .. } => {
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

fn computes(stage: &Stage) -> bool {
    stage.kind == StageKind::Compute && !stage.is_junction
}

fn is_junction(stage: &Stage) -> bool {
    stage.is_junction
}

fn names(stages: &[Stage]) -> Vec<String> {
    stages.iter().map(|stage| stage.name.clone()).collect()
}

/// Every two of these together, and all of them, where each still says all that it said.
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
    without_repetitions(pairs.chain(all).filter_map(together))
}

fn without_repetitions(structures: impl IntoIterator<Item = Structure>) -> Vec<Structure> {
    let mut all: Vec<Structure> = Vec::new();
    for structure in structures {
        if !all.contains(&structure) {
            all.push(structure);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, kind: StageKind) -> Stage {
        Stage {
            name: name.to_owned(),
            kind,
            can_fork: false,
            copies: 1,
            is_fused: false,
            is_junction: false,
            repeated: Some(0),
        }
    }

    /// Read, parse and count in one, hash in two copies, write.
    fn profile() -> Profile {
        let stages = vec![
            stage("read", StageKind::Io),
            stage("parse", StageKind::Compute),
            Stage { is_fused: true, ..stage("count", StageKind::Compute) },
            Stage { can_fork: true, copies: 2, ..stage("hash", StageKind::Compute) },
            stage("write", StageKind::Io),
        ];
        Profile { pipelines: vec![Line { name: "demo".into(), buffers: 3, block: 65536, stages }] }
    }

    fn made(profile: &Profile, changes: &[Change]) -> Vec<String> {
        variants(profile, 4, changes).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_change_makes_its_variants() {
        for (change, expected) in [
            (Change::Fuse, &["fuse=read+parse", "fuse=count+hash", "fuse=hash+write", "fuse=parse+count+hash"][..]),
            (Change::Split, &["split=count"]),
            (Change::Fork, &["fork=hash*1", "fork=hash*4", "fork=hash*8"]),
            (Change::Thread, &["thread=read,write", "thread=read*2,write*2"]),
            (Change::Buffers, &["buffers=1", "buffers=6", "buffers=12"]),
            (Change::Block, &["block=16KiB", "block=256KiB"]),
            (Change::Threads, &["threads=each"]),
            (
                Change::Priority,
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
        assert_eq!(made(&profile(), &Change::ALL).len(), 22);
    }

    #[test]
    fn what_has_no_effect_is_not_tried() {
        let mut profile = profile();
        let line = &mut profile.pipelines[0];
        (line.buffers, line.block) = (1, 0);
        line.stages = vec![stage("a", StageKind::Io), stage("b", StageKind::Communicate)];
        assert_eq!(
            made(&profile, &[Change::Fork, Change::Thread, Change::Block, Change::Threads]),
            Vec::<String>::new()
        );
        assert_eq!(made(&profile, &[Change::Buffers]), ["buffers=2", "buffers=4"]);
        let priorities = made(&profile, &[Change::Priority]);
        assert!(
            priorities.contains(&"priority=nice-up-communicate".into())
                && !priorities.iter().any(|rule| rule.contains("compute"))
        );
    }

    #[test]
    fn where_pipelines_meet_nothing_is_fused_and_no_thread_shared() {
        let mut profile = profile();
        profile.pipelines[0].stages = vec![
            stage("a", StageKind::Io),
            Stage { is_junction: true, ..stage("merge", StageKind::Io) },
            stage("b", StageKind::Io),
        ];
        assert_eq!(made(&profile, &[Change::Fuse]), Vec::<String>::new());
        assert_eq!(made(&profile, &[Change::Thread]), ["thread=a,b", "thread=a*2,b*2"]);
    }

    #[test]
    fn variants_of_several_pipelines_are_named_once() {
        let mut profile = profile();
        let mut other = profile.pipelines[0].clone();
        other.buffers = 8;
        profile.pipelines.push(other);
        assert_eq!(made(&profile, &[Change::Buffers]), ["buffers=4", "buffers=16", "buffers=32"]);
        assert_eq!(made(&profile, &[Change::Split]), ["split=count"]);
    }

    #[test]
    fn all_variants_make_sense() {
        for variant in variants(&profile(), 2, &Change::ALL) {
            assert_eq!(variant.check(), Ok(()), "{variant}");
            assert_eq!(variant.to_string().parse(), Ok(variant));
        }
    }

    #[test]
    fn only_what_does_not_contradict_is_combined() {
        let combined = |texts: &[&str]| {
            let best: Vec<Structure> = texts.iter().map(|text| text.parse().unwrap()).collect();
            combinations(&best).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            combined(&["buffers=4", "fork=a*2", "threads=each"]),
            [
                "buffers=4 fork=a*2",
                "buffers=4 threads=each",
                "threads=each fork=a*2",
                "buffers=4 threads=each fork=a*2"
            ]
        );
        assert_eq!(combined(&["buffers=4", "buffers=8"]), Vec::<String>::new());
        assert_eq!(combined(&["fuse=a+b", "split=b"]), Vec::<String>::new());
        assert_eq!(combined(&["fuse=a+b", "fuse=b+c"]), Vec::<String>::new());
        assert_eq!(combined(&["fork=a*2", "fork=b*2"]), ["fork=a*2 fork=b*2"]);
        assert_eq!(combined(&["buffers=4"]), Vec::<String>::new());
    }

    #[test]
    fn changes_are_named_as_keys_are() {
        for change in Change::ALL {
            assert!(pipeline::structure::KEYS.iter().any(|key| key.name == change.name()));
            assert_eq!(Change::named(change.name()), Ok(change));
        }
        let why = Change::named("forks").unwrap_err();
        assert_eq!(
            why,
            "there are no variants of `forks`; did you mean `fork`? There are those of fuse, split, fork, thread, buffers, block, threads, priority"
        );
    }
}
