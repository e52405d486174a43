use proptest::prelude::*;

use super::*;
use crate::layout::{Mesh, Partitioner, Rectangle, Request, Shape};
use crate::slices::{Movement, SliceTable};
use crate::turn::Turns;

const TURN: Span = Span::from_millis(200);

fn at(turn: u64) -> Instant {
    Instant::from_nanos(turn * TURN.as_nanos())
}

/// A slice of these jobs. Their cells do not matter.
fn slice(jobs: &[u32], weight: u32) -> Slice {
    let cell = Rectangle::at_origin(Shape { columns: 1, rows: 1 });
    Slice { jobs: jobs.iter().map(|&job| (JobId(job), cell)).collect(), weight }
}

/// Slices with one job each, of these weights.
fn slices(weights: &[u32]) -> Vec<Slice> {
    weights.iter().zip(0..).map(|(&weight, job)| slice(&[job], weight)).collect()
}

fn table(version: u64, reference: Instant, order: &[u32]) -> TurnTable {
    TurnTable { version, reference, slice: TURN, order: order.to_vec() }
}

#[test]
fn weights_of_zero_and_rounds_that_are_too_long_are_errors_and_change_nothing() {
    let mut rotation = Rotation::new(TURN);
    let first = rotation.publish(&slices(&[4, 2]), at(0)).unwrap();
    assert_eq!(first, table(1, at(0), &[0, 1, 0]));
    assert_eq!(rotation.publish(&slices(&[1, 0]), at(1)), Err(TurnError::NoWeight(1)));
    assert_eq!(rotation.publish(&slices(&[9_999, 2]), at(1)), Err(TurnError::TooLong(10_001)));
    assert_eq!(rotation.publish(&slices(&[u32::MAX; 3]), at(1)).unwrap(), table(2, at(1), &[1, 2, 0]));
    assert_eq!(rotation.publish(&slices(&[9_999, 1]), at(2)).unwrap().order.len(), 10_000);
    assert_eq!(rotation.publish(&[], at(3)).unwrap(), table(4, at(3), &[]));
}

#[test]
fn no_round_has_more_places_than_the_jobs_allow() {
    assert_eq!(round_of_jobs(&[]), 0);
    assert_eq!(round_of_jobs(&[(1000, 11), (500, 1)]), 23);
    assert_eq!(round_of_jobs(&[(1000, 11), (999, 1)]), 11_999);
    assert_eq!(round_of_jobs(&[(2, u64::MAX), (3, 1)]), u64::MAX);
}

#[test]
fn a_new_job_comes_before_the_one_that_has_just_been_active() {
    let mut rotation = Rotation::new(TURN);
    rotation.publish(&slices(&[1]), at(0)).unwrap();
    assert_eq!(rotation.publish(&slices(&[1, 1]), at(1)).unwrap().order, [1, 0]);
    // A second table for the same boundary does not count turns of the first.
    assert_eq!(rotation.publish(&slices(&[1, 1, 1]), at(1)).unwrap().order, [1, 2, 0]);
    // Job 1 has been active in the meantime.
    assert_eq!(rotation.publish(&[slice(&[1], 1), slice(&[0], 1)], at(2)).unwrap().order, [1, 0]);
}

#[test]
fn a_job_of_two_slices_has_waited_since_the_later_turn() {
    let three = [slice(&[0, 9], 1), slice(&[1], 1), slice(&[2, 9], 1)];
    for (turns, expected) in [(1, [1, 2, 0]), (2, [2, 0, 1]), (3, [1, 0, 2]), (100, [1, 2, 0])] {
        let mut rotation = Rotation::new(TURN);
        rotation.publish(&three, at(0)).unwrap();
        let next = [slice(&[9], 1), slice(&[1], 1), slice(&[2], 1)];
        assert_eq!(rotation.publish(&next, at(turns)).unwrap().order, expected, "{turns}");
    }
}

