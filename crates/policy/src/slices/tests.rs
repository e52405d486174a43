mod fluid;
mod reference;

use proptest::prelude::*;

use self::reference::Reference;
use super::*;
use crate::layout::Shape;

fn shape(columns: u32, rows: u32) -> Shape {
    Shape { columns, rows }
}

fn table(mesh: Shape, most_slices: Option<u32>) -> SliceTable {
    SliceTable::new(Mesh::new(mesh).unwrap(), Partitioner::AdaptiveScan, Movement::Never, most_slices)
}

/// Enters a job by a size, with a weight of one. Returns its first cell.
fn enter(table: &mut SliceTable, job: u32, columns: u32, rows: u32) -> Option<(u32, u32)> {
    match table.enter(JobId(job), Request::Rectangle(shape(columns, rows)), 1).unwrap() {
        Entry::Placed(rectangle) => Some((rectangle.column, rectangle.row)),
        Entry::Waits => None,
    }
}

/// The jobs of each slice.
fn jobs(table: &SliceTable) -> Vec<Vec<u32>> {
    table.slices().iter().map(|slice| slice.jobs.iter().map(|(job, _)| job.0).collect()).collect()
}

#[test]
fn jobs_that_do_not_fit_together_go_to_different_slices_as_in_figures_2_and_3() {
    let mut table = table(shape(4, 4), None);
    assert_eq!(enter(&mut table, 1, 2, 2), Some((0, 0)));
    assert_eq!(enter(&mut table, 2, 3, 3), Some((0, 0)), "no 3 x 3 cells are left beside it");
    assert_eq!(enter(&mut table, 3, 1, 3), Some((2, 0)));
    assert_eq!(jobs(&table), [vec![1, 3], vec![2]], "the cells of job 3 are taken in the second slice");
    assert_eq!(enter(&mut table, 4, 1, 4), Some((3, 0)));
    assert_eq!(jobs(&table), [vec![1, 3, 4], vec![2, 4]], "job 4 is a multiple task");
}

#[test]
fn multiple_tasks_leave_a_slice_that_a_new_job_needs() {
    let mut table = table(shape(8, 2), None);
    (0..5).for_each(|job| assert!(enter(&mut table, job, 2, 2).is_some()));
    assert_eq!(jobs(&table), [vec![0, 1, 2, 3], vec![4, 1, 2, 3]]);
    assert_eq!(enter(&mut table, 5, 2, 2), Some((2, 0)));
    assert_eq!(jobs(&table), [vec![0, 2, 3, 5], vec![4, 1, 2, 3]], "job 1 runs in the second slice");
}

#[test]
fn a_release_enters_the_jobs_that_have_room_now_and_drops_slices() {
    let mut table = table(shape(8, 2), None);
    (0..6).for_each(|job| assert!(enter(&mut table, job, 2, 2).is_some()));
    assert_eq!(table.release(JobId(0)), Ok(vec![]));
    assert_eq!(jobs(&table), [vec![2, 3, 5, 4], vec![4, 1, 2, 3]], "job 4 has the cells that job 0 had");
    assert_eq!(table.release(JobId(1)), Ok(vec![]));
    assert_eq!(jobs(&table), [vec![2, 3, 5, 4]], "no slice has a single task, and one remains");
}

#[test]
fn a_slice_weighs_as_much_as_its_heaviest_single_task() {
    let mut table = table(shape(4, 1), None);
    for (job, columns, weight) in [(0, 2, 3), (1, 1, 9), (2, 2, 5)] {
        table.enter(JobId(job), Request::Rectangle(shape(columns, 1)), weight).unwrap();
    }
    assert_eq!(jobs(&table), [vec![0, 1], vec![2, 1]]);
    let weights = |table: &SliceTable| table.slices().iter().map(|slice| slice.weight).collect::<Vec<_>>();
    assert_eq!(weights(&table), [3, 5], "job 1 is in both slices");
    table.release(JobId(0)).unwrap();
    assert_eq!(weights(&table), [9]);
    table.enter(JobId(4), Request::Ranks(9), 0).unwrap();
    assert_eq!(weights(&table), [9, 1], "zero counts as one");
}

