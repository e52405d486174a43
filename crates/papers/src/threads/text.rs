//! The report as text.

use std::fmt::Write;

use super::claims::ClaimVerdict;
use super::programs::Program;
use super::report::{Settings, ThreadsReport};
use super::runs::Temperature;
use super::simulated::SimulatedRow;
use super::table::{SpeedupRow, TIMES, TimeRow};
use crate::text::{head, indented, wrapped};
use report::distinct;
use report::table::Table;
use report::words;
use stats::median::Median;

/// The whole report.
pub fn render(report: &ThreadsReport) -> String {
    let mut text = head(&report.paper, Some(method(report)), report.complete);
    // Writing to a string does not fail.
    for at in Temperature::ALL {
        if let Some(table) = times(report, at) {
            let _ = write!(text, "\nThe study's program, {}\n{}", heading(at), indented(&table));
        }
        if let Some(table) = factors(report, at) {
            let _ = write!(text, "\n{FACTORS}, {}\n{}", at.name(), indented(&table));
        }
    }
    if !report.responses.is_empty() {
        text.push_str("\nMedians over the runs, with half the width of their 95 % intervals.\n");
    }
    for program in programs(report) {
        let description = format!("{}: {}", capital(program.name()), program.description());
        text += &format!("\n{}{}", wrapped(&description), responses(report, program));
        if report.simulated.iter().any(|row| row.program == program) {
            text.push_str(&predictions(report, program));
        }
    }
    let notes = report.notes.iter().map(|note| format!("note: {note}"));
    text.extend(sentences(report).into_iter().chain(notes).map(|sentence| format!("\n{}", wrapped(&sentence))));
    text
}

/// The settings and the machine, in words.
pub(crate) fn method(report: &ThreadsReport) -> String {
    let Settings { machine, repeat, preemptible, .. } = &report.settings;
    format!(
        "{}, {}, Linux {}. Each run is a separate process; {repeat} of each, in interleaved rounds. Kernel threads have stacks of 8 MiB and the \
         standard library's locks. Fibers have one kernel thread{}. Threads on one CPU stay on it.",
        machine.cpu_model,
        words::counted(machine.cpus.into(), "CPU"),
        machine.kernel,
        if *preemptible { ", and may be preempted anywhere at the end of their running time" } else { "" },
    )
}

/// The heading of a table of times.
fn heading(at: Temperature) -> &'static str {
    match at {
        Temperature::Cold => "cold: the first run of a process, with the start of its runtime; medians [95 %]",
        Temperature::Warm => "warm: the later runs of a process; medians [95 %]",
    }
}

/// The verdicts and further remarks, in sentences.
pub(crate) fn sentences(report: &ThreadsReport) -> Vec<String> {
    let verdict = |ClaimVerdict { claim, at, answer, evidence }: &ClaimVerdict| {
        format!("{claim} ({}): {}. {}.", at.name(), answer.choose("YES", "NO", "UNDECIDED"), capital(evidence))
    };
    let demoted =
        report.rows.iter().map(|row| row.demotions).sum::<Option<u64>>().filter(|_| !report.verdicts.is_empty());
    report.verdicts.iter().map(verdict).chain(demoted.map(|demotions| demotions_in_words(report, demotions))).collect()
}

/// The number of demotions, and the consequence if it is small.
fn demotions_in_words(report: &ThreadsReport, demotions: u64) -> String {
    let of = |row: &TimeRow| {
        let runs = row.cold_us.samples as u64 * u64::from(1 + Program::Study.warm_runs(row.threads));
        // The first fiber, which spawns the others, counts too.
        runs * (u64::from(row.threads) + 1)
    };
    let fibers: u64 = report.rows.iter().map(of).sum();
    let consequence = match demotions {
        0 => ": none left the highest level, so levels and running time made no difference",
        _ if demotions < fibers / 1000 => {
            ": hardly any left the highest level, so levels and running time made next to no difference"
        }
        _ => "",
    };
    format!("The {fibers} fibers of all runs used up their running times {demotions} times{consequence}.")
}

/// A time with its interval: `73.1 ms [70.2, 75.9]`, in the unit of the median.
pub(crate) fn time(us: &Median) -> String {
    let (unit, name) = match us.median {
        1e6.. => (1e6, "s"),
        1e3.. => (1e3, "ms"),
        _ => (1.0, "us"),
    };
    let number = |us: f64| words::significant(us / unit, if us / unit < 1000.0 { 3 } else { 4 });
    let interval = us.interval.map_or(String::new(), |(low, high)| format!(" [{}, {}]", number(low), number(high)));
    format!("{} {name}{interval}", number(us.median))
}

/// The heading of a table of factors.
pub(crate) const FACTORS: &str = "How many times as fast fibers are: medians of the rounds' ratios [95 %]";