#[test]
fn a_job_that_leaves_all_slices_and_comes_back_waits_from_then_on() {
    let mut rotation = Rotation::new(TURN);
    rotation.publish(&slices(&[1, 1, 1]), at(0)).unwrap();
    // Jobs 0 and 1 are active until 4 and 5, and job 2 was until 3.
    assert_eq!(rotation.publish(&slices(&[1, 1]), at(3)).unwrap().order, [0, 1]);
    assert_eq!(rotation.publish(&slices(&[1, 1, 1]), at(5)).unwrap().order, [0, 2, 1]);
    rotation.publish(&[slice(&[3, 2, 4], 1)], at(6)).unwrap();
    rotation.publish(&[slice(&[2], 1)], at(7)).unwrap();
    assert!(rotation.waiting.keys().eq(&[JobId(2)]), "{:?}", rotation.waiting);
}

/// A change of the slices before a table is published, and for how many turns it is in force.
#[derive(Clone, Copy, Debug)]
struct Step {
    change: Change,
    turns: u64,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Arrives { slice: Option<usize>, weight: u32 },
    Leaves { slice: usize, job: usize },
    Weight { slice: usize, weight: u32 },
}

fn change(weights: std::ops::Range<u32>) -> impl Strategy<Value = Change> {
    let slice = 0..1_000_usize;
    prop_oneof![
        4 => (prop::option::of(slice.clone()), weights.clone())
            .prop_map(|(slice, weight)| Change::Arrives { slice, weight }),
        3 => (slice.clone(), slice.clone()).prop_map(|(slice, job)| Change::Leaves { slice, job }),
        3 => (slice, weights).prop_map(|(slice, weight)| Change::Weight { slice, weight }),
    ]
}

fn history(weights: std::ops::Range<u32>, turns: std::ops::Range<u64>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((change(weights), turns).prop_map(|(change, turns)| Step { change, turns }), 1..60)
}

impl Change {
    /// Changes the slices. A slice without jobs is dropped.
    fn apply(self, slices: &mut Vec<(Vec<u32>, u32)>, new_job: u32) {
        let count = slices.len().max(1);
        match self {
            Change::Arrives { slice: None, weight } => slices.push((vec![new_job], weight)),
            Change::Arrives { slice: Some(slice), .. } => {
                slices.get_mut(slice % count).into_iter().for_each(|(jobs, _)| jobs.push(new_job));
            }
            Change::Leaves { slice, job } => {
                slices.get_mut(slice % count).into_iter().for_each(|(jobs, _)| _ = jobs.remove(job % jobs.len()));
                slices.retain(|(jobs, _)| !jobs.is_empty());
            }
            Change::Weight { slice, weight } => {
                slices.get_mut(slice % count).into_iter().for_each(|slice| slice.1 = weight);
            }
        }
    }
}

/// A job that waits.
#[derive(Clone, Copy, Debug)]
struct Wait {
    turns: u64,
    /// The longest round of the tables in force.
    round: u64,
    /// How many slices there were when the wait began.
    slices: u64,
}

impl Wait {
    /// Whether the job has waited for less than a round.
    fn is_below_a_round(&self) -> bool {
        self.turns < self.round
    }

    /// Whether the job has waited for less than 1 + 1/2 + ... + 1/slices of a round.
    fn is_bounded(&self) -> bool {
        let share: f64 = (1..=self.slices).map(|slices| 1.0 / slices as f64).sum();
        (self.turns as f64) < self.round as f64 * share
    }
}

/// Whether all waits of a history satisfy this, and all its tables give slices their shares.
fn holds(history: &[Step], is_allowed: impl Fn(&Wait) -> bool) -> bool {
    let (mut rotation, mut slices, mut now) = (Rotation::new(TURN), Vec::new(), 0);
    let mut waits: BTreeMap<u32, Wait> = BTreeMap::new();
    for (step, new_job) in history.iter().zip(0..) {
        step.change.apply(&mut slices, new_job);
        let published: Vec<Slice> = slices.iter().map(|(jobs, weight)| slice(jobs, *weight)).collect();
        let table = rotation.publish(&published, at(now)).unwrap();
        let weights: Vec<u32> = slices.iter().map(|&(_, weight)| weight).collect();
        if !weights_hold(&table.order, &weights) {
            return false;
        }
        let (round, count) = (table.order.len() as u64, slices.len() as u64);
        for turn in now..now + step.turns {
            let active = table.active(at(turn));
            for ((jobs, _), number) in slices.iter().zip(0..) {
                for job in jobs {
                    if active == Some(number) {
                        waits.remove(job);
                        continue;
                    }
                    let wait = waits.entry(*job).or_insert(Wait { turns: 0, round: 0, slices: count });
                    *wait = Wait { turns: wait.turns + 1, round: wait.round.max(round), ..*wait };
                    if !is_allowed(wait) {
                        return false;
                    }
                }
            }
        }
        now += step.turns;
    }
    true
}

