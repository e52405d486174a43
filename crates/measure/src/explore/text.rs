//! The results of an exploration as text.

use std::fmt::Write;

use pipeline::structure::{Structure, format_size};

use super::double::{Bound, DoubledKind, Doubling};
use super::profile::{PipelineProfile, Profile, StageProfile};
use super::{Exploration, ExplorationEnd, Heat, TriedVariant, VariantFate};
use report::WIDTH;
use report::table::Table;
use report::words::{self, counted};
use stats::Estimate;
use stats::paired::Speedup;

/// The most variants that are shown. The JSON has all of them.
const SHOWN: usize = 12;

/// The smallest slowdown that matters in practice.
const NOTICEABLE: f64 = 1.1;

/// The results of an exploration. `base` is the structure in the environment.
pub fn exploration(profile: &Profile, base: &Structure, found: &Exploration) -> String {
    let mut text = Text(described(profile));
    text.say(&heats(found));
    let mut ran: Vec<(&TriedVariant, f64)> =
        found.tried.iter().filter_map(|tried| Some((tried, tried.ratio()?))).collect();
    ran.sort_by(|(one, ratio), (other, other_ratio)| {
        reached(other).0.cmp(&reached(one).0).then(other_ratio.total_cmp(ratio))
    });
    let mut table = Table::new(["variant", "reached", "runs", "times as fast in the heats"], 2);
    for &(tried, mean) in ran.iter().take(SHOWN) {
        let runs = tried.logarithms.len();
        // An interval would be misleading, because the variant was chosen for its mean.
        let ratio = words::ratio(&Estimate { mean, interval: None, samples: runs });
        table.row([tried.structure.to_string(), reached(tried).1, runs.to_string(), ratio].map(Some));
    }
    if !ran.is_empty() {
        text.0.push_str(&table.render(WIDTH));
        let more = ran.len().saturating_sub(SHOWN);
        if more > 0 {
            text.say(&format!("and {more} more, which were dropped earlier or were slower."));
        }
        text.0.push('\n');
    }
    text.left_out(found);
    text.verdict(base, found);
    text.0
}

/// The results of doubling.
pub fn doubling(profile: &Profile, found: &Doubling) -> String {
    let mut text = Text(described(profile));
    let mut table =
        Table::new(["doubled", "pairs", "median", "median doubled", "times as long, 95 % interval", "p"], 1);
    for (doubled, slowdown) in found.kinds.iter().filter_map(|doubled| Some((doubled, doubled.slowdown()?))) {
        let time = |seconds: f64| Some(words::time(seconds * 1e9));
        table.row([
            Some(doubled.kind.to_string()),
            Some(doubled.pairs.len().to_string()),
            time(slowdown.second_median),
            time(slowdown.first_median),
            Some(words::ratio(&slowdown.ratio)),
            slowdown.p.map(words::p_value),
        ]);
    }
    if found.kinds.iter().any(|doubled| !doubled.pairs.is_empty()) {
        text.0.push_str(&table.render(WIDTH));
        text.0.push('\n');
    }
    for doubled in &found.kinds {
        text.say(&bound(doubled));
    }
    text.end(&found.end);
    text.0
}

/// A text under construction.
struct Text(String);

