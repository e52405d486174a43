//! docs/output.md lists exactly the fields of measured papers.

use std::collections::BTreeSet;

use crate::experiment::contract::{documented, fields, written};
use rowlock_papers::Paper;
use rowlock_papers::fg::arms::{PaperRow, Variant};
use rowlock_papers::fg::prediction::Prediction;
use rowlock_papers::fg::report::{FgReport, Settings};
use rowlock_papers::fg::runs::Observation;
use rowlock_papers::fg::shares::Share;
use rowlock_papers::fg::simulated::SimulatedRow;
use rowlock_papers::fg::{Experiment, balance, rows};
use scenario::result::World;
use stats::mean;

#[test]
fn exactly_the_fields_of_a_measured_paper_are_documented() {
    let experiment = Experiment::Regression;
    let arms = experiment.arms();
    let runs: Vec<Observation> = (0..12_u32)
        .map(|run| {
            let clock = 1.0 + f64::from(run * run % 7);
            Observation::new(arms[run as usize % 3], run / 3, f64::from(run), f64::from(run * 5 % 11), clock)
        })
        .collect();
    let estimate = mean(&[1.0, 2.0]).unwrap();
    let paper = Some(PaperRow::default());
    let mut report = FgReport::new(Paper::named("fg/table5").unwrap());
    report.settings = Some(Settings {
        rowlock_version: String::new(),
        machine: host::Machine::current().unwrap(),
        size: 1,
        record: 1,
        key: 1,
        memory: 1,
        seed: 1,
        evicted: String::new(),
        rate: Some(1),
    });
    // The baseline has no comparison. The fields of the thesis' rows are documented once.
    report.rows = rows::rows(&arms, &runs, experiment.baseline()).split_off(1);
    report.balances = balance::clock_regressions(&runs);
    report.balances[0].terms.remove(0);
    report.predictions = vec![Prediction {
        variant: Variant::IoBound,
        arm: String::new(),
        predicted_s: 1.0,
        measured_s: 1.0,
        gap_percent: 1.0,
        predicted_times_as_long: 1.0,
        measured_times_as_long: 1.0,
    }];
    report.simulated = vec![SimulatedRow {
        variant: Variant::IoBound,
        scheduler: String::new(),
        nice: 0,
        clock_s: estimate,
        times_as_long: Some(estimate),
        paper,
        papers_times_as_long: Some(1.0),
    }];
    report.shares = vec![Share { world: World::Sim, scheduler: None, nice: 0, percent: estimate }];
    report.note("something");
    let mut found = BTreeSet::new();
    fields(&written(&report), "", &mut found);
    assert_eq!(found, documented("rowlock paper fg/... --format json"));
}