/// Whether at every boundary each slice has had its share to within less than one turn, and at the
/// end of the round exactly.
fn weights_hold(order: &[u32], weights: &[u32]) -> bool {
    let sum: i64 = weights.iter().copied().map(i64::from).sum();
    let lag = |turns: i64, elapsed: i64, weight: u32| elapsed * i64::from(weight) - turns * sum;
    let mut turns = vec![0; weights.len()];
    let within = (1..).zip(order).all(|(elapsed, &slice)| {
        turns[slice as usize] += 1;
        turns.iter().zip(weights).all(|(&turns, &weight)| lag(turns, elapsed, weight).abs() < sum)
    });
    within && turns.iter().zip(weights).all(|(&turns, &weight)| lag(turns, order.len() as i64, weight) == 0)
}

proptest! {
    #[test]
    fn weights_hold_to_within_a_turn_and_the_longest_waiting_slice_is_first(
        weights in prop::collection::vec(prop_oneof![1..4_u32, 1..30_u32, Just(300)], 1..9),
        active_before in 0..40_u64,
    ) {
        let mut rotation = Rotation::new(TURN);
        rotation.publish(&slices(&vec![1; weights.len()]), at(0)).unwrap();
        let order = rotation.publish(&slices(&weights), at(active_before)).unwrap().order;
        prop_assert!(weights_hold(&order, &weights));
        prop_assert_eq!(u64::from(order[0]), active_before % weights.len() as u64);
    }

    #[test]
    fn a_job_is_active_once_a_round_if_the_table_changes_at_every_boundary(history in history(1..20, 0..2)) {
        prop_assert!(holds(&history, Wait::is_below_a_round));
    }

    #[test]
    fn a_job_is_active_once_a_round_if_weights_are_equal(history in history(1..2, 0..8)) {
        prop_assert!(holds(&history, Wait::is_below_a_round));
    }

    #[test]
    fn a_job_waits_for_a_bounded_number_of_rounds_however_weights_and_tables_change(history in history(1..20, 0..80)) {
        prop_assert!(holds(&history, Wait::is_bounded));
    }
}

#[test]
fn light_slices_that_leave_after_their_turns_can_delay_the_last_one_as_long_as_stated() {
    // The last of six light slices, beside a heavy one that keeps the round at 1000 turns. Each
    // light slice is released just before the next one would be active.
    let mut rotation = Rotation::new(TURN);
    let mut light: Vec<u32> = (1..7).collect();
    let slices = |light: &[u32]| {
        let heavy = slice(&[0], 1000 - light.len() as u32);
        light.iter().map(|&job| slice(&[job], 1)).chain([heavy]).collect::<Vec<_>>()
    };
    let mut now = 0;
    while light.len() > 1 {
        let table = rotation.publish(&slices(&light), at(now)).unwrap();
        assert_eq!(table.order[0], 0);
        let is_light = |&turn: &usize| table.order[turn] < light.len() as u32;
        now += (1..).find(is_light).unwrap() as u64;
        light.remove(0);
    }
    let stated: f64 = (2..=6).map(|slices| 1000.0 / f64::from(slices)).sum();
    assert!((stated - 6.0..=stated).contains(&(now as f64)), "{now} {stated}");
}

/// How many slices have a job that has waited for as long, by the boundaries since when jobs wait.
fn slices_before(slices: &[Slice], waiting: &BTreeMap<JobId, u64>, since: u64) -> usize {
    slices.iter().filter(|slice| slice.jobs.iter().any(|(job, _)| waiting[job] <= since)).count()
}

