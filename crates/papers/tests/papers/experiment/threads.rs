//! docs/output.md lists exactly the fields of the study of threads, and its page is well-formed.

use std::collections::BTreeSet;

use crate::experiment::contract::{documented, fields, written};
use rowlock_papers::threads::Experiment;
use rowlock_papers::threads::measurement::{MeasurementResult, Responses};
use rowlock_papers::threads::page;
use rowlock_papers::threads::programs::Program;
use rowlock_papers::threads::report::{Settings, ThreadsReport};
use rowlock_papers::threads::runs::{Cell, Observation};
use rowlock_papers::threads::simulated::SimulatedRow;
use rowlock_papers::threads::text;
use rowlock_papers::{Paper, Study};

/// A possible report on an experiment with these numbers of threads.
fn report(name: &str, threads: &[u32], rounds: u32) -> ThreadsReport {
    let paper = Paper::named(name).unwrap();
    let Study::Threads(experiment) = paper.study else { panic!("{name}") };
    let mut runs = Vec::new();
    for round in 0..rounds {
        for &program in experiment.programs() {
            let numbers = if program == Program::Study { threads } else { &[0] };
            for (number, &arm) in (0_u32..).zip(&experiment.arms(false)) {
                for &threads in numbers {
                    let cold_us = f64::from((threads + 1) * (number + 3) + round * (number + 2) % 5);
                    let responses = Responses { p50: 1.5, p95: cold_us, p99: cold_us * 2.0, worst: cold_us * 40.0 };
                    let result = MeasurementResult {
                        cold_us,
                        warm_us: vec![cold_us / 7.0, cold_us / 6.0],
                        demotions: (!arm.is_of_the_kernel()).then_some(0),
                        responses: (program != Program::Study).then_some(responses),
                    };
                    runs.push(Observation { cell: Cell { program, threads, arm }, round, result });
                }
            }
        }
    }
    let machine = host::Machine {
        cpu_model: "a processor".to_owned(),
        kernel: "6.1".to_owned(),
        cpus_online: 2,
        cpus_allowed: vec![0, 1],
        cpus: 2,
    };
    let settings = Settings {
        rowlock_version: "1".to_owned(),
        machine,
        threads: threads.to_vec(),
        preemptible: false,
        repeat: rounds,
        seed: 1,
        rounds_per_us: Some(900.0),
    };
    let notes = vec!["pthreads with <many> threads are left out".to_owned()];
    let mut report = ThreadsReport::new(paper, experiment, settings, &runs, true, notes);
    report.simulated = simulated(experiment, threads);
    report
}

fn simulated(experiment: Experiment, threads: &[u32]) -> Vec<SimulatedRow> {
    let mut rows = Vec::new();
    for &program in experiment.programs() {
        let numbers = if program == Program::Study { threads } else { &[0] };
        for &threads in numbers {
            for arm in experiment.arms(false).iter().filter(|arm| !arm.is_of_the_kernel()) {
                let responses = Responses { p50: 1.0, p95: 2.0, p99: 3.0, worst: 4000.0 };
                rows.push(SimulatedRow {
                    program,
                    threads,
                    arm: arm.name(),
                    total_us: f64::from(threads + 1) * 0.06,
                    demotions: Some(0),
                    responses: (program != Program::Study).then_some(responses),
                });
            }
        }
    }
    rows
}

#[test]
fn exactly_the_fields_of_the_study_of_threads_are_documented() {
    let mut found = BTreeSet::new();
    for (name, threads) in [("threads/table2", &[50][..]), ("threads/configs", &[50, 1000]), ("threads/workloads", &[])]
    {
        let mut of = written(&report(name, threads, 3));
        // Lists that are empty in this experiment are documented by their entries.
        let object = of.as_object_mut().unwrap();
        object.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        fields(&of, "", &mut found);
    }
    assert_eq!(found, documented("rowlock paper threads/... --format json"));
}

#[test]
fn the_page_has_a_bar_chart_for_each_number_of_threads_and_a_line_chart_over_them() {
    let page = page::render(&report("threads/configs", &[50, 500, 1000], 7));
    let document = roxmltree::Document::parse_with_options(
        &page,
        roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
    );
    let document = document.unwrap();
    let count = |class: &str| document.descendants().filter(|node| node.attribute("class") == Some(class)).count();
    // Cold and warm.
    assert_eq!((count("filled"), count("line"), count("chart")), (2 * 3 * 9, 2 * 9, 2 * 4));
    let ids: Vec<_> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    assert!(page.contains("&lt;many&gt;") && page.contains("UNDECIDED") | page.contains("NO"), "{page}");
    let page = page::render(&report("threads/workloads", &[], 7));
    assert_eq!(page.matches("class=\"chart\"").count(), 3 * 4);
}

#[test]
fn the_reports_as_text() {
    insta::assert_snapshot!(text::render(&report("threads/table2", &[50, 2000, 10_000], 7)));
    insta::assert_snapshot!(text::render(&report("threads/configs", &[50, 1000], 7)));
    insta::assert_snapshot!(text::render(&report("threads/workloads", &[], 7)));
}