#[test]
fn requests_beyond_the_limit_wait_in_order_of_arrival() {
    let mut table = table(shape(4, 2), Some(2));
    assert_eq!(enter(&mut table, 0, 4, 2), Some((0, 0)));
    assert_eq!(enter(&mut table, 1, 4, 2), Some((0, 0)));
    assert_eq!(enter(&mut table, 2, 4, 2), None);
    assert_eq!(enter(&mut table, 3, 1, 1), None);
    assert_eq!(table.waiting().collect::<Vec<_>>(), [JobId(2), JobId(3)]);
    assert_eq!(table.release(JobId(0)), Ok(vec![(JobId(2), Rectangle::at_origin(shape(4, 2)))]));
    assert_eq!(table.release(JobId(2)), Ok(vec![(JobId(3), Rectangle::at_origin(shape(1, 1)))]));
    assert_eq!(enter(&mut table, 4, 1, 1), Some((1, 0)), "it has room beside job 3");
}

#[test]
fn a_request_that_stops_waiting_lets_the_next_one_in() {
    let mut table = table(shape(4, 1), Some(1));
    enter(&mut table, 0, 2, 1);
    assert_eq!((enter(&mut table, 1, 3, 1), enter(&mut table, 2, 1, 1)), (None, None));
    assert_eq!(table.rectangle(JobId(1)), Err(SliceError::Waiting(JobId(1))));
    assert_eq!(table.release(JobId(1)), Ok(vec![(JobId(2), Rectangle { column: 2, row: 0, shape: shape(1, 1) })]));
}

#[test]
fn a_job_out_of_turn_keeps_its_cells_and_occupies_no_slice() {
    let mut table = table(shape(2, 1), Some(1));
    assert_eq!(enter(&mut table, 0, 2, 1), Some((0, 0)));
    assert_eq!(enter(&mut table, 1, 1, 1), None);
    assert_eq!(table.set_takes_turns(JobId(1), false), Err(SliceError::Waiting(JobId(1))));
    let placed = Ok(vec![(JobId(1), Rectangle::at_origin(shape(1, 1)))]);
    assert_eq!(table.set_takes_turns(JobId(0), false), placed);
    assert_eq!(table.rectangle(JobId(0)), Ok(Rectangle::at_origin(shape(2, 1))));
    assert_eq!(jobs(&table), [vec![1]]);
    assert_eq!(table.set_takes_turns(JobId(0), true), Ok(vec![]));
    assert_eq!(jobs(&table), [vec![1], vec![0]], "beyond the limit");
    assert_eq!(table.set_takes_turns(JobId(0), true), Ok(vec![]), "as before");
    assert_eq!(jobs(&table), [vec![1], vec![0]]);
}

#[test]
fn a_new_job_avoids_the_cells_of_jobs_beside_unless_that_takes_one_more_slice() {
    let mut table = table(shape(3, 1), None).avoiding_jobs_beside(true);
    assert_eq!(enter(&mut table, 0, 1, 1), Some((0, 0)));
    table.set_takes_turns(JobId(0), false).unwrap();
    assert_eq!(enter(&mut table, 1, 2, 1), Some((1, 0)));
    assert_eq!(enter(&mut table, 2, 1, 1), Some((0, 0)), "without a new slice, its cell is the only one");
    assert_eq!(enter(&mut table, 3, 3, 1), Some((0, 0)));
    assert_eq!(jobs(&table), [vec![1, 2], vec![3]]);
    table.release(JobId(1)).unwrap();
    table.set_takes_turns(JobId(2), false).unwrap();
    assert_eq!(enter(&mut table, 4, 1, 1), Some((1, 0)), "in a new slice, other cells are free");
}

#[test]
fn a_later_slice_has_room_before_the_cells_of_a_job_beside() {
    let at = |column, columns| Rectangle { column, row: 0, shape: shape(columns, 1) };
    for (avoids, expected) in [(true, at(2, 1)), (false, at(0, 1))] {
        let mut table = table(shape(3, 1), None).avoiding_jobs_beside(avoids);
        table.enter_beside(JobId(0), Request::At(at(0, 1)), 1).unwrap();
        table.enter(JobId(1), Request::At(at(1, 2)), 1).unwrap();
        table.enter(JobId(2), Request::At(at(0, 2)), 1).unwrap();
        assert_eq!(jobs(&table), [vec![1], vec![2]]);
        assert_eq!(table.enter(JobId(3), Request::Ranks(1), 1), Ok(Entry::Placed(expected)));
    }
}

