use scenario::draw::Stream;

use super::super::fake::FakeProgram;
use super::*;

/// A program whose runs end as `outcome` says for their structure, with a little noise.
fn program(outcome: impl Fn(&str) -> RunOutcome) -> FakeProgram<impl FnMut(usize, &str) -> RunOutcome> {
    let mut noise = Stream::named(7, "noise", 0);
    FakeProgram::new(move |_, structure: &str| {
        let mut outcome = outcome(structure);
        if let RunOutcome::Done { seconds, .. } = &mut outcome {
            *seconds *= 1.0 + 0.02 * (noise.uniform() - 0.5);
        }
        outcome
    })
}

fn done(seconds: f64) -> RunOutcome {
    RunOutcome::Done { seconds, output: "same".into() }
}

const SETTINGS: ExplorationSettings = ExplorationSettings { pairs: 5, limit: None, seed: 1 };

/// This many variants: `buffers=1`, `buffers=2`, ...
fn variants(count: usize) -> Vec<Structure> {
    (1..=count).map(|buffers| Structure { buffers: Some(buffers), ..Structure::default() }).collect()
}

fn structures(texts: &[&str]) -> Vec<Structure> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn first() -> (f64, String) {
    (1.0, "same".into())
}

fn best(found: &Exploration) -> Option<String> {
    found.best().map(|(tried, _)| tried.structure.to_string())
}

#[test]
fn the_fastest_of_many_reaches_the_final_and_is_judged_only_by_new_runs() {
    let mut fake = program(|structure| done(if structure == "buffers=9" { 0.8 } else { 1.0 }));
    let found = explore(variants(20), first(), SETTINGS, &mut fake);
    assert_eq!((best(&found).as_deref(), &found.end), (Some("buffers=9"), &ExplorationEnd::Complete));
    let (tried, last) = found.best().unwrap();
    assert_eq!((last.pairs.len(), &tried.fate), (5, &VariantFate::Best));
    let speedup = last.speedup().unwrap();
    assert!(speedup.is_significant() && speedup.ratio.contains(1.25), "{speedup:?}");
    // The runs of the final are the last ones, in pairs.
    let finals = &fake.ran[fake.ran.len() - 10..];
    assert!(finals.chunks(2).all(|pair| pair.contains(&String::new()) && pair.contains(&"buffers=9".to_owned())));
    let in_heats = fake.ran.iter().filter(|ran| *ran == "buffers=9").count() - 5;
    assert_eq!(tried.logarithms.len(), in_heats);
}

#[test]
fn half_leave_after_each_heat_until_few_are_left() {
    // At most one is faster, so nothing is combined.
    let mut fake = program(|structure| match structure {
        "" => done(1.0),
        "buffers=1" => done(0.9),
        _ => done(1.1),
    });
    let found = explore(variants(20), first(), SETTINGS, &mut fake);
    let heats: Vec<(usize, u32)> = found.heats.iter().map(|heat| (heat.variants, heat.blocks)).collect();
    assert_eq!(heats, [(20, 2), (10, 2), (5, 4), (3, 4)]);
    let out = |number| found.tried.iter().filter(|tried| tried.fate == VariantFate::OutIn(number)).count();
    assert_eq!((out(1), out(2), out(3)), (10, 5, 2));
    assert_eq!(fake.ran.len() as u64, runs_ahead(20, 1) + 10);
    assert!(fake.expected.iter().all(|&expected| expected == fake.ran.len() as u64), "{:?}", fake.expected);
}

#[test]
fn every_block_runs_everything_once_in_a_different_order() {
    let mut fake = program(|_| done(1.0));
    explore(variants(12), first(), SETTINGS, &mut fake);
    let (one, other) = (&fake.ran[..13], &fake.ran[13..26]);
    assert_ne!(one, other);
    assert_eq!(one.iter().collect::<BTreeSet<_>>().len(), 13);
    assert_eq!(one.iter().collect::<BTreeSet<_>>(), other.iter().collect::<BTreeSet<_>>());
    let mut again = program(|_| done(1.0));
    explore(variants(12), first(), SETTINGS, &mut again);
    assert_eq!(fake.ran, again.ran);
    let mut otherwise = program(|_| done(1.0));
    explore(variants(12), first(), ExplorationSettings { seed: 2, ..SETTINGS }, &mut otherwise);
    assert_ne!(fake.ran[..13], otherwise.ran[..13]);
}

