use super::*;
use crate::threads::runs::tests::run;

/// Runs in which the duration depends on configuration and number of threads, with noise that
/// differs between rounds.
fn made(rounds: u32, noise: f64, us: impl Fn(Configuration, u32) -> f64) -> Vec<Observation> {
    let mut runs = Vec::new();
    for round in 0..rounds {
        for threads in THREADS {
            for (number, configuration) in (0_u32..).zip(CONFIGURATIONS) {
                let arm = Arm { system: System::Fibers, configuration: Some(configuration) };
                // Evenly distributed noise without a pattern that configurations share.
                let luck = f64::from((round * 5 + threads + number * 7 + round * number) % 11) / 5.0 - 1.0;
                runs.push(run(arm, threads, round, us(configuration, threads) * (1.0 + noise * luck)));
            }
        }
    }
    runs
}

const THREADS: [u32; 4] = [50, 100, 1000, 2000];

fn answers(runs: &[Observation]) -> [ClaimOutcome; 3] {
    let verdicts = verdicts(runs, &THREADS, true);
    assert_eq!(verdicts.len(), 6);
    let answers =
        |at| verdicts.iter().filter(|of| of.at == at).map(|of| of.answer).collect::<Vec<_>>().try_into().unwrap();
    // Warm times are a tenth of cold ones in these runs.
    assert_eq!(answers(Temperature::Cold), answers(Temperature::Warm));
    answers(Temperature::Cold)
}

fn evidence(runs: &[Observation]) -> Vec<String> {
    verdicts(runs, &THREADS, true).into_iter().map(|verdict| verdict.evidence).collect()
}

#[test]
fn the_claims_hold_on_a_machine_that_behaves_as_the_study_says() {
    let as_it_says = |configuration: Configuration, threads: u32| {
        let group = match configuration {
            of if BEST.contains(&of) => 1.0,
            of if of.levels == 10 => 6.0,
            _ => 3.0,
        };
        let is_small = configuration.levels * configuration.running_time_us <= 2500;
        if threads < MANY { if is_small { 80.0 } else { 100.0 } } else { 1000.0 * group }
    };
    // 50/50 is one of the small configurations and one of the best. The cube root of 6 * 6 * 1 over
    // that of 1 * 3 * 1 is 2.3.
    assert_eq!(answers(&made(12, 0.01, as_it_says)), [Agrees, Disagrees, Agrees]);
    let slower = |configuration: Configuration, threads: u32| {
        as_it_says(configuration, threads) * if threads >= MANY && configuration.levels == 10 { 2.0 } else { 1.0 }
    };
    assert_eq!(answers(&made(12, 0.01, slower)), [Agrees, Agrees, Agrees]);
}

#[test]
fn claims_fail_if_configurations_make_no_difference() {
    let runs = made(20, 0.03, |_, threads| f64::from(threads));
    assert_eq!(answers(&runs), [Disagrees, Disagrees, Disagrees]);
    let evidence = evidence(&runs);
    assert!(evidence[0].contains("the same within 5 %") && evidence[1].contains("the same within 5 %"), "{evidence:?}");
    assert!(evidence[2].contains("no gap"), "{evidence:?}");
}

#[test]
fn claims_are_undecided_if_the_noise_is_larger_than_the_claimed_difference() {
    assert_eq!(answers(&made(3, 0.9, |_, threads| f64::from(threads))), [Undecided, Undecided, Undecided]);
    // With one round the noise is unknown.
    assert_eq!(answers(&made(1, 0.0, |_, threads| f64::from(threads))), [Undecided, Undecided, Undecided]);
}

#[test]
fn the_contrary_of_a_claim_makes_it_false() {
    let contrary = |configuration: Configuration, threads: u32| {
        let large = f64::from(configuration.levels * configuration.running_time_us) / 1500.0;
        if threads < MANY { 1.0 / large } else { large }
    };
    let runs = made(12, 0.01, contrary);
    assert_eq!(answers(&runs), [Disagrees, Disagrees, Disagrees]);
    assert!(evidence(&runs)[0].contains("the other way round"));
    // Ten times as long is not about 300 %.
    let far = |configuration: Configuration, _| if SMALL.contains(&configuration) { 10.0 } else { 1.0 };
    assert_eq!(answers(&made(12, 0.01, far))[1], Disagrees);
}

#[test]
fn three_groups_with_another_best_one_are_not_those_of_the_study() {
    let by_levels = |configuration: Configuration, _| f64::from(configuration.levels);
    let runs = made(12, 0.01, by_levels);
    assert_eq!(answers(&runs)[2], Disagrees);
    assert!(evidence(&runs)[2].contains("3 groups, the fastest first: 10/"), "{:?}", evidence(&runs));
    let by_both = |of: Configuration, _| f64::from(of.levels) + f64::from(of.running_time_us) / 10.0;
    assert_eq!(answers(&made(12, 0.01, by_both))[2], Disagrees);
}

#[test]
fn a_significant_but_invisible_difference_makes_no_claim_true() {
    let a_little = |configuration: Configuration, _| if SMALL.contains(&configuration) { 0.98 } else { 1.0 };
    assert_eq!(answers(&made(20, 0.001, a_little)), [Disagrees, Disagrees, Disagrees]);
}

#[test]
fn claims_about_runs_that_were_not_made_are_undecided() {
    let few: Vec<Observation> = made(12, 0.01, |_, _| 1.0).into_iter().filter(|run| run.cell.threads < MANY).collect();
    let verdicts = verdicts(&few, &THREADS, true);
    let answers: Vec<ClaimOutcome> = verdicts.iter().map(|verdict| verdict.answer).collect();
    assert_eq!(answers, [Disagrees, Undecided, Undecided, Disagrees, Undecided, Undecided]);
    assert!(super::verdicts(&[], &THREADS, true).is_empty());
    let interrupted = super::verdicts(&few, &THREADS, false);
    assert!(interrupted.iter().all(|verdict| verdict.answer == Undecided), "{interrupted:?}");
}
