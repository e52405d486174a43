//! The report as text.

use std::fmt::Write;

use scenario::result::World;

use super::arms::{IO_BOUND_USE, PAPERS_CPUS, Variant};
use super::balance::ClockRegression;
use super::prediction::Prediction;
use super::report::Report;
use super::rows::{Row, Verdict};
use super::settings::Settings;
use super::shares::Share;
use super::simulated::SimulatedRow;
use super::{EXPERIMENTS, Experiment};
use report::WIDTH;
use report::table::Table;
use report::words;

/// The whole report.
pub fn render(report: &Report) -> String {
    let mut text = format!("{}\n", words::wrap(&format!("{}: {}", report.source, report.shows), WIDTH));
    // Writing to a string does not fail.
    if let Some(settings) = &report.settings {
        let _ = writeln!(text, "{}", words::wrap(&method(settings), WIDTH));
    }
    if !report.complete {
        let _ = writeln!(text, "Incomplete: not all was run that was asked for.");
    }
    for variant in Variant::ALL {
        let of_it: Vec<&Row> = report.rows.iter().filter(|row| row.variant == variant).collect();
        if !of_it.is_empty() {
            let _ = write!(text, "\n{}\n{}", of(variant), rows(&of_it));
            text.push_str(&comparisons(&of_it));
        }
    }
    for balance in &report.balances {
        text.push_str(&regression(balance));
    }
    if !report.predictions.is_empty() {
        let _ = write!(
            text,
            "\nThe same in the simulator, of what the stages cost by no rule\n{}",
            predictions(&report.predictions)
        );
    }
    if !report.simulated.is_empty() {
        let _ = write!(text, "\nOn simulated kernels, a machine like the thesis'\n{}", simulated(&report.simulated));
    }
    if !report.shares.is_empty() {
        let _ = write!(text, "\nA stage beside threads that never rest, two for each CPU\n{}", shares(&report.shares));
    }
    let answers = answers(report);
    if !answers.is_empty() {
        text.push('\n');
        answers.iter().for_each(|answer| text.push_str(&(words::wrap(answer, WIDTH) + "\n")));
    }
    if !report.notes.is_empty() {
        text.push('\n');
        report.notes.iter().for_each(|note| text.push_str(&(words::wrap(&format!("note: {note}"), WIDTH) + "\n")));
    }
    text
}

/// The list of all experiments.
pub fn list() -> String {
    let entry = |Experiment { name, source, shows, takes, .. }: &Experiment| {
        format!("{name}  {source}\n  {}\n  on this machine; about {takes} on two CPUs\n", words::wrap(shows, WIDTH - 2))
    };
    EXPERIMENTS.iter().map(entry).collect()
}

fn of(variant: Variant) -> &'static str {
    match variant {
        Variant::ComputeBound => "Limited by the processors",
        Variant::IoBound => "Limited by the disk, twice as much data",
    }
}