proptest! {
    #[test]
    fn a_job_of_the_table_of_slices_waits_only_for_slices_that_waited_as_long(
        steps in prop::collection::vec((any::<bool>(), 1..=4_u32, 1..=2_u32, 0..100_usize, 0..5_u64), 1..60),
    ) {
        let mesh = Mesh::new(Shape { columns: 4, rows: 2 }).unwrap();
        let mut table = SliceTable::new(mesh, Partitioner::AdaptiveScan, Movement::Never, None);
        let (mut rotation, mut now) = (Rotation::new(TURN), 0);
        // Since when each job waits, and for how many slices it still may.
        let (mut waiting, mut left) = (BTreeMap::new(), BTreeMap::new());
        for (&(leaves, columns, rows, job, turns), new_job) in steps.iter().zip(0..) {
            let mut before = table.slices().to_vec();
            if leaves && !waiting.is_empty() {
                let job = *waiting.keys().nth(job % waiting.len()).unwrap();
                table.release(job).unwrap();
                waiting.remove(&job);
                left.remove(&job);
            } else {
                table.enter(JobId(new_job), Request::Rectangle(Shape { columns, rows }), 1).unwrap();
                waiting.insert(JobId(new_job), now);
            }
            let slices = table.slices();
            let turn_table = rotation.publish(slices, at(now)).unwrap();
            // A job that has waited as long and enters another slice may add a turn.
            before.iter_mut().for_each(|slice| slice.jobs.retain(|(job, _)| waiting.contains_key(job)));
            for (job, left) in &mut left {
                let count = |slices: &[Slice]| slices_before(slices, &waiting, waiting[job]);
                *left += count(slices).saturating_sub(count(&before));
            }
            for turn in now..now + turns {
                let active = turn_table.active(at(turn)).map_or(&[][..], |slice| &slices[slice as usize].jobs);
                for (&job, &since) in &waiting {
                    if active.iter().any(|&(active, _)| active == job) {
                        left.remove(&job);
                        continue;
                    }
                    let left = left.entry(job).or_insert_with(|| slices_before(slices, &waiting, since));
                    *left -= 1;
                    prop_assert!(*left > 0, "job {job} in turn {turn}");
                }
                waiting.extend(active.iter().map(|&(job, _)| (job, turn + 1)));
            }
            now += turns;
        }
    }
}

/// Publishes the tables of a history. Cells whose clocks lag behind by these milliseconds look in
/// the middle of each turn. Returns all tables, and what the clocks showed with the answers.
fn record(history: &[Step], lags: &[u64]) -> (Vec<TurnTable>, Vec<(Instant, Option<u32>)>) {
    let (mut rotation, mut cell, mut slices, mut now) = (Rotation::new(TURN), Turns::new(), Vec::new(), 0);
    let (mut tables, mut answers) = (Vec::new(), Vec::new());
    let clock = |turn: u64, lag: u64| Instant::ZERO + Span::from_millis((200 * turn + 100).saturating_sub(lag));
    for (step, new_job) in history.iter().zip(0..) {
        step.change.apply(&mut slices, new_job);
        let published: Vec<Slice> = slices.iter().map(|(jobs, weight)| slice(jobs, *weight)).collect();
        let table = rotation.publish(&published, at(now)).unwrap();
        assert!(cell.publish(table.clone()));
        cell.forget_before(clock(now, lags.iter().copied().max().unwrap_or(0)));
        tables.push(table);
        let clocks = (now..now + step.turns).flat_map(|turn| lags.iter().map(move |&lag| clock(turn, lag)));
        answers.extend(clocks.map(|clock| (clock, cell.active(clock))));
        now += step.turns;
    }
    (tables, answers)
}

proptest! {
    #[test]
    fn a_replay_gives_the_same_tables_and_a_cell_that_knows_them_all_the_same_answers(
        history in history(1..20, 0..9),
        lags in prop::collection::vec(0..1_500_u64, 1..4),
    ) {
        let (tables, answers) = record(&history, &lags);
        prop_assert_eq!(&record(&history, &[]).0, &tables);
        let mut cell = Turns::new();
        prop_assert!(tables.into_iter().all(|table| cell.publish(table)));
        for (clock, answer) in answers.into_iter().rev() {
            prop_assert_eq!(cell.active(clock), answer, "at {}", clock);
        }
    }
}