#[test]
fn jobs_that_take_no_turns_avoid_each_other() {
    for (avoids, expected) in [(true, [0, 1, 0]), (false, [0, 0, 0])] {
        let mut table = table(shape(2, 1), None).avoiding_jobs_beside(avoids);
        let columns = [0, 1, 2].map(|job| table.enter_beside(JobId(job), Request::Ranks(1), 1).unwrap());
        let at = |column| Entry::Placed(Rectangle { column, row: 0, shape: shape(1, 1) });
        assert_eq!((columns, table.slices()), (expected.map(at), &[][..]));
    }
}

#[test]
fn a_job_that_has_gone_is_an_error() {
    let mut table = table(shape(2, 2), None);
    enter(&mut table, 7, 2, 2);
    table.release(JobId(7)).unwrap();
    let error = SliceError::Unknown(JobId(7));
    assert_eq!(table.release(JobId(7)), Err(error.clone()));
    assert_eq!(table.set_takes_turns(JobId(7), true), Err(error.clone()));
    assert_eq!(table.set_weight(JobId(7), 1), Err(error.clone()));
    assert_eq!(table.rectangle(JobId(7)), Err(error.clone()));
    assert_eq!(error.to_string(), "job 7 is not in the table");
    assert_eq!(jobs(&table), Vec::<Vec<u32>>::new());
}

#[test]
fn a_request_that_cannot_be_met_is_refused() {
    let mut table = table(shape(8, 2), Some(1));
    let error = SliceError::TooLarge { request: shape(3, 3), mesh: shape(8, 2) };
    assert_eq!(table.enter(JobId(0), Request::Rectangle(shape(3, 3)), 1), Err(error.clone()));
    assert_eq!(error.to_string(), "3x3 cells fit into a mesh of 8x2 in neither orientation");
    assert!(table.enter(JobId(0), Request::Rectangle(shape(0, 1)), 1).is_err());
    assert!(table.enter(JobId(0), Request::Rectangle(shape(u32::MAX, u32::MAX)), 1).is_err());
    assert_eq!(enter(&mut table, 0, 2, 8), Some((0, 0)), "it fits if it is turned");
    let again = table.enter(JobId(0), Request::Ranks(1), 1);
    assert_eq!(again, Err(SliceError::Twice(JobId(0))));
    assert_eq!(table.enter(JobId(1), Request::Ranks(1), 1), Ok(Entry::Waits));
    assert_eq!(table.enter(JobId(1), Request::Ranks(1), 1), Err(SliceError::Twice(JobId(1))));
}

fn table_whose_jobs_move(mesh: Shape) -> SliceTable {
    SliceTable::new(Mesh::new(mesh).unwrap(), Partitioner::AdaptiveScan, Movement::WithinNode, None)
}

/// The jobs of each slice with their first columns.
fn columns(table: &SliceTable) -> Vec<Vec<(u32, u32)>> {
    let columns = |slice: &Slice| slice.jobs.iter().map(|(job, cells)| (job.0, cells.column)).collect();
    table.slices().iter().map(columns).collect()
}

#[test]
fn of_five_jobs_that_move_each_slice_lacks_one() {
    let mut table = table_whose_jobs_move(shape(8, 2));
    (0..5).for_each(|job| assert!(enter(&mut table, job, 2, 2).is_some()));
    let expected = [
        [(0, 0), (1, 2), (2, 4), (3, 6)],
        [(4, 0), (1, 2), (2, 4), (0, 6)],
        [(3, 6), (4, 0), (1, 2), (0, 4)],
        [(2, 4), (3, 6), (4, 0), (0, 2)],
        [(1, 2), (2, 4), (3, 6), (4, 0)],
    ];
    assert_eq!(columns(&table), expected, "only job 0 moves");
}

