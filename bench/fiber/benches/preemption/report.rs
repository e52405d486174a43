//! Tables of results, and whether the goals are met.

use std::collections::BTreeMap;
use std::fmt;

use crate::computation::QUANTA;
use crate::contenders::{ALL, Contender, System};
use crate::figures::{Figures, short};
use crate::process::Measured;
use crate::ratio::Ratio;
use crate::sharing::{FIBERS, SPREAD};

/// The numbers of loops beside the sleeping thread.
pub(crate) const LOOPS: [usize; 4] = [1, 2, 4, 8];
/// The numbers of loops that wait for their first turn.
pub(crate) const TURNS: [usize; 4] = [2, 4, 8, 16];
/// The contender that computes, with all running times.
pub(crate) const USUAL: &str = "preemptible-1ms";

pub(crate) fn late(loops: usize) -> String {
    format!("late, {loops}")
}

pub(crate) fn turns(loops: usize) -> String {
    format!("turns, {loops}")
}

/// All results.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) figures: Figures,
    /// Each wakeup of all rounds, by contender, program and figure.
    wakes: BTreeMap<(String, String, String), Vec<f64>>,
}

impl Report {
    /// Adds the results of a round.
    pub(crate) fn add(&mut self, contender: &str, program: &str, results: &Measured) {
        self.figures.add(contender, program, results);
        if program.starts_with("late") {
            for (name, value) in results {
                let key = (contender.to_owned(), program.to_owned(), name.clone());
                self.wakes.entry(key).or_default().push(*value);
            }
        }
    }

    /// The delays of wakeups, in ascending order.
    fn wakes(&self, contender: Contender, program: &str, name: &str) -> Vec<f64> {
        let key = (contender.to_string(), program.to_owned(), name.to_owned());
        let mut all = self.wakes.get(&key).cloned().unwrap_or_default();
        all.sort_unstable_by(f64::total_cmp);
        all
    }

    fn late(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for loops in LOOPS {
            for contender in ALL {
                let program = late(loops);
                let (late, apart) = (self.wakes(contender, &program, "late"), self.wakes(contender, &program, "apart"));
                if late.is_empty() && apart.is_empty() {
                    continue;
                }
                let stalls = self.figures.middle(&contender.to_string(), &program, "stalls").unwrap_or(f64::NAN);
                let at = |share: f64| percentile(&late, share).map_or("-".to_owned(), short);
                text += &format!(
                    "| {contender} | {loops} | {} | {} | {} | {} | {} | {} | {stalls:.1} |\n",
                    late.len(),
                    at(0.5),
                    at(0.99),
                    at(1.0),
                    apart.len(),
                    apart.last().map_or("-".to_owned(), |worst| short(*worst)),
                );
            }
        }
        if text.is_empty() {
            return Ok(());
        }
        writeln!(f, "### Delay of a wakeup after a sleep of a millisecond beside endless loops, us\n")?;
        writeln!(f, "| | loops | wake-ups | median | p99 | worst | beside stalls | their worst | stalls a second |")?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|\n{text}")?;
        if let Some(stalls) = self.figures.middle("loop-alone", "alone", "stalls") {
            writeln!(f, "A loop alone sees {stalls:.1} stalls a second.")?;
        }
        writeln!(f, "Fibers that are not preemptible never wake there, nor do those of Boost.Fiber and `may`.\n")
    }

    fn turns(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for contender in ALL {
            let of = |loops| {
                let middle = |name| self.figures.middle(&contender.to_string(), &turns(loops), name);
                middle("last").map(short).or(middle("apart").map(|value| format!("({})", short(value))))
            };
            if TURNS.iter().any(|loops| of(*loops).is_some()) {
                let cells = TURNS.map(|loops| of(loops).unwrap_or("-".to_owned()));
                text += &format!("| {contender} | {} |\n", cells.join(" | "));
            }
        }
        if text.is_empty() {
            return Ok(());
        }
        writeln!(f, "### From the first loop's first turn to the last one's, us\n")?;
        let heads = TURNS.map(|loops| format!("{loops} loops"));
        writeln!(f, "| | {} |\n|---|{}\n{text}", heads.join(" | "), "---|".repeat(TURNS.len()))?;
        writeln!(f, "In brackets: the CPU stalled in all rounds.\n")
    }

