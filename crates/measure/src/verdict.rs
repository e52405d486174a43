//! Verdicts: which value of the compared factor is fastest, and whether simulator and host agree.

use scenario::result::World;
use serde::{Serialize, Serializer};

use crate::claim::ClaimOutcome;
use crate::comparison::{self, Comparisons};
use crate::factor::{self, Factors};
use crate::sample::JobQuantity;
use crate::series::AllSeries;

/// The result of one comparison: one job in arms that differ only in the compared factor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The job's name.
    pub job: String,
    /// The factors that the compared arms share.
    pub factors: Factors,
    /// The fastest value in each world.
    pub fastest: Vec<Fastest>,
    /// Whether the worlds agree. `None` if only one of them was run, or if the simulated machine is
    /// not like the host. Undecided if different values are fastest, but in one of the worlds the
    /// two do not differ significantly, after the correction.
    #[serde(serialize_with = "serialize_agreement")]
    pub agreement: Option<ClaimOutcome>,
}

/// The value with the shortest mean completion time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fastest {
    /// The world.
    pub world: World,
    /// The value of the compared factor.
    pub value: toml::Value,
    /// Other values for which the 95 % interval of the ratio contains 1, in this comparison alone.
    pub level_with: Vec<toml::Value>,
    /// Other values that are not significantly different, by the paired t-test, corrected for all
    /// comparisons of the report. One repetition distinguishes nothing.
    pub not_told_from: Vec<toml::Value>,
}

/// The verdicts of all comparisons, by jobs in the order of the scenario.
pub fn verdicts(all: &AllSeries<'_>, comparisons: &Comparisons) -> Vec<Verdict> {
    let scenario = all.scenario;
    let Some(first) = scenario.arms.first() else { return Vec::new() };
    let groups = factor::comparison_groups(scenario);
    let mut verdicts = Vec::new();
    for job in 0..first.setting.jobs.len() {
        for group in groups.iter().filter(|group| group.len() > 1) {
            let worlds = [World::Sim, World::Host].into_iter();
            let fastest = |world| fastest(all, comparisons, group, job, world);
            let fastest: Vec<Fastest> = worlds.filter_map(fastest).collect();
            if fastest.is_empty() {
                continue;
            }
            let is_twin = group.iter().all(|&arm| scenario.arms[arm].setting.machine.is_host());
            verdicts.push(Verdict {
                job: first.setting.jobs[job].name.clone(),
                factors: factor::shared(&scenario.arms[group[0]], &scenario.experiment),
                agreement: if is_twin { agreement(&fastest) } else { None },
                fastest,
            });
        }
    }
    verdicts
}

/// The fastest arm of a group. `None` if fewer than two of its arms have a completion time.
fn fastest(
    all: &AllSeries<'_>,
    comparisons: &Comparisons,
    group: &[usize],
    job: usize,
    world: World,
) -> Option<Fastest> {
    let timed = comparison::timed(all, group, job, world);
    let &(best, _) = timed.iter().min_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|_| timed.len() > 1)?;
    let others = |is_level: &dyn Fn(usize) -> bool| {
        let level = timed.iter().filter(|&&(arm, _)| arm != best && is_level(arm));
        level.filter_map(|&(arm, _)| factor::compared(all.scenario, arm)).collect()
    };
    let holds_one = |arm: usize| {
        let series = |arm| all.get(arm, job, world);
        let ratios = series(arm).zip(series(best)).map(|(one, best)| one.log_ratios(best, JobQuantity::Completion));
        ratios.and_then(|ratios| ratios.mean()).is_some_and(|mean| mean.contains(0.0))
    };
    let differs = |arm| comparisons.get(job, world, best, arm).is_some_and(|found| found.is_significant());
    Some(Fastest {
        world,
        value: factor::compared(all.scenario, best)?,
        level_with: others(&holds_one),
        not_told_from: others(&|arm| !differs(arm)),
    })
}

fn serialize_agreement<S: Serializer>(agreement: &Option<ClaimOutcome>, to: S) -> Result<S::Ok, S::Error> {
    agreement.map(|outcome| outcome.choose("agree", "disagree", "level")).serialize(to)
}

fn agreement(fastest: &[Fastest]) -> Option<ClaimOutcome> {
    let [one, other] = fastest else { return None };
    Some(if one.value == other.value {
        ClaimOutcome::Agrees
    } else if one.not_told_from.contains(&other.value) || other.not_told_from.contains(&one.value) {
        ClaimOutcome::Undecided
    } else {
        ClaimOutcome::Disagrees
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_agree_on_the_same_value_or_within_the_noise_of_either() {
        let fastest = |world, value: &str, level: &[&str]| Fastest {
            world,
            value: value.into(),
            level_with: Vec::new(),
            not_told_from: level.iter().map(|&value| value.into()).collect(),
        };
        let between =
            |host, level: &[&str]| agreement(&[fastest(World::Sim, "cs", &[]), fastest(World::Host, host, level)]);
        assert_eq!(between("cs", &[]), Some(ClaimOutcome::Agrees));
        assert_eq!(between("2cs+", &["cs"]), Some(ClaimOutcome::Undecided));
        assert_eq!(between("2cs+", &["cs+"]), Some(ClaimOutcome::Disagrees));
        assert_eq!(agreement(&[fastest(World::Sim, "cs", &[])]), None);
    }
}
