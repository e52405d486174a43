//! Sequential sampling: repeats an experiment until its completion times are precise enough.
//!
//! The first stage is the planned number of repetitions. Then whole blocks follow until, in every
//! arm and world, the 95 % interval of every completion time extends no further than a given share
//! of its mean. The intervals are those of [`stages`](stats::stages), which stay valid although
//! they decide when to stop. All other intervals of the report are computed the same way.

use serde::Serialize;

use crate::sample::JobQuantity;
use crate::series::AllSeries;
use report::words;
use stats::six_digits;

/// The default limit of repetitions.
pub const AT_MOST: u32 = 100;

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoppingRule {
    /// The target: half the width of an interval over its mean, such as 0.02.
    pub share: f64,
    /// The limit of repetitions, even if intervals are still wide.
    pub at_most: u32,
}

/// The least share that can be requested, in percent: less is a typing error, and no number of
/// repetitions would achieve it.
const MIN_PERCENT: f64 = 0.001;

/// Parses a share such as `2 %`.
///
/// # Errors
/// The form of a share, or the range.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').map(|number| number.trim().parse::<f64>());
    match number {
        Some(Ok(percent)) if (MIN_PERCENT..100.0).contains(&percent) => Ok(percent / 100.0),
        Some(Ok(_)) => Err(format!("it has to be at least {MIN_PERCENT} % and less than 100 %")),
        Some(Err(_)) | None => Err("write it in percent of the mean: \"2 %\"".to_owned()),
    }
}

/// The requested precision and the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Precision {
    /// The requested half-width, in percent of the mean.
    pub percent: f64,
    /// The number of repetitions that were planned at first.
    pub first_stage: u32,
    /// The limit of repetitions.
    pub at_most: u32,
    /// Whether every completion time has the requested precision.
    pub reached: bool,
    /// The half-width of the widest interval, in percent of its mean.
    pub widest_percent: Option<f64>,
    /// The estimated number of repetitions for the requested precision.
    pub needed: Option<u64>,
}

impl StoppingRule {
    /// The total number of repetitions to make. `None` if `made` is enough.
    pub fn wanted(self, all: &AllSeries<'_>, made: u32) -> Option<u32> {
        let needed = needed(all, self.share)?.min(u64::from(self.at_most));
        u32::try_from(needed).ok().filter(|&wanted| wanted > made)
    }

    /// Compares the result with the request.
    pub fn judge(self, all: &AllSeries<'_>, first_stage: u32) -> Precision {
        let times = all.iter().map(|(_, _, _, series)| series.stages(JobQuantity::Completion));
        let shares = times.filter_map(|times| times.mean()?.relative_half_width());
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

/// The largest number of repetitions that a completion time needs.
fn needed(all: &AllSeries<'_>, share: f64) -> Option<u64> {
    all.iter().filter_map(|(_, _, _, series)| series.stages(JobQuantity::Completion).needed(share)).max()
}

impl Precision {
    /// A sentence on why the experiment stopped.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_written_in_percent() {
        assert_eq!((parse_share("2 %"), parse_share("0.5%")), (Ok(0.02), Ok(0.005)));
        assert!(parse_share("0.001 %").is_ok());
        for wrong in ["2", "", "%", "x %", "0 %", "-1 %", "1e-300 %", "100 %", "nan %", "inf %"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }
}
