//! The conclusions from the runs: how much faster each rule is than immediate blocking, up to which
//! load the advised rule wins, and which rule is best.

use std::collections::BTreeMap;

use scenario::Granularity;
use scenario::result::{JobOutcome, Run};
use serde::Serialize;

use super::grid::{ADVISED, ALL_GRAINS, BASELINE, CPUS_PATH, GRAIN, MIX, SCHEDULER, SCHEDULERS, THREADS, WAITING, job};
use measure::factor::Factors;
use measure::results::ExperimentReport;
use stats::{self, Estimate};

/// A rule wins or loses only if it makes a difference of more than this.
const INDIFFERENT: f64 = 0.02;

/// All conclusions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conclusions<'a> {
    /// The paper's name.
    pub paper: &'a str,
    /// The speed-up of each rule in every cell.
    pub speeds: Vec<Speed>,
    /// The loads up to which the advised rule wins.
    pub bounds: Vec<AdviceBound>,
    /// The best rules by scheduler, granularity and load.
    pub best: Vec<BestRules>,
    /// The width of the speed-ups' intervals.
    pub width: Option<IntervalWidth>,
    /// The runs.
    #[serde(serialize_with = "report::json::versioned")]
    pub report: &'a ExperimentReport,
}

/// A kernel, its machine and the jobs on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The kernel's scheduler.
    pub scheduler: String,
    /// The mix of jobs.
    pub mix: String,
    /// Their granularity.
    pub grain: String,
    /// The number of CPUs.
    pub cpus: u32,
}

/// The speed of a rule in one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// The kernel, machine and jobs.
    #[serde(flatten)]
    pub place: Place,
    /// The number of threads per CPU.
    pub load: f64,
    /// The rule.
    pub waiting: String,
    /// The completion time of the same jobs with the baseline over that with the rule: the
    /// geometric mean over the seeds.
    pub speed_up: Estimate,
}

/// The load up to which the advised rule wins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceBound {
    /// The kernel, machine and jobs.
    #[serde(flatten)]
    pub place: Place,
    /// The largest load at which the rule is faster than immediate blocking. `None` if it never is.
    pub last_winning: Option<f64>,
    /// The smallest load at which it is slower. `None` if it never is.
    pub first_losing: Option<f64>,
}

/// The rules for a range of loads, the best one first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BestRules {
    /// The kernel's scheduler.
    pub scheduler: String,
    /// The granularity of the jobs.
    pub grain: String,
    /// The range: at most one thread per CPU, fewer than two, or two and more.
    pub loads: &'static str,
    /// The rules with the geometric mean of their speed-ups over all mixes, machines and loads of
    /// the range.
    pub rules: Vec<(String, f64)>,
}

/// Half the width of the speed-ups' intervals, in percent of the mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct IntervalWidth {
    /// Half of the speed-ups have narrower intervals.
    pub median_percent: f64,
    /// Nine in ten have narrower intervals.
    pub ninety_percent: f64,
}

/// The ranges of loads that are averaged.
const LOADS: [&str; 3] = ["up to 1", "1 to 2", "2 and more"];

fn range(load: f64) -> &'static str {
    LOADS[usize::from(load > 1.0) + usize::from(load >= 2.0)]
}

impl<'a> Conclusions<'a> {
    /// The conclusions from a report on the runs of the [grid](super::grid).
    pub fn new(paper: &'a str, report: &'a ExperimentReport) -> Conclusions<'a> {
        let speeds = speeds(&report.runs);
        let (bounds, best, width) = (bounds(&speeds), best(&speeds), width(&speeds));
        Conclusions { paper, speeds, bounds, best, width, report }
    }
}

/// The speed-ups, sorted by place, load and rule.
fn speeds(runs: &[Run]) -> Vec<Speed> {
    // The logarithms of completion times, by seed.
    let mut times: BTreeMap<(Place, u32, String), BTreeMap<u32, f64>> = BTreeMap::new();
    for run in runs {
        for grain in Granularity::ALL {
            let Some(cell) = cell(&run.factors, grain) else { continue };
            if let Some(completion) = completion(&run.outcome.jobs, job(&cell.0.mix, grain)) {
                times.entry(cell).or_default().insert(run.repeat, completion.ln());
            }
        }
    }
    let speed = |((place, threads, waiting), own): (&(Place, u32, String), &BTreeMap<u32, f64>)| {
        let baseline = times.get(&(place.clone(), *threads, BASELINE.to_owned()))?;
        let logs: Vec<f64> = own.iter().filter_map(|(repeat, log)| Some(baseline.get(repeat)? - log)).collect();
        let speed_up = stats::mean(&logs)?.map(f64::exp);
        let load = f64::from(*threads) / f64::from(place.cpus);
        Some(Speed { place: place.clone(), load, waiting: waiting.clone(), speed_up })
    };
    times.iter().filter(|((.., waiting), _)| waiting != BASELINE).filter_map(speed).collect()
}

