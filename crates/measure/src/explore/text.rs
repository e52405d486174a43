//! What was found, for people.

use std::fmt::Write;

use pipeline::structure::{Structure, format_size};

use super::double::{Bound, Doubled, Doubling};
use super::profile::{Line, Profile, Stage};
use super::{End, Exploration, Fate, Tried};
use report::WIDTH;
use report::table::Table;
use report::words;
use stats::paired::Speedup;

/// So many variants are shown; the others are slower, and programs read of them in the JSON.
const SHOWN: usize = 12;

/// A ratio from here on would be a difference to somebody.
const NOTICEABLE: f64 = 1.1;

/// What an exploration found; `base` is what the environment said for all runs.
pub fn exploration(profile: &Profile, base: &Structure, found: &Exploration) -> String {
    let mut text = Text(described(profile));
    text.say(&heats(found));
    let mut ran: Vec<&Tried> = found.tried.iter().filter(|tried| tried.ratio().is_some()).collect();
    ran.sort_by(|one, other| {
        let key = |tried: &Tried| (came(tried), tried.ratio().unwrap_or(0.0));
        let ((came, ratio), (other_came, other_ratio)) = (key(one), key(other));
        other_came.cmp(&came).then(other_ratio.total_cmp(&ratio))
    });
    let mut table = Table::new(["variant", "came to", "runs", "times as fast in the heats"], 2);
    for tried in ran.iter().take(SHOWN) {
        let ratio = stats::mean(&tried.logarithms).map(|mean| mean.map(f64::exp));
        // The interval of what was chosen for its mean would be a lie.
        let ratio = ratio.map(|ratio| words::ratio(&stats::Estimate { interval: None, ..ratio }));
        table.row([
            Some(tried.structure.to_string()),
            Some(came_to(tried)),
            Some(tried.logarithms.len().to_string()),
            ratio,
        ]);
    }
    if !ran.is_empty() {
        text.0.push_str(&table.render(WIDTH));
        let more = ran.len().saturating_sub(SHOWN);
        if more > 0 {
            text.say(&format!("and {more} more, which left earlier or were slower."));
        }
        text.0.push('\n');
    }
    text.left_out(found);
    text.verdict(base, found);
    text.0
}

/// What doubling found.
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

/// A text that grows by sentences.
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
                Fate::Failed(why) => {
                    self.say(&format!("Left out: `{}`, since the program failed: {why}", tried.structure));
                }
                Fate::OtherOutput => {
                    let why = "since the program printed something else than it does in its own structure";
                    self.say(&format!("Left out: `{}`, {why}.", tried.structure));
                }
                Fate::Entered | Fate::OutIn(_) | Fate::Best => {}
            }
        }
        let not_run = found.tried.iter().filter(|tried| tried.fate == Fate::Entered && tried.ratio().is_none()).count();
        if not_run > 0 && !found.heats.is_empty() {
            self.say(&format!("{} never run.", are(not_run, "variant was", "variants were")));
        }
    }

    fn verdict(&mut self, base: &Structure, found: &Exploration) {
        self.end(&found.end);
        let Some((best, last)) = found.best() else {
            let nothing = match found.end {
                _ if found.tried.is_empty() => "There is nothing to try.",
                End::Complete => "No variant that can be run was faster than the program's own structure.",
                _ => "Nothing can be said of the best.",
            };
            return self.say(nothing);
        };
        let Some(speedup) = last.speedup() else {
            return self.say(&format!("The best so far is `{}`, but it has had no final.", best.structure));
        };
        let Speedup { ratio, first_median, second_median, .. } = &speedup;
        let time = |seconds: &f64| words::time(seconds * 1e9);
        let medians = format!("{} rather than {}", time(second_median), time(first_median));
        let pairs = are(ratio.samples, "pair of runs", "pairs of runs");
        let (lead, pairs) = match found.heats.is_empty() {
            true => (format!("`{}`: ", best.structure), pairs),
            false => {
                let lead = format!("Best in the heats: `{}`. In the final ", best.structure);
                (lead, format!("{pairs} that had no part in choosing it"))
            }
        };
        let p = speedup.p.map(words::p_value);
        let p = p.map_or(String::new(), |p| if p.starts_with('<') { format!(", p {p}") } else { format!(", p = {p}") });
        let ratio_in_words = format!("{} times as fast as the program's own structure", words::ratio(ratio));
        if !speedup.is_significant() {
            let only = if speedup.p.is_none() { "one pair tells nothing" } else { "no difference can be told" };
            self.say(&format!("{lead}{only}: {ratio_in_words}{p}; medians {medians}, {pairs}."));
        } else if ratio.mean > 1.0 {
            self.say(&format!("Best: ROWLOCK_PIPELINE=\"{}\"", best.structure.laid_over(base)));
            self.say(&format!("It is {ratio_in_words}{p}; medians {medians}, {pairs}."));
        } else {
            self.say(&format!("{lead}it is slower: {ratio_in_words}{p}; medians {medians}, {pairs}."));
        }
    }

    fn end(&mut self, end: &End) {
        match end {
            End::Complete => {}
            End::TimeIsUp => self.say("There was no time for all of it."),
            End::Stopped => self.say("It was interrupted."),
            End::OwnFailed(why) => self.say(&format!("The program failed in its own structure: {why}")),
        }
    }
}