    /// Computations that share a mutex, and computations on all CPUs.
    fn sharing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |contender: Contender, program| self.figures.middle(&contender.to_string(), program, "took");
        let measured = |contender: &Contender| of(*contender, "convoy").or(of(*contender, "spread")).is_some();
        let mut contenders = ALL.into_iter().filter(measured).peekable();
        if contenders.peek().is_none() {
            return Ok(());
        }
        writeln!(f, "### {FIBERS} threads with a mutex of std, {SPREAD} that wait once and compute, ms\n")?;
        writeln!(f, "| | a mutex | wait and compute |\n|---|---|---|")?;
        for contender in contenders {
            let [convoy, spread] =
                ["convoy", "spread"].map(|program| of(contender, program).map_or("-".to_owned(), short));
            writeln!(f, "| {contender} | {convoy} | {spread} |")?;
        }
        writeln!(f)
    }

    /// How much longer one computation takes than another, from the ratios of all rounds.
    fn longer(&self, one: &str, other: &str) -> Option<Ratio> {
        let rounds = |name| self.figures.rounds(USUAL, "computation", name);
        Ratio::of(rounds(one)?, rounds(other)?)
    }

    fn computation(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let middle = |name: &str| self.figures.middle(USUAL, "computation", name);
        let (Some(one), Some(two)) = (middle("one"), middle("two")) else { return Ok(()) };
        writeln!(f, "### Cost of preemption\n")?;
        writeln!(
            f,
            "| | ms | increase over not preemptible | preemptions | us each time | with an idle timer instead |\n|---|---|---|---|---|---|"
        )?;
        writeln!(f, "| one, not preemptible | {} | | | | |", short(one))?;
        if let (Some(ms), Some(ratio)) = (middle("one preemptible"), self.longer("one preemptible", "one")) {
            writeln!(f, "| one, preemptible | {} | {} | | | |", short(ms), percent(ratio))?;
        }
        writeln!(f, "| two, not preemptible | {} | | | | |", short(two))?;
        for (quantum, _) in QUANTA {
            let name = format!("two preemptible, {quantum}");
            let (Some(ms), Some(ratio)) = (middle(&name), self.longer(&name, "two")) else { continue };
            let taken = middle(&format!("{name}: taken")).unwrap_or(f64::NAN);
            let each = if taken > 0.0 { short((ms - two) * 1e3 / taken) } else { "-".to_owned() };
            let idle = self.longer(&format!("two, idle timer of {quantum}"), "two").map_or("-".to_owned(), percent);
            let (ms, ratio, taken) = (short(ms), percent(ratio), short(taken));
            writeln!(f, "| two, preemptible, {quantum} | {ms} | {ratio} | {taken} | {each} | {idle} |")?;
        }
        writeln!(f)
    }

    /// The goals, and whether they are met.
    fn goals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut say = |what: String, reached: String, met: bool| {
            text += &format!("| {what} | {reached} | {} |\n", if met { "met" } else { "**missed**" });
        };
        for contender in ALL {
            let System::Preemptible(_) = contender.system else { continue };
            for loops in LOOPS {
                if let Some(p99) = percentile(&self.wakes(contender, &late(loops), "late"), 0.99) {
                    say(format!("p99 120 us: {contender} beside {loops}"), short(p99), p99 <= 120.0);
                }
            }
        }
        if let Some(ratio) = self.longer("two preemptible, 1 ms", "two") {
            say("1 %: cost of ticks of 1 ms".to_owned(), percent(ratio), ratio.mean <= 1.01);
        }
        if let Some(ratio) = self.longer("one preemptible", "one") {
            let is_none = ratio.interval.is_none_or(|(low, _)| low <= 1.0) || ratio.mean <= 1.002;
            say("none: cost without a waiting fiber".to_owned(), percent(ratio), is_none);
        }
        let took = |name: &str, program| self.figures.rounds(name, program, "took");
        for cpus in ["", "-all"] {
            for (program, what) in [("convoy", "a mutex of std"), ("spread", "wait and compute")] {
                let [fibers, threads] =
                    ["preemptible-10ms", "pthreads"].map(|name| took(&format!("{name}{cpus}"), program));
                if let Some(ratio) = fibers.zip(threads).and_then(|(fibers, threads)| Ratio::of(fibers, threads)) {
                    let what = format!("1.05 of pthreads: {what}, preemptible-10ms{cpus}");
                    say(what, ratio.to_string(), ratio.mean <= 1.05);
                }
            }
        }
        if text.is_empty() {
            return Ok(());
        }
        writeln!(f, "### Goals\n\n| goal | reached | |\n|---|---|---|\n{text}")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.late(f)?;
        self.turns(f)?;
        self.computation(f)?;
        self.sharing(f)?;
        self.goals(f)?;
        self.figures.failures().try_for_each(|failure| writeln!(f, "* left out: {failure}"))
    }
}

/// The percentile of sorted values.
fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}

/// The increase in percent, with its interval.
fn percent(ratio: Ratio) -> String {
    let more = |times: f64| 100.0 * (times - 1.0);
    let interval =
        ratio.interval.map_or(String::new(), |(low, high)| format!(" [{:+.2}, {:+.2}]", more(low), more(high)));
    format!("{:+.2} %{interval}", more(ratio.mean))
}