#[test]
fn the_best_variants_are_combined() {
    let factor = |structure: &str, word: &str, factor: f64| if structure.contains(word) { factor } else { 1.0 };
    let mut fake = program(|structure| {
        done(
            factor(structure, "buffers=16", 0.8) * factor(structure, "fork=a*4", 0.8) * factor(structure, "split", 1.2),
        )
    });
    let tried = structures(&["buffers=16", "fork=a*4", "split=a", "split=b", "split=c", "split=d"]);
    let found = explore(tried, first(), SETTINGS, &mut fake);
    assert_eq!(best(&found).as_deref(), Some("buffers=16 fork=a*4"));
    assert!(found.best().unwrap().1.speedup().unwrap().ratio.mean > 1.4);
    // Only faster variants are combined.
    assert_eq!(found.tried.len(), 7);
}

#[test]
fn a_variant_that_fails_or_prints_something_else_is_excluded() {
    let mut fake = program(|structure| match structure {
        "buffers=1" => RunOutcome::Failed("out of memory".into()),
        "buffers=2" => RunOutcome::Done { seconds: 0.1, output: "other".into() },
        "buffers=3" => done(0.9),
        _ => done(1.0),
    });
    let found = explore(variants(5), first(), SETTINGS, &mut fake);
    assert_eq!(best(&found).as_deref(), Some("buffers=3"));
    assert_eq!(found.tried[0].fate, VariantFate::Failed("out of memory".into()));
    assert_eq!((&found.tried[1].fate, found.tried[1].ratio()), (&VariantFate::OtherOutput, None));
    assert_eq!(fake.ran.iter().filter(|ran| *ran == "buffers=1").count(), 1);
}

#[test]
fn the_output_of_a_program_that_always_prints_something_else_is_not_checked() {
    let counter = std::cell::Cell::new(0);
    let mut fake = program(|structure| {
        counter.set(counter.get() + 1);
        RunOutcome::Done {
            seconds: if structure == "buffers=2" { 0.5 } else { 1.0 },
            output: counter.get().to_string(),
        }
    });
    let found = explore(variants(3), first(), SETTINGS, &mut fake);
    assert_eq!(best(&found).as_deref(), Some("buffers=2"));
}

#[test]
fn a_variant_that_fails_in_the_final_is_replaced_by_the_next() {
    let runs = std::cell::Cell::new(0);
    let mut fake = program(|structure| match structure {
        "buffers=1" => {
            runs.set(runs.get() + 1);
            if runs.get() > 3 { RunOutcome::Failed("late".into()) } else { done(0.5) }
        }
        "buffers=2" => done(0.7),
        _ => done(1.0),
    });
    let found = explore(variants(3), first(), SETTINGS, &mut fake);
    assert_eq!(found.tried[0].fate, VariantFate::Failed("late".into()));
    assert_eq!((best(&found).as_deref(), found.last.as_ref().unwrap().pairs.len()), (Some("buffers=2"), 5));
}

#[test]
fn without_a_faster_variant_there_is_no_final() {
    let mut fake = program(|structure| done(if structure.is_empty() { 1.0 } else { 2.0 }));
    let found = explore(variants(6), first(), SETTINGS, &mut fake);
    assert_eq!((found.last, found.end), (None, ExplorationEnd::Complete));
    let mut all_fail =
        program(|structure| if structure.is_empty() { done(1.0) } else { RunOutcome::Failed("no".into()) });
    let found = explore(variants(6), first(), SETTINGS, &mut all_fail);
    assert_eq!((found.last, found.end, all_fail.ran.len()), (None, ExplorationEnd::Complete, 7));
    assert_eq!(explore(Vec::new(), first(), SETTINGS, &mut all_fail).end, ExplorationEnd::Complete);
}

#[test]
fn a_single_variant_needs_no_heats() {
    let mut fake = program(|structure| done(if structure.is_empty() { 1.0 } else { 2.0 }));
    let found = explore(variants(1), first(), SETTINGS, &mut fake);
    assert_eq!((found.heats.len(), fake.ran.len()), (0, 10));
    let ratio = found.best().unwrap().1.speedup().unwrap().ratio;
    assert!(ratio.contains(0.5) && ratio.mean < 0.6, "{ratio:?}");
}

