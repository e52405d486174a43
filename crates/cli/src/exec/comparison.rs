//! `rowlock exec --compare`: measures how much faster a program is with rowlock.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitStatus;

use exec::{Execution, Interruption, Launch, Load, RunLimits};
use measure::interleaving::{Side, alternate};
use report::WIDTH;
use report::table::Table;
use report::words;
use serde::Serialize;
use stats::paired::Speedup;
use stats::{Estimate, six_digits};

use super::json::Status;
use crate::arguments::{self, TextOrJson};
use crate::output::{json, print, print_message};
use crate::progress;
use crate::signals::Signals;
use crate::stop::Stop;

/// Runs the program in pairs and prints the result.
pub(crate) fn compare(launch: &Launch, arguments: &arguments::Exec) -> Result<(), Stop> {
    let signals = Signals::catch()?;
    let load = Load { hogs: arguments.hogs, beside: arguments.beside.clone() };
    let loads = if load.is_empty() { vec![load] } else { vec![Load::default(), load] };
    let planned = u64::from(arguments.runs) * loads.len() as u64;
    let mut comparison = Comparison { conditions: Vec::new() };
    let mut error = None;
    let bar = progress::bar(Some(planned));
    for load in loads {
        let mut pairs = Vec::new();
        bar.set_message(format!("beside {}", name(&load)));
        let run = |side| {
            let limits = RunLimits { cancel: signals.cancel(), limit: None };
            launch.execute(side == Side::Contender, limits).map(Result::<_, Interruption>::ok)
        };
        error = match load.start() {
            Err(why) => Some(Stop::Failed(anyhow::anyhow!("cannot start the load beside the program: {why}"))),
            Ok(running) => {
                let made = alternate(arguments.runs, run, |plain, helped| {
                    pairs.push(Pair { plain, helped });
                    bar.inc(1);
                });
                if let Some(failure) = running.failure() {
                    let beside = load.beside.as_deref().unwrap_or_default().display();
                    let again = "it was started again whenever it ended";
                    print_message(format_args!("rowlock: `{beside}` beside the program ended: {failure}; {again}"));
                }
                made.err().map(Stop::from)
            }
        };
        comparison.conditions.push(Condition { load, pairs });
        if error.is_some() || signals.number() != 0 {
            break;
        }
    }
    bar.finish_and_clear();
    if comparison.runs().next().is_some() {
        match arguments.format {
            TextOrJson::Text => print(&text(&comparison, arguments))?,
            TextOrJson::Json => print(&json_text(&comparison, launch, arguments)?)?,
        }
    }
    if let Some(stop) = error {
        return Err(stop);
    }
    if signals.number() != 0 {
        print_message(format_args!("interrupted: {} of {planned} pairs were made", comparison.runs().count() / 2));
        return Err(signals.interruption());
    }
    if comparison.all_end_alike() { Ok(()) } else { Err(Stop::Failed(anyhow::anyhow!("{}", comparison.endings()))) }
}

/// A run without rowlock and the run with it beside that.
struct Pair {
    plain: Execution,
    helped: Execution,
}

/// All measurements.
struct Comparison {
    conditions: Vec<Condition>,
}

/// The measurements beside one load.
struct Condition {
    load: Load,
    pairs: Vec<Pair>,
}

impl Comparison {
    /// All runs, with whether they are without rowlock.
    fn runs(&self) -> impl Iterator<Item = (bool, &Execution)> {
        let pairs = self.conditions.iter().flat_map(|condition| &condition.pairs);
        pairs.flat_map(|pair| [(true, &pair.plain), (false, &pair.helped)])
    }

    /// Whether all runs ended in the same way.
    fn all_end_alike(&self) -> bool {
        let codes: BTreeSet<i32> = self.runs().map(|(_, run)| raw(run.status)).collect();
        codes.len() <= 1
    }

    /// A description of how the runs ended.
    fn endings(&self) -> String {
        let with = |is_plain| {
            let runs = self.runs().filter(|&(plain, _)| plain == is_plain).map(|(_, run)| run.status);
            let mut statuses: Vec<ExitStatus> = runs.collect();
            statuses.sort_by_key(|&status| raw(status));
            let counts: Vec<String> = statuses
                .chunk_by(|one, other| one == other)
                .map(|alike| format!("{} times {}", alike.len(), alike[0]))
                .collect();
            counts.join(", ")
        };
        format!("the runs did not end alike: without rowlock {}; with it {}", with(true), with(false))
    }

    /// Whether standard output differed between runs.
    fn outputs(&self) -> Outputs {
        let different = |plain: bool| {
            let runs = self.runs().filter(move |&(is_plain, _)| is_plain == plain);
            runs.map(|(_, run)| run.stdout_sha256.as_str()).collect::<BTreeSet<_>>()
        };
        let (plain, helped) = (different(true), different(false));
        if plain.union(&helped).count() <= 1 {
            Outputs::Same
        } else if plain.len() > 1 {
            Outputs::DifferAnyway
        } else {
            Outputs::Differ
        }
    }
}

/// Whether a program printed the same in all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outputs {
    /// Yes.
    Same,
    /// No, not even without rowlock.
    DifferAnyway,
    /// Only without rowlock.
    Differ,
}

impl Condition {
    fn speedup(&self) -> Option<Speedup> {
        let seconds = |run: &Execution| run.elapsed.as_secs_f64();
        Speedup::of(&self.pairs.iter().map(|pair| (seconds(&pair.plain), seconds(&pair.helped))).collect::<Vec<_>>())
    }
}

/// The load beside the program in words.
fn name(Load { hogs, beside }: &Load) -> String {
    let hogs = (*hogs > 0).then(|| words::counted((*hogs).into(), "hog"));
    let beside = beside.as_ref().map(|beside| format!("`{}`", words::word(&beside.to_string_lossy())));
    let all: Vec<String> = [hogs, beside].into_iter().flatten().collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(" and ") }
}

