//! What follows from the runs: how much faster each rule is than blocking at once, up to which load the advised rule wins, and which
//! rule is the best where.

use std::collections::BTreeMap;

use scenario::Granularity;
use scenario::result::{JobOutcome, Run};
use serde::Serialize;

use super::grid::{ADVISED, ALL_GRAINS, BASELINE, GRAIN, MACHINE, MIX, SCHEDULER, THREADS, WAITING, job};
use measure::factor::Factors;
use measure::results::ExperimentReport;
use stats::{self, Estimate};

/// A rule wins or loses only where it makes a difference of more than this.
pub const INDIFFERENT: f64 = 0.02;

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer<'a> {
    /// The paper's name.
    pub paper: &'a str,
    /// How fast each rule is in every cell.
    pub speeds: Vec<Speed>,
    /// Up to which load the advised rule wins.
    pub bounds: Vec<BoundOf>,
    /// The best rule by scheduler, grain and load.
    pub best: Vec<Best>,
    /// How wide the intervals of the speed-ups are.
    pub width: Option<Width>,
    /// The runs.
    #[serde(serialize_with = "report::json::versioned")]
    pub report: &'a ExperimentReport,
}

/// How fast a rule is in one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// The kernel's scheduler.
    pub scheduler: String,
    /// Which jobs there are.
    pub mix: String,
    /// Their grain.
    pub grain: String,
    /// How many CPUs.
    pub cpus: u32,
    /// Threads in all for each of them.
    pub load: f64,
    /// The rule.
    pub waiting: String,
    /// The completion time of the same jobs that block at once over that with the rule: the geometric mean over the seeds.
    pub speed_up: Estimate,
}

/// Up to which load the advised rule wins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoundOf {
    /// The kernel's scheduler.
    pub scheduler: String,
    /// Which jobs there are.
    pub mix: String,
    /// Their grain.
    pub grain: String,
    /// How many CPUs.
    pub cpus: u32,
    /// The largest load at which it is faster than blocking at once; nothing where it never is.
    pub last_winning: Option<f64>,
    /// The smallest load at which it is slower; nothing where it never is.
    pub first_losing: Option<f64>,
}

/// The best rule somewhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    /// The kernel's scheduler.
    pub scheduler: String,
    /// The grain of the jobs.
    pub grain: String,
    /// The loads that are taken together: no more than one thread for each CPU, fewer than two, or two and more.
    pub loads: &'static str,
    /// The rules with the geometric mean of their speed-ups over all mixes, machines and loads of these, the best first.
    pub rules: Vec<(String, f64)>,
}

/// How wide the intervals of the speed-ups are: half of them, in percent of the mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Width {
    /// Half of the speed-ups have a narrower one.
    pub median_percent: f64,
    /// Nine in ten have a narrower one.
    pub ninety_percent: f64,
}

/// Loads that are taken together.
const LOADS: [&str; 3] = ["up to 1", "1 to 2", "2 and more"];

fn loads(load: f64) -> &'static str {
    LOADS[usize::from(load > 1.0) + usize::from(load >= 2.0)]
}

impl<'a> Answer<'a> {
    /// The answer that is in a report on the grid's runs.
    pub fn new(report: &'a ExperimentReport) -> Answer<'a> {
        let speeds = speeds(&report.runs);
        Answer {
            paper: super::NAME,
            bounds: bounds(&speeds),
            best: best(&speeds),
            width: width(&speeds),
            speeds,
            report,
        }
    }
}

/// The logarithms of completion times, by seed, of one job with one rule.
type Times = BTreeMap<u32, f64>;

fn speeds(runs: &[Run]) -> Vec<Speed> {
    // In the order in which cells first come up, sorted for a stable answer.
    let mut times: BTreeMap<(Place, String), Times> = BTreeMap::new();
    for run in runs {
        for grain in Granularity::ALL {
            let Some(place) = Place::of(&run.factors, grain) else { continue };
            let Some(waiting) = text(&run.factors, WAITING) else { continue };
            if let Some(completion) = completion(&run.outcome.jobs, job(&place.mix, grain)) {
                times.entry((place, waiting)).or_default().insert(run.repeat, completion.ln());
            }
        }
    }
    let speed = |((place, waiting), own): (&(Place, String), &Times)| {
        let rival = times.get(&(place.clone(), BASELINE.to_owned()))?;
        let logs: Vec<f64> = own.iter().filter_map(|(repeat, log)| Some(rival.get(repeat)? - log)).collect();
        let speed_up = stats::mean(&logs)?.map(f64::exp);
        let Place { scheduler, mix, grain, cpus, threads } = place.clone();
        let load = f64::from(threads) / f64::from(cpus);
        Some(Speed { scheduler, mix, grain, cpus, load, waiting: waiting.clone(), speed_up })
    };
    times.iter().filter(|((_, waiting), _)| waiting != BASELINE).filter_map(speed).collect()
}

/// Where a rule is tried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    scheduler: String,
    mix: String,
    grain: String,
    cpus: u32,
    threads: u32,
}