#[test]
fn jobs_that_move_share_the_slices_beside_a_job_on_all_cells() {
    let mut table = table_whose_jobs_move(shape(8, 2));
    enter(&mut table, 9, 8, 2);
    (0..5).for_each(|job| assert!(enter(&mut table, job, 2, 2).is_some()));
    assert!((least_share(&table) - 4. / 9.).abs() < 1e-9, "9 slices: 4 for job 9, and 5 with 4 jobs each");
    assert_eq!(table.slices().len(), 9);
}

#[test]
fn a_job_leaves_its_own_cells_if_a_job_with_a_smaller_share_has_no_room_otherwise() {
    let mut table = table_whose_jobs_move(shape(5, 1));
    let places = [(0, 2), (1, 2), (2, 1), (3, 1)].map(|(job, width)| enter(&mut table, job, width, 1));
    assert_eq!(places, [0, 2, 4, 0].map(|column| Some((column, 0))));
    let second = &columns(&table)[1];
    assert_eq!(second, &[(3, 0), (0, 1), (1, 3)], "job 1 on its own cells would leave none for job 0");
}

#[test]
fn thousands_of_jobs_are_entered_and_released() {
    for (mesh, size, count, slices) in [((64, 64), 1, 6_000, 2), ((8, 2), 2, 1_000, 250)] {
        let mut table = table(shape(mesh.0, mesh.1), None);
        (0..count).for_each(|job| assert!(enter(&mut table, job, size, size).is_some()));
        assert_eq!(table.slices().len(), slices);
        assert!(table.slices().iter().all(|slice| slice.jobs.len() as u32 * size * size == mesh.0 * mesh.1));
        (0..count).for_each(|job| assert_eq!(table.release(JobId(job)), Ok(vec![])));
        assert_eq!(table.slices(), []);
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Enter(Request, u32),
    EnterBeside(Request, u32),
    /// By the place among the jobs that are not yet released.
    Release(usize),
    SetTakesTurns(usize, bool),
    SetWeight(usize, u32),
}

fn any_call(mesh: Shape) -> impl Strategy<Value = Call> {
    let size = (1..=mesh.columns, 1..=mesh.rows).prop_map(|(columns, rows)| Request::Rectangle(shape(columns, rows)));
    let small = (1..=mesh.columns.div_ceil(3), 1..=mesh.rows.div_ceil(2))
        .prop_map(|(columns, rows)| Request::Rectangle(shape(columns, rows)));
    let place = (0..mesh.columns, 0..mesh.rows).prop_flat_map(move |(column, row)| {
        let sizes = (1..=mesh.columns - column, 1..=mesh.rows - row);
        sizes.prop_map(move |(columns, rows)| Request::At(Rectangle { column, row, shape: shape(columns, rows) }))
    });
    let ranks = (0..mesh.cells() * 5 / 4).prop_map(Request::Ranks);
    let request = prop_oneof![1 => size, 3 => small, 2 => ranks, 1 => place].boxed();
    prop_oneof![
        5 => (request.clone(), 1_u32..5).prop_map(|(request, weight)| Call::Enter(request, weight)),
        1 => (request, 1_u32..5).prop_map(|(request, weight)| Call::EnterBeside(request, weight)),
        1 => (any::<usize>(), 0_u32..5).prop_map(|(place, weight)| Call::SetWeight(place, weight)),
        4 => any::<usize>().prop_map(Call::Release),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(place, takes_turns)| Call::SetTakesTurns(place, takes_turns)),
    ]
}

/// The size of a mesh, the most slices, whether jobs beside the slices are avoided, and calls.
fn history() -> impl Strategy<Value = (Shape, Option<u32>, bool, Vec<Call>)> {
    let mesh = prop_oneof![
        2 => Just(shape(8, 2)),
        2 => (1_u32..9, 1_u32..9).prop_map(|(columns, rows)| shape(columns, rows)),
    ];
    (mesh, prop_oneof![2 => Just(None), 1 => (0_u32..5).prop_map(Some)]).prop_flat_map(|(mesh, most)| {
        (Just(mesh), Just(most), any::<bool>(), prop::collection::vec(any_call(mesh), 1..80))
    })
}

