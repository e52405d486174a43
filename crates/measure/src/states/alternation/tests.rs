use super::*;
use proptest::prelude::*;
use scenario::draw::Stream;

/// Rounds one microsecond apart, given by a text each with a `#` for each awake thread.
fn rounds(sides: impl Iterator<Item = String>) -> Rounds {
    let mut rounds = None;
    for (number, side) in (1..).zip(sides) {
        let rounds: &mut Rounds = rounds.get_or_insert_with(|| Rounds::new(side.len()));
        rounds.push(Instant::from_nanos(1000 * number), side.chars().map(|c| c == '#'));
    }
    rounds.unwrap()
}

fn cycle(sides: &[&str], count: usize) -> Rounds {
    rounds((0..count).map(|round| sides[round % sides.len()].to_owned()))
}

#[test]
fn two_groups_that_take_turns_are_found_regardless_of_their_sizes() {
    let found = find(&cycle(&["#.##.", ".#..#"], 100)).unwrap();
    assert_eq!((found.round, found.at_ns, found.rounds, found.until_ns), (0, Span::from_micros(1), 100, None));
    assert_eq!((found.groups, &found.members), ([3.0, 2.0], &[vec![0, 2, 3], vec![1, 4]]));
    assert_eq!((found.alternating_percent, found.clean_percent, found.kept_percent), (100.0, 100.0, 100.0));
    let said = "alternating synchronization from 1.000 us on, groups of 3 and 2, 100 % of the rounds";
    assert_eq!(found.words(), said);
    assert_eq!(find(&cycle(&["#....", ".####"], 100)).unwrap().groups, [1.0, 4.0]);
    assert_eq!(find(&cycle(&["#.", ".#"], 62)).unwrap().groups, [1.0, 1.0]);
}

#[test]
fn threads_that_run_together_do_not_alternate() {
    assert_eq!(find(&cycle(&["#####"], 1000)), None);
    // One group succeeds every other time.
    assert_eq!(find(&cycle(&["#####", "#...."], 1000)), None);
    assert_eq!(find(&cycle(&["####.", ".####"], 1000)), None);
}

#[test]
fn rounds_in_which_only_the_last_arrival_is_awake_are_undecided() {
    assert_eq!(find(&cycle(&["#......", "..#....", "....#..", ".#....."], 1000)), None);
}

#[test]
fn a_pattern_ends_when_the_threads_begin_to_run_together() {
    let side = |round: usize| match round {
        0..30 => "######".to_owned(),
        30..130 if round.is_multiple_of(2) => "##.#..".to_owned(),
        30..130 => "..#.##".to_owned(),
        _ => "######".to_owned(),
    };
    let found = find(&rounds((0..400).map(side))).unwrap();
    assert_eq!((found.round, found.rounds), (30, 100));
    assert_eq!((found.at_ns, found.until_ns), (Span::from_micros(31), Some(Span::from_micros(130))));
}

#[test]
fn a_group_with_threads_that_give_up_early_is_not_clean() {
    // Of six threads, two complete the round, and two that ran with them have just fallen asleep.
    let found = find(&cycle(&["##....", "..##..", "....##"], 300)).unwrap();
    assert_eq!((found.groups, found.alternating_percent), ([2.0, 2.0], 100.0));
    assert!((found.clean_percent - 200.0 / 3.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn an_occasional_round_that_does_not_alternate_is_tolerated_and_counted() {
    // In every tenth round the group that was awake stays awake.
    let side =
        |round: usize| if (round - round / 10).is_multiple_of(2) { "###...".to_owned() } else { "...###".to_owned() };
    let found = find(&rounds((0..500).map(side))).unwrap();
    assert!(found.rounds >= 490 && (89.0..=91.0).contains(&found.alternating_percent), "{found:?}");
    assert_eq!((found.groups, found.kept_percent), ([3.0, 3.0], 100.0));
}

/// Rounds whose awake threads are drawn at random.
fn random_rounds(threads: usize, percent: u64, seed: u64) -> Rounds {
    let mut stream = Stream::named(seed, "lots", 0);
    let mut side = || {
        let mut side: Vec<char> = (0..threads).map(|_| if stream.below(100) < percent { '#' } else { '.' }).collect();
        // The last to arrive is always awake.
        side[stream.below(threads as u64) as usize] = '#';
        side.into_iter().collect::<String>()
    };
    rounds((0..2000).map(|_| side()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_rounds_do_not_alternate(threads in 2..40_usize, percent in 0..100_u64, seed in any::<u64>()) {
        prop_assert_eq!(find(&random_rounds(threads, percent, seed)), None);
    }

    #[test]
    fn groups_are_found_regardless_of_their_members_and_of_their_first_round(
        groups in proptest::collection::vec(any::<bool>(), 2..70), before in 0..80_usize, seed in any::<u64>(),
    ) {
        prop_assume!(groups.contains(&true) && groups.contains(&false));
        let random = random_rounds(groups.len(), 90, seed);
        let side = |round: usize| -> String {
            let is_awake = |thread: usize| match round.checked_sub(before) {
                None => random.is_awake(round, thread),
                Some(turn) => groups[thread] == turn.is_multiple_of(2),
            };
            (0..groups.len()).map(|thread| if is_awake(thread) { '#' } else { '.' }).collect()
        };
        let found = find(&rounds((0..before + 150).map(side))).unwrap();
        // A round before it may alternate by chance.
        prop_assert!(found.round <= before as u64 && found.round + 10 > before as u64, "{:?}", found);
        let mut members = found.members.clone();
        members.sort();
        let (one, other): (Vec<usize>, Vec<usize>) = (0..groups.len()).partition(|&thread| groups[thread] == groups[0]);
        prop_assert_eq!(members.to_vec(), vec![one, other]);
        prop_assert_eq!(found.until_ns, None);
    }

    #[test]
    fn the_stretch_has_the_largest_sum_and_begins_and_ends_with_alternating_rounds(
        items in proptest::collection::vec(prop_oneof![8 => Just(Some(true)), 1 => Just(Some(false)), 2 => Just(None)], 0..600),
    ) {
        let sum = |items: &[Option<bool>]| -> i64 {
            items.iter().map(|item| item.map_or(0, |is| if is { 1 } else { -(PENALTY as i64) })).sum()
        };
        let best = (0..items.len()).map(|begin| {
            let sums = items[begin..].iter().scan(0, |sum, item| { *sum += item.map_or(0, |is| if is { 1 } else { -3 }); Some(*sum) });
            sums.max().unwrap_or(0)
        }).max().unwrap_or(0);
        match stretch(items.iter().copied()) {
            None => prop_assert!(best < MIN_SUM as i64),
            Some((first, last)) => {
                prop_assert_eq!(sum(&items[first..=last]), best);
                prop_assert!((first..last).all(|end| sum(&items[first..=end]) >= 0 && sum(&items[end + 1..=last]) >= 0));
                prop_assert!(items[first] == Some(true) && items[last] == Some(true));
            }
        }
    }
}
