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
    pub(crate) fn goals(&self, contenders: &[Contender], threads: &[usize]) -> String {
        let mut text = String::new();
        let mut say = |what: String, met: bool| {
            let _ = writeln!(text, "| {what} | {} |", if met { "met" } else { "**missed**" });
        };
        let Some(&ours) = contenders.iter().find(|one| one.system == System::Rowlock && !one.on_all) else {
            return text;
        };
        for (program, name, at_most, unit) in [
            ("study 2000", "warm", 150.0, "us: 2000 threads of the study, warm"),
            ("study 2000", "cold", 1_000.0, "us: the same, cold"),
            ("operations", "create-join", 45.0, "ns: create and join"),
            ("operations", "yield", 10.0, "ns: yield"),
            ("operations", "lock-unlock", 2.0, "ns: lock and unlock"),
            ("operations", "condvar", 20.0, "ns: hand-off by a condition variable"),
            ("blocked", "resident", 4_300.0, "bytes resident: a blocked fiber"),
            ("unstarted", "resident", 200.0, "bytes resident: one that has not started"),
        ] {
            if let Some(value) = self.middle(ours, program, name) {
                say(format!("{at_most:.0} {unit} | {}", short(value)), value <= at_most);
            }
        }
        for (name, at_least) in [("warm", 500.0), ("cold", 200.0)] {
            let pthreads = self.pthreads(contenders, name);
            if let Some(ratio) = pthreads.and_then(|other| self.times(ours, other, "study 2000", name)) {
                let what = format!("{at_least} times as fast as POSIX threads with 2000, {name} | {:.0}", ratio.mean);
                say(what, ratio.mean >= at_least);
            }
        }
        // The smallest lead over all peers and numbers of threads.
        for name in ["cold", "warm"] {
            let peers = contenders.iter().filter(|one| !matches!(one.system, System::Rowlock | System::Pthreads));
            let leads =
                peers.flat_map(|&peer| threads.iter().map(move |count| (peer, count))).filter_map(|(peer, count)| {
                    Some((peer, count, self.times(ours, peer, &format!("study {count}"), name)?))
                });
            if let Some((peer, count, lead)) = leads.min_by(|one, other| one.2.mean.total_cmp(&other.2.mean)) {
                let what = format!(
                    "ahead of all peers with any number of threads, {name} | {lead} times as fast as {peer} with {count}"
                );
                say(what, lead.mean > 1.0);
            }
        }
        if text.is_empty() { text } else { format!("| goal | reached | |\n|---|---|---|\n{text}") }
    }
}