/// The times of the study's program.
fn times(report: &ThreadsReport, at: Temperature) -> Option<Table> {
    report.rows.iter().find_map(|row| row.us(at))?;
    let measured = report.rows.iter().map(|row| row.arm.clone());
    let predicted = report.simulated.iter().filter(|_| at == Temperature::Warm).map(|row| simulated(&row.arm));
    let arms = distinct(measured.chain(predicted), Clone::clone);
    let threads = distinct(report.rows.iter().map(|row| row.threads), |threads| *threads);
    let median = |threads: u32, arm: &str| {
        let row = report.rows.iter().find(|row| row.threads == threads && row.arm == arm);
        let predicted = report.simulated.iter().find(|row| row.threads == threads && simulated(&row.arm) == arm);
        row.and_then(|row| row.us(at)).or(predicted.map(|row| exact(row.total_us)))
    };
    let has_few_arms = report.verdicts.is_empty();
    Some(if has_few_arms { few_arms(&threads, &arms, at, median) } else { many_arms(&threads, &arms, median) })
}

/// The name of an arm in the simulator.
fn simulated(arm: &str) -> String {
    format!("simulated {}", arm.trim_start_matches("fibers "))
}

/// A value without an interval.
pub(crate) fn exact(us: f64) -> Median {
    Median { median: us, interval: None, samples: 1 }
}

/// A row for each number of threads and a column for each arm. Cold tables have a column of the
/// study's measurements.
fn few_arms(threads: &[u32], arms: &[String], at: Temperature, median: impl Fn(u32, &str) -> Option<Median>) -> Table {
    let theirs = (at == Temperature::Cold).then_some("the study's pthreads");
    let header = ["threads"].into_iter().chain(theirs).chain(arms.iter().map(String::as_str));
    let mut table = Table::new(header, 0);
    for &threads in threads {
        let study = super::study_us(threads).map(|us| time(&exact(us)));
        let cells = arms.iter().map(|arm| median(threads, arm).map(|median| time(&median)));
        table.row([Some(threads.to_string())].into_iter().chain(theirs.map(|_| study)).chain(cells));
    }
    table
}

/// A row for each arm and a column for each number of threads. Intervals are percentages.
fn many_arms(threads: &[u32], arms: &[String], median: impl Fn(u32, &str) -> Option<Median>) -> Table {
    let header = ["levels/us".to_owned()].into_iter().chain(threads.iter().map(|threads| format!("{threads} threads")));
    let mut table = Table::new(header, 1);
    for arm in arms {
        let cell = |threads: &u32| median(*threads, arm).map(|median| brief(&median));
        table.row([Some(arm.clone())].into_iter().chain(threads.iter().map(cell)));
    }
    table
}

/// A time with half the width of its interval as a percentage: `73.1 ms ±4 %`.
fn brief(us: &Median) -> String {
    let alone = time(&Median { interval: None, ..*us });
    let share = us.interval.map(|(low, high)| (high - low) / 2.0 / us.median * 100.0);
    alone + &share.map_or(String::new(), |share| format!(" ±{share:.0} %"))
}

/// A row for each number of threads and a column for each of the other arms.
fn factors(report: &ThreadsReport, at: Temperature) -> Option<Table> {
    let factors: Vec<&SpeedupRow> = report.factors.iter().filter(|factor| factor.at == at).collect();
    factors.first()?;
    let rivals = distinct(factors.iter().map(|factor| factor.against.as_str()), |rival| *rival);
    let header = ["threads".to_owned()].into_iter().chain(rivals.iter().map(|rival| format!("as {rival}")));
    let mut table = Table::new(header, 0);
    for threads in distinct(factors.iter().map(|factor| factor.threads), |threads| *threads) {
        let cell = |rival: &&str| {
            let factor = factors.iter().find(|factor| factor.threads == threads && factor.against == *rival);
            factor.map(|factor| words::ratio(&factor.times_as_fast.estimate()))
        };
        table.row([Some(threads.to_string())].into_iter().chain(rivals.iter().map(cell)));
    }
    Some(table)
}

/// The programs other than the study's.
pub(crate) fn programs(report: &ThreadsReport) -> Vec<Program> {
    distinct(report.responses.iter().map(|row| row.program), |program| *program)
}

/// The response times of a program, a row for each arm.
fn responses(report: &ThreadsReport, program: Program) -> String {
    let rows = report.responses.iter().filter(|row| row.program == program);
    response_table("", rows.map(|row| (&row.arm, row.times().map(|us| Some(brief(&us))), row.demotions)))
}

/// The simulated response times of a program.
fn predictions(report: &ThreadsReport, program: Program) -> String {
    let rows = report.simulated.iter().filter(|row| row.program == program && row.responses.is_some());
    let times = |row: &SimulatedRow| row.times().map(|us| us.map(|us| time(&exact(us))));
    response_table("simulated", rows.map(|row| (&row.arm, times(row), row.demotions)))
}

/// A table of arms with their times and demotions.
fn response_table<'a>(
    arms: &str,
    rows: impl Iterator<Item = (&'a String, [Option<String>; 5], Option<u64>)>,
) -> String {
    let [total, median, others @ ..] = TIMES;
    let median = format!("response: {median}");
    let header = [arms, total, &median].into_iter().chain(others).chain(["demotions"]);
    let mut table = Table::new(header, 1);
    for (arm, times, demotions) in rows {
        let demotions = demotions.map(|count| count.to_string());
        table.row([Some(arm.clone())].into_iter().chain(times).chain([demotions]));
    }
    indented(&table)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
