//! Experiments that continue until their completion times are precise enough.

use std::fs;

use crate::experiment::mock::{BOTH, CREW, Extent, Fault, Mock, read};
use measure::experiment::FinishedExperiment;
use measure::precision::StoppingRule;
use measure::results::text;
use measure::summary::Summary;
use scenario::result::World;

fn until(share: f64, at_most: u32) -> Extent<'static> {
    (BOTH, Some(StoppingRule { share, at_most }))
}

fn run(mock: &Mock<'_>, extent: Extent<'_>) -> (tempfile::TempDir, FinishedExperiment) {
    let folder = tempfile::tempdir().unwrap();
    let finished = mock.experiment_of(read(CREW), extent, folder.path());
    (folder, finished)
}

#[test]
fn blocks_follow_until_every_completion_time_is_precise_enough() {
    let (folder, finished) = run(&Mock::new(), until(0.005, 100));
    let report = finished.report;
    assert!(finished.error.is_none() && report.complete && report.repeat > 3, "{}", report.repeat);
    assert_eq!(report.runs.len() as u64, report.planned_runs);
    assert_eq!(report.runs.len(), 12 * report.repeat as usize);
    for summary in report.summaries.iter().filter_map(|summary| summary.completion_ns) {
        assert_eq!(summary.samples, report.repeat as usize);
        assert!(summary.half_width().unwrap() <= 0.005 * summary.mean, "{summary:?}");
    }
    let precision = report.precision.as_ref().unwrap();
    assert!(precision.reached && precision.first_stage == 3 && precision.widest_percent <= Some(0.5), "{precision:?}");
    let note = format!(
        "Stopped after {} repetitions: every completion time is known to ±0.5 %; 3 were planned",
        report.repeat
    );
    assert!(report.notes[0].starts_with(&note), "{:?}", report.notes);
    assert!(text::render(&report).lines().all(|line| line.chars().count() <= report::WIDTH));

    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["planned_runs"], report.planned_runs);
    assert_eq!((&manifest["repeat"], &manifest["ending"]), (&report.repeat.into(), &"complete".into()));
}

#[test]
fn the_runs_are_those_of_an_experiment_that_was_planned_that_long() {
    let (_folder, going_on) = run(&Mock::new(), until(0.005, 100));
    let mut scenario = read(CREW);
    scenario.experiment.repeat = going_on.report.repeat;
    let planned = Mock::new().experiment(scenario, BOTH, tempfile::tempdir().unwrap().path());
    assert_eq!(planned.report.runs, going_on.report.runs);
    // Its intervals are narrower, because its results did not decide when to stop.
    let widths = |of: &[Summary]| -> Vec<f64> { of.iter().filter_map(|of| of.completion_ns?.half_width()).collect() };
    let (planned, going_on) = (widths(&planned.report.summaries), widths(&going_on.report.summaries));
    assert!(planned.iter().zip(&going_on).all(|(one, other)| one <= other));
    assert!(planned.iter().zip(&going_on).any(|(one, other)| one < other));
}

#[test]
fn the_limit_of_repetitions_is_respected_and_the_note_estimates_the_required_number() {
    let (_folder, finished) = run(&Mock::new(), until(0.0001, 7));
    let report = finished.report;
    assert_eq!((report.repeat, report.precision.as_ref().map(|of| of.reached)), (7, Some(false)));
    let note = &report.notes[0];
    assert!(note.starts_with("Stopped after 7 repetitions, the most that were allowed: the widest"), "{note}");
    assert!(note.contains("not to ±0.01 %; it would take about "), "{note}");
    // The rule does not report success if the precision is only almost reached.
    let precision = run(&Mock::new(), until(0.005, 15)).1.report.precision.unwrap();
    assert!(!precision.reached && precision.widest_percent < Some(1.0), "{precision:?}");
}

#[test]
fn a_first_stage_that_is_precise_enough_is_the_only_one() {
    let (_folder, finished) = run(&Mock::new(), until(0.5, 100));
    assert_eq!((finished.report.repeat, finished.report.runs.len()), (3, 36));
    assert!(finished.report.notes[0].ends_with("the first 3 were enough."), "{:?}", finished.report.notes);
}

#[test]
fn an_interruption_of_the_second_stage_keeps_the_completed_runs() {
    // The warm-up, 36 runs of the first stage, then some more.
    let (_folder, finished) = run(&Mock { fault: Fault::Cancel(50), ..Mock::new() }, until(0.005, 100));
    assert!(finished.error.unwrap().is_cancelled());
    let report = finished.report;
    assert_eq!((report.runs.len(), report.complete), (49, false));
    assert!(report.planned_runs > 49 && report.notes[0].starts_with("Incomplete: 49 of "), "{:?}", report.notes);
    assert!(report.notes[1].starts_with("Stopped early"), "{:?}", report.notes);
}

#[test]
fn the_number_of_workers_changes_nothing() {
    let with = |workers| {
        let extent = (&[World::Sim][..], until(0.002, 60).1);
        run(&Mock { workers, ..Mock::new() }, extent).1.report
    };
    assert!(with(1).repeat > 3 && with(1) == with(4));
}
