//! The results of an experiment: [`text`] and [`html`] for people, [`mod@csv`] and the JSON of
//! [`ExperimentReport`] for programs.

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
use crate::turns::{self, Turns};
use crate::verdict::{self, Verdict};
use report::words;

/// The results of an experiment, complete or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExperimentReport {
    /// The title of the scenario.
    pub title: String,
    /// Whether all planned runs were made.
    pub complete: bool,
    /// The number of planned runs, without the warm-up.
    pub planned_runs: u64,
    /// The planned number of repetitions of each arm.
    pub repeat: u32,
    /// The precision, if one was requested.
    pub precision: Option<Precision>,
    /// The seed of the first repetition.
    pub seed: u64,
    /// The swept paths in the order of the file.
    pub factors: Vec<String>,
    /// The swept path that is compared.
    pub compare: Option<String>,
    /// Its first value, the baseline of speed-ups.
    pub baseline: Option<toml::Value>,
    /// The number of comparisons for which p values are corrected.
    pub comparisons: usize,
    /// The horizontal axis of the plots: a swept path, `threads` or `load`.
    pub x: Option<String>,
    /// The runs in their order.
    pub runs: Vec<Run>,
    /// Every job in every arm and world.
    pub summaries: Vec<Summary>,
    /// The turns of jobs in every arm and world that has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turns>,
    /// The gap between the simulator and the host, by arm and job.
    pub gaps: Vec<Gap>,
    /// The accuracy of the simulator, by job.
    pub accuracy: Vec<Accuracy>,
    /// The verdicts of the comparisons.
    pub verdicts: Vec<Verdict>,
    /// Caveats.
    pub notes: Vec<String>,
}

impl ExperimentReport {
    /// The report on these samples. `stages` is the stopping rule, if there is one, and the number
    /// of repetitions of the first stage.
    pub fn new(
        scenario: &Scenario,
        worlds: &[World],
        planned_runs: u64,
        samples: Vec<Sample>,
        stand_ins: &[StandIn],
        stages: Option<(StoppingRule, u32)>,
    ) -> ExperimentReport {
        let first_stage = stages.map_or(scenario.experiment.repeat, |(_, first_stage)| first_stage);
        let all = AllSeries::collect(scenario, &samples, first_stage);
        let precision = stages.map(|(until, first_stage)| until.judge(&all, first_stage));
        let comparisons = Comparisons::new(&all);
        let (summaries, gaps) = (summary::summaries(&all, &comparisons), summary::gaps(&all));
        let verdicts = verdict::verdicts(&all, &comparisons);
        let complete = samples.len() as u64 == planned_runs;
        let mut notes = Vec::new();
        notes.extend((!complete).then(|| incomplete(samples.len(), planned_runs)));
        notes.extend(stand_ins.iter().map(stand_in_note));
        notes.extend(refusal_note(&samples));
        notes.extend(gap_note(scenario, worlds));
        if scenario.experiment.repeat == 1 {
            notes.push(
                "One repetition gives no intervals and no significant differences; use --repeat for more.".to_owned(),
            );
        }
        match &precision {
            Some(precision) => notes.push(precision.note(scenario.experiment.repeat, complete)),
            None => notes.extend(sample_quality::width(&all)),
        }
        notes.extend(sample_quality::notes(&all));
        ExperimentReport {
            title: scenario.title.clone(),
            complete,
            planned_runs,
            repeat: scenario.experiment.repeat,
            precision,
            seed: scenario.experiment.seed,
            factors: csv::factors(scenario),
            compare: scenario.experiment.compare.clone(),
            baseline: factor::compared(scenario, 0),
            comparisons: comparisons.pairs,
            x: scenario.experiment.x.clone(),
            accuracy: summary::accuracy(&gaps),
            turns: turns::turns(scenario, &samples, first_stage),
            runs: samples.into_iter().map(|sample| sample.run).collect(),
            summaries,
            gaps,
            verdicts,
            notes,
        }
    }
}

/// The sentence about an experiment with fewer runs than planned.
pub fn incomplete(made: usize, planned: u64) -> String {
    format!("Incomplete: {made} of {planned} runs were made; all figures are from these.")
}

fn stand_in_note(StandIn { job, work }: &StandIn) -> String {
    let work = words::time(work.as_nanos() as f64);
    format!("sim: `{job}` is simulated as a cpu job of {work}, the CPU time of its command when it ran alone.")
}

