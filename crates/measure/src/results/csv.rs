//! The report as CSV: a row for each run and job, as in `runs.csv`.

use std::io;

use scenario::Scenario;
use scenario::result::{JobOutcome, MachineOutcome, Run};

use super::ExperimentReport;
use report::words;

/// The columns before the factors.
const RUN_COLUMNS: [&str; 3] = ["world", "repeat", "seed"];

/// The columns after the factors: those of the job, then those of the machine, which are the same
/// for all jobs of a run.
const OUTCOME_COLUMNS: [&str; 16] = [
    "job",
    "completion_ns",
    "rounds",
    "ssr_percent",
    "cpu_ns",
    "spin_ns",
    "delivered_work_ns",
    "voluntary_switches",
    "involuntary_switches",
    "machine_cpus",
    "machine_scheduler",
    "machine_work_percent",
    "machine_spin_percent",
    "machine_switch_percent",
    "machine_idle_percent",
    "machine_events",
];

/// The factors of a scenario, which have a column each: its swept paths.
pub fn factors(scenario: &Scenario) -> Vec<String> {
    scenario.arms.first().map_or_else(Vec::new, |arm| arm.factors.iter().map(|(path, _)| path.clone()).collect())
}

/// The names of all columns.
pub fn header(factors: &[String]) -> Vec<String> {
    let names = RUN_COLUMNS.into_iter().map(str::to_owned).chain(factors.iter().cloned());
    names.chain(OUTCOME_COLUMNS.into_iter().map(str::to_owned)).collect()
}

/// The rows of one run, one for each job. Missing values are empty.
pub fn rows(run: &Run, factors: &[String]) -> impl Iterator<Item = Vec<String>> {
    let values = factors.iter().map(|path| run.factors.get(path).map(words::value).unwrap_or_default());
    let before: Vec<String> =
        [run.world.name().to_owned(), run.repeat.to_string(), run.seed.to_string()].into_iter().chain(values).collect();
    let machine = machine(&run.outcome.machine);
    run.outcome.jobs.iter().map(move |outcome| [before.clone(), job(outcome).into(), machine.clone().into()].concat())
}

fn job(job: &JobOutcome) -> [String; 9] {
    let nanos = |span: Option<scenario::Span>| field(span.map(scenario::Span::as_nanos));
    [
        job.job.clone(),
        nanos(job.completion_ns),
        field(job.rounds),
        field(job.ssr_percent),
        nanos(job.cpu_ns),
        nanos(job.spin_ns),
        nanos(job.delivered_work_ns),
        field(job.voluntary_switches),
        field(job.involuntary_switches),
    ]
}

fn machine(machine: &MachineOutcome) -> [String; 7] {
    [
        machine.cpus.to_string(),
        machine.scheduler.clone(),
        field(machine.work_percent),
        field(machine.spin_percent),
        field(machine.switch_percent),
        field(machine.idle_percent),
        field(machine.events),
    ]
}

fn field(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// All runs of a report.
///
/// # Errors
///
/// The type requires it, but writing to memory does not fail.
pub fn render(report: &ExperimentReport) -> io::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(header(&report.factors))?;
    for row in report.runs.iter().flat_map(|run| rows(run, &report.factors)) {
        writer.write_record(row)?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}
