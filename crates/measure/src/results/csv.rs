//! The report as CSV: a row for each run and job, as in `runs.csv`.

use std::io;

use scenario::result::{JobOutcome, MachineOutcome, Run};
use scenario::{Scenario, Span};

use super::ExperimentReport;
use report::words;

/// The columns before the factors.
const RUN_COLUMNS: [&str; 3] = ["world", "repeat", "seed"];

/// The name of a column, and its cell for an outcome.
type Column<T> = (&'static str, fn(&T) -> String);

/// The columns of the job, which follow the factors.
const JOB_COLUMNS: [Column<JobOutcome>; 9] = [
    ("job", |job| job.job.clone()),
    ("completion_ns", |job| nanos(job.completion_ns)),
    ("rounds", |job| field(job.rounds)),
    ("ssr_percent", |job| field(job.ssr_percent)),
    ("cpu_ns", |job| nanos(job.cpu_ns)),
    ("spin_ns", |job| nanos(job.spin_ns)),
    ("delivered_work_ns", |job| nanos(job.delivered_work_ns)),
    ("voluntary_switches", |job| field(job.voluntary_switches)),
    ("involuntary_switches", |job| field(job.involuntary_switches)),
];

/// The last columns: those of the machine, the same for all jobs of a run.
const MACHINE_COLUMNS: [Column<MachineOutcome>; 7] = [
    ("machine_cpus", |machine| machine.cpus.to_string()),
    ("machine_scheduler", |machine| machine.scheduler.clone()),
    ("machine_work_percent", |machine| field(machine.work_percent)),
    ("machine_spin_percent", |machine| field(machine.spin_percent)),
    ("machine_switch_percent", |machine| field(machine.switch_percent)),
    ("machine_idle_percent", |machine| field(machine.idle_percent)),
    ("machine_events", |machine| field(machine.events)),
];

/// The factors of a scenario, which have a column each: its swept paths.
pub fn factors(scenario: &Scenario) -> Vec<String> {
    scenario.arms.first().map_or_else(Vec::new, |arm| arm.factors.iter().map(|(path, _)| path.clone()).collect())
}

/// The names of all columns.
pub fn header(factors: &[String]) -> Vec<String> {
    let factors = factors.iter().map(String::as_str);
    let outcome = JOB_COLUMNS.iter().map(|(name, _)| *name).chain(MACHINE_COLUMNS.iter().map(|(name, _)| *name));
    RUN_COLUMNS.into_iter().chain(factors).chain(outcome).map(str::to_owned).collect()
}

/// The rows of one run, one for each job. Missing values are empty.
pub fn rows(run: &Run, factors: &[String]) -> impl Iterator<Item = Vec<String>> {
    let values = factors.iter().map(|path| run.factors.get(path).map(words::value).unwrap_or_default());
    let before: Vec<String> =
        [run.world.name().to_owned(), run.repeat.to_string(), run.seed.to_string()].into_iter().chain(values).collect();
    let machine = MACHINE_COLUMNS.map(|(_, field)| field(&run.outcome.machine));
    run.outcome.jobs.iter().map(move |job| {
        let job = JOB_COLUMNS.map(|(_, field)| field(job));
        before.iter().chain(&job).chain(&machine).cloned().collect()
    })
}

fn nanos(span: Option<Span>) -> String {
    field(span.map(Span::as_nanos))
}

fn field(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// All runs of a report.
pub fn render(report: &ExperimentReport) -> io::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(header(&report.factors))?;
    for row in report.runs.iter().flat_map(|run| rows(run, &report.factors)) {
        writer.write_record(row)?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}