/// The place, number of threads and rule of an arm. `None` if it has no jobs of this granularity.
fn cell(factors: &Factors, grain: Granularity) -> Option<(Place, u32, String)> {
    let text = |path: &str| Some(factors.get(path)?.as_str()?.to_owned());
    let number = |path: &str| u32::try_from(factors.get(path)?.as_integer()?).ok();
    let (scheduler, mix, cpus) = (text(SCHEDULER)?, text(MIX)?, number(CPUS_PATH)?);
    let is_there = [ALL_GRAINS, grain.name()].contains(&factors.get(GRAIN)?.as_str()?);
    let place = Place { scheduler, mix, grain: grain.name().to_owned(), cpus };
    is_there.then_some((place, number(THREADS)?, text(WAITING)?))
}

/// The mean completion time of a job, over its copies.
fn completion(jobs: &[JobOutcome], name: &str) -> Option<f64> {
    let is_it = |job: &&JobOutcome| job.job.split('.').next() == Some(name);
    let times: Vec<f64> =
        jobs.iter().filter(is_it).filter_map(|job| Some(job.completion_ns?.as_nanos() as f64)).collect();
    stats::mean(&times).map(|estimate| estimate.mean)
}

fn bounds(speeds: &[Speed]) -> Vec<AdviceBound> {
    let advised: Vec<&Speed> = speeds.iter().filter(|speed| speed.waiting == ADVISED).collect();
    // The loads of a place are sorted.
    let bound = |here: &[&Speed]| AdviceBound {
        place: here[0].place.clone(),
        last_winning: here.iter().rfind(|speed| speed.speed_up.mean > 1.0 + INDIFFERENT).map(|speed| speed.load),
        first_losing: here.iter().find(|speed| speed.speed_up.mean < 1.0 - INDIFFERENT).map(|speed| speed.load),
    };
    advised.chunk_by(|one, next| one.place == next.place).map(bound).collect()
}

fn best(speeds: &[Speed]) -> Vec<BestRules> {
    let mut best = Vec::new();
    let is_there = |scheduler: &&str| speeds.iter().any(|speed| speed.place.scheduler == *scheduler);
    for scheduler in SCHEDULERS.into_iter().filter(is_there) {
        for grain in Granularity::ALL.map(Granularity::name) {
            for loads in LOADS {
                let here = |Speed { place, load, .. }: &&Speed| {
                    place.scheduler == scheduler && place.grain == grain && range(*load) == loads
                };
                let mut logs: BTreeMap<&str, Vec<f64>> = BTreeMap::from([(BASELINE, vec![0.0])]);
                for speed in speeds.iter().filter(here) {
                    logs.entry(&speed.waiting).or_default().push(speed.speed_up.mean.ln());
                }
                let mean = |logs: &Vec<f64>| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
                let mut rules: Vec<(String, f64)> =
                    logs.iter().map(|(rule, logs)| ((*rule).to_owned(), stats::six_digits(mean(logs)))).collect();
                rules.sort_by(|one, other| other.1.total_cmp(&one.1));
                best.push(BestRules { scheduler: scheduler.to_owned(), grain: grain.to_owned(), loads, rules });
            }
        }
    }
    best
}

fn width(speeds: &[Speed]) -> Option<IntervalWidth> {
    let half = |speed: &Speed| Some(100.0 * speed.speed_up.half_width()? / speed.speed_up.mean);
    let mut halves: Vec<f64> = speeds.iter().filter_map(half).collect();
    halves.sort_unstable_by(f64::total_cmp);
    let last = halves.len().checked_sub(1)?;
    let quantile = |share: f64| halves[(last as f64 * share).round() as usize];
    Some(IntervalWidth { median_percent: quantile(0.5), ninety_percent: quantile(0.9) })
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
            (CPUS_PATH, 8.into()),
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
    fn speed_ups_compare_the_same_jobs_with_the_same_seed() {
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
        // The geometric mean of 400 over 100 and of 1 is 2.
        assert_eq!(speeds.len(), 1);
        assert!((speeds[0].speed_up.mean - 2.0).abs() < 1e-9 && speeds[0].load == 1.5, "{speeds:?}");
    }

    #[test]
    fn jobs_of_different_granularities_in_one_run_are_distinguished() {
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
        let speeds: BTreeMap<String, f64> = speeds(&runs)
            .into_iter()
            .map(|speed| (speed.place.grain, (speed.speed_up.mean * 1e6).round() / 1e6))
            .collect();
        assert_eq!(speeds, BTreeMap::from([("coarse".into(), 1.0), ("fine".into(), 3.0), ("medium".into(), 1.0)]));
    }

    #[test]
    fn the_bounds_are_the_last_load_at_which_the_advice_wins_and_the_first_at_which_it_loses() {
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
