//! The summary of a sort, as text and JSON. docs/output.md lists the fields.

use std::fmt::Write;
use std::time::Duration;

use pipeline::verdict::{LimitingResource, format_bytes, format_time};
use report::words::counted;
use serde::Serialize;
use sort::Outcome;

use crate::arguments;
use crate::arguments::sort::{Algorithm, Variant};

/// The summary.
#[derive(Debug, Serialize)]
pub(super) struct SortReport {
    input: String,
    output: String,
    algorithm: Algorithm,
    variant: Option<Variant>,
    ranks: u32,
    memory_bytes: u64,
    temporary: String,
    records: u64,
    bytes: u64,
    written_records: u64,
    runs: u64,
    passes: u32,
    verified: bool,
    elapsed_ns: u64,
    phases: Vec<Phase>,
}

/// A run of a pipeline.
#[derive(Debug, Serialize)]
struct Phase {
    program: String,
    elapsed_ns: u64,
    user_ns: u64,
    system_ns: u64,
    limit: LimitingResource,
    times_floor: Option<f64>,
}

impl SortReport {
    /// The summary of an outcome.
    pub(super) fn new(arguments: &arguments::sort::Sort, outcome: &Outcome, elapsed: Duration) -> SortReport {
        let algorithm = arguments.algorithm();
        let phases = outcome.reports.iter().map(|report| {
            let verdict = report.verdict();
            Phase {
                program: report.program.clone(),
                elapsed_ns: report.clock_ns,
                user_ns: report.user_ns,
                system_ns: report.system_ns,
                times_floor: verdict.times_floor(),
                limit: verdict.limit,
            }
        });
        SortReport {
            input: arguments.input.display().to_string(),
            output: arguments.output.display().to_string(),
            algorithm,
            variant: (algorithm == Algorithm::Columnsort).then(|| arguments.variant.unwrap_or_default()),
            ranks: arguments.ranks.unwrap_or(1),
            memory_bytes: outcome.memory,
            temporary: arguments.temporary().display().to_string(),
            records: outcome.records,
            bytes: outcome.bytes,
            written_records: outcome.written,
            runs: outcome.runs,
            passes: outcome.passes,
            verified: arguments.verify,
            elapsed_ns: elapsed.as_nanos().try_into().unwrap_or(u64::MAX),
            phases: phases.collect(),
        }
    }

    /// The summary as text.
    pub(super) fn text(&self) -> String {
        let seconds = (self.elapsed_ns as f64 / 1e9).max(1e-9);
        let rate = format_bytes((self.bytes as f64 / seconds) as u64);
        let mut text = format!("sorted {} records", self.records);
        if self.written_records != self.records {
            let _ = write!(text, ", of which {} differ", self.written_records);
        }
        let _ = write!(
            text,
            ": {} in {}, {rate}/s; {}",
            format_bytes(self.bytes),
            format_time(self.elapsed_ns),
            self.data_path()
        );
        if self.verified {
            text.push_str("; verified");
        }
        for phase in &self.phases {
            let _ =
                write!(text, "\n  {}: {}, limited by {}", phase.program, format_time(phase.elapsed_ns), phase.limit);
        }
        text
    }

    /// How the data went through memory.
    fn data_path(&self) -> String {
        match (self.algorithm, self.passes) {
            (Algorithm::Columnsort, passes) => {
                let ranks = match self.ranks {
                    1 => String::new(),
                    ranks => format!(" of {}", counted(ranks.into(), "rank")),
                };
                format!("{}{ranks}, {passes} passes", counted(self.runs, "column"))
            }
            (_, 0) => "all of it fitted into memory".to_owned(),
            (_, 1) => format!("{}, merged at once", counted(self.runs, "run")),
            (_, passes) => {
                format!("{}, merged in {passes} passes: more memory would do it in one", counted(self.runs, "run"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};
    use crate::output::tests::assert_documented;

    fn report_of(arguments: &[&str], passes: u32) -> SortReport {
        let arguments = Arguments::parse_from([&["rowlock", "sort", "in", "out"], arguments].concat());
        let Command::Sort(arguments) = arguments.command else { panic!("another command") };
        let report = pipeline::RunReport { program: "sort-runs".into(), clock_ns: 7, ..pipeline::RunReport::default() };
        let runs = if passes == 0 { 1 } else { 9 };
        let outcome =
            Outcome { records: 5, memory: 1 << 20, bytes: 3_000, written: 4, runs, passes, reports: vec![report] };
        SortReport::new(&arguments, &outcome, Duration::from_micros(3))
    }

    #[test]
    fn exactly_the_fields_are_documented() {
        let json = report::json::render(&report_of(&[], 1)).unwrap();
        assert_documented(&serde_json::from_str(&json).unwrap(), "\n## `rowlock sort --format json`\n");
    }

    #[test]
    fn the_text_says_how_the_data_went_through_memory() {
        let first_line =
            |arguments: &[&str], passes| report_of(arguments, passes).text().lines().next().unwrap().to_owned();
        let all = "sorted 5 records, of which 4 differ: 3.00 kB in 3.00 us, 1.00 GB/s; ";
        assert_eq!(first_line(&[], 0), format!("{all}all of it fitted into memory"));
        assert_eq!(first_line(&["--verify"], 1), format!("{all}9 runs, merged at once; verified"));
        assert_eq!(first_line(&[], 2), format!("{all}9 runs, merged in 2 passes: more memory would do it in one"));
        let columnsort = ["--record", "8", "--algorithm", "columnsort"];
        assert_eq!(first_line(&columnsort, 3), format!("{all}9 columns, 3 passes"));
        assert_eq!(first_line(&["--record", "8", "--ranks", "3"], 3), format!("{all}9 columns of 3 ranks, 3 passes"));
    }
}
