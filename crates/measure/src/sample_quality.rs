//! Checks of the samples behind the means: outliers, drift, several modes, and wide intervals.
//!
//! Each check produces at most one note, regardless of the number of arms.

use scenario::result::World;

use crate::precision::AT_MOST;
use crate::sample::JobQuantity;
use crate::series::{AllSeries, Series};
use report::words;
use stats::SIGNIFICANCE_LEVEL;
use stats::stages::forecast;
use stats::trend::trend;
use stats::{self, many, modes, outlier};

/// The completion times of one job in one arm and world.
struct CompletionTimes {
    /// The job, arm and world in words.
    of: String,
    world: World,
    /// In the order of measurement.
    times: Vec<f64>,
}

/// The notes on outliers, drift and several modes.
pub fn notes(all: &AllSeries<'_>) -> Vec<String> {
    let all = times(all);
    [outliers(&all), drift(&all), several_modes(&all)].into_iter().flatten().collect()
}

/// How many repetitions would make wide intervals narrow. `None` if no interval is wide.
pub fn width(all: &AllSeries<'_>) -> Option<String> {
    const WIDE: f64 = 0.1;
    let all = times(all);
    let share = |of: &CompletionTimes| stats::mean(&of.times)?.relative_half_width();
    let shares = all.iter().filter_map(|of| Some((of, share(of)?))).filter(|&(_, share)| share > WIDE);
    let (widest, share) = shares.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let needed = all.iter().filter_map(|of| forecast(WIDE, &of.times)).max()?;
    let remedy = match needed > u64::from(AT_MOST) {
        true => format!("--until \"10 %\" --at-most {needed} runs as many as needed"),
        false => "--until \"10 %\" runs as many as needed".to_owned(),
    };
    Some(format!(
        "Wide intervals: ±{} % for {}. About {needed} repetitions would bring all completion times to ±10 %; \
         {remedy}.",
        words::significant(share * 100.0, 2),
        widest.of
    ))
}

fn times(all: &AllSeries<'_>) -> Vec<CompletionTimes> {
    let of = |(arm, job, world, series): (usize, usize, World, &Series)| {
        let arm = &all.scenario.arms[arm];
        let factors = words::factors(arm.factors.iter().map(|(path, value)| (path, value)));
        let comma = if factors.is_empty() { "" } else { ", " };
        let of = format!("{}{comma}{factors} ({})", arm.setting.jobs[job].name, world.name());
        CompletionTimes { of, world, times: series.values(JobQuantity::Completion) }
    };
    all.iter().map(of).filter(|of| !of.times.is_empty()).collect()
}

fn outliers(all: &[CompletionTimes]) -> Option<String> {
    // If many values are far from the others, or there are several modes, the centre is unknown.
    let few = |of: &CompletionTimes, count: usize| (1..=of.times.len() / 10).contains(&count);
    let found: Vec<(&CompletionTimes, usize)> = all
        .iter()
        .filter(|of| !modes::has_several_modes(&of.times))
        .map(|of| (of, outlier::outliers(&of.times).len()))
        .filter(|&(of, count)| few(of, count))
        .collect();
    let (count, samples): (usize, usize) =
        (found.iter().map(|(_, count)| count).sum(), found.iter().map(|(of, _)| of.times.len()).sum());
    (count > 0).then(|| {
        let (are, affect) = if count == 1 { ("is", "affects") } else { ("are", "affect") };
        format!(
            "Outliers: {count} of {samples} completion times {are} far from the others and {affect} the means (modified \
             z-score above 3.5): {}.",
            some(found.iter().map(|(of, _)| of.of.as_str()))
        )
    })
}

/// Only times on a real machine can drift.
fn drift(all: &[CompletionTimes]) -> Option<String> {
    let on_host = || all.iter().filter(|of| of.world == World::Host);
    let trends: Vec<_> = on_host().filter_map(|of| Some((of, trend(&of.times)?))).collect();
    let corrected = many::holm(&trends.iter().map(|(_, trend)| trend.p).collect::<Vec<_>>());
    let found = trends.iter().zip(corrected).filter(|&(_, p)| p < SIGNIFICANCE_LEVEL).map(|(found, _)| found);
    let named: Vec<String> =
        found.map(|(of, trend)| format!("{} {}", of.of, if trend.tau > 0.0 { "rises" } else { "falls" })).collect();
    (!named.is_empty()).then(|| {
        format!(
            "Drift: completion times changed during the measurement (rank test at 5 % over {} series): {}. \
             Comparisons within a repetition remain valid.",
            trends.len(),
            some(named.iter().map(String::as_str))
        )
    })
}

fn several_modes(all: &[CompletionTimes]) -> Option<String> {
    let large: Vec<&CompletionTimes> = all.iter().filter(|of| of.times.len() >= modes::FEWEST).collect();
    let found: Vec<&str> =
        large.iter().filter(|of| modes::has_several_modes(&of.times)).map(|of| of.of.as_str()).collect();
    (!found.is_empty()).then(|| {
        format!(
            "Several modes: completion times of {} of {} series fall into two or more groups, and their mean may lie where \
             none of them is (dip test at 1 %): {}.",
            found.len(),
            large.len(),
            some(found.into_iter())
        )
    })
}

/// The first few names, and how many more there are.
fn some<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 3;
    let more = names.len().saturating_sub(SHOWN);
    let shown = names.take(SHOWN).collect::<Vec<_>>().join("; ");
    if more == 0 { shown } else { format!("{shown}; and {more} more") }
}
