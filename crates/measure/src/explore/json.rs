//! The results of an exploration as JSON. docs/output.md lists the fields.

use std::io;

use pipeline::structure::Structure;
use serde::{Serialize, Serializer};

use super::double::{Bound, Doubling};
use super::profile::PipelineProfile;
use super::{Exploration, ExplorationEnd, ExplorationSettings, Heat, VariantFate};
use stats::paired::Speedup;
use stats::{self, Estimate, six_digits};

/// The program that was run.
#[derive(Clone, Debug, Serialize)]
pub struct ExploredProgram<'a> {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The structure in the environment, which applies to all variants.
    #[serde(serialize_with = "as_text")]
    pub base: Structure,
    /// The command that precedes each run.
    pub prepare: Option<String>,
    /// The program's own pipelines.
    pub pipelines: &'a [PipelineProfile],
}

fn as_text<S: Serializer>(structure: &Structure, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(structure)
}

/// The test of pairs of durations.
#[derive(Serialize)]
struct Pairs {
    p: Option<f64>,
    told_apart: bool,
    pairs_ns: Vec<[f64; 2]>,
}

impl Pairs {
    fn new(pairs: &[(f64, f64)], speedup: Option<&Speedup>) -> Pairs {
        Pairs {
            p: speedup.and_then(|speedup| speedup.p).map(six_digits),
            told_apart: speedup.is_some_and(Speedup::is_significant),
            pairs_ns: pairs.iter().map(|&(one, other)| [nanos(one), nanos(other)]).collect(),
        }
    }
}

fn nanos(seconds: f64) -> f64 {
    six_digits(seconds * 1e9)
}

/// Renders results of either kind.
fn render(
    program: &ExploredProgram<'_>,
    settings: ExplorationSettings,
    found: impl Serialize,
    end: &ExplorationEnd,
) -> io::Result<String> {
    #[derive(Serialize)]
    struct Results<'a, T> {
        #[serde(flatten)]
        program: &'a ExploredProgram<'a>,
        seed: u64,
        planned_pairs: u32,
        #[serde(flatten)]
        found: T,
        end: &'static str,
        why: Option<&'a str>,
    }
    let (end, why) = match end {
        ExplorationEnd::Complete => ("complete", None),
        ExplorationEnd::TimeIsUp => ("time_is_up", None),
        ExplorationEnd::Stopped => ("interrupted", None),
        ExplorationEnd::OwnFailed(why) => ("program_failed", Some(why.as_str())),
    };
    let ExplorationSettings { seed, pairs: planned_pairs, .. } = settings;
    report::json::render(&Results { program, seed, planned_pairs, found, end, why })
}

/// An exploration.
pub fn exploration(
    program: &ExploredProgram<'_>,
    settings: ExplorationSettings,
    found: &Exploration,
) -> io::Result<String> {
    #[derive(Serialize)]
    struct Explored<'a> {
        heats: &'a [Heat],
        variants: Vec<Variant<'a>>,
        best: Option<Best>,
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
    let variants = found.tried.iter().map(|tried| {
        let (fate, left_after_heat, why) = match &tried.fate {
            VariantFate::Best => ("best", None, None),
            VariantFate::Entered if tried.logarithms.is_empty() => ("not_run", None, None),
            VariantFate::Entered => ("last_heat", None, None),
            VariantFate::OutIn(heat) => ("slower", Some(*heat), None),
            VariantFate::Failed(why) => ("failed", None, Some(why.as_str())),
            VariantFate::OtherOutput => ("other_output", None, None),
        };
        let (structure, ratio_in_heats) = (tried.structure.to_string(), tried.ratio().map(six_digits));
        Variant { structure, runs: tried.logarithms.len(), ratio_in_heats, fate, left_after_heat, why }
    });
    let best = found.best().map(|(tried, last)| {
        let speedup = last.speedup();
        Best {
            structure: tried.structure.to_string(),
            in_environment: tried.structure.laid_over(&program.base).to_string(),
            speedup: speedup.map(|speedup| speedup.ratio),
            median_own_ns: speedup.map(|speedup| nanos(speedup.first_median)),
            median_best_ns: speedup.map(|speedup| nanos(speedup.second_median)),
            pairs: Pairs::new(&last.pairs, speedup.as_ref()),
        }
    });
    let explored = Explored { heats: &found.heats, variants: variants.collect(), best };
    render(program, settings, explored, &found.end)
}

/// A test by doubling.
pub fn doubling(program: &ExploredProgram<'_>, settings: ExplorationSettings, found: &Doubling) -> io::Result<String> {
    #[derive(Serialize)]
    struct Doubled<'a> {
        doubled: Vec<DoubledStages<'a>>,
    }
    #[derive(Serialize)]
    struct DoubledStages<'a> {
        kind: &'static str,
        slowdown: Option<Estimate>,
        bound: Option<Bound>,
        median_doubled_ns: Option<f64>,
        median_own_ns: Option<f64>,
        why_not: Option<&'a str>,
        #[serde(flatten)]
        pairs: Pairs,
    }
    let doubled = found.kinds.iter().map(|doubled| {
        let slowdown = doubled.slowdown();
        DoubledStages {
            kind: doubled.kind.name(),
            slowdown: slowdown.map(|slowdown| slowdown.ratio),
            bound: doubled.bound(),
            median_doubled_ns: slowdown.map(|slowdown| nanos(slowdown.first_median)),
            median_own_ns: slowdown.map(|slowdown| nanos(slowdown.second_median)),
            why_not: doubled.why_not.as_deref(),
            pairs: Pairs::new(&doubled.pairs, slowdown.as_ref()),
        }
    });
    render(program, settings, Doubled { doubled: doubled.collect() }, &found.end)
}
