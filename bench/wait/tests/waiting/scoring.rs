//! Scores of artificial sheets.

use crate::arms::Label;
use crate::random::Random;
use crate::score::{Ratio, Scorer};
use crate::sheet::{Rates, Sheet, median};

/// A sheet of artificial cells, each with the rates of all arms. An arm's name may end in the
/// number of its copy.
fn sheet(arms: &[(&str, u32)], cells: &[&[&[f64]]]) -> Sheet {
    let some = |rates: &&[f64]| rates.iter().map(|&rate| (!rate.is_nan()).then_some(rate)).collect();
    let cell = |rates: &&[&[f64]]| Rates {
        threads: 2,
        hogs: 0,
        work: String::new(),
        rates: rates.iter().map(some).collect(),
        aside: vec![None; arms.len()],
    };
    let arms = arms.iter().map(|&(arm, copy)| Label { arm: arm.to_owned(), copy }).collect();
    Sheet { arms, cells: cells.iter().map(cell).collect() }
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 1e-9
}

#[test]
fn without_noise_the_score_is_the_ratio_to_the_fastest_and_has_no_width() {
    let sheet = sheet(&[("a", 1), ("b", 1)], &[&[&[100.0; 4], &[50.0; 4]], &[&[10.0; 4], &[40.0; 4]]]);
    let scores = Scorer::new(&sheet, 1).against_best();
    let [a, b] = [0, 1].map(|arm| [0, 1].map(|cell: usize| scores.cells[cell][arm].unwrap()));
    assert!(near(a[0].value, 1.0) && near(a[1].value, 0.25), "{a:?}");
    assert!(near(b[0].value, 0.5) && near(b[1].value, 1.0), "{b:?}");
    let has_no_width =
        |score: &Ratio| score.interval.is_some_and(|(low, high)| near(low, score.value) && near(high, low));
    assert!([a, b].concat().iter().all(has_no_width));
    let overall = scores.overall[0].unwrap();
    assert!(near(overall.value, 0.5) && has_no_width(&overall), "{overall:?}");
}

#[test]
fn chance_in_the_choice_does_not_lower_a_score() {
    // Twenty equal arms: the best of them is well above the median by chance, but not on the scored
    // half.
    let mut random = Random::new(7);
    let rates: Vec<Vec<f64>> = (0..20).map(|_| (0..8).map(|_| 80.0 + random.below(41) as f64).collect()).collect();
    let names: Vec<String> = (0..20).map(|arm| format!("arm {arm}")).collect();
    let arms: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let cell: Vec<&[f64]> = rates.iter().map(Vec::as_slice).collect();
    let sheet = sheet(&arms, &[&cell]);
    let scores = Scorer::new(&sheet, 1).against_best();
    let best = rates.iter().map(|rates| median(rates.clone()).unwrap()).fold(0.0, f64::max);
    let honest: f64 = (0..20).map(|arm| scores.cells[0][arm].unwrap().value).sum::<f64>() / 20.0;
    let naive: f64 = rates.iter().map(|rates| median(rates.clone()).unwrap() / best).sum::<f64>() / 20.0;
    assert!(naive < 0.95 && honest > 0.97, "naive {naive}, honest {honest}");
}

#[test]
fn a_capped_score_does_not_compensate_for_another_cell() {
    // In the first cell, the best arm on one half is slow on the other. So both arms seem better
    // than the best.
    let luck: &[&[f64]] = &[&[100.0, 1.0], &[1.0, 100.0]];
    let sheet = sheet(&[("a", 1), ("b", 1)], &[luck, &[&[50.0; 2], &[100.0; 2]]]);
    let scores = Scorer::new(&sheet, 1).against_best();
    assert!(scores.cells[0][0].unwrap().value > 9.0);
    assert!(near(scores.capped(0).unwrap(), 0.5_f64.sqrt()) && near(scores.capped(1).unwrap(), 1.0));
}

#[test]
fn an_arm_is_not_compared_with_its_own_copy() {
    let sheet = sheet(&[("a", 1), ("b", 1), ("a", 2)], &[&[&[90.0; 4], &[80.0; 4], &[100.0; 4]]]);
    let scores = Scorer::new(&sheet, 1).against_best();
    let values = [0, 1, 2].map(|arm| scores.cells[0][arm].unwrap().value);
    assert!(near(values[0], 1.0) && near(values[1], 0.8) && near(values[2], 1.0), "{values:?}");
}

#[test]
fn an_interval_is_as_wide_as_the_repetitions_differ() {
    let rates: &[&[f64]] = &[&[100.0; 6], &[30.0, 90.0, 30.0, 90.0, 30.0, 90.0], &[59.0, 60.0, 61.0, 59.0, 60.0, 61.0]];
    let sheet = sheet(&[("a", 1), ("wide", 1), ("narrow", 1)], &[rates]);
    let scores = Scorer::new(&sheet, 1).against_best();
    let [wide, narrow] = [1, 2].map(|arm| scores.cells[0][arm].unwrap().interval.unwrap());
    assert!(wide.0 < 0.4 && wide.1 > 0.8, "{wide:?}");
    assert!(narrow.0 >= 0.59 && narrow.1 <= 0.61, "{narrow:?}");
}

#[test]
fn against_a_single_arm_the_score_is_the_ratio() {
    let sheet = sheet(&[("a", 1), ("b", 1)], &[&[&[100.0; 2], &[500.0; 2]]]);
    let scores = Scorer::new(&sheet, 1).against(|_, other| other == 0);
    assert!(near(scores.cells[0][1].unwrap().value, 5.0) && near(scores.cells[0][0].unwrap().value, 1.0));
}

#[test]
fn one_repetition_or_an_arm_without_runs_has_no_score() {
    let nan = f64::NAN;
    let sheet = sheet(&[("a", 1), ("b", 1)], &[&[&[100.0], &[50.0]], &[&[100.0, 100.0], &[nan, nan]]]);
    let scores = Scorer::new(&sheet, 1).against_best();
    assert_eq!(scores.cells[0], [None, None]);
    assert!(near(scores.cells[1][0].unwrap().value, 1.0) && scores.cells[1][1].is_none());
    assert_eq!(scores.overall[1], None);
}

#[test]
fn three_repetitions_have_a_score_and_no_interval() {
    let sheet = sheet(&[("a", 1), ("b", 1)], &[&[&[100.0; 4], &[50.0; 4]], &[&[100.0; 3], &[50.0; 3]]]);
    let scores = Scorer::new(&sheet, 1).against_best();
    let [four, three] = [0, 1].map(|cell: usize| scores.cells[cell][1].unwrap());
    assert!(four.is_surely_below(0.51) && !four.is_surely_below(0.49));
    assert!(near(three.value, 0.5) && three.interval.is_none() && !three.is_surely_below(0.9));
    assert!(near(scores.overall[1].unwrap().value, 0.5) && scores.overall[1].unwrap().interval.is_none());
}

#[test]
fn the_same_seed_gives_the_same_scores() {
    let rates: &[&[f64]] = &[&[100.0, 80.0, 120.0, 95.0], &[70.0, 130.0, 90.0, 110.0]];
    let sheet = sheet(&[("a", 1), ("b", 1)], &[rates]);
    let scores = |seed| Scorer::new(&sheet, seed).against_best();
    assert_eq!(scores(3), scores(3));
    assert_ne!(scores(3), scores(4));
}
