//! The results of an experiment. [`text`] and [`html`] are for people, [`mod@csv`] and the JSON of
//! [`Report`] are for programs.

pub mod csv;
pub mod html;
pub mod text;

use std::collections::BTreeSet;

use scenario::result::{Run, World};
use scenario::{Scenario, Setting};
use serde::Serialize;

use crate::comparison::Comparisons;
use crate::factor;
use crate::precision::{Precision, StoppingRule};
use crate::runner::StandIn;
use crate::sample::Sample;
use crate::sample_quality;
use crate::series::AllSeries;
use crate::summary::{self, Accuracy, Gap, Summary};
use crate::verdict::{self, Verdict};
use report::words;

/// Everything that is known at the end of an experiment, or of what there is of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What the experiment is about.
    pub title: String,
    /// Whether all planned runs were made.
    pub complete: bool,
    /// How many runs were planned; the warm-up is none of them.
    pub planned_runs: u64,
    /// How many repetitions each arm was to have.
    pub repeat: u32,
    /// What came of going on until the results were precise, where that was asked for.
    pub precision: Option<Precision>,
    /// The seed of the first repetition.
    pub seed: u64,
    /// The swept paths in the order of the file.
    pub factors: Vec<String>,
    /// The swept path that is compared.
    pub compare: Option<String>,
    /// Its first value, which speed-ups are over.
    pub baseline: Option<toml::Value>,
    /// For how many comparisons p values are corrected.
    pub comparisons: usize,
    /// What is on the plots' axis: a swept path, `threads` or `load`.
    pub x: Option<String>,
    /// The runs in the order in which they were made.
    pub runs: Vec<Run>,
    /// Every job in every arm and world.
    pub summaries: Vec<Summary>,
    /// Prediction against reality, by arm and job.
    pub gaps: Vec<Gap>,
    /// Prediction against reality, by job.
    pub accuracy: Vec<Accuracy>,
    /// The comparisons' outcomes.
    pub verdicts: Vec<Verdict>,
    /// What one should know before one believes the rest.
    pub notes: Vec<String>,
}

impl Report {
    /// The report of an experiment in these worlds, planned with so many runs, of which these samples were made.
    pub fn new(
        scenario: &Scenario,
        worlds: &[World],
        planned_runs: u64,
        samples: Vec<Sample>,
        stand_ins: &[StandIn],
    ) -> Report {
        Report::in_stages(scenario, worlds, planned_runs, samples, stand_ins, None)
    }

    /// The same of an experiment that went on after a first stage of so many repetitions.
    pub fn in_stages(
        scenario: &Scenario,
        worlds: &[World],
        planned_runs: u64,
        samples: Vec<Sample>,
        stand_ins: &[StandIn],
        stages: Option<(StoppingRule, u32)>,
    ) -> Report {
        let first_stage = stages.map_or(scenario.experiment.repeat, |(_, first_stage)| first_stage);
        let all = AllSeries::collect(scenario, &samples).with_first_stage(first_stage);
        let precision = stages.map(|(until, first_stage)| until.judge(&all, first_stage));
        let comparisons = Comparisons::new(&all);
        let (summaries, gaps) = (summary::summaries(&all, &comparisons), summary::gaps(&all));
        let verdicts = verdict::verdicts(&all, &comparisons);
        let complete = samples.len() as u64 == planned_runs;
        let mut notes = Vec::new();
        if !complete {
            notes.push(format!(
                "Incomplete: {} of {planned_runs} runs were made; all figures are from these.",
                samples.len()
            ));
        }
        notes.extend(stand_ins.iter().map(stand_in_note));
        notes.extend(refusal_note(&samples));
        notes.extend(gap_note(scenario, worlds));
        if scenario.experiment.repeat == 1 {
            notes.push("One repetition gives no intervals and tells nothing apart; --repeat asks for more.".to_owned());
        }
        match &precision {
            Some(precision) => notes.push(precision.note(scenario.experiment.repeat, complete)),
            None => notes.extend(sample_quality::width(&all)),
        }
        notes.extend(sample_quality::notes(&all));
        Report {
            title: scenario.title.clone(),
            complete,
            planned_runs,
            repeat: scenario.experiment.repeat,
            precision,
            seed: scenario.experiment.seed,
            factors: csv::factors(scenario),
            compare: scenario.experiment.compare.clone(),
            baseline: baseline(scenario),
            comparisons: comparisons.pairs(),
            x: scenario.experiment.x.clone(),
            accuracy: summary::accuracy(&gaps),
            runs: samples.into_iter().map(|sample| sample.run).collect(),
            summaries,
            gaps,
            verdicts,
            notes,
        }
    }
}

fn baseline(scenario: &Scenario) -> Option<toml::Value> {
    let compare = scenario.experiment.compare.as_ref()?;
    factor::value(&factor::of(scenario.arms.first()?), compare).cloned()
}

fn stand_in_note(StandIn { job, work }: &StandIn) -> String {
    let work = words::time(work.as_nanos() as f64);
    format!("sim: `{job}` stands in as a cpu job of {work}, which its command took when it was run alone.")
}

/// What the kernel refused the stages of pipelines, so that a priority rule was not carried out.
fn refusal_note(samples: &[Sample]) -> Option<String> {
    let jobs = samples.iter().flat_map(|sample| &sample.run.outcome.jobs);
    let refused: BTreeSet<&str> =
        jobs.flat_map(|job| &job.stages).flat_map(|stage| &stage.refused).map(String::as_str).collect();
    let refused: Vec<&str> = refused.into_iter().collect();
    (!refused.is_empty()).then(|| {
        format!(
            "host: the kernel refused what priorities of stages ask for, and they ran without: {}.",
            refused.join("; ")
        )
    })
}

/// Why there is no gap, or none for some arms, although both worlds were asked.
fn gap_note(scenario: &Scenario, worlds: &[World]) -> Option<String> {
    let is_host = |setting: &Setting| setting.machine.is_host();
    let others = scenario.arms.iter().filter(|arm| !is_host(&arm.setting)).count();
    if !(worlds.contains(&World::Sim) && worlds.contains(&World::Host)) || others == 0 {
        return None;
    }
    let which = if others == scenario.arms.len() { "No gap is shown" } else { "Some arms show no gap" };
    Some(format!(
        "{which}: the simulated machine is not the one that the host world ran on. It is with `like = \"host\"` and no \
         other key of [machine] but spin_margin and device_depth, and without --scheduler."
    ))
}

#[cfg(test)]
mod tests {
    use scenario::result::{JobOutcome, Outcome, StageOutcome};

    use super::*;

    fn sample(refused: &[&str]) -> Sample {
        let refused = refused.iter().map(ToString::to_string).collect();
        let stages = vec![StageOutcome { refused, ..StageOutcome::default() }];
        let jobs = vec![JobOutcome { stages, ..JobOutcome::default() }];
        let outcome = Outcome { jobs, ..Outcome::default() };
        let run = Run { world: World::Host, factors: Default::default(), repeat: 0, seed: 1, outcome };
        Sample { arm: 0, run, states: Default::default() }
    }

    #[test]
    fn what_the_kernel_refused_is_said_once() {
        assert_eq!(refusal_note(&[sample(&[])]), None);
        let note = refusal_note(&[sample(&["nice=-5: no"]), sample(&["nice=-5: no", "nice=-3: no"])]);
        let expected = "host: the kernel refused what priorities of stages ask for, and they ran without: nice=-3: no; nice=-5: no.";
        assert_eq!(note.as_deref(), Some(expected));
    }
}
