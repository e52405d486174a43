use proptest::prelude::*;

use crate::coscheduler::{Coscheduler, Rules};
use crate::gang::{Action, Class, Gang};
use crate::layout::{Mesh, Rectangle, Request, Shape};
use crate::slices::{Movement, SliceError};
use crate::units::{Instant, JobId, Span};

const THREE_BY_ONE: Shape = Shape { columns: 3, rows: 1 };

fn new() -> Coscheduler {
    let rules = Rules { gang: Gang::Adaptive, slice: Span::from_millis(20), ..Rules::default() };
    Coscheduler::new(Mesh::new(THREE_BY_ONE).unwrap(), rules)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

fn cells(column: u32, columns: u32) -> Rectangle {
    Rectangle { column, row: 0, shape: Shape { columns, rows: 1 } }
}

/// A job for each of these columns.
fn with(jobs: &[(u32, u32)]) -> Coscheduler {
    let mut of = new();
    for (job, &(column, columns)) in (0..).map(JobId).zip(jobs) {
        of.enter(job, Request::At(cells(column, columns)), 1, at(0)).unwrap();
    }
    of
}

/// The jobs that run in each of the next turns.
fn running(of: &Coscheduler, turns: u64) -> Vec<Vec<u32>> {
    let runs = |turn: u64| move |&job: &u32| of.action(JobId(job), at(1_000 + 20 * turn)) == Action::Run;
    (0..turns).map(|turn| (0..8).filter(|&job| of.facts(JobId(job)).is_some()).filter(runs(turn)).collect()).collect()
}

/// In the order of the turns, whatever the first one is.
fn rotated(mut turns: Vec<Vec<u32>>, first: u32) -> Vec<Vec<u32>> {
    let place = turns.iter().position(|jobs| jobs[0] == first && (first != 0 || jobs.len() < 3)).unwrap();
    turns.rotate_left(place);
    turns
}

#[test]
fn a_job_that_idles_is_accompanied_by_the_next_one_in_its_own_turns_only() {
    let mut of = with(&[(0, 3), (0, 3), (0, 3)]);
    let alone = running(&of, 3);
    let turns: Vec<u32> = alone.iter().map(|jobs| jobs[0]).collect();
    assert!(alone.iter().all(|jobs| jobs.len() == 1));
    of.set_idles(JobId(turns[0]), true).unwrap();
    let sorted = |mut jobs: Vec<u32>| {
        jobs.sort_unstable();
        jobs
    };
    assert_eq!(running(&of, 3), [sorted(vec![turns[0], turns[1]]), vec![turns[1]], vec![turns[2]]]);
    // If that one idles as well, the one after it, too.
    of.set_idles(JobId(turns[1]), true).unwrap();
    assert_eq!(running(&of, 3), [vec![0, 1, 2], sorted(vec![turns[1], turns[2]]), vec![turns[2]]]);
    of.set_idles(JobId(turns[2]), true).unwrap();
    assert_eq!(running(&of, 3), [[0, 1, 2]; 3]);
    (0..3).for_each(|job| of.set_idles(JobId(job), false).unwrap());
    assert_eq!(running(&of, 3), alone);
    assert_eq!(of.set_idles(JobId(9), true), Err(SliceError::Unknown(JobId(9)).into()));
}

#[test]
fn a_job_waits_for_each_one_that_has_its_cells_and_does_not_idle() {
    let mut of = with(&[(0, 1), (1, 2), (0, 3)]);
    let runs_in_other_turns = |of: &Coscheduler| running(of, 2).iter().all(|jobs| jobs.contains(&2));
    of.set_idles(JobId(0), true).unwrap();
    assert!(!runs_in_other_turns(&of));
    of.set_idles(JobId(1), true).unwrap();
    assert!(runs_in_other_turns(&of));
    assert_eq!(rotated(running(&of, 2), 2), [vec![2], vec![0, 1, 2]]);
    // One that takes no turns is in no slice, and neither waits nor lets wait.
    of.set_class(JobId(1), Class::Blocks, at(0)).unwrap();
    assert_eq!(rotated(running(&of, 2), 1), [vec![1, 2], vec![0, 1, 2]]);
    // One that is lowered otherwise has its ordinary priority then.
    of.set_gang(JobId(2), Gang::Moderate, at(0)).unwrap();
    assert!(runs_in_other_turns(&of));
    of.set_gang(JobId(0), Gang::Strict, at(0)).unwrap();
    assert!(!runs_in_other_turns(&of));
    of.set_held(JobId(2), true, at(0)).unwrap();
    assert!(!running(&of, 2).iter().any(|jobs| jobs.contains(&2)));
}

#[test]
fn jobs_that_cooperate_are_accompanied_if_all_of_them_idle() {
    let mut of = new();
    of.enter(JobId(0), Request::At(cells(0, 1)), 1, at(0)).unwrap();
    of.enter_along(JobId(1), JobId(0), Gang::Adaptive, Request::At(cells(1, 1)), 1, at(0)).unwrap();
    of.enter(JobId(2), Request::At(cells(0, 3)), 1, at(0)).unwrap();
    let always = |of: &Coscheduler| running(of, 2).iter().all(|jobs| jobs.contains(&2));
    of.set_idles(JobId(0), true).unwrap();
    assert!(!always(&of));
    of.set_idles(JobId(1), true).unwrap();
    assert!(always(&of));
    of.set_idles(JobId(0), false).unwrap();
    of.set_class(JobId(0), Class::Computes, at(0)).unwrap();
    assert!(always(&of), "that one takes no turns");
}

#[test]
fn a_job_that_was_released_or_moves_is_not_accompanied() {
    let mut of = with(&[(0, 3), (0, 3)]);
    let (first, second) = if of.has_turn(JobId(0), at(1)) { (0, 1) } else { (1, 0) };
    of.set_idles(JobId(first), true).unwrap();
    of.release(JobId(first), at(1)).unwrap();
    assert_eq!([1, 20].map(|millis| of.action(JobId(second), at(millis))), [Action::Stop, Action::Run]);
    let rules = Rules { gang: Gang::Adaptive, movement: Movement::WithinNode, ..Rules::default() };
    let mut of = Coscheduler::new(Mesh::new(THREE_BY_ONE).unwrap(), Rules { slice: Span::from_millis(20), ..rules });
    for job in 0..2 {
        of.enter(JobId(job), Request::At(cells(0, 3)), 1, at(0)).unwrap();
        of.set_idles(JobId(job), true).unwrap();
    }
    assert!(running(&of, 2).iter().all(|jobs| jobs.len() == 1));
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Enter(Gang, Rectangle, u32),
    Release,
    SetIdles(bool),
    SetClass(Class),
    SetWeight(u32),
}

fn any_change() -> impl Strategy<Value = (u32, Change, u64)> {
    let gang = prop::sample::select(vec![Gang::None, Gang::Moderate, Gang::Strict, Gang::Adaptive]);
    let place = (0_u32..3, 1_u32..4).prop_map(|(column, columns)| cells(column, columns.min(3 - column)));
    let change = prop_oneof![
        4 => (gang, place, 1_u32..4).prop_map(|(gang, place, weight)| Change::Enter(gang, place, weight)),
        1 => Just(Change::Release),
        4 => any::<bool>().prop_map(Change::SetIdles),
        1 => prop::sample::select(vec![Class::Spins, Class::Blocks]).prop_map(Change::SetClass),
        1 => (1_u32..4).prop_map(Change::SetWeight),
    ];
    (0_u32..6, change, 0_u64..50)
}

proptest! {
    /// Beside one in which no job idles.
    #[test]
    fn jobs_that_idle_change_no_turn_and_on_a_cell_one_job_at_most_runs_that_does_not(
        changes in prop::collection::vec(any_change(), 1..40),
    ) {
        let (mut of, mut now) = (new(), at(1_000));
        let mut busy = of.clone();
        for (job, change, gap) in changes {
            now = now + Span::from_millis(gap);
            let job = JobId(job);
            for of in [&mut of, &mut busy] {
                // Some are refused.
                _ = match change {
                    Change::Enter(gang, place, weight) => {
                        of.enter_as(job, gang, Request::At(place), weight, now).map(drop)
                    }
                    Change::Release => of.release(job, now).map(drop),
                    Change::SetClass(class) => of.set_class(job, class, now).map(drop),
                    Change::SetWeight(weight) => of.set_weight(job, weight, now),
                    Change::SetIdles(_) => Ok(()),
                };
            }
            if let Change::SetIdles(idles) = change {
                _ = of.set_idles(job, idles);
            }
            prop_assert_eq!(of.version(), busy.version());
            for clock in [0, 20, 40, 60, 80].map(|ahead| now + Span::from_millis(ahead)) {
                prop_assert_eq!((of.slices(clock), of.next_boundary(clock)), (busy.slices(clock), busy.next_boundary(clock)));
                let jobs: Vec<JobId> = (0..6).map(JobId).filter(|&job| of.facts(job).is_some()).collect();
                let is_alone = of.slices(clock).len() <= 1;
                for &job in &jobs {
                    let (action, without) = (of.action(job, clock), busy.action(job, clock));
                    prop_assert!(action == without || action == Action::Run && !is_alone);
                    prop_assert!(!of.has_turn(job, clock) || action == Action::Run);
                }
                let wants = |job: &&JobId| of.facts(**job).is_some_and(|facts| facts.takes_turns() && !facts.is_accompanied());
                let runs = |job: &&JobId| of.action(**job, clock) == Action::Run;
                let busy: Vec<Rectangle> =
                    jobs.iter().filter(wants).filter(runs).filter_map(|&job| of.cells(job, clock)).collect();
                for (number, one) in busy.iter().enumerate() {
                    prop_assert!(busy[number + 1..].iter().all(|other| !one.overlaps(*other)), "{:?}", of);
                }
            }
        }
    }
}
