//! What is expected of a paper's scenario, as its file of bands says.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

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
    /// The jobs that everything is measured of, unless a group has its own; one, or a list. All their copies are averaged.
    #[serde(deserialize_with = "one_or_several")]
    pub job: Vec<String>,
    /// What is measured.
    pub measure: Measure,
    /// The rival, where it takes one.
    #[serde(default)]
    pub against: BTreeMap<String, toml::Value>,
    /// What the axis from left to right counts.
    #[serde(default)]
    pub counted: LoadUnit,
    /// The lines, where they are not simply the values that the scenario compares.
    #[serde(default)]
    pub line: Vec<Line>,
}

/// A line of a figure: a point for each load.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// What is written at its end.
    pub name: String,
    /// The drawing that it belongs to, where the figure has several.
    #[serde(default)]
    pub panel: String,
    /// The arms that it goes through; those of the same load are averaged.
    #[serde(default)]
    pub of: ArmGroup,
}

/// What is written once or in a list.
fn one_or_several<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrSeveral<T> {
        Several(Vec<T>),
        One(T),
    }
    Ok(match OneOrSeveral::deserialize(deserializer)? {
        OneOrSeveral::Several(all) => all,
        OneOrSeveral::One(one) => vec![one],
    })
}

/// What the load of an arm is counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadUnit {
    /// Threads in all.
    #[default]
    Threads,
    /// Threads for each CPU.
    ThreadsPerCpu,
    /// Threads beyond one for each CPU.
    ExtraThreads,
}

impl LoadUnit {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            LoadUnit::Threads => "threads",
            LoadUnit::ThreadsPerCpu => "threads per CPU",
            LoadUnit::ExtraThreads => "extra threads",
        }
    }
}

/// What is measured of the job in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The share of its spins that succeed, in percent.
    Ssr,
    /// The completion time of the rival over its own. The rival is the run of the same repetition whose factors are the
    /// same but for those in `against`, and what varies together with one of these goes along.
    SpeedUp,
    /// 100 if the run has a transition point ([`measure::states::transition`]), else 0: on average
    /// the share of runs that have one.
    Transition,
    /// SSR before the transition point, in runs that have one.
    SsrBefore,
    /// SSR from the transition point on.
    SsrAfter,
    /// 100 if the threads of the job alternate ([`measure::states::alternation`]), else 0.
    Alternation,
    /// How many rounds alternate, in percent, in runs where the threads do, from where they begin to.
    AlternatingRounds,
    /// How many of the threads change sides from one of these rounds to the next, in percent.
    CleanGroups,
}

impl Measure {
    /// Whether it is about transition points.
    pub fn is_of_transitions(self) -> bool {
        matches!(self, Measure::Transition | Measure::SsrBefore | Measure::SsrAfter)
    }

    /// Whether it is about alternating synchronisation.
    pub fn is_of_alternation(self) -> bool {
        matches!(self, Measure::Alternation | Measure::AlternatingRounds | Measure::CleanGroups)
    }

    /// Whether it takes a look at every round of a run.
    pub fn is_of_patterns(self) -> bool {
        self.is_of_transitions() || self.is_of_alternation()
    }

    /// What it is called, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Ssr => "SSR %",
            Measure::SpeedUp => "speed-up",
            Measure::Transition => "runs with a transition point, %",
            Measure::SsrBefore => "SSR % before the transition point",
            Measure::SsrAfter => "SSR % from the transition point on",
            Measure::Alternation => "runs whose threads alternate, %",
            Measure::AlternatingRounds => "rounds that alternate, %",
            Measure::CleanGroups => "threads that change sides, %",
        }
    }

    /// How many decimals say something.
    pub fn decimals(self) -> usize {
        if self == Measure::SpeedUp { 2 } else { 1 }
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
    /// The arms that it is made of: all unless something is said. Of a list of groups each is combined by itself, and the number
    /// is the mean of what they come to.
    #[serde(default = "all", deserialize_with = "one_or_several")]
    pub of: Vec<ArmGroup>,
    /// The same of these arms, or groups of arms, is taken away from it.
    #[serde(default, deserialize_with = "one_or_several")]
    pub minus: Vec<ArmGroup>,
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

/// One group of all arms.
fn all() -> Vec<ArmGroup> {
    vec![ArmGroup::default()]
}

impl Band {
    /// Whether it has an end. Without one the number is only told: the source says nothing to hold it against.
    pub fn is_judged(&self) -> bool {
        self.at_least.or(self.above).or(self.at_most).is_some()
    }

    /// Whether a number is in the band.
    pub fn contains(&self, number: f64) -> bool {
        self.at_least.is_none_or(|end| number >= end)
            && self.above.is_none_or(|end| number > end)
            && self.at_most.is_none_or(|end| number <= end)
    }
}

/// How several arms are combined to one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// Their arithmetic mean.
    #[default]
    Mean,
    /// The one with the lowest mean over the repetitions.
    Min,
    /// The one with the highest.
    Max,
    /// The one with the highest less the one with the lowest.
    Spread,
    /// The last load at which the measure is above a level.
    LastAbove(LastAbove),
}

/// The last load at which the measure, averaged over the repetitions, is above a level. It lies between that load and the
/// next, where a straight line between the two falls to the level; where the measure is above it at the highest load there
/// is, that load is told. Where it never is, there is none.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastAbove {
    /// The level.
    pub level: f64,
    /// What the load is counted in.
    pub counted: LoadUnit,
}

impl Combine {
    /// What the number is a load in; nothing if it is in what was measured.
    pub fn counted(self) -> Option<LoadUnit> {
        match self {
            Combine::LastAbove(last) => Some(last.counted),
            Combine::Mean | Combine::Min | Combine::Max | Combine::Spread => None,
        }
    }
}

/// Some of the arms: those that all of this is true of.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmGroup {
    /// The jobs that are looked at there; those of the figure where none are named.
    #[serde(default, deserialize_with = "one_or_several")]
    pub job: Vec<String>,
    /// Swept paths, and the values that they may have. Of paths that vary together each can be named alone.
    #[serde(default)]
    pub select: BTreeMap<String, Vec<toml::Value>>,
    /// How many threads there may be in all.
    #[serde(default)]
    pub threads: ThreadFilter,
}

/// How many threads there may be in all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadFilter {
    /// No more than so many.
    pub at_most: Option<u64>,
    /// More than so many.
    pub above: Option<u64>,
    /// A multiple of this.
    pub multiple_of: Option<u64>,
    /// Not a multiple of this.
    pub no_multiple_of: Option<u64>,
}

impl ThreadFilter {
    /// Whether so many there may be.
    pub fn matches(&self, threads: u64) -> bool {
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
        assert_eq!([0.9, 1.0, 2.0, 2.1].map(|number| closed.contains(number)), [false, true, true, false]);
        let open = band("above = 0");
        assert_eq!([0.0, 0.1, 1e9].map(|number| open.contains(number)), [false, true, true]);
    }

    #[test]
    fn threads_are_allowed_by_number_and_by_multiple() {
        let allowed = |threads: &str| -> Vec<u64> {
            let threads: ThreadFilter = toml::from_str(threads).unwrap();
            (0..8).filter(|&number| threads.matches(number)).collect()
        };
        assert_eq!(allowed("above = 2\nat_most = 6\nno_multiple_of = 3"), [4, 5]);
        assert_eq!(allowed("multiple_of = 3"), [0, 3, 6]);
    }
}
