//! Experiments that continue an earlier one in the same folder.

use std::fs;
use std::path::Path;

use crate::experiment::mock::{BOTH, CREW, Extent, Fault, Mock, read};
use measure::experiment::FinishedExperiment;
use measure::folder::{Folder, FolderError};
use measure::precision::StoppingRule;
use scenario::Scenario;
use scenario::result::World;

fn continue_in(
    folder: &Path,
    mock: &Mock<'_>,
    scenario: Scenario,
    extent: Extent<'_>,
) -> Result<FinishedExperiment, FolderError> {
    mock.experiment_in(scenario, extent, &mut Folder::append(folder)?)
}

fn file(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Interrupts an experiment at several places and continues it each time. The results must be those
/// of an experiment without interruptions.
fn assert_interruptions_change_nothing(extent: Extent<'_>, workers: usize) {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mock = Mock { workers, ..Mock::new() };
    let expected = mock.experiment_of(read(CREW), extent, whole.path());
    let mut calls = 0;
    for at in [0, 5, 9] {
        let mock = Mock { fault: Fault::Cancel(at), ..Mock::new() };
        let found = continue_in(parts.path(), &mock, read(CREW), extent).unwrap();
        assert!(found.error.is_some_and(|error| error.is_cancelled()));
        calls += mock.calls().len();
    }
    let mock = Mock { workers, ..Mock::new() };
    let found = continue_in(parts.path(), &mock, read(CREW), extent).unwrap();
    assert!(found.error.is_none(), "{:?}", found.error);
    assert_eq!(found.report, expected.report);
    assert_eq!(file(parts.path(), "runs.csv"), file(whole.path(), "runs.csv"));
    assert_eq!(file(parts.path(), "runs.jsonl"), file(whole.path(), "runs.jsonl"));
    // Each of the three interrupted calls was made twice, and so was each warm-up.
    let warm_ups = if extent.0.contains(&World::Host) { 4 } else { 0 };
    assert_eq!(calls + mock.calls().len(), expected.report.runs.len() + warm_ups + 3 - usize::from(warm_ups > 0));

    // No run is missing, so none is made.
    let idle = Mock::new();
    assert_eq!(continue_in(parts.path(), &idle, read(CREW), extent).unwrap().report, expected.report);
    assert_eq!(idle.calls().len(), 0);
}

#[test]
fn interruptions_do_not_change_the_results_of_an_experiment() {
    assert_interruptions_change_nothing((BOTH, None), 1);
    assert_interruptions_change_nothing((&[World::Sim], None), 1);
}

#[test]
fn the_thread_states_of_a_continued_experiment_are_those_of_all_its_runs() {
    let timeline = r#"[
        { "at_ns": 10000, "job": 0, "runnable": 2, "sleeping": 0 },
        { "at_ns": 150000, "job": 0, "runnable": 1, "sleeping": 1 }
    ]"#;
    let mock = |fault| Mock { timeline, has_states: true, fault, ..Mock::new() };
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = mock(Fault::None).experiment(read(CREW), BOTH, whole.path()).histories;
    assert_eq!(expected.len(), 2 * 6, "the first repetition of each arm in both worlds");
    let interrupted = continue_in(parts.path(), &mock(Fault::Cancel(8)), read(CREW), (BOTH, None)).unwrap();
    assert!((1..expected.len()).contains(&interrupted.histories.len()));
    for _ in 0..2 {
        let continued = continue_in(parts.path(), &mock(Fault::None), read(CREW), (BOTH, None)).unwrap();
        assert_eq!(continued.histories, expected);
    }
}

#[test]
fn an_experiment_with_a_stopping_rule_continues_too() {
    let until = Some(StoppingRule { share: 0.005, at_most: 100 });
    assert_interruptions_change_nothing((BOTH, until), 1);
}

#[test]
fn more_repetitions_are_added_to_those_of_an_earlier_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let sim: &[World] = &[World::Sim];
    Mock::new().experiment(read(CREW), sim, folder.path());
    let mut scenario = read(CREW);
    scenario.experiment.repeat = 5;
    let mock = Mock { workers: 3, ..Mock::new() };
    let found = continue_in(folder.path(), &mock, scenario.clone(), (sim, None)).unwrap();
    assert_eq!((mock.calls().len(), found.report.runs.len()), (2 * 6, 5 * 6));
    let whole = Mock::new().experiment(scenario, sim, tempfile::tempdir().unwrap().path());
    assert_eq!(found.report, whole.report);
}

#[test]
fn another_experiment_is_not_continued_and_its_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    Mock::new().experiment(read(CREW), BOTH, folder.path());
    let before = file(folder.path(), "runs.jsonl");
    let other = |text: &str, worlds: &[World], what: &str| {
        let error = continue_in(folder.path(), &Mock::new(), read(text), (worlds, None)).unwrap_err();
        assert!(error.is_input() && error.to_string().contains(what), "{error}");
        assert_eq!(file(folder.path(), "runs.jsonl"), before);
    };
    other(&CREW.replace("seed = 40", "seed = 41"), BOTH, "another seed");
    other(&CREW.replace("rounds = 1000", "rounds = 1001"), BOTH, "another scenario");
    other(CREW, &[World::Sim], "another choice of worlds");
}
