//! How often is often enough: an experiment goes on until its completion times are known well enough.
//!
//! The first stage is as many repetitions as were planned. Then whole blocks follow until the 95 % interval of every
//! completion time, in every arm and world, reaches no further than a share of its mean. The intervals are those of
//! [`stages`](stats::stages), which stay valid although they decide when to stop. All other
//! intervals of the report are computed the same way.

use scenario::result::World;
use serde::Serialize;

use crate::sample::Figure;
use crate::series::AllSeries;
use report::words;
use stats::six_digits;

/// The most repetitions where nobody says.
pub const AT_MOST: u32 = 100;

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoppingRule {
    /// Half the width of an interval over its mean, such as 0.02.
    pub share: f64,
    /// The most repetitions, however wide the intervals still are.
    pub at_most: u32,
}

/// The worlds of an experiment and how long it goes on in them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent<'a> {
    /// Where it is run.
    pub worlds: &'a [World],
    /// When it stops, if not after the repetitions that the scenario says.
    pub until: Option<StoppingRule>,
}

impl<'a> From<&'a [World]> for Extent<'a> {
    fn from(worlds: &'a [World]) -> Extent<'a> {
        Extent { worlds, until: None }
    }
}

/// What was asked for and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Precision {
    /// Half the width that was asked for, in percent of the mean.
    pub percent: f64,
    /// How many repetitions were planned before any was made.
    pub first_stage: u32,
    /// The most repetitions that were allowed.
    pub at_most: u32,
    /// Whether every completion time is known that well.
    pub reached: bool,
    /// The widest of the intervals, in percent of its mean.
    pub widest_percent: Option<f64>,
    /// How many repetitions it would take, as far as can be seen.
    pub needed: Option<u64>,
}

impl StoppingRule {
    /// How many repetitions are wanted in all, if more than were made.
    pub fn wanted(self, all: &AllSeries<'_>, made: u32) -> Option<u32> {
        let needed = needed(all, self.share)?.min(u64::from(self.at_most));
        u32::try_from(needed).ok().filter(|&wanted| wanted > made)
    }

    /// What came of it.
    pub fn judge(self, all: &AllSeries<'_>, first_stage: u32) -> Precision {
        let times = || all.iter().map(|(_, _, _, series)| series.stages(Figure::Completion));
        let shares = times().filter_map(|times| {
            let mean = times.mean().filter(|estimate| estimate.mean > 0.0)?;
            Some(mean.half_width()? / mean.mean)
        });
        let widest = shares.max_by(f64::total_cmp);
        Precision {
            percent: six_digits(self.share * 100.0),
            first_stage,
            at_most: self.at_most,
            reached: widest.is_some_and(|widest| widest <= self.share),
            widest_percent: widest.map(|widest| six_digits(widest * 100.0)),
            needed: needed(all, self.share),
        }
    }
}

/// The most that any completion time needs.
fn needed(all: &AllSeries<'_>, share: f64) -> Option<u64> {
    all.iter().filter_map(|(_, _, _, series)| series.stages(Figure::Completion).needed(share)).max()
}

impl Precision {
    /// Why it stopped after so many repetitions, in a sentence.
    pub fn note(&self, repetitions: u32, complete: bool) -> String {
        let Precision { first_stage, at_most, .. } = *self;
        let widest = self.widest_percent.map_or("unknown".to_owned(), |percent| words::significant(percent, 3));
        let asked = self.percent;
        if self.reached && complete {
            let rest = match repetitions - first_stage.min(repetitions) {
                0 => format!("the first {first_stage} were enough"),
                more => format!("{first_stage} were planned, and their scatter asked for {more} more"),
            };
            return format!(
                "Stopped after {repetitions} repetitions: every completion time is known to ±{asked} %; {rest}."
            );
        }
        let would = self.needed.map_or(String::new(), |needed| format!("; it would take about {needed}"));
        let when = match complete {
            true if repetitions >= at_most => format!("after {repetitions} repetitions, the most that were allowed"),
            true => format!("after {repetitions} repetitions"),
            false => "early".to_owned(),
        };
        format!("Stopped {when}: the widest completion time is known to ±{widest} %, not to ±{asked} %{would}.")
    }
}