proptest! {
    /// After each call, the table equals that of the reference and has the promised properties. In
    /// the end all jobs are released, and none waits.
    #[test]
    fn after_any_history_the_table_equals_that_of_a_slow_reference((mesh, most, avoids, calls) in history()) {
        let mesh = Mesh::new(mesh).unwrap();
        for partitioner in Partitioner::ALL {
            let table = SliceTable::new(mesh, partitioner, Movement::Never, most);
            let mut table = table.avoiding_jobs_beside(avoids);
            let mut reference = Reference::new(mesh, partitioner, most, avoids);
            let mut alive = Vec::new();
            let mut next = (0..).map(|number| JobId(1000 - number));
            let drain = std::iter::repeat_n(Call::Release(0), calls.len());
            for call in calls.iter().copied().chain(drain) {
                match call {
                    Call::Enter(request, weight) => {
                        let job = next.next().unwrap();
                        alive.push(job);
                        prop_assert_eq!(table.enter(job, request, weight).unwrap(), reference.enter(job, request, weight, true));
                    }
                    Call::EnterBeside(request, weight) => {
                        let job = next.next().unwrap();
                        alive.push(job);
                        let entry = table.enter_beside(job, request, weight).unwrap();
                        prop_assert_eq!(entry, reference.enter(job, request, weight, false));
                    }
                    Call::Release(place) if !alive.is_empty() => {
                        let job = alive.remove(place % alive.len());
                        prop_assert_eq!(table.release(job).unwrap(), reference.release(job));
                    }
                    Call::SetTakesTurns(place, takes_turns) if !alive.is_empty() => {
                        let job = alive[place % alive.len()];
                        prop_assert_eq!(table.set_takes_turns(job, takes_turns).ok(), reference.set_takes_turns(job, takes_turns));
                    }
                    Call::SetWeight(place, weight) if !alive.is_empty() => {
                        let job = alive[place % alive.len()];
                        table.set_weight(job, weight).unwrap();
                        reference.set_weight(job, weight);
                    }
                    _ => {}
                }
                prop_assert_eq!(table.slices(), &reference.slices()[..]);
                prop_assert_eq!(table.waiting().collect::<Vec<_>>(), reference.waiting());
                let waiting: Vec<JobId> = table.waiting().collect();
                prop_assert!(alive.ends_with(&waiting), "{:?} do not wait for older ones only", waiting);
                prop_assert!(alive.is_empty() || waiting.len() < alive.len(), "the oldest one waits");
                check_promises(&table, most)?;
            }
            prop_assert_eq!(table.slices(), &[]);
        }
    }
}

/// The share of the least served job that takes turns.
fn least_share(table: &SliceTable) -> f64 {
    let all: u32 = table.slices().iter().map(|slice| slice.weight).sum();
    let share = |job: JobId, weight: u32| {
        let its = table.slices().iter().filter(|slice| slice.jobs.iter().any(|&(other, _)| other == job));
        f64::from(its.map(|slice| slice.weight).sum::<u32>()) / f64::from(all) / f64::from(weight)
    };
    let jobs = table.jobs.iter().filter(|(_, placed)| placed.takes_turns);
    jobs.map(|(&job, placed)| share(job, placed.weight)).fold(f64::INFINITY, f64::min)
}

proptest! {
    /// Requests are placed as if jobs could not move, and the least served job never has less. If
    /// the table is another one, it has more.
    #[test]
    fn jobs_move_only_if_the_least_served_one_gets_more((mesh, most, _, calls) in history()) {
        let mesh = Mesh::new(mesh).unwrap();
        let mut still = SliceTable::new(mesh, Partitioner::AdaptiveScan, Movement::Never, most);
        let mut moving = SliceTable::new(mesh, Partitioner::AdaptiveScan, Movement::WithinNode, most);
        let mut alive = Vec::new();
        for (job, call) in (0..).map(JobId).zip(calls) {
            match call {
                Call::Enter(request, weight) => {
                    alive.push(job);
                    prop_assert_eq!(moving.enter(job, request, weight), still.enter(job, request, weight));
                }
                Call::EnterBeside(request, weight) => {
                    alive.push(job);
                    let entry = moving.enter_beside(job, request, weight);
                    prop_assert_eq!(entry, still.enter_beside(job, request, weight));
                }
                Call::Release(place) if !alive.is_empty() => {
                    let job = alive.remove(place % alive.len());
                    prop_assert_eq!(moving.release(job), still.release(job));
                }
                Call::SetTakesTurns(place, takes_turns) if !alive.is_empty() => {
                    let job = alive[place % alive.len()];
                    prop_assert_eq!(moving.set_takes_turns(job, takes_turns), still.set_takes_turns(job, takes_turns));
                }
                Call::SetWeight(place, weight) if !alive.is_empty() => {
                    let job = alive[place % alive.len()];
                    prop_assert_eq!(moving.set_weight(job, weight), still.set_weight(job, weight));
                }
                _ => {}
            }
            if moving.slices() != still.slices() {
                prop_assert!(least_share(&moving) > least_share(&still) + 1e-9);
                prop_assert!(moving.slices().len() <= most.unwrap_or(64).clamp(1, 64) as usize);
                check_full(&moving)?;
            }
        }
    }
}