fn raw(status: ExitStatus) -> i32 {
    std::os::unix::process::ExitStatusExt::into_raw(status)
}

fn text(comparison: &Comparison, arguments: &arguments::Exec) -> String {
    let mut text = format!("with rowlock (`{}`) and without, in pairs, one right after the other\n\n", arguments.wait);
    let header = ["beside", "pairs", "median without", "median with", "times as fast, 95 % interval", "p"];
    let mut table = Table::new(header, 1);
    let speedups = || comparison.conditions.iter().filter_map(|condition| Some((condition, condition.speedup()?)));
    for (condition, speedup) in speedups() {
        let time = |seconds: f64| Some(words::time(seconds * 1e9));
        table.row([
            Some(name(&condition.load)),
            Some(condition.pairs.len().to_string()),
            time(speedup.first_median),
            time(speedup.second_median),
            Some(words::ratio(&speedup.ratio)),
            speedup.p.map(words::p_value),
        ]);
    }
    text.push_str(&table.render(WIDTH));
    let mut say = |sentence: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", words::wrap(&sentence, WIDTH));
    };
    say(String::new());
    for (condition, speedup) in speedups() {
        let load =
            if condition.load.is_empty() { "Alone".to_owned() } else { format!("Beside {}", name(&condition.load)) };
        say(verdict(&load, &speedup));
    }
    let runs = comparison.runs().count();
    say(match (comparison.outputs(), comparison.runs().map(|(_, run)| run.stdout_bytes).max()) {
        (Outputs::Same, Some(0)) => format!("Nothing was printed on standard output in any of the {runs} runs."),
        (Outputs::Same, bytes) => {
            format!("Standard output was the same {} bytes in all of the {runs} runs.", bytes.unwrap_or_default())
        }
        (Outputs::DifferAnyway, _) => {
            "Standard output differs from run to run, without rowlock as well, so it says nothing.".to_owned()
        }
        (Outputs::Differ, _) => {
            "Standard output was always the same without rowlock, but not with it. If it should be, this is a defect of rowlock."
                .to_owned()
        }
    });
    if let Some((_, failed)) = comparison.runs().find(|(_, run)| !run.status.success()) {
        let stderr = failed.stderr.trim_end();
        let last = if stderr.is_empty() { String::new() } else { format!(", and last said:\n{stderr}") };
        let how_many = comparison.runs().filter(|(_, run)| !run.status.success()).count();
        say(format!(
            "{how_many} of the {runs} runs did not succeed; the first of them ended with {}{last}",
            failed.status
        ));
    }
    text
}

fn verdict(load: &str, speedup: &Speedup) -> String {
    if speedup.p.is_none() {
        return format!("{load}: one pair is not enough.");
    }
    if !speedup.is_significant() {
        return format!("{load}: no significant difference.");
    }
    let Estimate { mean, .. } = speedup.ratio;
    let (times, what) = if mean >= 1.0 { (mean, "faster") } else { (1.0 / mean, "slower") };
    format!("{load}: {what} with rowlock, {} times.", words::significant(times, 3))
}

fn json_text(comparison: &Comparison, launch: &Launch, arguments: &arguments::Exec) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct ComparisonReport<'a> {
        command: Vec<String>,
        rule: String,
        why_not: Option<&'a str>,
        planned_pairs: u32,
        outputs: Outputs,
        ends_alike: bool,
        conditions: Vec<ConditionReport>,
    }
    #[derive(Serialize)]
    struct ConditionReport {
        hogs: u32,
        beside: Option<String>,
        speedup: Option<Estimate>,
        p: Option<f64>,
        told_apart: bool,
        median_without_ns: Option<f64>,
        median_with_ns: Option<f64>,
        pairs: Vec<[Run; 2]>,
    }
    #[derive(Serialize)]
    struct Run {
        with: bool,
        elapsed_ns: u64,
        status: Status,
        stdout_bytes: u64,
        stdout_sha256: String,
    }
    let run = |with: bool, run: &Execution| Run {
        with,
        elapsed_ns: run.elapsed.as_nanos().try_into().unwrap_or(u64::MAX),
        status: run.status.into(),
        stdout_bytes: run.stdout_bytes,
        stdout_sha256: run.stdout_sha256.clone(),
    };
    let condition = |condition: &Condition| {
        let speedup = condition.speedup();
        let nanos = |seconds: fn(&Speedup) -> f64| speedup.as_ref().map(|speedup| six_digits(seconds(speedup) * 1e9));
        ConditionReport {
            hogs: condition.load.hogs,
            beside: condition.load.beside.as_ref().map(|beside| beside.to_string_lossy().into_owned()),
            speedup: speedup.map(|speedup| speedup.ratio),
            p: speedup.and_then(|speedup| speedup.p).map(six_digits),
            told_apart: speedup.is_some_and(|speedup| speedup.is_significant()),
            median_without_ns: nanos(|speedup| speedup.first_median),
            median_with_ns: nanos(|speedup| speedup.second_median),
            pairs: condition.pairs.iter().map(|pair| [run(false, &pair.plain), run(true, &pair.helped)]).collect(),
        }
    };
    let report = ComparisonReport {
        command: arguments.program.words(),
        rule: arguments.wait.to_string(),
        why_not: launch.obstacle().map(|(_, obstacle)| obstacle.name()),
        planned_pairs: arguments.runs,
        outputs: comparison.outputs(),
        ends_alike: comparison.all_end_alike(),
        conditions: comparison.conditions.iter().map(condition).collect(),
    };
    json(&report, "the comparison")
}