impl Place {
    /// Nothing if jobs of this grain are not in the arm.
    fn of(factors: &Factors, grain: Granularity) -> Option<Place> {
        let number = |path: &str| u32::try_from(factors.get(path)?.as_integer()?).ok();
        let told = text(factors, GRAIN)?;
        (told == ALL_GRAINS || told == grain.name()).then_some(())?;
        Some(Place {
            scheduler: text(factors, SCHEDULER)?,
            mix: text(factors, MIX)?,
            grain: grain.name().to_owned(),
            cpus: number(MACHINE)?,
            threads: number(THREADS)?,
        })
    }
}

fn text(factors: &Factors, path: &str) -> Option<String> {
    Some(factors.get(path)?.as_str()?.to_owned())
}

/// The mean completion time of a job, over its copies.
fn completion(jobs: &[JobOutcome], name: &str) -> Option<f64> {
    let is_it = |job: &&JobOutcome| job.job.split('.').next() == Some(name);
    let times: Vec<f64> =
        jobs.iter().filter(is_it).filter_map(|job| Some(job.completion_ns?.as_nanos() as f64)).collect();
    stats::mean(&times).map(|estimate| estimate.mean)
}

fn bounds(speeds: &[Speed]) -> Vec<BoundOf> {
    let mut bounds: Vec<BoundOf> = Vec::new();
    for speed in speeds.iter().filter(|speed| speed.waiting == ADVISED) {
        let is_here = |of: &BoundOf| {
            (&of.scheduler, &of.mix, &of.grain, of.cpus) == (&speed.scheduler, &speed.mix, &speed.grain, speed.cpus)
        };
        if !bounds.iter().any(is_here) {
            let Speed { scheduler, mix, grain, cpus, .. } = speed.clone();
            bounds.push(BoundOf { scheduler, mix, grain, cpus, last_winning: None, first_losing: None });
        }
        let Some(bound) = bounds.iter_mut().find(|of| is_here(of)) else { continue };
        let (load, mean) = (speed.load, speed.speed_up.mean);
        if mean > 1.0 + INDIFFERENT {
            bound.last_winning = Some(bound.last_winning.map_or(load, |last| last.max(load)));
        } else if mean < 1.0 - INDIFFERENT {
            bound.first_losing = Some(bound.first_losing.map_or(load, |first| first.min(load)));
        }
    }
    bounds
}

fn best(speeds: &[Speed]) -> Vec<Best> {
    let mut schedulers: Vec<&String> = speeds.iter().map(|speed| &speed.scheduler).collect();
    let rank = |name: &String| super::grid::SCHEDULERS.iter().position(|known| known == name);
    schedulers.sort_by_key(|name| rank(name));
    schedulers.dedup();
    let mut best = Vec::new();
    for scheduler in schedulers {
        for grain in Granularity::ALL.map(Granularity::name) {
            for range in LOADS {
                let here = |speed: &&Speed| {
                    &speed.scheduler == scheduler && speed.grain == grain && loads(speed.load) == range
                };
                let mut logs: BTreeMap<&str, Vec<f64>> = BTreeMap::from([(BASELINE, vec![0.0])]);
                for speed in speeds.iter().filter(here) {
                    logs.entry(&speed.waiting).or_default().push(speed.speed_up.mean.ln());
                }
                let mean = |logs: &Vec<f64>| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
                let mut rules: Vec<(String, f64)> =
                    logs.iter().map(|(rule, logs)| ((*rule).to_owned(), stats::six_digits(mean(logs)))).collect();
                rules.sort_by(|one, other| other.1.total_cmp(&one.1));
                let (scheduler, grain) = (scheduler.clone(), grain.to_owned());
                best.push(Best { scheduler, grain, loads: range, rules });
            }
        }
    }
    best
}

