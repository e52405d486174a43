//! The expected results of a paper's scenario, as read from its file of bands.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// A file of bands.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The values that are shown for every arm.
    pub figure: Figure,
    /// The bands.
    pub band: Vec<Band>,
}

/// The values that are shown for every arm.
///
/// If there are lines, the x axis is always a load, and `counted` is its unit. The scenario's `x`
/// does not matter for them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The measured jobs, unless a group has its own: one, or a list. All their copies are
    /// averaged.
    #[serde(deserialize_with = "one_or_several")]
    pub job: Vec<String>,
    /// The measure.
    pub measure: Measure,
    /// The factors of the reference, for measures that need one.
    #[serde(default)]
    pub against: BTreeMap<String, toml::Value>,
    /// The unit of load on the x axis.
    #[serde(default)]
    pub counted: LoadUnit,
    /// The lines. If empty, the values that the scenario compares.
    #[serde(default)]
    pub line: Vec<Line>,
}

/// A line of a figure: a point for each load.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The label at its end.
    pub name: String,
    /// The panel that it belongs to, if the figure has several.
    #[serde(default)]
    pub panel: String,
    /// The arms on the line. Arms of the same load are averaged.
    #[serde(default)]
    pub of: ArmGroup,
}

/// Reads one value or a list.
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

/// The unit of the load of an arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadUnit {
    /// Threads in all.
    #[default]
    Threads,
    /// Threads per CPU.
    ThreadsPerCpu,
    /// Threads beyond one per CPU.
    ExtraThreads,
    /// Jobs, with one for each copy.
    Jobs,
    /// The CPUs of the machine.
    Cpus,
}

impl LoadUnit {
    /// The name of the unit.
    pub fn name(self) -> &'static str {
        match self {
            LoadUnit::Threads => "threads",
            LoadUnit::ThreadsPerCpu => "threads per CPU",
            LoadUnit::ExtraThreads => "extra threads",
            LoadUnit::Jobs => "jobs",
            LoadUnit::Cpus => "CPUs",
        }
    }
}

/// A measure of a job in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The share of successful spins, in percent.
    Ssr,
    /// The completion time of the reference over that of this arm. The reference is the run of the
    /// same repetition that has the factors in `against` and otherwise the same. Paths that vary
    /// together with one of these may differ too.
    SpeedUp,
    /// 100 if the run has a transition point ([`measure::states::transition`]), otherwise 0. The
    /// mean is the share of runs that have one.
    Transition,
    /// SSR before the transition point, in runs that have one.
    SsrBefore,
    /// SSR from the transition point on.
    SsrAfter,
    /// 100 if the threads of the job alternate ([`measure::states::alternation`]), otherwise 0.
    Alternation,
    /// The share of alternating rounds in percent, from the beginning of the alternation, in runs
    /// that have one.
    AlternatingRounds,
    /// The share of threads that change sides from one of these rounds to the next, in percent.
    CleanGroups,
    /// The longest completion time of the jobs, in seconds.
    Elapsed,
    /// The longest completion time over that of the reference, which is found as for a speed-up.
    ElapsedRatio,
    /// The completion time without the start, in seconds: from the first computation of its work
    /// to its end.
    ProcessTime,
    /// The process time over that of the reference.
    ProcessRatio,
    /// From the arrival of a job to the first computation of its work, in seconds.
    Start,
    /// The time between the first and the last start of the jobs, in seconds.
    StartSpread,
    /// The work done per unit of time, as a sum over all jobs, each in units of its work alone: its
    /// completion time in the reference over that in the run. The reference of a job is the arm
    /// in which one copy of it is alone and which has the factors in `against`.
    Throughput,
    /// The mean time from a boundary to the moment at which a cell acts on it, in milliseconds.
    Delay,
    /// The standard deviation of that time.
    DelayDeviation,
    /// The largest number of slices.
    Slices,
    /// The time from a boundary to the beginning of its switch on the host that half of all
    /// switches do not exceed, in microseconds.
    LatenessP50,
    /// The same for 90 % of all switches.
    LatenessP90,
    /// The time that half of all switches on the host do not exceed, in microseconds.
    DurationP50,
    /// The same for 90 % of all switches.
    DurationP90,
    /// The time from the first process that a switch on the host lets run again to the last that
    /// half of all switches do not exceed, in microseconds.
    SkewP50,
    /// The same for 90 % of all switches.
    SkewP90,
}

