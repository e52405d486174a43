//! The report as text.

use std::fmt::Write;

use scenario::result::World;

use super::arms::{IO_BOUND_USE, PAPERS_CPUS, Variant};
use super::balance::ClockRegression;
use super::prediction::Prediction;
use super::report::{FgReport, Settings};
use super::rows::{Row, Verdict};
use super::shares::Share;
use super::simulated::SimulatedRow;
use crate::text::{head, indented, wrapped};
use report::table::Table;
use report::words;
use stats::Estimate;

/// The whole report.
pub fn render(report: &FgReport) -> String {
    let mut text = head(&report.paper, report.settings.as_ref().map(method), report.complete);
    for variant in Variant::ALL {
        let of_it: Vec<&Row> = report.rows.iter().filter(|row| row.variant == variant).collect();
        if !of_it.is_empty() {
            text += &format!("\n{}\n{}{}", heading(variant), rows(&of_it), comparisons(&of_it));
        }
    }
    text.extend(report.balances.iter().map(regression));
    if !report.predictions.is_empty() {
        text += "\nPredicted by the simulator from the costs of the stages with default priorities\n";
        text += &predictions(&report.predictions);
    }
    if !report.simulated.is_empty() {
        text += "\nOn simulated kernels, with a machine like that of the thesis\n";
        text += &simulated(&report.simulated);
    }
    if !report.shares.is_empty() {
        text += "\nA stage of low priority beside threads that compute all the time, two for each CPU\n";
        text += &shares(&report.shares);
    }
    let notes: Vec<String> = report.notes.iter().map(|note| format!("note: {note}")).collect();
    for sentences in [conclusions(report), notes].iter().filter(|sentences| !sentences.is_empty()) {
        text.push('\n');
        text.extend(sentences.iter().map(|sentence| wrapped(sentence)));
    }
    text
}

fn heading(variant: Variant) -> &'static str {
    match variant {
        Variant::ComputeBound => "Limited by the processors",
        Variant::IoBound => "Limited by the disk, with twice as much data",
    }
}

fn method(settings: &Settings) -> String {
    let Settings { machine, size, record, key, memory, evicted, rate, .. } = settings;
    let mib = |bytes: u64| {
        format!("{:.4}", bytes as f64 / f64::from(1 << 20)).trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let throttled = match rate {
        Some(rate) => format!(
            "; the I/O-bound program may read and write {:.1} MB/s each, so that it uses nearly {IO_BOUND_USE} % of {:.0} processors",
            *rate as f64 / 1e6,
            PAPERS_CPUS
        ),
        None => "; the disk is not throttled".to_owned(),
    };
    format!(
        "{}, {} CPUs, Linux {}. Columnsort of {} MiB (and {} MiB if the disk is the limit), records of {record} bytes with keys of {key}, {} MiB of \
         memory, direct I/O, evicted before each run: {evicted}{throttled}.",
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
        table.row([
            Some(row.arm.clone()),
            Some(ratio(&against.times_as_long)),
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
    let mut text = format!("\nRegression of clock time, {observations} runs. {}\n", heading(*variant));
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
            row.times_as_long.as_ref().map(ratio),
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

/// A ratio with its interval.
fn ratio(ratio: &Estimate) -> String {
    let interval = ratio.interval.map_or(String::new(), |(low, high)| format!(" [{low:.3}, {high:.3}]"));
    format!("{:.3}{interval}", ratio.mean)
}

/// The conclusions, in sentences.
fn conclusions(report: &FgReport) -> Vec<String> {
    let of_variant = |variant| {
        let compared = || {
            let rows = report.rows.iter().filter(move |row| row.variant == variant);
            rows.filter_map(|row| Some((row.arm.as_str(), row.against.as_ref()?)))
        };
        let (_, against) = compared().next()?;
        let with = |verdict: Verdict| {
            let arms: Vec<&str> =
                compared().filter(|(_, against)| against.verdict == verdict).map(|(arm, _)| arm).collect();
            (!arms.is_empty()).then(|| format!("{}: {}", verdict.words(), arms.join(", ")))
        };
        let found: Vec<String> = Verdict::ALL.into_iter().filter_map(with).collect();
        Some(format!("{}, against {}: {}.", heading(variant), against.arm, found.join("; ")))
    };
    let magnitude = |row: &SimulatedRow| {
        let ratio = row.times_as_long?;
        let matters = !ratio.contains(1.0) && (ratio.mean - 1.0).abs() >= super::rows::MARGIN;
        let matters = if matters { "matters" } else { "does not matter, within 5 %," };
        Some(format!(
            "The magnitude of the difference {matters} to this program on simulated {} (nice 19 against 1).",
            row.scheduler
        ))
    };
    let starvation = |share: &Share| {
        let kernel = match (share.world, &share.scheduler) {
            (World::Sim, Some(scheduler)) => format!("simulated {scheduler}"),
            _ => "this kernel".to_owned(),
        };
        let percent = |share: &Share| words::significant(share.percent.mean, 2);
        let is_least =
            |other: &&Share| other.nice == 1 && (other.world, &other.scheduler) == (share.world, &share.scheduler);
        let less = report.shares.iter().find(is_least).map_or(String::new(), |least| {
            format!(" at nice 19, and {} % at nice 1: the magnitude matters", percent(least))
        });
        let starves = if share.percent.mean < 0.1 { "starves" } else { "does not starve" };
        format!("On {kernel} the stage of low priority {starves}: it gets {} % of a CPU{less}.", percent(share))
    };
    let variants = Variant::ALL.into_iter().filter_map(of_variant);
    let magnitudes = report.simulated.iter().filter(|row| row.nice == 19).filter_map(magnitude);
    let starvations = report.shares.iter().filter(|share| share.nice == 19).map(starvation);
    variants.chain(magnitudes).chain(starvations).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Paper;
    use crate::fg::Experiment;
    use crate::fg::arms::RULES;
    use crate::fg::balance::clock_regressions;
    use crate::fg::rows::rows;
    use crate::fg::runs::Observation;

    fn report() -> FgReport {
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
        let mut report = FgReport::new(Paper::named("fg/table5").unwrap());
        report.rows = rows(&Experiment::Regression.arms(), &runs, "default");
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
    fn a_report_with_one_run_of_each_asks_for_more_runs() {
        let runs = [Observation::new(&RULES[0], 0, 1.0, 1.0, 2.0)];
        let mut report = FgReport::new(Paper::named("fg/table3").unwrap());
        report.rows = rows(&Experiment::FixedRules.arms(), &runs, "default");
        let text = render(&report);
        assert!(text.contains("Two runs of each are needed") && text.contains("Incomplete"), "{text}");
    }
}
