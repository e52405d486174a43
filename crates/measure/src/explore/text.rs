//! The results of an exploration as text.

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
    let mut text = described(profile) + &sentences(heats(found));
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
        text += &table.render(WIDTH);
        let more = ran.len().saturating_sub(SHOWN);
        let more = (more > 0).then(|| format!("and {more} more, which were dropped earlier or were slower."));
        text += &sentences(more);
        text.push('\n');
    }
    text + &sentences(excluded(found)) + &sentences(end(&found.end)) + &sentences(verdict(base, found))
}

/// The results of doubling.
pub fn doubling(profile: &Profile, found: &Doubling) -> String {
    let mut text = described(profile);
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
        text += &table.render(WIDTH);
        text.push('\n');
    }
    text + &sentences(found.kinds.iter().map(bound)) + &sentences(end(&found.end))
}

/// Sentences, each on its own lines.
fn sentences(sentences: impl IntoIterator<Item = String>) -> String {
    sentences.into_iter().map(|sentence| words::wrap(&sentence, WIDTH) + "\n").collect()
}

fn excluded(found: &Exploration) -> Vec<String> {
    let excluded = found.tried.iter().filter_map(|tried| {
        let why = match &tried.fate {
            VariantFate::Failed(why) => format!("the program failed: {why}"),
            VariantFate::OtherOutput => "the program printed something other than in its own structure.".to_owned(),
            VariantFate::Entered | VariantFate::OutIn(_) | VariantFate::Best => return None,
        };
        Some(format!("Excluded: `{}`, because {why}", tried.structure))
    });
    let is_left = |tried: &&TriedVariant| tried.fate == VariantFate::Entered && tried.ratio().is_none();
    let not_run = found.tried.iter().filter(is_left).count() as u64;
    let were = if not_run == 1 { "was" } else { "were" };
    let not_run =
        (not_run > 0 && !found.heats.is_empty()).then(|| format!("{} {were} never run.", counted(not_run, "variant")));
    excluded.chain(not_run).collect()
}

fn verdict(base: &Structure, found: &Exploration) -> Vec<String> {
    let Some((best, last)) = found.best() else {
        let nothing = match found.end {
            _ if found.tried.is_empty() => "There is nothing to try.",
            ExplorationEnd::Complete => "No variant that can be run was faster than the program's own structure.",
            _ => "The runs are too few to name the best variant.",
        };
        return vec![nothing.to_owned()];
    };
    let best = &best.structure;
    let Some(speedup) = last.speedup() else {
        return vec![format!("The best variant so far is `{best}`, but it was not tested in a final.")];
    };
    let Speedup { ratio, first_median, second_median, .. } = &speedup;
    let pairs = format!("{} of runs", counted(ratio.samples as u64, "pair"));
    let (lead, pairs) = match found.heats.is_empty() {
        true => (format!("`{best}`: "), pairs),
        false => {
            let lead = format!("Best in the heats: `{best}`. In the final ");
            (lead, format!("{pairs} that were not used to choose it"))
        }
    };
    let p = match speedup.p.map(words::p_value) {
        None => String::new(),
        Some(p) if p.starts_with('<') => format!(", p {p}"),
        Some(p) => format!(", p = {p}"),
    };
    let [second, first] = [second_median, first_median].map(|seconds| words::time(seconds * 1e9));
    let rest = format!(
        "{} times as fast as the program's own structure{p}; medians {second} rather than {first}, {pairs}.",
        words::ratio(ratio)
    );
    match speedup.p {
        None => vec![format!("{lead}one pair is not enough: {rest}")],
        Some(_) if !speedup.is_significant() => vec![format!("{lead}no significant difference: {rest}")],
        Some(_) if ratio.mean > 1.0 => {
            vec![format!("Best: ROWLOCK_PIPELINE=\"{}\"", best.laid_over(base)), format!("It is {rest}")]
        }
        Some(_) => vec![format!("{lead}it is slower: {rest}")],
    }
}

fn end(end: &ExplorationEnd) -> Option<String> {
    match end {
        ExplorationEnd::Complete => None,
        ExplorationEnd::TimeIsUp => Some("The time limit ended it early.".to_owned()),
        ExplorationEnd::Stopped => Some("It was interrupted.".to_owned()),
        ExplorationEnd::OwnFailed(why) => Some(format!("The program failed in its own structure: {why}")),
    }
}

/// The program's own pipelines.
fn described(profile: &Profile) -> String {
    let pipeline = |PipelineProfile { name, buffers, block, stages }: &PipelineProfile| {
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
        format!("Pipeline `{name}`, {}{of}: {}.", counted(*buffers as u64, "buffer"), stages.join(", "))
    };
    sentences(profile.pipelines.iter().map(pipeline)) + "\n"
}

fn heats(found: &Exploration) -> Option<String> {
    let heat = |heat: &Heat| {
        let blocks = counted(heat.blocks.into(), "block");
        format!("{} in {blocks}", counted(heat.variants as u64, "variant"))
    };
    (!found.heats.is_empty()).then(|| {
        format!(
            "{}: {}. A block runs each of them and the program's own structure once, in random order.",
            counted(found.heats.len() as u64, "heat"),
            found.heats.iter().map(heat).collect::<Vec<_>>().join(", ")
        )
    })
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
