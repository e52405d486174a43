//! The verdicts and notes of a report on artificial completion times.

use std::collections::BTreeMap;

use crate::experiment::mock::read;
use measure::results::{ExperimentReport, text};
use measure::sample::Sample;
use scenario::draw::Stream;
use scenario::result::{JobOutcome, Outcome, Run, World};
use scenario::{Scenario, Span};

/// A scenario of one job with `count` arms.
fn arms(count: usize) -> Scenario {
    let values: Vec<String> = (1..=count).map(|number| format!("{number}")).collect();
    read(&format!(
        "machine = {{ like = \"host\" }}\njob = [{{ name = \"crew\", kind = \"cpu\", threads = 1, work = \"1 ms\" }}]\n\
         experiment = {{ compare = \"job.crew.threads\", sweep = {{ \"job.crew.threads\" = [{}] }} }}\n",
        values.join(", ")
    ))
}

/// The report on repetitions in one world. A run takes as many microseconds as `micros` returns for
/// the numbers of its arm and its repetition.
fn report(arms_count: usize, repeat: u32, world: World, mut micros: impl FnMut(usize, u32) -> f64) -> ExperimentReport {
    let mut scenario = arms(arms_count);
    scenario.experiment.repeat = repeat;
    let mut samples = Vec::new();
    for (repeat, arm) in (0..repeat).flat_map(|repeat| (0..arms_count).map(move |arm| (repeat, arm))) {
        let completion_ns = Some(Span::from_nanos((micros(arm, repeat) * 1e3) as u64));
        let jobs = vec![JobOutcome { job: "crew".into(), completion_ns, ..JobOutcome::default() }];
        let factors: BTreeMap<_, _> = scenario.arms[arm].factors.iter().cloned().collect();
        let run = Run { world, factors, repeat, seed: 1, outcome: Outcome { jobs, ..Outcome::default() } };
        samples.push(Sample { arm, run, states: Default::default() });
    }
    ExperimentReport::new(&scenario, &[world], samples.len() as u64, samples, &[], None)
}

/// A number with a heavy upper tail, like measured times, and a median of 1.
fn skewed(stream: &mut Stream) -> f64 {
    let (radius, angle) = (stream.uniform(), stream.uniform());
    let normal = (-2.0 * radius.ln()).sqrt() * (angle * std::f64::consts::TAU).cos();
    (0.2 * normal).exp()
}

#[test]
fn equal_arms_rarely_differ_significantly_however_many_there_are() {
    let (mut corrected, mut uncorrected) = (0, 0);
    for trial in 0..200 {
        let mut stream = Stream::named(3, "equals", trial);
        let report = report(6, 5, World::Sim, |_, _| 1e3 * skewed(&mut stream));
        assert_eq!(report.comparisons, 15);
        let fastest = &report.verdicts[0].fastest[0];
        corrected += usize::from(fastest.not_told_from.len() < 5);
        uncorrected += usize::from(fastest.level_with.len() < 5);
        // At most nine of fifteen pairs are tested, but the correction is for all fifteen.
        let enough = |p: f64, corrected: f64| corrected >= (6.999 * p).min(1.0);
        assert!(
            report
                .summaries
                .iter()
                .all(|of| of.speedup_p.zip(of.speedup_corrected_p).is_none_or(|(p, c)| enough(p, c)))
        );
    }
    // With the correction, one family of true hypotheses in twenty may be rejected. Without it, far
    // more are.
    assert!(corrected <= 16, "{corrected} of 200");
    assert!(uncorrected >= 40, "{uncorrected} of 200");
}

#[test]
fn a_real_difference_is_reported_and_marked() {
    let mut stream = Stream::named(4, "unequals", 0);
    let report = report(3, 8, World::Sim, |arm, _| [100.0, 100.5, 50.0][arm] * (1.0 + 0.02 * stream.uniform()));
    let fastest = &report.verdicts[0].fastest[0];
    assert_eq!((fastest.value.as_integer(), fastest.not_told_from.len()), (Some(3), 0));
    let [baseline, level, fast] = &report.summaries[..] else { panic!("three arms") };
    assert_eq!((baseline.speedup_p, baseline.speedup_corrected_p), (None, None));
    assert!(level.speedup_corrected_p > Some(0.05) && fast.speedup_corrected_p < Some(1e-6));
    let text = text::render(&report);
    let explained = "* differs from the baseline (paired t-test at 5 %, Holm over 3 comparisons)";
    assert!(text.replace("\n  ", " ").contains(explained), "{text}");
    let marked: Vec<&str> = text.lines().filter(|line| line.ends_with('*')).collect();
    assert!(matches!(marked[..], [line] if line.trim_start().starts_with('3')), "{text}");
}

