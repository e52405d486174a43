//! What is expected of a paper's scenario, as its file of bands says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A file of bands.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// What the paper shows there, in a sentence or two.
    pub shows: String,
    /// Where in the paper that is.
    pub source: String,
    /// About how long the scenario takes on two CPUs.
    pub takes: String,
    /// What is shown of every arm.
    pub figure: Figure,
    /// What is asked of the whole.
    pub band: Vec<Band>,
}

/// What is shown of every arm.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The job that everything is measured of; copies are averaged.
    pub job: String,
    /// What is measured.
    pub measure: Measure,
    /// The rival, where it takes one.
    #[serde(default)]
    pub against: BTreeMap<String, toml::Value>,
}

/// What is measured of the job in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The share of its spins that succeed, in percent.
    Ssr,
    /// The completion time of the rival over its own. The rival is the run of the same repetition whose factors are the
    /// same but for those in `against`.
    SpeedUp,
    /// 100 if the run has a transition point ([`super::transition`]), else 0: on average the share of runs that have one.
    Transition,
    /// SSR before the transition point, in runs that have one.
    SsrBefore,
    /// SSR from the transition point on.
    SsrAfter,
}

impl Measure {
    /// Whether it takes the windows of [`super::transition`].
    pub fn is_of_transitions(self) -> bool {
        matches!(self, Measure::Transition | Measure::SsrBefore | Measure::SsrAfter)
    }
}

/// A number that is made of the runs, and the band that it is expected in.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// What the number is, in a few words.
    pub what: String,
    /// What is measured in each run.
    pub measure: Measure,
    /// The rival, where the measure takes one.
    #[serde(default)]
    pub against: BTreeMap<String, toml::Value>,
    /// The arms that it is made of: all unless something is said.
    #[serde(default)]
    pub of: Group,
    /// The same of these arms is taken away from it.
    pub minus: Option<Group>,
    /// How the arms are combined.
    #[serde(default)]
    pub combine: Combine,
    /// The paper's own value, in words.
    pub paper: Option<String>,
    /// The band's lower end, which belongs to it.
    pub at_least: Option<f64>,
    /// The band's lower end, which does not belong to it.
    pub above: Option<f64>,
    /// The band's upper end, which belongs to it.
    pub at_most: Option<f64>,
    /// What the paper says, and where.
    pub source: String,
}

impl Band {
    /// Whether a number is in the band.
    pub fn holds(&self, number: f64) -> bool {
        self.at_least.is_none_or(|end| number >= end)
            && self.above.is_none_or(|end| number > end)
            && self.at_most.is_none_or(|end| number <= end)
    }
}

/// How several arms are combined to one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// Their arithmetic mean.
    #[default]
    Mean,
    /// The one with the lowest mean over the repetitions.
    Min,
    /// The one with the highest.
    Max,
}

/// Some of the arms: those that all of this is true of.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Swept paths, and the values that they may have.
    #[serde(default)]
    pub select: BTreeMap<String, Vec<toml::Value>>,
    /// How many threads there may be in all.
    #[serde(default)]
    pub threads: Threads,
}

/// How many threads there may be in all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threads {
    /// No more than so many.
    pub at_most: Option<u64>,
    /// More than so many.
    pub above: Option<u64>,
    /// A multiple of this.
    pub multiple_of: Option<u64>,
    /// Not a multiple of this.
    pub no_multiple_of: Option<u64>,
}

impl Threads {
    /// Whether so many there may be.
    pub fn allow(&self, threads: u64) -> bool {
        self.at_most.is_none_or(|most| threads <= most)
            && self.above.is_none_or(|most| threads > most)
            && self.multiple_of.is_none_or(|of| threads.is_multiple_of(of))
            && self.no_multiple_of.is_none_or(|of| !threads.is_multiple_of(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_band_belong_to_it_unless_it_says_above() {
        let band = |ends: &str| -> Band {
            toml::from_str(&format!("what = \"\"\nmeasure = \"ssr\"\nsource = \"\"\n{ends}")).unwrap()
        };
        let closed = band("at_least = 1\nat_most = 2");
        assert_eq!([0.9, 1.0, 2.0, 2.1].map(|number| closed.holds(number)), [false, true, true, false]);
        let open = band("above = 0");
        assert_eq!([0.0, 0.1, 1e9].map(|number| open.holds(number)), [false, true, true]);
    }

    #[test]
    fn threads_are_allowed_by_number_and_by_multiple() {
        let allowed = |threads: &str| -> Vec<u64> {
            let threads: Threads = toml::from_str(threads).unwrap();
            (0..8).filter(|&number| threads.allow(number)).collect()
        };
        assert_eq!(allowed("above = 2\nat_most = 6\nno_multiple_of = 3"), [4, 5]);
        assert_eq!(allowed("multiple_of = 3"), [0, 3, 6]);
    }
}