/// The program as it describes itself.
fn described(profile: &Profile) -> String {
    let mut text = Text(String::new());
    for Line { name, buffers, block, stages } in &profile.pipelines {
        let stage = |stage: &Stage| {
            let mut about = vec![stage.kind.to_string()];
            about.extend((stage.copies > 1).then(|| format!("{} copies", stage.copies)));
            about.extend(stage.is_fused.then(|| "fused".to_owned()));
            about.extend(stage.can_fork.then(|| "can be forked".to_owned()));
            about.extend(stage.is_junction.then(|| "pipelines meet".to_owned()));
            format!("{} ({})", stage.name, about.join(", "))
        };
        let stages: Vec<String> = stages.iter().map(stage).collect();
        let of = if *block == 0 { String::new() } else { format!(" of {}", format_size(*block)) };
        let buffers = are(*buffers, "buffer", "buffers");
        text.say(&format!("Pipeline `{name}`, {buffers}{of}: {}.", stages.join(", ")));
    }
    text.0.push('\n');
    text.0
}

fn heats(found: &Exploration) -> String {
    if found.heats.is_empty() {
        return String::new();
    }
    let heats: Vec<String> = found
        .heats
        .iter()
        .map(|heat| {
            format!("{} in {}", are(heat.variants, "variant", "variants"), are(heat.blocks as usize, "block", "blocks"))
        })
        .collect();
    format!(
        "{}: {}. A block runs each of them and the program's own structure once, in random order.",
        are(found.heats.len(), "heat", "heats"),
        heats.join(", ")
    )
}

fn are(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// How far a variant came, to be compared.
fn came(tried: &Tried) -> usize {
    match tried.fate {
        Fate::Best => usize::MAX,
        Fate::Entered => usize::MAX - 1,
        Fate::OutIn(heat) => heat,
        Fate::Failed(_) | Fate::OtherOutput => 0,
    }
}

fn came_to(tried: &Tried) -> String {
    match tried.fate {
        Fate::Best => "final".to_owned(),
        Fate::Entered => "last heat".to_owned(),
        Fate::OutIn(heat) => format!("heat {heat}"),
        Fate::Failed(_) | Fate::OtherOutput => "left out".to_owned(),
    }
}

fn bound(doubled: &Doubled) -> String {
    let Doubled { kind, why_not, .. } = doubled;
    if let Some(why) = why_not {
        return format!("Of {kind} nothing can be said: {why}");
    }
    let high = doubled.slowdown().and_then(|slowdown| slowdown.ratio.interval).map_or(1.0, |(_, high)| high);
    match doubled.bound() {
        Some(Bound::Wholly) => format!("Bound by {kind}: doubling it takes nearly twice as long."),
        Some(Bound::Partly) => {
            format!("Bound by {kind} in part: doubling it takes longer, but not nearly twice as long.")
        }
        Some(Bound::No) if high < NOTICEABLE => {
            format!("Not bound by {kind}: the other stages hide it, doubled as well.")
        }
        Some(Bound::No) => format!(
            "Not bound by {kind}, as far as can be told: with more runs it may turn out to take up to {} times as long.",
            words::significant(high, 3)
        ),
        None => format!("Of {kind} nothing can be said: there are too few runs."),
    }
}

#[cfg(test)]
mod tests;
