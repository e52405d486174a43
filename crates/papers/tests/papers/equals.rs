//! A/A tests: two samples from the same distribution differ at the 5 % level about once in twenty
//! comparisons.
//!
//! 200 comparisons have a standard error of 1.5 % around 5 %. The seeds are fixed, so the rates
//! never change.

use scenario::draw::Stream;
use stats::mann_whitney::mann_whitney;
use stats::student::{one_sample, welch};
use stats::trend::trend;

const COMPARISONS: usize = 200;

/// Checks the false-alarm rates of all tests for differences, with `side` values on each side: the
/// paired test of logarithms, which verdicts use, the paired test, two tests of independent
/// samples, and the trend test.
#[track_caller]
fn assert_few_false_alarms(of: &str, side: usize, mut draw: impl FnMut() -> f64) {
    let mut alarms = [0; 5];
    for _ in 0..COMPARISONS {
        let both: Vec<f64> = (0..2 * side).map(|_| draw()).collect();
        let (first, second) = both.split_at(side);
        let pairs = || first.iter().zip(second);
        let logarithms: Vec<f64> = pairs().map(|(one, other)| one.ln() - other.ln()).collect();
        let differences: Vec<f64> = pairs().map(|(one, other)| one - other).collect();
        let p = [
            one_sample(&logarithms).unwrap().p,
            one_sample(&differences).unwrap().p,
            welch(first, second).unwrap().p,
            mann_whitney(first, second).unwrap().p,
            trend(&both).unwrap().p,
        ];
        alarms.iter_mut().zip(p).for_each(|(alarms, p)| *alarms += usize::from(p < 0.05));
    }
    let rates = alarms.map(|alarms| alarms as f64 / COMPARISONS as f64 * 100.0);
    eprintln!("{of}: paired logarithms, pairs, Welch, Mann-Whitney, trend: {rates:?} %");
    assert!(rates.iter().all(|rate| (2.0..=9.0).contains(rate)), "{of}: {rates:?} %");
}

/// The completion time of a small overloaded barrier job on the simulated machine, in nanoseconds.
fn simulated(scenario: &scenario::Scenario, seed: u64) -> f64 {
    let setting = &scenario.arms[0].setting;
    let machine = setting.machine.complete(&scenario::Machine::with_cpus(2));
    let outcome = sim::run(&machine, setting, seed).unwrap();
    outcome.jobs[0].completion_ns.unwrap().as_nanos() as f64
}

#[test]
fn simulations_that_differ_only_in_their_seed_rarely_differ_significantly() {
    let text = r#"
        machine = { cpus = 2, scheduler = "rr" }
        job = [
            { name = "crew", kind = "barrier", threads = 3, compute = { mean = "50 us", sd = "20 us" }, rounds = 4, waiting = "cs" },
            { name = "crowd", kind = "cpu", threads = 1 },
        ]
    "#;
    let scenario = scenario::read("crew.toml", text.as_bytes()).unwrap_or_else(|bad| panic!("{bad}"));
    let mut seeds = 0..;
    assert_few_false_alarms("simulations", 10, || simulated(&scenario, seeds.next().unwrap()));
}

#[test]
fn times_with_a_heavy_tail_rarely_differ_significantly() {
    // As on a busy machine: skewed, and one in twenty much longer.
    let mut stream = Stream::named(1, "heavy tail", 0);
    assert_few_false_alarms("heavy tails", 12, || {
        let (radius, angle, disturbed) = (stream.uniform(), stream.uniform(), stream.uniform());
        let normal = (-2.0 * radius.ln()).sqrt() * (angle * std::f64::consts::TAU).cos();
        100.0 * (0.3 * normal).exp() * if disturbed < 0.05 { 2.0 } else { 1.0 }
    });
}

#[test]
fn quiet_times_rarely_differ_significantly() {
    let mut stream = Stream::named(2, "quiet", 0);
    assert_few_false_alarms("quiet times", 5, || 100.0 + stream.uniform() + stream.uniform() + stream.uniform());
}
