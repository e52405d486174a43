//! The wait statistics of an unmodified program as text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use counters::{ProcessReport, Reason, WaitKind};
use exec::Ended;
use policy::Span;
use policy::waiting::WaitingRule;
use report::WIDTH;
use report::table::Table;
use report::words;
use wait::Statistics;

/// The report of a program whose threads wait by this rule. `had_obstacle` is whether an obstacle
/// was reported before.
pub(super) fn text(rule: WaitingRule, had_obstacle: bool, ended: &Ended) -> String {
    let mut text =
        format!("\nrowlock: {}, after {}", ending(ended.status), words::time(ended.elapsed.as_nanos() as f64));
    // Writing to a string does not fail.
    let Some(totals) = totals(&ended.processes) else {
        let why = if ended.lost > 0 {
            "its statistics were lost: the program has overwritten them, or there was no memory for them"
        } else if had_obstacle {
            "it could not be helped (see above)"
        } else {
            "no process has loaded the library: its loader was not asked to, or could not"
        };
        let _ = writeln!(text, "; {why}");
        return text;
    };
    let _ = writeln!(text, "; {}, waiting by `{rule}`", processes(ended));
    if totals.is_empty() {
        let none = "No waits were seen in them: they wait in ways that the library does not replace, or not at all. Processes of other \
                    users, and those that have not loaded the library, are not included.";
        let _ = writeln!(text, "{}", words::wrap(none, WIDTH));
        return text;
    }
    let is_counted = |sum: &Total| sum.statistics != Statistics::default();
    let mut counted = totals.iter().filter(|(_, sum)| is_counted(sum)).peekable();
    while let Some(name) = counted.peek().map(|&((name, _), _)| name) {
        let of_one = std::iter::from_fn(|| counted.next_if(|((of, _), _)| of == name));
        let processes = ended.processes.iter().filter(|entry| entry.name == *name).count();
        let many = if processes > 1 { format!(", {processes} processes") } else { String::new() };
        let _ = writeln!(text, "\n{name}{many}:");
        text.push_str(&table(of_one).render(WIDTH));
    }
    let left: Vec<String> = totals.iter().flat_map(|(key, sum)| left(key, sum)).collect();
    if !left.is_empty() {
        let _ = writeln!(text, "\nPassed through:");
        for line in left {
            let _ = writeln!(text, "  {}", words::wrap(&line, WIDTH - 2));
        }
    }
    if let Some(sleeps_avoided) = sleeps_avoided(totals.values()) {
        let _ = writeln!(text, "\n{}", words::wrap(&sleeps_avoided, WIDTH));
    }
    text
}

/// How many sleeps were avoided by spinning, and how long the spins took.
fn sleeps_avoided<'a>(totals: impl Iterator<Item = &'a Total>) -> Option<String> {
    let (mut spins, mut saved, mut spun) = (0, Span::ZERO, Span::ZERO);
    for sum in totals {
        spins += sum.statistics.successful_spins;
        saved += sum.saved;
        spun += sum.statistics.spin_time;
    }
    (spins > 0).then(|| {
        format!(
            "Sleeps avoided: {}, one for each successful spin. Waking as many sleepers would take about {}, in all threads \
             together; spinning took them {}, including unsuccessful spins. --compare tells whether the program is faster.",
            words::count(spins as f64),
            words::time(saved.as_nanos() as f64),
            words::time(spun.as_nanos() as f64),
        )
    })
}

/// A program, by its name in the kernel, and what it waited at.
type Key = (String, WaitKind);

/// The wait statistics of all processes of one program.
#[derive(Default)]
struct Total {
    statistics: Statistics,
    left: BTreeMap<Reason, u64>,
    saved: Span,
}

/// Sums by program and kind of wait. `None` if no process had the library.
fn totals(entries: &[ProcessReport]) -> Option<BTreeMap<Key, Total>> {
    let mut totals: BTreeMap<Key, Total> = BTreeMap::new();
    for entry in entries {
        for waits in &entry.waits {
            let sum = totals.entry((entry.name.clone(), waits.kind)).or_default();
            sum.statistics = sum.statistics.plus(waits.statistics);
            sum.saved += waits.time_saved(entry.cs);
            for &(reason, times) in &waits.passed_through {
                *sum.left.entry(reason).or_default() += times;
            }
        }
    }
    (!entries.is_empty()).then_some(totals)
}

fn table<'a>(totals: impl Iterator<Item = (&'a Key, &'a Total)>) -> Table {
    // The name of the program is above the table: there is no room for it in a column.
    let header = ["waited at", "waits", "spins", "SSR", "spinning", "yields", "blocks", "blocked", "overload"];
    let mut table = Table::new(header, 1);
    for ((_, subject), Total { statistics, .. }) in totals {
        let count = |number: u64| (number > 0).then(|| words::count(number as f64));
        let time = |span: Span| (!span.is_zero()).then(|| words::time(span.as_nanos() as f64));
        table.row([
            Some(subject.title().to_owned()),
            count(statistics.waits),
            count(statistics.spins),
            statistics.ssr_percent().map(|percent| format!("{percent:.1} %")),
            time(statistics.spin_time),
            count(statistics.yields),
            count(statistics.blocks),
            time(statistics.block_time),
            count(statistics.overload_marks),
        ]);
    }
    table
}