#[test]
fn one_repetition_is_too_few_for_a_verdict() {
    let report = report(3, 1, World::Host, |arm, _| [3.0, 2.0, 1.0][arm]);
    assert_eq!(report.verdicts[0].fastest[0].not_told_from.len(), 2);
    let text = text::render(&report);
    assert!(text.contains("`3` is fastest in host (with only one repetition)."), "{text}");
    assert!(!text.contains('*') && text.contains("no significant differences"), "{text}");
}

#[test]
fn ordinary_samples_have_no_notes() {
    let mut stream = Stream::named(5, "calm", 0);
    for (arms, repeat) in [(1, 1), (4, 3), (4, 40)] {
        let found = report(arms, repeat, World::Host, |_, _| 100.0 + stream.uniform());
        assert_eq!(found.notes.len(), usize::from(repeat == 1), "{:?}", found.notes);
    }
}

#[track_caller]
fn only_note(report: &ExperimentReport) -> &str {
    assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
    assert!(text::render(report).lines().all(|line| line.chars().count() <= report::WIDTH));
    &report.notes[0]
}

#[test]
fn outliers_are_counted_and_some_are_named() {
    let mut stream = Stream::named(6, "outliers", 0);
    let mut micros = |arm: usize, repeat: u32| {
        let is_outlier = repeat == 7 && arm.is_multiple_of(10);
        100.0 + stream.uniform() + if is_outlier { 5.0 } else { 0.0 }
    };
    let report = report(100, 10, World::Sim, &mut micros);
    let note = only_note(&report);
    assert!(note.starts_with("Outliers: ") && note.contains("crew, crew.threads = 1 (sim)"), "{note}");
    assert!(note.contains("; and ") && note.chars().count() < 400, "{note}");
}

#[test]
fn no_value_is_an_outlier_if_many_are_far_from_the_others() {
    let far = |count| {
        report(1, 20, World::Sim, |_, repeat| {
            100.0 + f64::from(repeat % 10) / 10.0 + if repeat < count { 5.0 } else { 0.0 }
        })
    };
    assert!(only_note(&far(2)).starts_with("Outliers: 2 of 20 "));
    assert!(far(3).notes.is_empty(), "{:?}", far(3).notes);
}

#[test]
fn a_drift_is_reported_for_the_host_and_not_for_the_simulator() {
    let drifting = |world| {
        report(2, 12, world, |arm, repeat| {
            100.0 + if arm == 1 { f64::from(repeat) } else { f64::from(repeat * 5 % 12) }
        })
    };
    let host = drifting(World::Host);
    let note = only_note(&host);
    assert!(note.starts_with("Drift: ") && note.contains("crew, crew.threads = 2 (host) rises"), "{note}");
    assert!(!note.contains("crew.threads = 1 (host)"), "{note}");
    assert!(drifting(World::Sim).notes.is_empty());
}

#[test]
fn two_modes_are_reported_if_there_are_enough_values() {
    let mut stream = Stream::named(7, "heaps", 0);
    let mut two_modes =
        |repeat| report(1, repeat, World::Sim, |_, repeat| 100.0 + 3.0 * f64::from(repeat % 2) + stream.uniform());
    let many = two_modes(30);
    let note = only_note(&many);
    assert!(note.starts_with("Several modes: completion times of 1 of 1 series"), "{note}");
    assert!(two_modes(15).notes.is_empty());
}

#[test]
fn the_note_on_a_wide_interval_says_how_many_repetitions_would_narrow_it() {
    let wide = report(2, 4, World::Sim, |arm, repeat| 100.0 + f64::from(repeat) * 10.0 * arm as f64);
    let note = only_note(&wide);
    // 115 ± 20.5, which is 18 %. With a standard deviation of 12.9, eight are enough: 2.36 * 12.9 /
    // √8 is 10.8.
    assert!(note.starts_with("Wide intervals: ±18 % for crew, crew.threads = 2 (sim). About 8 repetitions"), "{note}");
    assert!(note.ends_with("--until \"10 %\" runs as many as needed."), "{note}");
    // This is more than the default limit of --until.
    let hopeless = report(1, 4, World::Sim, |_, repeat| if repeat < 2 { 40.0 } else { 160.0 });
    let note = only_note(&hopeless);
    assert!(
        note.contains("About 187 repetitions") && note.ends_with("--at-most 187 runs as many as needed."),
        "{note}"
    );
}