/// A kind of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From 0 to 100.
    Percent,
    /// 1 means that there is no difference.
    Ratio,
    /// Of something that has a unit. A mean over several loads says nothing.
    Amount,
}

impl Measure {
    /// Whether it is about transition points.
    pub fn is_of_transitions(self) -> bool {
        matches!(self, Measure::Transition | Measure::SsrBefore | Measure::SsrAfter)
    }

    /// Whether it is about alternating synchronization.
    pub fn is_of_alternation(self) -> bool {
        matches!(self, Measure::Alternation | Measure::AlternatingRounds | Measure::CleanGroups)
    }

    /// Whether it compares a run with one of another arm, which has the factors in `against`.
    pub fn has_reference(self) -> bool {
        matches!(self, Measure::SpeedUp | Measure::ElapsedRatio | Measure::ProcessRatio)
    }

    /// How it is drawn.
    pub fn scale(self) -> Scale {
        use Measure::{AlternatingRounds, Alternation, CleanGroups, Ssr, SsrAfter, SsrBefore, Transition};
        use Measure::{ElapsedRatio, ProcessRatio, SpeedUp, Throughput};
        match self {
            Ssr | SsrBefore | SsrAfter | Transition | Alternation | AlternatingRounds | CleanGroups => Scale::Percent,
            SpeedUp | ElapsedRatio | ProcessRatio | Throughput => Scale::Ratio,
            _ => Scale::Amount,
        }
    }

    /// Whether it needs every round of a run.
    pub fn is_of_patterns(self) -> bool {
        self.is_of_transitions() || self.is_of_alternation()
    }

    /// Its name with its unit.
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
            Measure::Elapsed => "total time, s",
            Measure::ElapsedRatio => "total time in units of the reference",
            Measure::ProcessTime => "process time, s",
            Measure::ProcessRatio => "process time in units of the reference",
            Measure::Start => "start, s",
            Measure::StartSpread => "time between the first and the last start, s",
            Measure::Throughput => "work per time, in units of jobs alone",
            Measure::Delay => "delay, ms",
            Measure::DelayDeviation => "standard deviation of the delay, ms",
            Measure::Slices => "slices",
            Measure::LatenessP50 => "median lateness of switches, us",
            Measure::LatenessP90 => "90th percentile of the lateness of switches, us",
            Measure::DurationP50 => "median duration of switches, us",
            Measure::DurationP90 => "90th percentile of the duration of switches, us",
            Measure::SkewP50 => "median skew of switches, us",
            Measure::SkewP90 => "90th percentile of the skew of switches, us",
        }
    }

    /// The number of meaningful decimals.
    pub fn decimals(self) -> usize {
        match self {
            Measure::Start | Measure::StartSpread => 3,
            Measure::Elapsed | Measure::ProcessTime => 2,
            Measure::SpeedUp | Measure::ElapsedRatio | Measure::ProcessRatio | Measure::Throughput => 2,
            Measure::Delay | Measure::DelayDeviation => 2,
            Measure::Slices => 0,
            Measure::LatenessP50 | Measure::LatenessP90 | Measure::DurationP50 | Measure::DurationP90 => 0,
            Measure::SkewP50 | Measure::SkewP90 => 0,
            _ => 1,
        }
    }
}

