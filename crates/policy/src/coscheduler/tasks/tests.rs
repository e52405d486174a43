use proptest::prelude::*;

use super::*;
use crate::coscheduler::Rules;
use crate::gang::Action;
use crate::layout::{Mesh, Partitioner, Shape};
use crate::slices::Entry;
use crate::units::Span;

fn on(columns: u32, rows: u32) -> Coscheduler {
    let rules = Rules { gang: Gang::Strict, slice: Span::from_millis(20), avoid_jobs_beside: true, ..Rules::default() };
    Coscheduler::new(Mesh::new(Shape { columns, rows }).unwrap(), rules)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

fn row(column: u32, columns: u32) -> Rectangle {
    Rectangle { column, row: 0, shape: Shape { columns, rows: 1 } }
}

fn enter(of: &mut Coscheduler, job: u32, ranks: u32) -> Rectangle {
    match of.enter(JobId(job), Request::Ranks(ranks), 1, at(0)).unwrap() {
        Entry::Placed(cells) => cells,
        Entry::Waits => panic!("job {job} waits"),
    }
}

fn enter_along(of: &mut Coscheduler, job: u32, with: u32, request: Request) -> Result<Rectangle, CoschedulingError> {
    of.enter_along(JobId(job), JobId(with), Gang::Strict, request, 1, at(0))
}

/// The jobs that are active at some times within a round.
fn turns(of: &Coscheduler, jobs: u32) -> Vec<Vec<u32>> {
    let active = |time| (0..jobs).filter(|&job| of.action(JobId(job), at(time)) == Action::Run).collect();
    let mut turns: Vec<Vec<u32>> = (0..of.round(at(100)).max(1)).map(|turn| active(100 + 20 * turn)).collect();
    turns.sort();
    turns
}

#[test]
fn jobs_that_cooperate_are_active_together_beside_each_other() {
    let mut of = on(4, 1);
    enter(&mut of, 0, 2);
    enter(&mut of, 1, 2);
    assert_eq!(enter_along(&mut of, 2, 0, Request::Ranks(2)), Ok(row(2, 2)));
    assert_eq!(turns(&of, 3), [vec![0, 2], vec![1]], "job 1 has cells of job 2");
    assert_eq!([0, 1, 2].map(|job| of.task(JobId(job))), [0, 1, 0].map(JobId));
    assert_eq!(of.cells(JobId(0), at(0)), Some(row(0, 2)), "it keeps its cells");
    // The last one of the task keeps its turns.
    of.release(JobId(0), at(0)).unwrap();
    assert_eq!(turns(&of, 3), [vec![1], vec![2]].map(|jobs: Vec<u32>| [vec![0], jobs].concat()));
    assert_eq!(enter(&mut of, 3, 2), row(0, 2));
    assert_eq!(of.enter(JobId(0), Request::Ranks(1), 1, at(0)), Err(SliceError::Twice(JobId(0)).into()));
    of.release(JobId(2), at(0)).unwrap();
    of.release(JobId(1), at(0)).unwrap();
    assert_eq!(of.slices(at(100)).len(), 1);
}

#[test]
fn a_job_gets_the_cells_that_keep_the_task_small_and_shares_some_only_on_a_mesh_that_is_too_small() {
    let mut of = on(6, 1);
    of.enter(JobId(0), Request::At(row(2, 1)), 1, at(0)).unwrap();
    assert_eq!(enter_along(&mut of, 1, 0, Request::Ranks(2)), Ok(row(0, 2)));
    assert_eq!(enter_along(&mut of, 2, 1, Request::Ranks(1)), Ok(row(3, 1)));
    assert_eq!(enter_along(&mut of, 3, 2, Request::Ranks(3)), Ok(row(0, 3)), "no 3 cells are left");
    assert_eq!(enter_along(&mut of, 4, 2, Request::At(row(1, 5))), Ok(row(1, 5)));
    assert_eq!(turns(&of, 5), [vec![0, 1, 2, 3, 4]]);
    for job in 0..5 {
        of.release(JobId(job), at(0)).unwrap();
    }
    assert_eq!(of.slices(at(100)).len(), 0);
}

#[test]
fn cells_between_those_of_a_task_belong_to_it() {
    let mut of = on(4, 1);
    of.enter(JobId(0), Request::At(row(0, 1)), 1, at(0)).unwrap();
    of.enter(JobId(1), Request::At(row(1, 1)), 1, at(0)).unwrap();
    assert_eq!(enter_along(&mut of, 2, 0, Request::At(row(3, 1))), Ok(row(3, 1)));
    assert_eq!(turns(&of, 3), [vec![0, 2], vec![1]]);
    of.release(JobId(2), at(0)).unwrap();
    assert_eq!(turns(&of, 2), [vec![0, 1]], "it is small again");
}

#[test]
fn a_job_that_takes_no_turns_runs_in_those_of_its_task_and_in_all_others() {
    let mut of = on(2, 1);
    enter(&mut of, 0, 1);
    enter(&mut of, 1, 2);
    enter_along(&mut of, 2, 0, Request::Ranks(1)).unwrap();
    of.set_gang(JobId(0), Gang::None, at(0)).unwrap();
    assert_eq!(turns(&of, 3), [vec![0, 1], vec![0, 2]]);
    of.set_held(JobId(2), true, at(0)).unwrap();
    assert_eq!(turns(&of, 3), [vec![0, 1]], "none of the task takes turns");
    of.set_weight(JobId(0), 3, at(0)).unwrap();
    of.set_held(JobId(2), false, at(0)).unwrap();
    assert_eq!(turns(&of, 3), [vec![0, 1], vec![0, 2], vec![0, 2], vec![0, 2]], "the heaviest job counts");
}

#[test]
fn a_job_without_a_partner_or_without_room_is_refused() {
    let mut of = on(2, 1);
    enter(&mut of, 0, 1);
    let before = of.snapshot();
    assert_eq!(enter_along(&mut of, 1, 7, Request::Ranks(1)), Err(SliceError::Unknown(JobId(7)).into()));
    assert_eq!(enter_along(&mut of, 0, 0, Request::Ranks(1)), Err(SliceError::Twice(JobId(0)).into()));
    assert!(enter_along(&mut of, 1, 0, Request::At(row(1, 2))).is_err());
    assert!(of.enter_along(JobId(1), JobId(0), Gang::CellOs, Request::Ranks(1), 1, at(0)).is_err());
    assert_eq!(of.snapshot(), before);
    let rules = Rules { movement: Movement::WithinNode, ..Rules::default() };
    let mut of = Coscheduler::new(Mesh::new(Shape { columns: 2, rows: 1 }).unwrap(), rules);
    enter(&mut of, 0, 1);
    assert_eq!(enter_along(&mut of, 1, 0, Request::Ranks(1)), Err(CoschedulingError::Along(JobId(0))));
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Enter(Request),
    /// By the place of the other among all jobs.
    EnterAlong(usize, Request),
    Release(usize),
    SetHeld(usize, bool),
    SetWeight(usize, u32),
}

fn any_call() -> impl Strategy<Value = Call> {
    let place = (0_u32..4, 0_u32..2, 1_u32..3, 1_u32..3).prop_map(|(column, row, columns, rows)| {
        let shape = Shape { columns: columns.min(4 - column), rows: rows.min(2 - row) };
        Request::At(Rectangle { column, row, shape })
    });
    let request = prop_oneof![3 => (1_u32..5).prop_map(Request::Ranks), 1 => place].boxed();
    prop_oneof![
        3 => request.clone().prop_map(Call::Enter),
        3 => (any::<usize>(), request).prop_map(|(place, request)| Call::EnterAlong(place, request)),
        3 => any::<usize>().prop_map(Call::Release),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(place, is_held)| Call::SetHeld(place, is_held)),
        1 => (any::<usize>(), 1_u32..4).prop_map(|(place, weight)| Call::SetWeight(place, weight)),
    ]
}

