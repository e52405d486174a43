//! Verdicts: which value of the compared factor is fastest, and whether prediction and reality say the same.

use scenario::result::World;
use serde::Serialize;

use crate::sample::Figure;
use crate::series::{AllSeries, Series};
use crate::statistics;
use crate::summary::{self, Factors};

/// The outcome of one comparison: one job among arms that differ in the compared factor only.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The job's name.
    pub job: String,
    /// The factors that the compared arms share.
    pub factors: Factors,
    /// The fastest value, world by world.
    pub fastest: Vec<Fastest>,
    /// Whether the worlds agree; nothing where only one of them was asked, or the simulated machine is another one.
    pub agreement: Option<Agreement>,
}

/// The value with the shortest mean completion time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fastest {
    /// In which world.
    pub world: World,
    /// The value of the compared factor.
    pub value: toml::Value,
    /// Other values whose completion times cannot be told from its own: the 95 % interval of the ratio holds 1.
    pub level_with: Vec<toml::Value>,
}

/// How two worlds' answers stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// The same value is fastest in both.
    Agree,
    /// Different ones are, but in one of the worlds the two cannot be told apart.
    Level,
    /// Different ones are.
    Disagree,
}

/// The verdicts of all comparisons, by jobs in the order of the scenario.
pub fn verdicts(all: &AllSeries<'_>) -> Vec<Verdict> {
    let scenario = all.scenario;
    let (Some(compare), Some(first)) = (&scenario.experiment.compare, scenario.arms.first()) else { return Vec::new() };
    let rivals = summary::rivals(scenario);
    let mut verdicts = Vec::new();
    for job in 0..first.setting.jobs.len() {
        for group in rivals.iter().filter(|group| group.len() > 1) {
            let worlds = [World::Sim, World::Host].into_iter();
            let fastest: Vec<Fastest> = worlds.filter_map(|world| fastest(all, compare, group, job, world)).collect();
            if fastest.is_empty() {
                continue;
            }
            let is_twin = group.iter().all(|&arm| scenario.arms[arm].setting.machine.is_the_host());
            verdicts.push(Verdict {
                job: first.setting.jobs[job].name.clone(),
                factors: summary::shared_factors(&scenario.arms[group[0]], compare),
                agreement: if is_twin { agreement(&fastest) } else { None },
                fastest,
            });
        }
    }
    verdicts
}

/// The fastest of a group; nothing where fewer than two of its arms have a completion time.
fn fastest(all: &AllSeries<'_>, compare: &str, group: &[usize], job: usize, world: World) -> Option<Fastest> {
    let timed = |&arm: &usize| -> Option<(&toml::Value, &Series, f64)> {
        let (_, value) = all.scenario.arms[arm].factors.iter().find(|(path, _)| path == compare)?;
        let series = all.get(arm, job, world)?;
        Some((value, series, statistics::mean(&series.values(Figure::Completion))?.mean))
    };
    let arms: Vec<_> = group.iter().filter_map(timed).collect();
    let best = (0..arms.len()).min_by(|&a, &b| arms[a].2.total_cmp(&arms[b].2))?;
    if arms.len() < 2 {
        return None;
    }
    let level = |&(number, (_, series, _)): &(usize, &(&toml::Value, &Series, f64))| {
        let ratio = statistics::ratio(&series.pairs(arms[best].1, Figure::Completion));
        number != best && ratio.is_some_and(|ratio| ratio.holds(1.0))
    };
    let level_with = arms.iter().enumerate().filter(level).map(|(_, (value, ..))| (*value).clone()).collect();
    Some(Fastest { world, value: arms[best].0.clone(), level_with })
}

fn agreement(fastest: &[Fastest]) -> Option<Agreement> {
    let [one, other] = fastest else { return None };
    Some(if one.value == other.value {
        Agreement::Agree
    } else if one.level_with.contains(&other.value) || other.level_with.contains(&one.value) {
        Agreement::Level
    } else {
        Agreement::Disagree
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_agree_by_name_or_within_the_noise_of_either() {
        let fastest = |world, value: &str, level_with: &[&str]| Fastest {
            world,
            value: value.into(),
            level_with: level_with.iter().map(|&value| value.into()).collect(),
        };
        let between =
            |host, level: &[&str]| agreement(&[fastest(World::Sim, "cs", &[]), fastest(World::Host, host, level)]);
        assert_eq!(between("cs", &[]), Some(Agreement::Agree));
        assert_eq!(between("2cs+", &["cs"]), Some(Agreement::Level));
        assert_eq!(between("2cs+", &["cs+"]), Some(Agreement::Disagree));
        assert_eq!(agreement(&[fastest(World::Sim, "cs", &[])]), None);
    }
}
