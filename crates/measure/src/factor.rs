//! Factors: the paths that an experiment sweeps, and their values.
//!
//! Paths that vary together are one factor with a list of values. The value of each path can be
//! looked up, and the total number of threads is available as an axis.

use std::collections::BTreeMap;

use scenario::keys::experiment::{COUNTED_AXES, X_LOAD, X_THREADS};
use scenario::keys::{PATH_SEPARATOR, job, stage};
use scenario::{Arm, Experiment, Scenario};

/// Dotted paths and their values.
pub type Factors = BTreeMap<String, toml::Value>;

/// The value of a factor, or of one of the paths that vary together in it.
pub fn value<'a>(factors: &'a Factors, path: &str) -> Option<&'a toml::Value> {
    factors.get(path).or_else(|| factors.iter().find_map(|(paths, value)| part(paths, value, path)))
}

/// The item of a list of values that belongs to this path.
fn part<'a>(paths: &str, value: &'a toml::Value, path: &str) -> Option<&'a toml::Value> {
    value.as_array()?.get(paths.split(PATH_SEPARATOR).position(|one| one == path)?)
}

/// Whether a path is this factor, or one of the paths that vary together in it.
pub fn is_in(factor: &str, path: &str) -> bool {
    factor == path || factor.split(PATH_SEPARATOR).any(|one| one == path)
}

/// Whether this axis is not a path but a count of each arm.
pub fn is_counted(x: &str) -> bool {
    COUNTED_AXES.contains(&x)
}

/// Whether a value on the axis `x` determines the value of the factor: the axis shows it, or counts
/// the threads that it sets.
pub fn is_determined_by(x: &str, factor: &str) -> bool {
    /// The keys that only set numbers of threads.
    const NUMBERS: [&str; 4] = [job::THREADS.name, job::RANKS.name, job::COPIES.name, stage::FORK.name];
    let is_number = |path: &str| path.rsplit('.').next().is_some_and(|key| NUMBERS.contains(&key));
    is_in(factor, x) || is_counted(x) && factor.split(PATH_SEPARATOR).all(is_number)
}

/// The value of an arm with this number of threads and CPUs on the axis `x`.
pub fn axis_value(x: &str, factors: &Factors, threads: u64, cpus: u32) -> Option<toml::Value> {
    match x {
        X_THREADS => i64::try_from(threads).ok().map(toml::Value::Integer),
        X_LOAD => Some(toml::Value::Float(load(threads, cpus))),
        path => value(factors, path).cloned(),
    }
}

/// Threads per CPU, rounded to thousandths.
pub fn load(threads: u64, cpus: u32) -> f64 {
    (threads as f64 / f64::from(cpus.max(1)) * 1000.0).round() / 1000.0
}

/// The factors of an arm.
pub fn of(arm: &Arm) -> Factors {
    arm.factors.iter().cloned().collect()
}

/// The value of the compared factor in an arm of the scenario. `None` if no factor is compared.
pub fn compared(scenario: &Scenario, arm: usize) -> Option<toml::Value> {
    value(&of(scenario.arms.get(arm)?), scenario.experiment.compare.as_ref()?).cloned()
}

/// The factors that an arm shares with the others of its group: all except the compared one. If
/// that path varies together with others, the others are shared, or, on a counted axis, their
/// number of threads.
pub fn shared(arm: &Arm, experiment: &Experiment) -> Factors {
    let Some(compare) = &experiment.compare else { return of(arm) };
    let mut shared = Factors::new();
    for (paths, value) in arm.factors.iter().filter(|(paths, _)| paths != compare) {
        if !is_in(paths, compare) {
            shared.insert(paths.clone(), value.clone());
        } else if experiment.x.as_deref().is_some_and(is_counted) {
            let threads = arm.setting.threads(arm.setting.machine.cpus.unwrap_or(1));
            shared.extend(i64::try_from(threads).ok().map(|threads| (X_THREADS.to_owned(), threads.into())));
        } else {
            let others = paths.split(PATH_SEPARATOR).filter(|path| path != compare);
            let others = others.filter_map(|path| Some((path.to_owned(), part(paths, value, path)?.clone())));
            shared.extend(others);
        }
    }
    shared
}

/// The groups of arms, by number, that differ only in the compared factor. In the order of its
/// values, the baseline first. Empty if no factor is compared.
pub fn comparison_groups(scenario: &Scenario) -> Vec<Vec<usize>> {
    if scenario.experiment.compare.is_none() {
        return Vec::new();
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known = BTreeMap::new();
    for (number, arm) in scenario.arms.iter().enumerate() {
        let shared = report::words::factors(&shared(arm, &scenario.experiment));
        let group = *known.entry(shared).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(number);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: &str = r#"
        machine.cpus = 8
        [[job]]
        name = "crew"
        kind = "barrier"
        compute = "1 us"
        rounds = 1
        waiting = "cs"
        [experiment]
        sweep = { "job.crew.threads,job.crew.copies" = [[2, 8], [4, 4], [4, 6]], "machine.quantum" = ["1 us", "2 us"] }
    "#;

    fn arms(experiment: &str) -> (Vec<Arm>, Experiment) {
        let scenario = scenario::read("grid.toml", format!("{GRID}{experiment}").as_bytes());
        let scenario = scenario.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        (scenario.arms, scenario.experiment)
    }

    #[test]
    fn paths_that_vary_together_are_one_factor_and_each_has_its_own_value() {
        let (arms, _) = arms("");
        let factors = of(&arms[2]);
        assert_eq!(factors.len(), 2);
        assert_eq!(value(&factors, "job.crew.threads"), Some(&4.into()));
        assert_eq!(value(&factors, "job.crew.copies"), Some(&4.into()));
        assert_eq!(value(&factors, "machine.quantum"), Some(&"1 us".into()));
        assert_eq!(value(&factors, "job.crew"), None);
        assert_eq!(axis_value("load", &factors, 17, 8), Some(2.125.into()));
        assert_eq!(axis_value("threads", &factors, 17, 8), Some(17.into()));
        assert_eq!(axis_value("job.crew.copies", &factors, 17, 8), Some(4.into()));
    }

    #[test]
    fn an_axis_determines_the_factor_that_it_shows_or_counts() {
        let both = "job.a.threads, job.b.stages.read.fork";
        assert!(
            is_determined_by("load", both)
                && is_determined_by("load", "job.a.ranks")
                && is_determined_by("threads", "job.a.copies")
                && is_determined_by("job.a.threads", both)
        );
        assert!(
            !is_determined_by("load", "job.a.threads, job.a.rounds") && !is_determined_by("threads", "machine.cpus")
        );
        assert!(!is_determined_by("job.a.threads", "job.b.threads"));
    }

    #[test]
    fn comparison_groups_share_the_other_paths_or_the_number_of_threads() {
        let shared_by = |experiment| {
            let (arms, experiment) = arms(experiment);
            let shared = arms.iter().map(|arm| report::words::factors(&shared(arm, &experiment)));
            shared.step_by(2).collect::<Vec<_>>()
        };
        let quantum = "machine.quantum = 1 us";
        let copies = shared_by("compare = \"job.crew.threads\"");
        assert_eq!(copies, [8, 4, 6].map(|copies| format!("crew.copies = {copies}, {quantum}")));
        let threads = shared_by("compare = \"job.crew.threads\"\nx = \"load\"");
        assert_eq!(threads, [16, 16, 24].map(|threads| format!("{quantum}, threads = {threads}")));
        let whole = shared_by("compare = \"job.crew.threads, job.crew.copies\"");
        assert_eq!(whole, [quantum, quantum, quantum]);
    }
}
