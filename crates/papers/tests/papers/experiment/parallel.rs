//! Parallel simulations: the results do not depend on the number of workers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Barrier;

use crate::experiment::mock::{BOTH, CREW, Fault, Mock, read};
use measure::experiment::FinishedExperiment;
use scenario::result::World;

const SIM: &[World] = &[World::Sim];

/// The results of an experiment, as bytes.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    ["runs.csv", "report.json", "manifest.json"].map(|name| fs::read(folder.join(name)).unwrap()).to_vec()
}

#[test]
fn files_and_report_do_not_depend_on_the_number_of_workers() {
    let with = |workers| {
        let folder = tempfile::tempdir().unwrap();
        let FinishedExperiment { report, error, .. } =
            Mock { workers, ..Mock::new() }.experiment(read(CREW), SIM, folder.path());
        assert!(error.is_none() && report.complete);
        (files(folder.path()), report)
    };
    let alone = with(1);
    for workers in [2, 3, 64] {
        assert!(with(workers) == alone, "{workers} workers");
    }
}

#[test]
fn simulated_runs_execute_at_the_same_time() {
    let (folder, meeting) = (tempfile::tempdir().unwrap(), Barrier::new(2));
    // A run on its own would wait forever.
    let before_call = || {
        meeting.wait();
    };
    let mock = Mock { workers: 2, before_call: &before_call, ..Mock::new() };
    assert_eq!(mock.experiment(read(CREW), SIM, folder.path()).report.runs.len(), 18);
}

#[test]
fn runs_execute_one_by_one_in_the_order_of_the_plan_if_the_host_takes_part() {
    let calls = |workers| {
        let folder = tempfile::tempdir().unwrap();
        let mock = Mock { workers, ..Mock::new() };
        mock.experiment(read(CREW), BOTH, folder.path());
        mock.calls()
    };
    assert_eq!(calls(8), calls(1));
}

#[test]
fn a_failure_keeps_the_runs_before_it_with_any_number_of_workers() {
    let with = |workers| {
        let folder = tempfile::tempdir().unwrap();
        let mock = Mock { workers, fault: Fault::FailAt("sim always-spin 2 seed 41"), ..Mock::new() };
        let FinishedExperiment { report, error, .. } = mock.experiment(read(CREW), SIM, folder.path());
        (files(folder.path()), report, error.unwrap().to_string())
    };
    let alone = with(1);
    assert!((6..12).contains(&alone.1.runs.len()), "{}", alone.1.runs.len());
    for workers in [2, 5] {
        assert!(with(workers) == alone, "{workers} workers");
    }
}

#[test]
fn an_interruption_keeps_all_completed_runs_in_the_order_of_the_plan() {
    let order: Vec<(u32, String)> = {
        let folder = tempfile::tempdir().unwrap();
        let report = Mock::new().experiment(read(CREW), SIM, folder.path()).report;
        report.runs.iter().map(|run| (run.repeat, format!("{:?}", run.factors))).collect()
    };
    for workers in [1, 2, 4] {
        let folder = tempfile::tempdir().unwrap();
        let mock = Mock { workers, fault: Fault::Cancel(7), ..Mock::new() };
        let FinishedExperiment { report, error, .. } = mock.experiment(read(CREW), SIM, folder.path());
        assert!(error.unwrap().is_cancelled() && !report.complete);
        // All runs that were started, except the interrupted one.
        assert_eq!(report.runs.len(), mock.calls().len() - 1);
        assert!(report.runs.len() >= 7, "{workers} workers: {}", report.runs.len());
        let places: Vec<usize> = report
            .runs
            .iter()
            .map(|run| order.iter().position(|of| *of == (run.repeat, format!("{:?}", run.factors))).unwrap())
            .collect();
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), places.len());
        let kept = fs::read_to_string(folder.path().join("runs.csv")).unwrap();
        assert_eq!(kept.lines().count(), 1 + 2 * places.len());
    }
}