impl Text {
    fn say(&mut self, sentence: &str) {
        if !sentence.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(self.0, "{}", words::wrap(sentence, WIDTH));
        }
    }

    fn left_out(&mut self, found: &Exploration) {
        for tried in &found.tried {
            match &tried.fate {
                VariantFate::Failed(why) => {
                    self.say(&format!("Excluded: `{}`, because the program failed: {why}", tried.structure));
                }
                VariantFate::OtherOutput => {
                    let why = "because the program printed something else than in its own structure";
                    self.say(&format!("Excluded: `{}`, {why}.", tried.structure));
                }
                VariantFate::Entered | VariantFate::OutIn(_) | VariantFate::Best => {}
            }
        }
        let not_run =
            found.tried.iter().filter(|tried| tried.fate == VariantFate::Entered && tried.ratio().is_none()).count();
        if not_run > 0 && !found.heats.is_empty() {
            let were = if not_run == 1 { "was" } else { "were" };
            self.say(&format!("{} {were} never run.", counted(not_run as u64, "variant")));
        }
    }

    fn verdict(&mut self, base: &Structure, found: &Exploration) {
        self.end(&found.end);
        let Some((best, last)) = found.best() else {
            let nothing = match found.end {
                _ if found.tried.is_empty() => "There is nothing to try.",
                ExplorationEnd::Complete => "No variant that can be run was faster than the program's own structure.",
                _ => "The runs are too few to name the best variant.",
            };
            return self.say(nothing);
        };
        let Some(speedup) = last.speedup() else {
            return self
                .say(&format!("The best variant so far is `{}`, but it was not tested in a final.", best.structure));
        };
        let Speedup { ratio, first_median, second_median, .. } = &speedup;
        let time = |seconds: &f64| words::time(seconds * 1e9);
        let medians = format!("{} rather than {}", time(second_median), time(first_median));
        let pairs = format!("{} of runs", counted(ratio.samples as u64, "pair"));
        let (lead, pairs) = match found.heats.is_empty() {
            true => (format!("`{}`: ", best.structure), pairs),
            false => {
                let lead = format!("Best in the heats: `{}`. In the final ", best.structure);
                (lead, format!("{pairs} that were not used to choose it"))
            }
        };
        let p = speedup.p.map(words::p_value);
        let p = p.map_or(String::new(), |p| if p.starts_with('<') { format!(", p {p}") } else { format!(", p = {p}") });
        let ratio_in_words = format!("{} times as fast as the program's own structure", words::ratio(ratio));
        if !speedup.is_significant() {
            let only = if speedup.p.is_none() { "one pair is not enough" } else { "no significant difference" };
            self.say(&format!("{lead}{only}: {ratio_in_words}{p}; medians {medians}, {pairs}."));
        } else if ratio.mean > 1.0 {
            self.say(&format!("Best: ROWLOCK_PIPELINE=\"{}\"", best.structure.laid_over(base)));
            self.say(&format!("It is {ratio_in_words}{p}; medians {medians}, {pairs}."));
        } else {
            self.say(&format!("{lead}it is slower: {ratio_in_words}{p}; medians {medians}, {pairs}."));
        }
    }

    fn end(&mut self, end: &ExplorationEnd) {
        match end {
            ExplorationEnd::Complete => {}
            ExplorationEnd::TimeIsUp => self.say("The time limit ended it early."),
            ExplorationEnd::Stopped => self.say("It was interrupted."),
            ExplorationEnd::OwnFailed(why) => self.say(&format!("The program failed in its own structure: {why}")),
        }
    }
}

/// The program's own pipelines.
fn described(profile: &Profile) -> String {
    let mut text = Text(String::new());
    for PipelineProfile { name, buffers, block, stages } in &profile.pipelines {
        let stage = |stage: &StageProfile| {
            let mut about = vec![stage.kind.to_string()];
            about.extend((stage.copies > 1).then(|| format!("{} copies", stage.copies)));
            about.extend(stage.is_fused.then(|| "fused".to_owned()));
            about.extend(stage.can_fork.then(|| "can be forked".to_owned()));
            about.extend(stage.is_junction.then(|| "pipelines meet".to_owned()));
            format!("{} ({})", stage.name, about.join(", "))
        };
        let stages: Vec<String> = stages.iter().map(stage).collect();
        let of = if *block == 0 { String::new() } else { format!(" of {}", format_size(*block)) };
        let buffers = counted(*buffers as u64, "buffer");
        text.say(&format!("Pipeline `{name}`, {buffers}{of}: {}.", stages.join(", ")));
    }
    text.0.push('\n');
    text.0
}

fn heats(found: &Exploration) -> String {
    if found.heats.is_empty() {
        return String::new();
    }
    let heat = |heat: &Heat| {
        let blocks = counted(heat.blocks.into(), "block");
        format!("{} in {blocks}", counted(heat.variants as u64, "variant"))
    };
    format!(
        "{}: {}. A block runs each of them and the program's own structure once, in random order.",
        counted(found.heats.len() as u64, "heat"),
        found.heats.iter().map(heat).collect::<Vec<_>>().join(", ")
    )
}

/// How far a variant came: for comparisons, and in words.
fn reached(tried: &TriedVariant) -> (usize, String) {
    match tried.fate {
        VariantFate::Best => (usize::MAX, "final".to_owned()),
        VariantFate::Entered => (usize::MAX - 1, "last heat".to_owned()),
        VariantFate::OutIn(heat) => (heat, format!("heat {heat}")),
        VariantFate::Failed(_) | VariantFate::OtherOutput => (0, "excluded".to_owned()),
    }
}

fn bound(doubled: &DoubledKind) -> String {
    let DoubledKind { kind, why_not, .. } = doubled;
    if let Some(why) = why_not {
        return format!("No result for {kind}: {why}");
    }
    let high = doubled.slowdown().and_then(|slowdown| slowdown.ratio.interval).map_or(1.0, |(_, high)| high);
    match doubled.bound() {
        Some(Bound::Wholly) => format!("Bound by {kind}: doubling it takes nearly twice as long."),
        Some(Bound::Partly) => {
            format!("Bound by {kind} in part: doubling it takes longer, but not nearly twice as long.")
        }
        Some(Bound::No) if high < NOTICEABLE => {
            format!("Not bound by {kind}: the other stages hide it even if it is doubled.")
        }
        Some(Bound::No) => format!(
            "Not significantly bound by {kind}, but more runs may show that doubling it takes up to {} times as long.",
            words::significant(high, 3)
        ),
        None => format!("No result for {kind}: there are too few runs."),
    }
}

#[cfg(test)]
mod tests;
