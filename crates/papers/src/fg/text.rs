//! The report as text.

use scenario::result::World;

use super::arms::{IO_BOUND_USE, PAPERS_CPUS, Variant};
use super::balance::{ClockRegression, Term};
use super::prediction::Prediction;
use super::report::{FgReport, Settings};
use super::rows::{Comparison, Row, Verdict};
use super::shares::Share;
use super::simulated::SimulatedRow;
use crate::text::{Column, head, table, wrapped};
use policy::priority::NEARLY_ALWAYS;
use report::words;
use stats::Estimate;

/// The whole report.
pub fn render(report: &FgReport) -> String {
    let mut text = head(&report.paper, report.settings.as_ref().map(method), report.complete);
    for variant in Variant::ALL {
        let of_it: Vec<&Row> = report.rows.iter().filter(|row| row.variant == variant).collect();
        if !of_it.is_empty() {
            text += &format!("\n{}\n{}{}", heading(variant, &of_it, report), rows(&of_it), comparisons(&of_it));
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

/// The program, and whether the processors limited it here.
fn heading(variant: Variant, rows: &[&Row], report: &FgReport) -> String {
    let data = if variant.times() == 1 { "" } else { ", with twice as much data" };
    let program = format!("{}{data}", program(variant));
    let Some(Settings { machine, .. }) = &report.settings else { return program };
    let runs: usize = rows.iter().map(|row| row.observations).sum();
    let used: f64 = rows.iter().map(|row| row.used_percent * row.observations as f64).sum();
    let percent = used / runs.max(1) as f64 / f64::from(machine.cpus.max(1));
    let not = if percent * 10.0 >= NEARLY_ALWAYS as f64 { "" } else { "not " };
    format!("{program}: {not}limited by the processors, which were in use {percent:.0} % of the time")
}

fn program(variant: Variant) -> &'static str {
    match variant {
        Variant::ComputeBound => "Compute-bound program",
        Variant::IoBound => "I/O-bound program",
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
    let number = |value: f64| Some(words::significant(value, 4));
    let columns: [Column<'_, &Row>; 10] = [
        ("", &|row| Some(row.arm.clone())),
        ("runs", &|row| Some(row.observations.to_string())),
        ("user s", &|row| number(row.user_s)),
        ("system s", &|row| number(row.system_s)),
        ("clock s", &|row| number(row.clock_s.mean)),
        ("std. error", &|row| Some(words::significant(row.standard_error_s?, 2))),
        ("use %", &|row| Some(format!("{:.1}", row.used_percent))),
        ("paper: runs", &|row| Some(row.paper?.observations.to_string())),
        ("clock s", &|row| Some(format!("{:.2}", row.paper?.clock_s))),
        ("use %", &|row| Some(format!("{:.1}", row.paper?.used_percent?))),
    ];
    table(rows, 1, columns)
}

fn comparisons(rows: &[&Row]) -> String {
    let Some(other) = rows.iter().find_map(|row| row.against.as_ref()).map(|against| &against.arm) else {
        return "  Two runs of each are needed to compare them.\n".to_owned();
    };
    let baseline = rows.iter().find(|row| &row.arm == other).and_then(|row| row.paper);
    let compared: Vec<(&Row, &Comparison)> =
        rows.iter().filter_map(|row| Some((*row, row.against.as_ref()?))).collect();
    let columns: [Column<'_, (&Row, &Comparison)>; 6] = [
        ("", &|(row, _)| Some(row.arm.clone())),
        ("times as long [95 %]", &|(_, against)| Some(ratio(&against.times_as_long))),
        ("paper", &|(row, _)| Some(format!("{:.3}", row.paper?.clock_s / baseline?.clock_s))),
        ("p", &|(_, against)| Some(words::p_value(against.p))),
        ("corrected", &|(_, against)| Some(words::p_value(against.corrected_p))),
        ("verdict", &|(_, against)| Some(against.verdict.words().to_owned())),
    ];
    format!("  Against {other}:\n{}", table(&compared, 1, columns))
}

fn regression(balance: &ClockRegression) -> String {
    let ClockRegression { variant, observations, terms, r_squared, why_not } = balance;
    let text = format!("\nRegression of clock time, {observations} runs. {}\n", program(*variant));
    if let Some(why) = why_not {
        return text + &format!("  No fit: {why}.\n");
    }
    let columns: [Column<'_, Term>; 6] = [
        ("", &|term| Some(term.of.to_owned())),
        ("coefficient", &|term| Some(format!("{:.3}", term.value))),
        ("(t)", &|term| Some(format!("({:.2})", term.t))),
        ("p", &|term| Some(words::p_value(term.p))),
        ("paper", &|term| Some(format!("{:.3}", term.paper?.value))),
        ("(t)", &|term| Some(format!("({:.2})", term.paper?.t))),
    ];
    let r_squared = r_squared.map_or(String::new(), |r_squared| format!("  R^2 {r_squared:.3}\n"));
    text + &table(terms, 1, columns) + &r_squared
}

fn predictions(rows: &[Prediction]) -> String {
    let columns: [Column<'_, Prediction>; 7] = [
        ("", &|row| Some(row.variant.name().to_owned())),
        ("rule", &|row| Some(row.arm.clone())),
        ("predicted s", &|row| Some(words::significant(row.predicted_s, 4))),
        ("measured s", &|row| Some(words::significant(row.measured_s, 4))),
        ("gap %", &|row| Some(format!("{:+.1}", row.gap_percent))),
        ("times as long: predicted", &|row| Some(format!("{:.3}", row.predicted_times_as_long))),
        ("measured", &|row| Some(format!("{:.3}", row.measured_times_as_long))),
    ];
    table(rows, 2, columns)
}

fn simulated(rows: &[SimulatedRow]) -> String {
    let columns: [Column<'_, SimulatedRow>; 7] = [
        ("", &|row| Some(row.variant.name().to_owned())),
        ("kernel", &|row| Some(row.scheduler.clone())),
        ("I/O stages' nice", &|row| Some(row.nice.to_string())),
        ("clock s", &|row| Some(words::significant(row.clock_s.mean, 4))),
        ("times as long", &|row| Some(ratio(&row.times_as_long?))),
        ("paper: clock s", &|row| Some(format!("{:.2}", row.paper?.clock_s))),
        ("times as long", &|row| Some(format!("{:.3}", row.papers_times_as_long?))),
    ];
    table(rows, 2, columns)
}

fn shares(rows: &[Share]) -> String {
    let columns: [Column<'_, Share>; 4] = [
        ("", &|row| Some(row.world.name().to_owned())),
        ("kernel", &|row| row.scheduler.clone()),
        ("its nice value", &|row| Some(row.nice.to_string())),
        ("% of a CPU", &|row| Some(words::with_half_width(&row.percent))),
    ];
    table(rows, 2, columns)
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
        Some(format!("{}, against {}: {}.", program(variant), against.arm, found.join("; ")))
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

    /// The settings of runs on a machine with this many processors.
    fn settings(cpus: u32) -> Settings {
        let machine = serde_json::json!({
            "cpu_model": "any", "kernel": "6.18", "cpus_online": cpus, "cpus_allowed": [0], "cpus": cpus
        });
        Settings {
            rowlock_version: "0.1.0".into(),
            machine: serde_json::from_value(machine).unwrap(),
            size: 1 << 28,
            record: 100,
            key: 10,
            memory: 1 << 27,
            seed: 1,
            evicted: "what is sorted".into(),
            rate: None,
        }
    }

    #[test]
    fn a_heading_says_that_the_processors_limit_a_program_only_if_they_were_in_use() {
        let runs = |used: f64| {
            let of = |variant| RULES.iter().find(|arm| arm.variant == variant && arm.name == "default").unwrap();
            Variant::ALL.map(|variant| Observation::new(of(variant), 0, used, 0.0, 1.0))
        };
        for (used, expected) in [
            (1.88, "limited by the processors, which were in use 94 % of the time"),
            (1.2, "not limited by the processors, which were in use 60 % of the time"),
        ] {
            let mut report = FgReport::new(Paper::named("fg/table3").unwrap());
            report.rows = rows(&Experiment::FixedRules.arms(), &runs(used), "default");
            report.settings = Some(settings(2));
            let text = render(&report);
            for program in ["Compute-bound program", "I/O-bound program, with twice as much data"] {
                assert!(text.contains(&format!("\n{program}: {expected}\n")), "{text}");
            }
        }
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