#[test]
fn a_program_that_fails_in_its_own_structure_ends_the_exploration() {
    let mut fake = program(|structure| if structure.is_empty() { RunOutcome::Failed("no".into()) } else { done(1.0) });
    assert_eq!(explore(variants(6), first(), SETTINGS, &mut fake).end, ExplorationEnd::OwnFailed("no".into()));
}

#[test]
fn a_stopped_exploration_keeps_its_results() {
    let fast = |structure: &str| done(if structure == "buffers=2" { 0.5 } else { 1.0 });
    // Twice seven runs in the first heat, and twice four in the second.
    for (stop_after, logarithms) in [(0, 0), (6, 0), (7, 1), (17, 2), (20, 3)] {
        let mut fake = FakeProgram { stop_after, ..program(fast) };
        let found = explore(variants(6), first(), SETTINGS, &mut fake);
        assert_eq!((&found.end, &found.last), (&ExplorationEnd::Stopped, &None));
        assert_eq!(found.tried[1].logarithms.len(), logarithms, "{stop_after}");
    }
    let all = {
        let mut fake = program(fast);
        explore(variants(6), first(), SETTINGS, &mut fake);
        fake.ran.len()
    };
    let mut fake = FakeProgram { stop_after: all - 2, ..program(fast) };
    let found = explore(variants(6), first(), SETTINGS, &mut fake);
    assert_eq!((found.end, found.last.unwrap().pairs.len()), (ExplorationEnd::Stopped, 4));
}

#[test]
fn the_limit_leaves_time_for_the_final() {
    for limit in [12, 20, 30, 50] {
        let mut fake = program(|structure| done(if structure == "buffers=2" { 0.9 } else { 1.0 }));
        let settings = ExplorationSettings { limit: Some(Duration::from_secs(limit)), ..SETTINGS };
        let found = explore(variants(20), first(), settings, &mut fake);
        assert_eq!(found.end, ExplorationEnd::TimeIsUp, "{limit}");
        assert!(fake.elapsed <= limit as f64 + 1.1, "{limit}: {}", fake.elapsed);
        // The noise may cost one run.
        assert!(found.last.is_none_or(|last| last.pairs.len() >= 4), "{limit}");
    }
    let settings = ExplorationSettings { limit: Some(Duration::from_secs(1000)), ..SETTINGS };
    assert_eq!(explore(variants(20), first(), settings, &mut program(|_| done(1.0))).end, ExplorationEnd::Complete);
}

proptest::proptest! {
    #[test]
    fn the_best_variant_always_works_and_has_a_complete_final(
        seconds in proptest::collection::vec(proptest::option::weighted(0.8, 0.2..2.0_f64), 0..24),
        seed in 0..100_u64,
    ) {
        let number = |structure: &str| structure.strip_prefix("buffers=").and_then(|number| number.parse::<usize>().ok());
        let mut fake = program(|structure| match number(structure).map(|number| seconds[number - 1]) {
            Some(None) => RunOutcome::Failed("no".into()),
            Some(Some(seconds)) => done(seconds),
            None => done(1.0),
        });
        let settings = ExplorationSettings { seed, ..SETTINGS };
        let found = explore(variants(seconds.len()), first(), settings, &mut fake);
        assert_eq!(found.end, ExplorationEnd::Complete);
        for (tried, seconds) in found.tried.iter().zip(&seconds) {
            let runs = fake.ran.iter().filter(|ran| **ran == tried.structure.to_string()).count();
            match seconds {
                None => assert!(runs == 1 && matches!(tried.fate, VariantFate::Failed(_))),
                Some(_) if tried.fate == VariantFate::Best => assert_eq!(runs, tried.logarithms.len() + 5),
                Some(_) => assert_eq!(runs, tried.logarithms.len()),
            }
        }
        let fastest = seconds.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        match found.best() {
            Some((tried, last)) => {
                let best = seconds[number(&tried.structure.to_string()).unwrap() - 1].unwrap();
                // The noise is 2 %.
                assert!(best <= fastest * 1.03 && last.pairs.len() == 5, "{best} {fastest}");
            }
            None => assert!(fastest > 0.97),
        }
    }
}