fn method(settings: &Settings) -> String {
    let Settings { machine, size, record, key, memory, evicted, rate, .. } = settings;
    let mib = |bytes: u64| {
        format!("{:.4}", bytes as f64 / f64::from(1 << 20)).trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let throttled = match rate {
        Some(rate) => format!(
            "; the program that the disk limits may read and write {:.1} MB/s each, which brings it near {IO_BOUND_USE} % of {:.0} processors",
            *rate as f64 / 1e6,
            PAPERS_CPUS
        ),
        None => "; the disk is not throttled".to_owned(),
    };
    format!(
        "{}, {} CPUs, Linux {}. Columnsort of {} MiB (and {} MiB where the disk is the limit), records of {record} bytes with keys of {key}, {} MiB of \
         memory, direct input and output, evicted before each run: {evicted}{throttled}.",
        machine.cpu_model,
        machine.cpus,
        machine.kernel,
        mib(*size),
        mib(2 * size),
        mib(*memory),
    )
}

fn rows(rows: &[&Row]) -> String {
    let header =
        ["", "runs", "user s", "system s", "clock s", "std. error", "use %", "paper: runs", "clock s", "use %"];
    let mut table = Table::new(header, 1);
    for row in rows {
        let number = |value: f64| Some(words::significant(value, 4));
        table.row([
            Some(row.arm.clone()),
            Some(row.observations.to_string()),
            number(row.user_s),
            number(row.system_s),
            number(row.clock_s.mean),
            row.standard_error_s.map(|error| words::significant(error, 2)),
            Some(format!("{:.1}", row.used_percent)),
            row.paper.map(|paper| paper.observations.to_string()),
            row.paper.map(|paper| format!("{:.2}", paper.clock_s)),
            row.paper.and_then(|paper| paper.used_percent).map(|used| format!("{used:.1}")),
        ]);
    }
    indented(&table)
}

fn comparisons(rows: &[&Row]) -> String {
    let Some(other) = rows.iter().find_map(|row| row.against.as_ref()).map(|against| &against.arm) else {
        return "  Two runs of each are needed to compare them.\n".to_owned();
    };
    let baseline = rows.iter().find(|row| &row.arm == other).and_then(|row| row.paper);
    let mut table = Table::new(["", "times as long [95 %]", "paper", "p", "corrected", "verdict"], 1);
    for row in rows {
        let Some(against) = &row.against else { continue };
        let papers = row.paper.zip(baseline).map(|(ours, theirs)| format!("{:.3}", ours.clock_s / theirs.clock_s));
        let (low, high) = against.times_as_long.interval.unwrap_or((f64::NAN, f64::NAN));
        table.row([
            Some(row.arm.clone()),
            Some(format!("{:.3} [{low:.3}, {high:.3}]", against.times_as_long.mean)),
            papers,
            Some(words::p_value(against.p)),
            Some(words::p_value(against.corrected_p)),
            Some(against.verdict.words().to_owned()),
        ]);
    }
    format!("  Against {other}:\n{}", indented(&table))
}

fn regression(balance: &ClockRegression) -> String {
    let ClockRegression { variant, observations, terms, r_squared, why_not } = balance;
    let mut text = format!("\nClock time on its parts, {} runs. {}\n", observations, of(*variant));
    if let Some(why) = why_not {
        let _ = writeln!(text, "  No fit: {why}.");
        return text;
    }
    let mut table = Table::new(["", "coefficient", "(t)", "p", "paper", "(t)"], 1);
    for term in terms {
        table.row([
            Some(term.of.to_owned()),
            Some(format!("{:.3}", term.value)),
            Some(format!("({:.2})", term.t)),
            Some(words::p_value(term.p)),
            term.paper.map(|paper| format!("{:.3}", paper.value)),
            term.paper.map(|paper| format!("({:.2})", paper.t)),
        ]);
    }
    text.push_str(&indented(&table));
    if let Some(r_squared) = r_squared {
        let _ = writeln!(text, "  R^2 {r_squared:.3}");
    }
    text
}

fn predictions(rows: &[Prediction]) -> String {
    let mut table =
        Table::new(["", "rule", "predicted s", "measured s", "gap %", "times as long: predicted", "measured"], 2);
    for row in rows {
        table.row(
            [
                row.variant.name().to_owned(),
                row.arm.clone(),
                words::significant(row.predicted_s, 4),
                words::significant(row.measured_s, 4),
                format!("{:+.1}", row.gap_percent),
                format!("{:.3}", row.predicted_times_as_long),
                format!("{:.3}", row.measured_times_as_long),
            ]
            .map(Some),
        );
    }
    indented(&table)
}

fn simulated(rows: &[SimulatedRow]) -> String {
    let mut table = Table::new(
        ["", "kernel", "I/O stages' nice", "clock s", "times as long", "paper: clock s", "times as long"],
        2,
    );
    for row in rows {
        table.row([
            Some(row.variant.name().to_owned()),
            Some(row.scheduler.clone()),
            Some(row.nice.to_string()),
            Some(words::significant(row.clock_s.mean, 4)),
            row.times_as_long.map(|ratio| match ratio.interval {
                Some((low, high)) => format!("{:.3} [{low:.3}, {high:.3}]", ratio.mean),
                None => format!("{:.3}", ratio.mean),
            }),
            row.paper.map(|paper| format!("{:.2}", paper.clock_s)),
            row.papers_times_as_long.map(|ratio| format!("{ratio:.3}")),
        ]);
    }
    indented(&table)
}

fn shares(rows: &[Share]) -> String {
    let mut table = Table::new(["", "kernel", "its nice value", "% of a CPU"], 2);
    for row in rows {
        table.row([
            Some(row.world.name().to_owned()),
            row.scheduler.clone(),
            Some(row.nice.to_string()),
            Some(words::with_half_width(&row.percent)),
        ]);
    }
    indented(&table)
}

/// The conclusions, in sentences.
fn answers(report: &Report) -> Vec<String> {
    let mut answers = Vec::new();
    for variant in Variant::ALL {
        let named = |verdict: Verdict| -> Vec<&str> {
            let rows = report.rows.iter().filter(|row| row.variant == variant);
            let of_it = rows.filter(|row| row.against.as_ref().is_some_and(|against| against.verdict == verdict));
            of_it.map(|row| row.arm.as_str()).collect()
        };
        let all = [
            Verdict::Faster,
            Verdict::FasterWithinMargin,
            Verdict::Equivalent,
            Verdict::SlowerWithinMargin,
            Verdict::Slower,
            Verdict::NotDecided,
        ];
        let found: Vec<String> = all
            .into_iter()
            .filter_map(|verdict| {
                let names = named(verdict);
                (!names.is_empty()).then(|| format!("{}: {}", verdict.words(), names.join(", ")))
            })
            .collect();
        if let Some(against) =
            report.rows.iter().filter(|row| row.variant == variant).find_map(|row| row.against.as_ref())
        {
            answers.push(format!("{}, against {}: {}.", of(variant), against.arm, found.join("; ")));
        }
    }
    let magnitudes = report.simulated.iter().filter(|row| row.nice == 19);
    answers.extend(magnitudes.filter_map(|row| {
        let ratio = row.times_as_long?;
        let matters = !ratio.contains(1.0) && (ratio.mean - 1.0).abs() >= super::rows::MARGIN;
        let matters = if matters { "matters" } else { "does not matter, within 5 %," };
        Some(format!(
            "The magnitude of the difference {matters} to this program on simulated {} (nice 19 against 1).",
            row.scheduler
        ))
    }));
    let worlds = report.shares.iter().filter(|share| share.nice == 19);
    answers.extend(worlds.map(|share| {
        let kernel = match (share.world, &share.scheduler) {
            (World::Sim, Some(scheduler)) => format!("simulated {scheduler}"),
            _ => "this kernel".to_owned(),
        };
        let least = report
            .shares
            .iter()
            .find(|other| other.nice == 1 && other.world == share.world && other.scheduler == share.scheduler);
        let less = least.map_or(String::new(), |least| {
            format!(" at nice 19, and {} % at nice 1: the magnitude matters", words::significant(least.percent.mean, 2))
        });
        let starved = if share.percent.mean < 0.1 { "starves" } else { "does not starve" };
        format!(
            "On {kernel} whoever comes last {starved}: it has {} % of a CPU{less}.",
            words::significant(share.percent.mean, 2)
        )
    }));
    answers
}

fn indented(table: &Table) -> String {
    table.render(WIDTH - 2).lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fg::arms::RULES;
    use crate::fg::balance::clock_regressions;
    use crate::fg::rows::rows;
    use crate::fg::runs::Observation;

    fn report() -> Report {
        let experiment = Experiment::named("fg/table5").unwrap();
        let clock = |arm: usize, round: u32| {
            10.0 - 0.5 * f64::from(u8::from(arm == 2)) + f64::from((round * 7 + arm as u32) % 5) / 50.0
        };
        let of_arm = |(arm, of): (usize, &'static crate::fg::arms::Arm)| {
            (0..6).map(move |round| {
                let user = 15.0 + f64::from((round * 3 + arm as u32) % 4) / 10.0;
                Observation::new(of, round, user, 1.0 + f64::from(round) / 100.0, clock(arm, round))
            })
        };
        let runs: Vec<Observation> = RULES.iter().enumerate().filter(|(arm, _)| *arm < 4).flat_map(of_arm).collect();
        let mut report = Report::new(experiment);
        report.rows = rows(&experiment.arms(), &runs, experiment.baseline());
        report.balances = clock_regressions(&runs);
        report.predictions = vec![Prediction {
            variant: Variant::ComputeBound,
            arm: "nice-up-io".into(),
            predicted_s: 9.7,
            measured_s: 9.54,
            gap_percent: 1.68,
            predicted_times_as_long: 0.98,
            measured_times_as_long: 0.95,
        }];
        report.note("the disk was not throttled");
        report
    }

    #[test]
    fn a_report_as_text() {
        insta::assert_snapshot!(render(&report()));
    }

    #[test]
    fn a_report_with_one_run_of_each_says_what_is_missing() {
        let experiment = Experiment::named("fg/table3").unwrap();
        let runs = [Observation::new(&RULES[0], 0, 1.0, 1.0, 2.0)];
        let mut report = Report::new(experiment);
        report.rows = rows(&experiment.arms(), &runs, experiment.baseline());
        let text = render(&report);
        assert!(text.contains("Two runs of each are needed") && text.contains("Incomplete"), "{text}");
    }

    #[test]
    fn the_list_has_all_experiments() {
        let list = list();
        assert!(EXPERIMENTS.iter().all(|experiment| list.contains(&format!("{}  Roysden", experiment.name))), "{list}");
    }
}