/// The waits that a program passed through to the real symbols, a line for each reason.
fn left<'a>((name, subject): &'a Key, sum: &'a Total) -> impl Iterator<Item = String> + use<'a> {
    let line = move |(reason, times): (&Reason, &u64)| {
        format!("{name}, {}: {} times, {}", subject.title(), words::count(*times as f64), reason.text())
    };
    sum.left.iter().map(line)
}

fn processes(ended: &Ended) -> String {
    let count = ended.processes.len() as u64 + ended.rejected;
    let more = match ended.rejected {
        0 => String::new(),
        more => format!(", {more} of them not counted below, because there were too many"),
    };
    let lost = match ended.lost {
        0 => String::new(),
        lost => format!(", and the statistics of {} more were lost", words::count(lost as f64)),
    };
    format!("{count} process{} had the library{more}{lost}", if count == 1 { "" } else { "es" })
}

fn ending(status: ExitStatus) -> String {
    match status.signal() {
        // The standard library's format is "signal: 11 (SIGSEGV)".
        Some(_) => format!("the program was ended by {}", status.to_string().replacen(':', "", 1)),
        None => format!("the program exited with {}", status.code().unwrap_or_default()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use counters::Waits;

    use super::*;

    pub(in crate::exec) fn entry(pid: u32, name: &str, waits: Vec<Waits>) -> ProcessReport {
        ProcessReport { pid, name: name.into(), ended: true, cs: Span::from_micros(20), waits }
    }

    pub(in crate::exec) fn ended(status: i32, entries: Vec<ProcessReport>, rejected: u64) -> Ended {
        Ended {
            status: ExitStatus::from_raw(status),
            elapsed: Duration::from_millis(1_500),
            processes: entries,
            rejected,
            lost: 0,
        }
    }

    fn report_of(ended: &Ended) -> String {
        text(WaitingRule::default(), false, ended)
    }

    #[test]
    fn processes_of_one_program_are_summed() {
        let statistics = Statistics { waits: 10, spins: 8, successful_spins: 4, blocks: 4, ..Statistics::default() };
        let barrier = Waits { kind: WaitKind::Barrier, statistics, passed_through: vec![] };
        let mutex = Waits {
            kind: WaitKind::Mutex,
            statistics: Statistics::default(),
            passed_through: vec![(Reason::MutexKind, 3)],
        };
        let ranks =
            vec![entry(1, "rank", vec![barrier.clone(), mutex.clone()]), entry(2, "rank", vec![barrier, mutex])];
        let text = report_of(&ended(0, ranks, 0));
        assert_eq!(
            text,
            "\nrowlock: the program exited with 0, after 1.500 s; 2 processes had the library, waiting by `adaptive`\n\n\
             rank, 2 processes:\n\
             waited at         waits  spins     SSR  blocks\n\
             pthread barriers     20     16  50.0 %       8\n\n\
             Passed through:\n\
             \x20 rank, pthread mutexes: 6 times, with special semantics (recursive, error-checking, robust,\n\
             \x20 priority)\n\n\
             Sleeps avoided: 8, one for each successful spin. Waking as many sleepers would take about 160.0 us,\n\
             \x20 in all threads together; spinning took them 0 ns, including unsuccessful spins. --compare tells\n\
             \x20 whether the program is faster.\n"
        );
    }

    #[test]
    fn the_report_fits_the_page_and_no_name_is_shortened() {
        let span = Span::from_millis(123);
        let statistics = Statistics {
            waits: 12_345,
            spins: 12_345,
            successful_spins: 12_340,
            spin_time: span,
            yields: 54_321,
            blocks: 12_345,
            block_time: span,
            moves: 1,
            overload_marks: 12_345,
        };
        let waits = WaitKind::ALL.map(|subject| Waits { kind: subject, statistics, passed_through: vec![] });
        let names = ["hydra_pmi_proxy", "mpirun.openmpi"];
        let entries = names.iter().flat_map(|name| [1, 2].map(|pid| entry(pid, name, waits.to_vec())));
        let text = report_of(&ended(0, entries.collect(), 0));
        // The first line contains the rule, which may be long.
        assert!(text.lines().skip(2).all(|line| line.chars().count() <= WIDTH) && !text.contains('…'), "{text}");
        assert!(names.iter().all(|name| text.contains(&format!("\n{name}, 2 processes:\nwaited at "))), "{text}");
    }

    #[test]
    fn a_report_without_waits_says_why() {
        assert!(
            report_of(&ended(9, vec![], 0))
                .contains("ended by signal 9 (SIGKILL), after 1.500 s; no process has loaded the library")
        );
        let lost = report_of(&Ended { lost: 1, ..ended(0, vec![], 0) });
        assert!(lost.contains("; its statistics were lost: the program has overwritten them"), "{lost}");
        let had_obstacle = text(WaitingRule::default(), true, &ended(0, vec![], 0));
        assert!(had_obstacle.contains("it could not be helped (see above)"), "{had_obstacle}");
        let idle = report_of(&ended(0, vec![entry(1, "x", vec![])], 0));
        assert!(idle.contains("1 process had the library") && idle.contains("No waits were seen"), "{idle}");
        let many = report_of(&ended(0, vec![entry(1, "x", vec![])], 7));
        assert!(many.contains("8 processes had the library, 7 of them not counted below"), "{many}");
    }
}