proptest! {
    /// Jobs of one task are active at the same time or never; those of two never share cells; each
    /// keeps its cells. A job shares cells with its task only if the mesh is too small.
    #[test]
    fn the_turns_of_jobs_that_cooperate_coincide_after_any_history(calls in prop::collection::vec(any_call(), 1..40)) {
        let mut of = on(4, 2);
        let mesh = Mesh::new(Shape { columns: 4, rows: 2 }).unwrap();
        // With the number that stands for all jobs with which each cooperates.
        let mut jobs: Vec<(JobId, usize, Rectangle)> = Vec::new();
        for (number, call) in calls.into_iter().enumerate() {
            let (job, now) = (JobId(number as u32), at(7 * number as u64));
            match call {
                Call::Enter(request) => {
                    let Ok(Entry::Placed(cells)) = of.enter(job, request, 1, now) else { panic!() };
                    jobs.push((job, number, cells));
                }
                Call::EnterAlong(place, request) if !jobs.is_empty() => {
                    let (with, group, _) = jobs[place % jobs.len()];
                    let cells = of.enter_along(job, with, Gang::Strict, request, 1, now).unwrap();
                    let mut taken = crate::layout::Occupancy::new(mesh);
                    let others = || jobs.iter().filter(|other| other.1 == group);
                    others().for_each(|other| taken.take_free_cells(other.2));
                    let has_room = Partitioner::FirstFit.find(&taken, request).is_some();
                    prop_assert_eq!(has_room, others().all(|other| !other.2.overlaps(cells)));
                    jobs.push((job, group, cells));
                }
                Call::Release(place) if !jobs.is_empty() => {
                    let (job, ..) = jobs.remove(place % jobs.len());
                    of.release(job, now).unwrap();
                }
                Call::SetHeld(place, is_held) if !jobs.is_empty() => {
                    of.set_held(jobs[place % jobs.len()].0, is_held, now).map(drop).unwrap();
                }
                Call::SetWeight(place, weight) if !jobs.is_empty() => {
                    of.set_weight(jobs[place % jobs.len()].0, weight, now).unwrap();
                }
                _ => {}
            }
            let boundary = of.next_boundary(now).unwrap_or(now);
            for time in (0..20).map(|ahead| now + Span::from_millis(9 * ahead)) {
                let held = |job: JobId| of.facts(job).unwrap().is_held;
                let runs = |job: JobId| of.action(job, time) == Action::Run;
                for &(one, group, cells) in jobs.iter().filter(|(job, ..)| !held(*job)) {
                    prop_assert_eq!(of.cells(one, time), Some(cells));
                    for &(other, other_group, others) in jobs.iter().filter(|(job, ..)| !held(*job)) {
                        if group == other_group && time < boundary {
                            // A new job waits for it.
                        } else if group == other_group {
                            prop_assert_eq!(runs(one), runs(other), "jobs {} and {}", one, other);
                        } else {
                            prop_assert!(!cells.overlaps(others) || !runs(one) || !runs(other));
                        }
                    }
                }
            }
            for &(job, ..) in jobs.iter().filter(|(job, ..)| !held_in(&of, *job)) {
                prop_assert!((0..400).any(|ahead| of.action(job, now + Span::from_millis(5 * ahead)) == Action::Run));
            }
        }
    }
}

fn held_in(of: &Coscheduler, job: JobId) -> bool {
    of.facts(job).unwrap().is_held
}