/// The requests of priority rules that the kernel refused.
fn refusal_note(samples: &[Sample]) -> Option<String> {
    let jobs = samples.iter().flat_map(|sample| &sample.run.outcome.jobs);
    let refused: BTreeSet<&String> = jobs.flat_map(|job| &job.stages).flat_map(|stage| &stage.refused).collect();
    let refused: Vec<&str> = refused.into_iter().map(String::as_str).collect();
    (!refused.is_empty())
        .then(|| format!("host: the stages ran without priorities that the kernel refused: {}.", refused.join("; ")))
}

/// Why some or all arms have no gap, although both worlds were run.
fn gap_note(scenario: &Scenario, worlds: &[World]) -> Option<String> {
    let is_host = |setting: &Setting| setting.machine.is_host();
    let others = scenario.arms.iter().filter(|arm| !is_host(&arm.setting)).count();
    if !(worlds.contains(&World::Sim) && worlds.contains(&World::Host)) || others == 0 {
        return None;
    }
    let which = if others == scenario.arms.len() { "No gap is shown" } else { "Some arms show no gap" };
    Some(format!(
        "{which}: the simulated machine is not the host. It is the host with `like = \"host\"`, no other keys of \
         [machine] except spin_margin and device_depth, and no --scheduler."
    ))
}

#[cfg(test)]
mod tests {
    use scenario::Span;
    use scenario::result::{CoschedulingOutcome, JobOutcome, StageOutcome};

    use super::*;
    use crate::manifest::Manifest;
    use crate::timestamp::Timestamp;

    fn sample(refused: &[&str]) -> Sample {
        let refused = refused.iter().map(ToString::to_string).collect();
        let stages = vec![StageOutcome { refused, ..StageOutcome::default() }];
        Sample::of(World::Host, 0, vec![JobOutcome { stages, ..JobOutcome::default() }])
    }

    #[test]
    fn starts_and_turns_are_reported_only_where_there_are_some() {
        let file = "machine.cells = '2x1'\njob = [{ name = 'crew', kind = 'cpu', work = '1 s' }]";
        let scenario = scenario::read("crew.toml", file.as_bytes()).unwrap_or_else(|bad| panic!("{bad}"));
        let report = |start_ns, coscheduling| {
            let job = JobOutcome { completion_ns: Some(Span::from_millis(7)), start_ns, ..JobOutcome::default() };
            let mut sample = Sample::of(World::Sim, 0, vec![job]);
            sample.run.outcome.machine.coscheduling = coscheduling;
            let report = ExperimentReport::new(&scenario, &[World::Sim], 1, vec![sample], &[], None);
            let manifest = Manifest::begin("run", &[World::Sim], Timestamp::of(std::time::UNIX_EPOCH));
            let json = serde_json::to_string(&report).unwrap();
            [text::render(&report), html::render(None, &report, &manifest, &[]), json]
        };
        let of_cells = ["  start", "start, ", "start_ns", "Turns of", "turns\":"];
        for without in report(None, None) {
            assert!(!of_cells.iter().any(|of_cells| without.contains(of_cells)), "{without}");
        }
        let turns =
            CoschedulingOutcome { turns: 1234, delay_mean_ns: Some(Span::from_millis(9)), ..Default::default() };
        let [text, html, json] = report(Some(Span::from_millis(3)), Some(turns));
        assert!(text.contains("completion     start") && text.contains("7.000 ms  3.000 ms"), "{text}");
        assert!(text.contains("Turns of jobs on cells") && text.contains("1234  9.000 ms"), "{text}");
        assert!(html.contains("start, ms") && html.contains("Turns of jobs on cells"), "{html}");
        assert!(json.contains(r#""start_ns":3000000"#) && json.contains(r#""turns":[{"world":"sim""#), "{json}");
    }

    #[test]
    fn each_refusal_of_the_kernel_is_named_once() {
        assert_eq!(refusal_note(&[sample(&[])]), None);
        let note = refusal_note(&[sample(&["nice=-5: no"]), sample(&["nice=-5: no", "nice=-3: no"])]);
        let expected = "host: the stages ran without priorities that the kernel refused: nice=-3: no; nice=-5: no.";
        assert_eq!(note.as_deref(), Some(expected));
    }
}