fn width(speeds: &[Speed]) -> Option<Width> {
    let half = |speed: &Speed| {
        let (low, high) = speed.speed_up.interval?;
        Some(50.0 * (high - low) / speed.speed_up.mean)
    };
    let mut halves: Vec<f64> = speeds.iter().filter_map(half).collect();
    halves.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| halves.get(((halves.len() - 1) as f64 * share).round() as usize).copied();
    if halves.is_empty() {
        return None;
    }
    Some(Width { median_percent: quantile(0.5)?, ninety_percent: quantile(0.9)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Span;
    use scenario::result::{Outcome, World};

    /// Runs of a job with these completion times by rule, load and seed.
    fn run(mix: &str, grain: &str, threads: u32, waiting: &str, repeat: u32, jobs: &[(&str, u64)]) -> Run {
        let factors = [
            (SCHEDULER, "eevdf".into()),
            (MIX, mix.into()),
            (GRAIN, grain.into()),
            (MACHINE, 8.into()),
            (THREADS, i64::from(threads).into()),
            (WAITING, waiting.into()),
        ];
        let factors = factors.map(|(path, value): (&str, toml::Value)| (path.to_owned(), value)).into();
        let job = |&(name, micros): &(&str, u64)| JobOutcome {
            job: name.to_owned(),
            completion_ns: Some(Span::from_micros(micros)),
            ..JobOutcome::default()
        };
        let outcome = Outcome { jobs: jobs.iter().map(job).collect(), ..Outcome::default() };
        Run { world: World::Sim, factors, repeat, seed: 1, outcome }
    }

    #[test]
    fn a_rule_is_as_fast_as_the_same_jobs_of_the_same_seed_that_block_say() {
        let jobs = |waiting: &str, repeat: u32, micros: [u64; 2]| {
            run("homogeneous", "fine", 12, waiting, repeat, &[("crew.0", micros[0]), ("crew.1", micros[1])])
        };
        let runs = [
            jobs(BASELINE, 0, [300, 500]),
            jobs(BASELINE, 1, [100, 100]),
            jobs(ADVISED, 0, [100, 100]),
            jobs(ADVISED, 1, [100, 100]),
        ];
        let speeds = speeds(&runs);
        // 400 over 100, and 1: two on the geometric mean.
        assert_eq!(speeds.len(), 1);
        assert!((speeds[0].speed_up.mean - 2.0).abs() < 1e-9 && speeds[0].load == 1.5, "{speeds:?}");
    }

    #[test]
    fn jobs_of_all_grains_in_one_run_are_told_apart() {
        let runs = [BASELINE, ADVISED].map(|rule| {
            let fine = if rule == BASELINE { 300 } else { 100 };
            run(
                "heterogeneous",
                ALL_GRAINS,
                6,
                rule,
                0,
                &[("fine", fine), ("medium", 100), ("coarse.0", 50), ("coarse.1", 50)],
            )
        });
        let speeds: BTreeMap<String, f64> =
            speeds(&runs).into_iter().map(|speed| (speed.grain, (speed.speed_up.mean * 1e6).round() / 1e6)).collect();
        assert_eq!(speeds, BTreeMap::from([("coarse".into(), 1.0), ("fine".into(), 3.0), ("medium".into(), 1.0)]));
    }

    #[test]
    fn the_advice_is_bounded_by_the_last_load_that_it_wins_at_and_the_first_that_it_loses_at() {
        let mut runs = Vec::new();
        for (threads, micros) in [(8, 50), (12, 101), (16, 60), (24, 200)] {
            runs.push(run("single", "coarse", threads, BASELINE, 0, &[("crew", 100)]));
            runs.push(run("single", "coarse", threads, ADVISED, 0, &[("crew", micros)]));
        }
        let speeds = speeds(&runs);
        let bounds = bounds(&speeds);
        assert_eq!(bounds.len(), 1);
        // One percent is no difference.
        assert_eq!((bounds[0].last_winning, bounds[0].first_losing), (Some(2.0), Some(3.0)));
        let best = best(&speeds);
        let coarse: Vec<_> =
            best.iter().filter(|of| of.grain == "coarse").map(|of| (of.loads, of.rules[0].0.as_str())).collect();
        assert_eq!(coarse, [("up to 1", ADVISED), ("1 to 2", BASELINE), ("2 and more", BASELINE)]);
    }
}
