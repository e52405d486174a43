//! `rowlock pipeline verdict`: what limits a pipelined program, and how far it is from its floor.

use std::fmt::Write;

use anyhow::{Context, anyhow};
use exec::Invocation;
use pipeline::bandwidth::Bandwidth;
use pipeline::environment::REPORT;
use pipeline::verdict::{Verdict, format_bytes, format_time};
use pipeline::{Place, RunReport, StageReport};
use report::table::Table;
use serde::Serialize;
use sys::unnamed::UnnamedFile;

use crate::arguments;
use crate::output::{json, print_report, write_file};
use crate::stop::{Stop, end_as};

/// The width of lines.
const WIDTH: usize = 120;

/// Runs the program, prints the verdict, and ends as the program did.
pub(super) fn verdict(arguments: &arguments::Verdict) -> Result<(), Stop> {
    let file = UnnamedFile::new().context("cannot create a file for the program's report")?;
    let invocation = Invocation::new(&arguments.program.command, &arguments.program.arguments);
    let (status, _) = invocation.run(invocation.command().env(REPORT, file.path()))?;
    end_as(status, judge(arguments, &file))
}

fn judge(arguments: &arguments::Verdict, file: &UnnamedFile) -> Result<(), Stop> {
    let reports =
        RunReport::read(&super::read_report(file)?).context("this rowlock cannot read the program's report")?;
    if reports.is_empty() {
        return Err(Stop::Failed(anyhow!(
            "the program wrote no report: is it built on the crate rowlock-pipeline, and has it run a pipeline?"
        )));
    }
    let bandwidth = arguments.device.as_deref().map(|folder| {
        let measured = Bandwidth::measure(folder);
        measured.with_context(|| format!("cannot measure the device below {}", folder.display()))
    });
    let bandwidth = bandwidth.transpose()?;
    let judged: Vec<Judged> = reports.into_iter().map(|report| Judged::new(report, bandwidth.as_ref())).collect();
    let texts: Vec<String> = judged.iter().map(text).collect();
    print_report(texts.join("\n\n"));
    let Some(file) = &arguments.json else { return Ok(()) };
    Ok(write_file(file, &json(&Written { bandwidth, runs: judged }, "the verdict")?)?)
}

#[derive(Serialize)]
struct Written {
    /// The device's bandwidth if it was measured.
    bandwidth: Option<Bandwidth>,
    /// The pipeline runs of the program, in the order of their ends.
    runs: Vec<Judged>,
}

/// A run with its verdict.
#[derive(Serialize)]
struct Judged {
    report: RunReport,
    verdict: Verdict,
    /// The run's time as a multiple of its highest floor.
    times_floor: Option<f64>,
}

impl Judged {
    fn new(report: RunReport, bandwidth: Option<&Bandwidth>) -> Judged {
        let verdict = Verdict::of(&report, bandwidth);
        Judged { times_floor: verdict.times_floor(), report, verdict }
    }
}

/// A run as text.
fn text(judged: &Judged) -> String {
    let Judged { report, verdict, .. } = judged;
    let mut text = format!("{}: {verdict}\n\n", report.program);
    let mut table = Table::new(
        ["stage", "kind", "run by", "busy", "starved", "blocked", "CPU", "in kernel", "bytes", "waiting for it"],
        3,
    );
    for stage in &report.stages {
        table.row(row(stage, report.clock_ns).map(Some));
    }
    text.push_str(&table.render(WIDTH));
    for stage in &report.stages {
        for attribute in &stage.effective_attributes {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}: {attribute}", stage.name);
        }
    }
    if let Some(failure) = &report.failure {
        let _ = writeln!(text, "it ended early: {failure}");
    }
    text.truncate(text.trim_end().len());
    text
}

fn row(stage: &StageReport, clock: u64) -> [String; 10] {
    let copies = stage.copies.max(1) as u64;
    let share = |time: u64| format!("{} %", time.saturating_mul(100) / (clock.max(1) * copies));
    let runner = match stage.place {
        Place::Workers => "worker",
        Place::Threads => "thread",
        Place::Junction => "junction",
    };
    let by = if stage.copies == 1 { runner.to_owned() } else { format!("{} {runner}s", stage.copies) };
    [
        stage.name.clone(),
        stage.kind.to_string(),
        by,
        share(stage.busy_ns),
        share(stage.starved_ns),
        share(stage.blocked_ns),
        format_time(stage.user_ns.saturating_add(stage.system_ns)),
        format_time(stage.system_ns),
        format_bytes(stage.bytes),
        stage.mean_left().map_or("-".to_owned(), |left| format!("{left:.1}")),
    ]
}

#[cfg(test)]
mod tests {
    use pipeline::machine::MachineReport;
    use policy::priority::StageKind;

    use super::*;

    fn stage(name: &str, kind: StageKind, place: Place, copies: usize) -> StageReport {
        let ms = 1_000_000;
        StageReport {
            name: name.to_owned(),
            kind,
            place,
            copies,
            calls: 100,
            bytes: 64 << 20,
            busy_ns: 900 * ms * copies as u64,
            starved_ns: 95 * ms * copies as u64,
            user_ns: 800 * ms,
            system_ns: 20 * ms,
            depths: vec![50, 0, 50],
            ..StageReport::default()
        }
    }

    #[test]
    fn a_run_is_reported_stage_by_stage() {
        let stages =
            vec![stage("read", StageKind::Io, Place::Threads, 1), stage("work", StageKind::Compute, Place::Workers, 2)];
        let report = RunReport {
            program: "copy".to_owned(),
            clock_ns: 1_000_000_000,
            cpus: 2,
            user_ns: 1_600_000_000,
            system_ns: 40_000_000,
            stages,
            machine: MachineReport { pressure_cpu: Some(0), ..MachineReport::default() },
            ..RunReport::default()
        };
        let text = text(&Judged::new(report, None));
        let (verdict, table) = text.split_once("\n\n").unwrap();
        assert!(verdict.starts_with("copy: 1.00 s, limited by stage 'read': at work 90 % of the time; "), "{text}");
        assert_eq!(
            table,
            "stage  kind     run by     busy  starved  blocked     CPU  in kernel    bytes  waiting for it\n\
             read   io       thread     90 %      9 %      0 %  820 ms    20.0 ms  67.1 MB             1.0\n\
             work   compute  2 workers  90 %      9 %      0 %  820 ms    20.0 ms  67.1 MB             1.0"
        );
    }
}
