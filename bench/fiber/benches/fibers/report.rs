//! Tables of results, and whether the goals are met.

use std::fmt::Write;

use crate::contenders::{Contender, System};
use crate::figures::{self, short};
use crate::ratio::Ratio;

/// The results of all contenders.
#[derive(Default)]
pub(crate) struct Figures(pub(crate) figures::Figures);

impl Figures {
    fn rounds(&self, contender: Contender, program: &str, name: &str) -> Option<&[f64]> {
        self.0.rounds(&contender.to_string(), program, name)
    }

    fn middle(&self, contender: Contender, program: &str, name: &str) -> Option<f64> {
        self.0.middle(&contender.to_string(), program, name)
    }

    /// The time of `other` divided by that of `contender`.
    fn times(&self, contender: Contender, other: Contender, program: &str, name: &str) -> Option<Ratio> {
        Ratio::of(self.rounds(other, program, name)?, self.rounds(contender, program, name)?)
    }

    /// The program of the study: microseconds, cold and warm, for each number of threads.
    pub(crate) fn study(&self, contenders: &[Contender], threads: &[usize]) -> String {
        let counts = threads.iter().map(|count| format!(" {count} |")).collect::<String>();
        let mut text = format!("| us, cold / warm |{counts} x pthreads at 2000, cold | warm |\n");
        let _ = writeln!(text, "|---|{}---|---|", "---|".repeat(threads.len()));
        for &contender in contenders {
            let _ = write!(text, "| {contender} |");
            for count in threads {
                let program = format!("study {count}");
                let of = |name| self.middle(contender, &program, name).map_or("-".to_owned(), short);
                let _ = write!(text, " {} / {} |", of("cold"), of("warm"));
            }
            for name in ["cold", "warm"] {
                let ratio = self.pthreads(contenders, name).and_then(|pthreads| {
                    let ratio = self.times(contender, pthreads, "study 2000", name)?;
                    Some(match ratio.interval {
                        Some((low, high)) => format!("{} [{}, {}]", short(ratio.mean), short(low), short(high)),
                        None => short(ratio.mean),
                    })
                });
                let _ = write!(text, " {} |", ratio.unwrap_or("-".to_owned()));
            }
            text.push('\n');
        }
        text
    }

    /// The faster of the two contenders with POSIX threads at 2000 threads, as the more difficult
    /// reference.
    fn pthreads(&self, contenders: &[Contender], name: &str) -> Option<Contender> {
        let all = contenders.iter().copied().filter(|contender| contender.system == System::Pthreads);
        all.filter_map(|contender| Some((contender, self.middle(contender, "study 2000", name)?)))
            .min_by(|one, other| one.1.total_cmp(&other.1))
            .map(|(contender, _)| contender)
    }

    /// Figures of some programs, one column each.
    pub(crate) fn table(&self, contenders: &[Contender], columns: &[(&str, &str, &str)]) -> String {
        let heads = columns.iter().map(|(head, ..)| format!(" {head} |")).collect::<String>();
        let mut text = format!("| |{heads}\n|---|{}\n", "---|".repeat(columns.len()));
        for &contender in contenders {
            let figures: Vec<_> =
                columns.iter().map(|(_, program, name)| self.middle(contender, program, name)).collect();
            if figures.iter().any(Option::is_some) {
                let figures = figures.iter().map(|figure| figure.map_or("-".to_owned(), short));
                let _ = writeln!(text, "| {contender} | {} |", figures.collect::<Vec<_>>().join(" | "));
            }
        }
        text
    }