/// A number computed from the runs, and the band in which it is expected.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// A short description of the number.
    pub what: String,
    /// The measure.
    pub measure: Measure,
    /// The factors of the reference, for measures that need one.
    #[serde(default)]
    pub against: BTreeMap<String, toml::Value>,
    /// The arms: all by default. With a list of groups, each group is combined separately, and the
    /// number is the mean of the results.
    #[serde(default = "all", deserialize_with = "one_or_several")]
    pub of: Vec<ArmGroup>,
    /// Arms, or groups of arms, whose number is subtracted.
    #[serde(default, deserialize_with = "one_or_several")]
    pub minus: Vec<ArmGroup>,
    /// How the arms are combined.
    #[serde(default)]
    pub combine: Combine,
    /// The paper's own value, in words.
    pub paper: Option<String>,
    /// The lower end of the band, which is part of it.
    pub at_least: Option<f64>,
    /// The lower end of the band, which is not part of it.
    pub above: Option<f64>,
    /// The upper end of the band, which is part of it.
    pub at_most: Option<f64>,
    /// Why the simulator is known to miss the band. A number in the band is then a surprise.
    pub known_miss: Option<String>,
    /// The statement of the paper and its place.
    pub source: String,
}

/// One group of all arms.
fn all() -> Vec<ArmGroup> {
    vec![ArmGroup::default()]
}

impl Band {
    /// Whether the band has an end. Without one the number is only shown, because the source has no
    /// value to compare.
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
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Combine {
    /// The arithmetic mean.
    #[default]
    Mean,
    /// The arm with the lowest mean over the repetitions.
    Min,
    /// The arm with the highest mean.
    Max,
    /// The difference between the arms with the highest and the lowest mean.
    Spread,
    /// The last load at which the measure, averaged over the repetitions, is above a level.
    ///
    /// The result is interpolated linearly between that load and the next. It is the highest load
    /// if the measure is above the level there, and absent if the measure never is.
    LastAbove {
        /// The level.
        level: f64,
        /// The unit of the load.
        counted: LoadUnit,
    },
}

impl Combine {
    /// The unit if the number is a load. `None` if it is in the unit of the measure.
    pub fn counted(self) -> Option<LoadUnit> {
        match self {
            Combine::LastAbove { counted, .. } => Some(counted),
            Combine::Mean | Combine::Min | Combine::Max | Combine::Spread => None,
        }
    }
}

/// The arms that meet all of these conditions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmGroup {
    /// The measured jobs. Those of the figure if empty.
    #[serde(default, deserialize_with = "one_or_several")]
    pub job: Vec<String>,
    /// Swept paths and their allowed values. Paths that vary together can be named separately.
    #[serde(default)]
    pub select: BTreeMap<String, Vec<toml::Value>>,
    /// The allowed total numbers of threads.
    #[serde(default)]
    pub threads: ThreadFilter,
}

/// A condition on the total number of threads.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadFilter {
    /// At most this number.
    pub at_most: Option<u64>,
    /// More than this number.
    pub above: Option<u64>,
    /// A multiple of this number.
    pub multiple_of: Option<u64>,
    /// Not a multiple of this number.
    pub no_multiple_of: Option<u64>,
}

impl ThreadFilter {
    /// Whether a number of threads meets all conditions.
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
    fn the_ends_of_a_band_are_part_of_it_unless_it_says_above() {
        let band = |ends: &str| -> Band {
            toml::from_str(&format!("what = \"\"\nmeasure = \"ssr\"\nsource = \"\"\n{ends}")).unwrap()
        };
        let closed = band("at_least = 1\nat_most = 2");
        assert_eq!([0.9, 1.0, 2.0, 2.1].map(|number| closed.contains(number)), [false, true, true, false]);
        let open = band("above = 0");
        assert_eq!([0.0, 0.1, 1e9].map(|number| open.contains(number)), [false, true, true]);
    }

    #[test]
    fn threads_are_selected_by_number_and_by_multiple() {
        let allowed = |threads: &str| -> Vec<u64> {
            let threads: ThreadFilter = toml::from_str(threads).unwrap();
            (0..8).filter(|&number| threads.matches(number)).collect()
        };
        assert_eq!(allowed("above = 2\nat_most = 6\nno_multiple_of = 3"), [4, 5]);
        assert_eq!(allowed("multiple_of = 3"), [0, 3, 6]);
    }
}
