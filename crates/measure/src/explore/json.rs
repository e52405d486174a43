//! What was found, for programs. docs/output.md lists the fields.

use std::io;

use pipeline::structure::Structure;
use serde::{Serialize, Serializer};

use super::double::Doubling;
use super::profile::{Line, Profile};
use super::{End, Exploration, Fate, Settings};
use stats::paired::Speedup;
use stats::{self, Estimate, six_digits};

/// What was run.
#[derive(Clone, Debug, Serialize)]
pub struct Subject<'a> {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What the environment said of the structure beforehand, which holds for all variants.
    #[serde(serialize_with = "as_text")]
    pub base: Structure,
    /// What is run before each run.
    pub prepare: Option<String>,
    /// The program's own pipelines.
    pub pipelines: &'a [Line],
}

impl<'a> Subject<'a> {
    /// This program.
    pub fn new(command: Vec<String>, base: Structure, prepare: Option<String>, profile: &'a Profile) -> Subject<'a> {
        Subject { command, base, prepare, pipelines: &profile.pipelines }
    }
}

fn as_text<S: Serializer>(structure: &Structure, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(structure)
}

/// How something ended, and why.
#[derive(Serialize)]
struct Ended<'a> {
    end: &'static str,
    why: Option<&'a str>,
}

impl Ended<'_> {
    fn new(end: &End) -> Ended<'_> {
        let (end, why) = match end {
            End::Complete => ("complete", None),
            End::TimeIsUp => ("time_is_up", None),
            End::Stopped => ("interrupted", None),
            End::OwnFailed(why) => ("program_failed", Some(why.as_str())),
        };
        Ended { end, why }
    }
}

/// What pairs say.
#[derive(Serialize)]
struct Pairs {
    p: Option<f64>,
    told_apart: bool,
    pairs_ns: Vec<[f64; 2]>,
}

fn pairs(pairs: &[(f64, f64)], speedup: Option<&Speedup>) -> Pairs {
    Pairs {
        p: speedup.and_then(|speedup| speedup.p).map(six_digits),
        told_apart: speedup.is_some_and(Speedup::is_significant),
        pairs_ns: pairs.iter().map(|&(one, other)| [nanos(one), nanos(other)]).collect(),
    }
}

fn nanos(seconds: f64) -> f64 {
    six_digits(seconds * 1e9)
}

/// An exploration.
///
/// # Errors
/// What cannot be JSON, which this is not.
pub fn exploration(subject: &Subject<'_>, settings: Settings, found: &Exploration) -> io::Result<String> {
    #[derive(Serialize)]
    struct Report<'a> {
        #[serde(flatten)]
        subject: &'a Subject<'a>,
        seed: u64,
        planned_pairs: u32,
        heats: Vec<Heat>,
        variants: Vec<Variant<'a>>,
        best: Option<Best>,
        #[serde(flatten)]
        ended: Ended<'a>,
    }
    #[derive(Serialize)]
    struct Heat {
        variants: usize,
        blocks: u32,
    }
    #[derive(Serialize)]
    struct Variant<'a> {
        structure: String,
        runs: usize,
        ratio_in_heats: Option<f64>,
        fate: &'static str,
        left_after_heat: Option<usize>,
        why: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct Best {
        structure: String,
        in_environment: String,
        speedup: Option<Estimate>,
        median_own_ns: Option<f64>,
        median_best_ns: Option<f64>,
        #[serde(flatten)]
        pairs: Pairs,
    }
    let variant = |tried: &'_ super::Tried| {
        let (fate, left_after_heat) = match &tried.fate {
            Fate::Best => ("best", None),
            Fate::Entered if tried.logarithms.is_empty() => ("not_run", None),
            Fate::Entered => ("last_heat", None),
            Fate::OutIn(heat) => ("slower", Some(*heat)),
            Fate::Failed(_) => ("failed", None),
            Fate::OtherOutput => ("other_output", None),
        };
        (fate, left_after_heat)
    };
    let variants = found.tried.iter().map(|tried| {
        let (fate, left_after_heat) = variant(tried);
        let why = if let Fate::Failed(why) = &tried.fate { Some(why.as_str()) } else { None };
        let ratio_in_heats = stats::mean(&tried.logarithms).map(|mean| six_digits(mean.mean.exp()));
        let (structure, runs) = (tried.structure.to_string(), tried.logarithms.len());
        Variant { structure, runs, ratio_in_heats, fate, left_after_heat, why }
    });
    let best = found.best().map(|(tried, last)| {
        let speedup = last.speedup();
        Best {
            structure: tried.structure.to_string(),
            in_environment: tried.structure.laid_over(&subject.base).to_string(),
            speedup: speedup.map(|speedup| speedup.ratio),
            median_own_ns: speedup.map(|speedup| nanos(speedup.first_median)),
            median_best_ns: speedup.map(|speedup| nanos(speedup.second_median)),
            pairs: pairs(&last.pairs, speedup.as_ref()),
        }
    });
    report::json::render(&Report {
        subject,
        seed: settings.seed,
        planned_pairs: settings.pairs,
        heats: found.heats.iter().map(|heat| Heat { variants: heat.variants, blocks: heat.blocks }).collect(),
        variants: variants.collect(),
        best,
        ended: Ended::new(&found.end),
    })
}

/// A test by doubling.
///
/// # Errors
/// What cannot be JSON, which this is not.
pub fn doubling(subject: &Subject<'_>, settings: Settings, found: &Doubling) -> io::Result<String> {
    #[derive(Serialize)]
    struct Report<'a> {
        #[serde(flatten)]
        subject: &'a Subject<'a>,
        seed: u64,
        planned_pairs: u32,
        doubled: Vec<Doubled<'a>>,
        #[serde(flatten)]
        ended: Ended<'a>,
    }
    #[derive(Serialize)]
    struct Doubled<'a> {
        kind: &'static str,
        slowdown: Option<Estimate>,
        bound: Option<&'static str>,
        median_doubled_ns: Option<f64>,
        median_own_ns: Option<f64>,
        why_not: Option<&'a str>,
        #[serde(flatten)]
        pairs: Pairs,
    }
    let doubled = found.kinds.iter().map(|doubled| {
        let slowdown = doubled.slowdown();
        Doubled {
            kind: doubled.kind.name(),
            slowdown: slowdown.map(|slowdown| slowdown.ratio),
            bound: doubled.bound().map(super::double::Bound::name),
            median_doubled_ns: slowdown.map(|slowdown| nanos(slowdown.first_median)),
            median_own_ns: slowdown.map(|slowdown| nanos(slowdown.second_median)),
            why_not: doubled.why_not.as_deref(),
            pairs: pairs(&doubled.pairs, slowdown.as_ref()),
        }
    });
    report::json::render(&Report {
        subject,
        seed: settings.seed,
        planned_pairs: settings.pairs,
        doubled: doubled.collect(),
        ended: Ended::new(&found.end),
    })
}