    /// The goals, and whether they are met.
    pub(crate) fn goals(&self, contenders: &[Contender]) -> String {
        let mut text = String::new();
        let mut say = |what: String, met: bool| {
            let _ = writeln!(text, "| {what} | {} |", if met { "met" } else { "**missed**" });
        };
        let on_one = |system| contenders.iter().find(|one| one.system == system && !one.on_all).copied();
        for (system, program, name, goal, what) in GOALS {
            let Some(one) = on_one(system) else { continue };
            match goal {
                Goal::AtMost(most) => {
                    if let Some(value) = self.middle(one, program, name) {
                        say(format!("{one}: {what} | {} | {}", short(most), short(value)), value <= most);
                    }
                }
                Goal::Times(most, peer) => {
                    let ratio = on_one(peer).and_then(|peer| Some((peer, self.times(peer, one, program, name)?)));
                    if let Some((peer, ratio)) = ratio {
                        let goal = format!("{} of {peer}", short(most));
                        say(format!("{one}: {what} | {goal} | {ratio}"), ratio.mean <= most);
                    }
                }
            }
        }
        let Some(ours) = on_one(System::Safe) else { return text };
        for (name, at_least) in [("warm", 500.0), ("cold", 150.0)] {
            let pthreads = self.pthreads(contenders, name);
            if let Some(ratio) = pthreads.and_then(|other| self.times(ours, other, "study 2000", name)) {
                let what =
                    format!("safe: times as fast as pthreads with 2000, {name} | {at_least} | {:.0}", ratio.mean);
                say(what, ratio.mean >= at_least);
            }
        }
        // At least the throughput of Go, and at most its memory.
        for (name, is_met) in [("rate", (|ratio| ratio >= 1.0) as fn(f64) -> bool), ("resident", |ratio| ratio <= 1.0)]
        {
            let ratio = on_one(System::Go)
                .and_then(|go| Ratio::of(self.rounds(ours, "echo", name)?, self.rounds(go, "echo", name)?));
            if let Some(ratio) = ratio {
                say(format!("safe: {name} of the echo server, relative to Go | 1 | {ratio}"), is_met(ratio.mean));
            }
        }
        if text.is_empty() { text } else { format!("| what | goal | reached | |\n|---|---|---|---|\n{text}") }
    }
}

/// A goal for a figure.
#[derive(Clone, Copy)]
enum Goal {
    AtMost(f64),
    /// At most this many times that of a peer in the same round.
    Times(f64, System),
}

/// The goals for figures of systems. Those for operations were set beside peers on one machine, so
/// they are relative to these peers.
const GOALS: [(System, &str, &str, Goal, &str); 15] = [
    (System::Safe, "operations", "create-join", Goal::Times(60.0 / 59.0, System::Argobots), "create and join"),
    (System::Safe, "operations", "yield", Goal::Times(20.0 / 22.0, System::Argobots), "yield"),
    (System::Safe, "operations", "lock-unlock", Goal::Times(4.0 / 5.3, System::Argobots), "lock and unlock"),
    (System::Safe, "operations", "lock-shared", Goal::Times(12.0 / 5.3, System::Argobots), "lock shared with threads"),
    (System::Safe, "operations", "condvar", Goal::Times(35.0 / 41.0, System::Argobots), "hand-off"),
    (System::Safe, "operations", "channel", Goal::Times(40.0 / 81.0, System::Tokio), "by a channel"),
    (System::Unsafe, "operations", "create-join", Goal::Times(1.0, System::Safe), "create and join"),
    (System::Unsafe, "operations", "yield", Goal::Times(1.0, System::Safe), "yield"),
    (System::Unsafe, "operations", "lock-unlock", Goal::Times(1.0, System::Safe), "lock and unlock"),
    (System::Unsafe, "operations", "condvar", Goal::Times(1.0, System::Safe), "hand-off"),
    (System::Unsafe, "operations", "channel", Goal::Times(1.0, System::Safe), "by a channel"),
    (System::Safe, "sieve", "found", Goal::AtMost(15.0), "sieve, ms"),
    (System::Safe, "echo", "accepted", Goal::AtMost(1_000.0), "all connections accepted, ms"),
    (System::Safe, "blocked", "started", Goal::AtMost(1_000.0), "100,000 fibers started, ms"),
    (System::Safe, "unstarted", "resident", Goal::AtMost(200.0), "not started, bytes resident"),
];