/// Checks that jobs do not overlap, and that none has room in a slice that it is not in.
fn check_full(table: &SliceTable) -> Result<(), TestCaseError> {
    for slice in table.slices() {
        prop_assert_eq!(slice.weight, 1);
        let mut occupancy = Occupancy::new(table.mesh());
        for &(job, rectangle) in &slice.jobs {
            prop_assert!(occupancy.take(rectangle), "job {} overlaps", job);
            prop_assert!(table.rectangle(job).unwrap().shape.orientations().any(|shape| shape == rectangle.shape));
        }
        for (&job, placed) in table.jobs.iter().filter(|(_, placed)| placed.takes_turns) {
            let is_in = slice.jobs.iter().any(|&(other, _)| other == job);
            let room = table.partitioner.find(&occupancy, Request::Rectangle(placed.rectangle.shape));
            prop_assert!(is_in || room.is_none(), "job {} has room at {:?}", job, room);
        }
    }
    Ok(())
}

/// Checks what the table promises, with its slices only.
fn check_promises(table: &SliceTable, most: Option<u32>) -> Result<(), TestCaseError> {
    let mesh = table.mesh();
    let slices_of =
        |job: JobId| table.slices().iter().filter(|slice| slice.jobs.iter().any(|&(other, _)| other == job)).count();
    for slice in table.slices() {
        let mut taken = vec![false; mesh.cells() as usize];
        for &(job, rectangle) in &slice.jobs {
            prop_assert_eq!(table.rectangle(job), Ok(rectangle), "it has the same cells in all its slices");
            for cell in rectangle.cells(mesh) {
                prop_assert!(!std::mem::replace(&mut taken[cell.index()], true), "two jobs on cell {}", cell);
            }
        }
        prop_assert!(slice.jobs.iter().any(|&(job, _)| slices_of(job) == 1), "no single task");
        for &(job, rectangle) in table.slices().iter().flat_map(|slice| &slice.jobs) {
            let is_in = slice.jobs.iter().any(|&(other, _)| other == job);
            prop_assert!(is_in || rectangle.cells(mesh).any(|cell| taken[cell.index()]), "job {} has room", job);
        }
    }
    if let Some(next) = table.waiting.front() {
        prop_assert!(table.slices().len() >= most.unwrap().max(1) as usize, "a new slice is possible");
        for slice in table.slices() {
            let mut occupancy = Occupancy::new(mesh);
            let single = slice.jobs.iter().filter(|&&(job, _)| slices_of(job) == 1);
            single.for_each(|&(_, rectangle)| assert!(occupancy.take(rectangle)));
            prop_assert_eq!(table.partitioner.find(&occupancy, next.request), None, "it has room");
        }
    }
    Ok(())
}

#[test]
fn a_slice_is_drawn_row_by_row_with_columns_that_are_equally_wide() {
    let mut table = table(shape(3, 2), None);
    assert_eq!([enter(&mut table, 7, 2, 1), enter(&mut table, 12, 1, 2)], [Some((0, 0)), Some((2, 0))]);
    let rows: Vec<Vec<String>> = table.slices().iter().map(|slice| slice.rows(table.mesh)).collect();
    assert_eq!(rows, [[" 7  7 12", " .  . 12"]]);
}
