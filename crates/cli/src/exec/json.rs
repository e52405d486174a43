//! The wait statistics of an unmodified program as JSON. docs/output.md lists the fields.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use counters::{ProcessReport, Waits};
use exec::Ended;
use policy::Span;
use serde::Serialize;

use crate::arguments;

/// The reason if no process has loaded the library and there is no known obstacle.
const NOT_LOADED: &str = "not_loaded";

/// The JSON report.
#[derive(Debug, Serialize)]
pub(super) struct ExecReport<'a> {
    command: Vec<String>,
    rule: String,
    status: Status,
    elapsed_ns: u64,
    helped: bool,
    why_not: Option<&'a str>,
    turned_away: u64,
    lost: u64,
    processes: Vec<Process<'a>>,
}

/// How a program ended. One of the fields is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Status {
    code: Option<i32>,
    signal: Option<i32>,
}

#[derive(Debug, Serialize)]
struct Process<'a> {
    pid: u32,
    name: &'a str,
    ended: bool,
    cs_ns: u64,
    waits: Vec<WaitSummary>,
}

#[derive(Debug, Serialize)]
struct WaitSummary {
    subject: &'static str,
    waits: u64,
    spins: u64,
    successful_spins: u64,
    ssr_percent: Option<f64>,
    spin_ns: u64,
    yields: u64,
    blocks: u64,
    block_ns: u64,
    strikes: u64,
    left: Vec<Left>,
    time_saved_ns: u64,
}

#[derive(Debug, Serialize)]
struct Left {
    reason: &'static str,
    times: u64,
}

impl<'a> ExecReport<'a> {
    /// Makes the report of a program, with the name of the obstacle if there was one.
    pub(super) fn new(arguments: &arguments::Exec, obstacle: Option<&'a str>, ended: &'a Ended) -> ExecReport<'a> {
        let helped = !ended.processes.is_empty() || ended.lost > 0;
        ExecReport {
            command: arguments.program.words(),
            rule: arguments.wait.to_string(),
            status: ended.status.into(),
            elapsed_ns: ended.elapsed.as_nanos().try_into().unwrap_or(u64::MAX),
            helped,
            why_not: if helped { None } else { obstacle.or(Some(NOT_LOADED)) },
            turned_away: ended.rejected,
            lost: ended.lost,
            processes: ended.processes.iter().map(Process::from).collect(),
        }
    }
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Status {
        Status { code: status.code(), signal: status.signal() }
    }
}

impl<'a> From<&'a ProcessReport> for Process<'a> {
    fn from(ProcessReport { pid, name, ended, cs, waits }: &'a ProcessReport) -> Process<'a> {
        let waits = waits.iter().map(|waits| WaitSummary::new(waits, *cs)).collect();
        Process { pid: *pid, name, ended: *ended, cs_ns: cs.as_nanos(), waits }
    }
}

impl WaitSummary {
    fn new(waits: &Waits, cs: Span) -> WaitSummary {
        let statistics = waits.statistics;
        WaitSummary {
            subject: waits.kind.name(),
            waits: statistics.waits,
            spins: statistics.spins,
            successful_spins: statistics.successful_spins,
            ssr_percent: statistics.ssr_percent(),
            spin_ns: statistics.spin_time.as_nanos(),
            yields: statistics.yields,
            blocks: statistics.blocks,
            block_ns: statistics.block_time.as_nanos(),
            strikes: statistics.overload_marks,
            left: waits.passed_through.iter().map(|&(reason, times)| Left { reason: reason.name(), times }).collect(),
            time_saved_ns: waits.time_saved(cs).as_nanos(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use counters::{Reason, WaitKind};
    use serde_json::Value;
    use wait::Statistics;

    use super::super::report;
    use super::*;
    use crate::arguments::{Arguments, Command};
    use crate::output::tests::assert_documented;

    fn report(entries: Vec<ProcessReport>, obstacle: Option<&str>) -> Value {
        let arguments = Arguments::parse_from(["rowlock", "exec", "--wait", "2cs+", "program", "-x"]);
        let Command::Exec(arguments) = arguments.command else { panic!("another command") };
        let ended = report::tests::ended(9, entries, 0);
        serde_json::from_str(&::report::json::render(&ExecReport::new(&arguments, obstacle, &ended)).unwrap()).unwrap()
    }

    fn entry() -> ProcessReport {
        let statistics = Statistics {
            waits: 9,
            spins: 8,
            successful_spins: 6,
            spin_time: Span::from_nanos(50),
            yields: 1,
            blocks: 2,
            block_time: Span::from_nanos(70),
            moves: 0,
            overload_marks: 3,
        };
        let waits = vec![Waits { kind: WaitKind::Gomp, statistics, passed_through: vec![(Reason::Tasks, 4)] }];
        report::tests::entry(5, "program", waits)
    }

    #[test]
    fn all_statistics_are_written() {
        let report = report(vec![entry()], None);
        assert_eq!((&report["rule"], &report["elapsed_ns"]), (&"2cs+".into(), &1_500_000_000.into()));
        assert_eq!(report["command"], serde_json::json!(["program", "-x"]));
        let expected = serde_json::json!({
            "subject": "openmp_gcc", "waits": 9, "spins": 8, "successful_spins": 6, "ssr_percent": 75.0, "spin_ns": 50,
            "yields": 1, "blocks": 2, "block_ns": 70, "strikes": 3, "left": [{ "reason": "tasks", "times": 4 }],
            "time_saved_ns": 120_000,
        });
        assert_eq!(report["processes"][0]["waits"][0], expected);
    }

    #[test]
    fn a_program_without_the_library_has_a_reason() {
        assert_eq!(report(vec![], Some("static"))["why_not"], "static");
        assert_eq!(report(vec![], None)["why_not"], NOT_LOADED);
        // Programs that it started had the library.
        assert_eq!(report(vec![entry()], Some("static"))["why_not"], Value::Null);
    }

    #[test]
    fn exactly_the_fields_are_documented() {
        assert_documented(&report(vec![entry()], None), "\n### `--json FILE`\n");
    }
}
