//! Runs in a file, and sorted runs.

use crate::arms::Label;
use crate::runs::{File, Run, read};
use crate::sheet::{Sheet, median};

pub(crate) fn run(arm: &str, repetition: u32, rate: f64) -> Run {
    Run {
        batch: 1,
        arm: arm.to_owned(),
        copy: 1,
        threads: 2,
        hogs: 0,
        work: "500 ns".to_owned(),
        repetition,
        rate,
        seconds: 0.25,
        cpu_seconds: 0.5,
        voluntary_switches: 3,
        involuntary_switches: 4,
        foreign: Some(0.125),
        ssr_percent: None,
        spins: None,
        yields: None,
        blocks: None,
        strikes: None,
        least_share: None,
    }
}

#[test]
fn runs_that_are_appended_twice_are_read_as_one_list() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.csv");
    let runs = [run("rule:44 us", 0, 1e6), run("pthread", 1, 2.5)];
    for run in &runs {
        File::append(&path).unwrap().add(run).unwrap();
    }
    assert_eq!(read(&path).unwrap(), runs);
}

#[test]
fn a_run_that_was_killed_counts_as_one_round() {
    let ended = run("rule:always-spin", 0, f64::NAN).with(None, 20.0);
    assert_eq!((ended.rate, ended.seconds), (0.05, 20.0));
}

#[test]
fn the_median_of_an_even_number_is_the_mean_of_two() {
    assert_eq!(median(vec![]), None);
    assert_eq!(median(vec![3.0]), Some(3.0));
    assert_eq!(median(vec![9.0, 1.0]), Some(5.0));
    assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
}

#[test]
fn batches_add_up_and_missing_runs_leave_gaps() {
    let later = |run: Run| Run { batch: 2, ..run };
    let runs = [run("a", 0, 1.0), run("b", 0, 2.0), later(run("a", 0, 3.0)), run("a", 1, 4.0)];
    let sheet = Sheet::of(&runs);
    let names: Vec<String> = sheet.arms.iter().map(Label::to_string).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(sheet.cells.len(), 1);
    assert_eq!(sheet.cells[0].rates, [vec![Some(1.0), Some(3.0), Some(4.0)], vec![Some(2.0), None, None]]);
}

#[test]
fn others_come_first_then_rules_by_name_then_copies() {
    let again = |run: Run| Run { copy: 2, ..run };
    let order = ["rule:b", "stack", "pthread", "rule:a", "std"].map(|arm| run(arm, 0, 1.0));
    let sheet = Sheet::of(&[&[again(run("rule:b", 0, 1.0))], &order[..], &[again(run("pthread", 0, 1.0))]].concat());
    let names: Vec<String> = sheet.arms.iter().map(Label::to_string).collect();
    assert_eq!(names, ["pthread", "std", "stack", "rule:a", "rule:b", "pthread #2", "rule:b #2"]);
}

#[test]
fn cells_are_in_the_order_of_their_hogs_and_then_as_they_ran() {
    let cell = |threads, hogs| Run { threads, hogs, ..run("a", 0, 1.0) };
    let sheet = Sheet::of(&[cell(4, 2), cell(3, 0), cell(2, 2), cell(2, 0)]);
    let order: Vec<(u32, u32)> = sheet.cells.iter().map(|cell| (cell.threads, cell.hogs)).collect();
    assert_eq!(order, [(3, 0), (2, 0), (4, 2), (2, 2)]);
}
