use proptest::prelude::*;

use super::*;
use crate::layout::Shape;

const SLICE: Span = Span::from_millis(200);
const EIGHT_BY_TWO: Shape = Shape { columns: 8, rows: 2 };

fn new(gang: Gang) -> Coscheduler {
    with(Rules { gang, ..Rules::default() })
}

fn with(rules: Rules) -> Coscheduler {
    Coscheduler::new(Mesh::new(EIGHT_BY_TWO).unwrap(), Rules { slice: SLICE, ..rules })
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

fn all(columns: u32, rows: u32) -> Request {
    Request::Rectangle(Shape { columns, rows })
}

/// The actions of the first jobs at a time.
fn actions<const N: usize>(of: &Coscheduler, millis: u64) -> [Action; N] {
    std::array::from_fn(|job| of.action(JobId(job as u32), at(millis)))
}

#[test]
fn jobs_on_the_same_cells_take_turns_and_a_new_one_waits_for_a_boundary() {
    use Action::{Lower, Run, Stop};
    for (gang, other) in [(Gang::Strict, Stop), (Gang::Moderate, Lower), (Gang::Adaptive, Stop)] {
        let mut of = new(gang);
        of.enter(JobId(0), all(8, 2), 1, at(70)).unwrap();
        assert_eq!((actions(&of, 70), of.next_boundary(at(70))), ([Run], None), "{gang}");
        // The first job was alone: the second one is entered at once, and has the first turn.
        of.enter(JobId(1), all(8, 2), 1, at(100)).unwrap();
        assert_eq!(
            [100, 299, 300, 500].map(|millis| actions(&of, millis)),
            [[other, Run], [other, Run], [Run, other], [other, Run]]
        );
        assert_eq!(of.next_boundary(at(100)), Some(at(300)));
        of.enter(JobId(2), all(4, 2), 1, at(310)).unwrap();
        assert_eq!(actions(&of, 310), [Run, other, other]);
        let turns = [500, 700, 900].map(|millis| actions::<3>(&of, millis));
        for job in 0..3 {
            assert_eq!(turns.iter().filter(|turn| turn[job] == Run).count(), 1, "{turns:?}");
        }
    }
}

#[test]
fn a_job_on_unused_cells_runs_in_all_slices() {
    let mut of = new(Gang::Strict);
    assert_eq!(of.find_unused(all(9, 2)), None);
    for (job, columns) in [(0, 6), (1, 5)] {
        of.enter(JobId(job), all(columns, 2), 1, at(0)).unwrap();
    }
    assert_eq!(of.find_unused(all(3, 1)), None, "the first slice has job 0 on six of eight columns");
    let cells = of.find_unused(Request::Ranks(4)).unwrap();
    of.enter(JobId(2), Request::At(cells), 1, at(0)).unwrap();
    assert!((0..1_000).step_by(100).all(|millis| of.action(JobId(2), at(millis)) == Action::Run));
    assert_eq!(of.find_unused(Request::Ranks(1)), None);
}

#[test]
fn jobs_take_no_turns_if_the_local_schedulers_decide() {
    for gang in [Gang::None, Gang::Implicit, Gang::Dynamic] {
        let mut of = new(gang);
        for job in 0..3 {
            of.enter(JobId(job), all(8, 2), 1, at(0)).unwrap();
        }
        assert_eq!((actions(&of, 250), of.next_boundary(at(0))), ([Action::Run; 3], None));
        assert_eq!(of.most_slices(), 3);
    }
}

#[test]
fn a_job_that_blocks_takes_no_turns_until_it_spins_again() {
    use Action::{Run, Stop};
    let mut of = new(Gang::Adaptive);
    for job in 0..3 {
        of.enter(JobId(job), all(8, 2), 1, at(0)).unwrap();
        of.set_class(JobId(job), Class::Spins, at(0)).unwrap();
    }
    of.set_class(JobId(2), Class::Blocks, at(50)).unwrap();
    let turns = [200, 400, 600].map(|millis| actions(&of, millis));
    assert!(turns.iter().all(|turn: &[Action; 3]| turn[2] == Run && turn[0] != turn[1]), "{turns:?}");
    of.set_class(JobId(2), Class::Spins, at(650)).unwrap();
    let turns = [800, 1000, 1200].map(|millis| actions(&of, millis));
    assert!(turns.iter().all(|turn: &[Action; 3]| turn.iter().filter(|&&action| action == Stop).count() == 2));
}

#[test]
fn a_clock_that_lags_by_several_tables_still_finds_the_one_in_force() {
    let mut of = with(Rules { gang: Gang::Strict, lag: Span::from_millis(401), ..Rules::default() });
    of.enter(JobId(0), all(2, 2), 1, at(0)).unwrap();
    // All tables have one slice, so each takes effect at once.
    for number in 1..=5 {
        of.enter(JobId(number), all(1, 1), 1, at(1_000 + 100 * u64::from(number))).unwrap();
    }
    assert_eq!(actions(&of, 1_099), [Action::Run], "the clock that lags most");
    assert_eq!(of.published.len(), 6);
    of.enter(JobId(6), all(1, 1), 1, at(9_000)).unwrap();
    assert_eq!(of.published.len(), 2, "no clock needs the others");
}

#[test]
fn jobs_that_are_entered_at_one_moment_begin_their_turns_together() {
    use Action::{Run, Stop};
    let mut of = new(Gang::Strict);
    of.enter(JobId(0), all(8, 2), 1, at(0)).unwrap();
    for job in 1..4 {
        of.enter(JobId(job), all(2, 2), 1, at(70)).unwrap();
    }
    assert_eq!([70, 270].map(|time| actions(&of, time)), [[Stop, Run, Run, Run], [Run, Stop, Stop, Stop]]);
    assert_eq!(of.published.len(), 1, "those in between were never in force");
    of.enter(JobId(4), all(2, 2), 1, at(71)).unwrap();
    assert_eq!([71, 470].map(|time| of.action(JobId(4), at(time))), [Stop, Run], "too late for this turn");
}

#[test]
fn cellos_runs_one_job_after_another() {
    let mut of = new(Gang::CellOs);
    let cells = Rectangle::at_origin(Shape { columns: 4, rows: 2 });
    assert_eq!(of.enter(JobId(0), all(2, 4), 1, at(0)), Ok(Entry::Placed(cells)));
    assert_eq!(of.enter(JobId(1), all(4, 2), 1, at(0)), Ok(Entry::Waits));
    assert_eq!(of.enter(JobId(2), all(4, 2), 1, at(0)), Ok(Entry::Waits));
    assert_eq!(of.release(JobId(1), at(1)), Ok(vec![]));
    assert_eq!(of.release(JobId(0), at(2)), Ok(vec![(JobId(2), cells)]));
    assert_eq!(
        of.enter(JobId(3), all(9, 1), 1, at(2)).unwrap_err().to_string(),
        "9x1 cells fit into a mesh of 8x2 in neither orientation"
    );
}

#[test]
fn original_follows_the_first_cell() {
    use Action::{Lower, Run};
    let mut of = new(Gang::Original);
    for job in 0..2 {
        let cells = Rectangle::at_origin(Shape { columns: 2, rows: 2 });
        assert_eq!(of.enter(JobId(job), all(2, 2), 1, at(0)), Ok(Entry::Placed(cells)));
    }
    assert_eq!(actions(&of, 0), [Run, Run]);
    assert!(of.follow(JobId(1)) && !of.follow(JobId(1)) && !of.follow(JobId(7)));
    assert_eq!(actions(&of, 0), [Lower, Run]);
    of.release(JobId(1), at(1)).unwrap();
    assert_eq!(actions(&of, 1), [Run, Run]);
}

#[test]
fn a_job_that_has_gone_is_an_error_value() {
    for gang in Gang::ALL {
        let mut of = new(gang);
        let unknown = CoschedulingError::from(SliceError::Unknown(JobId(5)));
        assert_eq!(of.release(JobId(5), at(0)), Err(unknown.clone()));
        assert_eq!(of.set_class(JobId(5), Class::Spins, at(0)), Err(unknown));
        of.enter(JobId(5), all(1, 1), 1, at(0)).unwrap();
        assert_eq!(of.enter(JobId(5), all(1, 1), 1, at(0)), Err(SliceError::Twice(JobId(5)).into()));
        assert_eq!((of.action(JobId(6), at(0)), of.cells(JobId(6), at(0))), (Action::Run, None));
    }
}

#[test]
fn a_job_that_waits_is_not_observed_and_takes_turns_when_it_is_placed() {
    let mut of = with(Rules { most_slices: Some(1), ..Rules::default() });
    of.enter(JobId(0), all(8, 2), 1, at(0)).unwrap();
    assert_eq!(of.enter(JobId(1), all(8, 2), 1, at(0)), Ok(Entry::Waits));
    assert_eq!(of.set_class(JobId(1), Class::Blocks, at(1)), Err(SliceError::Waiting(JobId(1)).into()));
    assert_eq!(of.set_class(JobId(0), Class::Blocks, at(1)), Ok(vec![(JobId(1), Rectangle::at_origin(EIGHT_BY_TWO))]));
    assert_eq!(
        of.set_class(JobId(0), Class::Spins, at(2)),
        Ok(vec![]),
        "it was placed, and takes turns beyond the limit"
    );
    let turns = [201, 401].map(|millis| actions::<2>(&of, millis));
    assert!(turns.iter().all(|turn| turn[0] != turn[1]), "{turns:?}");
}

#[test]
fn a_job_whose_weight_could_make_a_round_too_long_is_refused_and_changes_nothing() {
    let mut of = new(Gang::Adaptive);
    for job in 0..10 {
        of.enter(JobId(job), all(8, 2), 1000, at(0)).unwrap();
    }
    let before = format!("{of:?}");
    let error = of.enter(JobId(10), all(1, 1), 999, at(1)).unwrap_err();
    assert_eq!(error, TurnError::TooLong(10_999).into());
    assert!(error.to_string().starts_with("a round of 10999 turns is longer than 10000: use fewer"), "{error}");
    assert_eq!(format!("{of:?}"), before);
    of.release(JobId(0), at(2)).unwrap();
    of.enter(JobId(10), all(8, 2), 999, at(2)).unwrap();
    assert_eq!(of.turns.in_force(at(300)).unwrap().order.len(), 9_999);
    // Without turns, weights do not matter.
    let mut of = new(Gang::None);
    for (job, weight) in (0..12).zip([1000, 999].repeat(6)) {
        of.enter(JobId(job), all(8, 2), weight, at(0)).unwrap();
    }
}

#[test]
fn each_job_has_its_own_way_to_share_the_machine_and_can_change_it() {
    use Action::{Lower, Run, Stop};
    let mut of = new(Gang::Adaptive);
    for (job, gang) in [Gang::Moderate, Gang::Strict, Gang::Adaptive, Gang::None].into_iter().enumerate() {
        of.enter_as(JobId(job as u32), gang, all(8, 2), 1, at(0)).unwrap();
    }
    let jobs_in_slices = |of: &Coscheduler| of.table.slices().iter().map(|slice| slice.jobs[0].0.0).collect::<Vec<_>>();
    assert_eq!((jobs_in_slices(&of), of.cells(JobId(3), at(0))), (vec![0, 1, 2], of.cells(JobId(0), at(0))));
    let passive = [Lower, Stop, Stop];
    let turns = [200, 400, 600].map(|millis| actions::<4>(&of, millis));
    for (job, passive) in passive.into_iter().enumerate() {
        assert_eq!(turns.iter().filter(|turn| turn[job] == Run).count(), 1, "{turns:?}");
        assert_eq!(turns.iter().filter(|turn| turn[job] == passive).count(), 2, "{turns:?}");
    }
    assert!(turns.iter().all(|turn| turn[3] == Run), "{turns:?}");
    // Only the first one is bound to turns if it blocks.
    (0..3).for_each(|job| _ = of.set_class(JobId(job), Class::Blocks, at(600)).unwrap());
    assert_eq!(jobs_in_slices(&of), [0, 1]);
    of.set_gang(JobId(1), Gang::None, at(600)).unwrap();
    of.set_gang(JobId(3), Gang::Strict, at(600)).unwrap();
    assert_eq!(jobs_in_slices(&of), [0, 3]);
    let facts = JobFacts { gang: Gang::None, weight: 1, class: Class::Blocks, is_held: false, idles: false };
    assert_eq!((of.facts(JobId(1)), of.facts(JobId(4))), (Some(facts), None));
}

#[test]
fn a_way_that_has_no_table_cannot_be_a_jobs_own() {
    for machine in Gang::ALL {
        let mut of = new(machine);
        of.enter(JobId(9), all(1, 1), 1, at(0)).unwrap();
        for gang in Gang::ALL {
            let expected = machine.has_table() && (gang.has_table() || gang == Gang::None);
            assert_eq!(of.enter_as(JobId(0), gang, all(1, 1), 1, at(0)).is_ok(), expected, "{machine} {gang}");
            assert_eq!(of.set_gang(JobId(9), gang, at(0)).is_ok(), expected, "{machine} {gang}");
            assert_eq!(of.release(JobId(0), at(0)).is_ok(), expected);
        }
    }
    let error = new(Gang::None).enter_as(JobId(0), Gang::Strict, all(1, 1), 1, at(0)).unwrap_err();
    assert!(error.to_string().contains("scheduled as `strict` on a machine whose jobs are scheduled as `none`"));
}

#[test]
fn a_job_that_takes_no_turns_does_not_wait_for_a_slice_but_behind_others() {
    let mut of = with(Rules { most_slices: Some(1), ..Rules::default() });
    let whole = Entry::Placed(Rectangle::at_origin(EIGHT_BY_TWO));
    assert_eq!(of.enter(JobId(0), all(8, 2), 1, at(0)), Ok(whole));
    assert_eq!(of.enter_as(JobId(1), Gang::None, all(8, 2), 1, at(0)), Ok(whole));
    assert_eq!(of.enter(JobId(2), all(8, 2), 1, at(0)), Ok(Entry::Waits));
    assert_eq!(of.enter_as(JobId(3), Gang::None, all(8, 2), 1, at(0)), Ok(Entry::Waits));
    assert_eq!(of.set_gang(JobId(3), Gang::Strict, at(0)), Err(SliceError::Waiting(JobId(3)).into()));
    let placed = of.release(JobId(0), at(1)).unwrap();
    assert_eq!(placed.iter().map(|(job, _)| job.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(of.table.slices()[0].jobs.len(), 1, "job 3 is still in no slice");
}

#[test]
fn a_new_job_avoids_the_cells_of_one_that_computes_if_it_is_to() {
    for (avoid_jobs_beside, column) in [(true, 1), (false, 0)] {
        let mut of = with(Rules { avoid_jobs_beside, ..Rules::default() });
        of.enter(JobId(0), all(1, 2), 1, at(0)).unwrap();
        of.set_class(JobId(0), Class::Computes, at(0)).unwrap();
        let cells = Rectangle { column, row: 0, shape: Shape { columns: 1, rows: 2 } };
        assert_eq!(of.enter(JobId(1), all(1, 2), 1, at(0)), Ok(Entry::Placed(cells)));
    }
}

#[test]
fn a_held_job_is_stopped_and_the_others_share_its_turns() {
    use Action::{Run, Stop};
    let mut of = new(Gang::Adaptive);
    for job in 0..2 {
        of.enter(JobId(job), all(8, 2), 1, at(0)).unwrap();
    }
    of.set_held(JobId(0), true, at(0)).unwrap();
    assert_eq!([0, 200, 400].map(|millis| actions(&of, millis)), [[Stop, Run]; 3]);
    assert!(of.cells(JobId(0), at(0)).is_some());
    // Its behaviour is still observed, and it is not let go by another way.
    of.set_class(JobId(0), Class::Blocks, at(400)).unwrap();
    of.set_gang(JobId(0), Gang::None, at(400)).unwrap();
    assert_eq!(actions(&of, 400), [Stop, Run]);
    of.set_held(JobId(0), false, at(400)).unwrap();
    assert_eq!(actions(&of, 400), [Run, Run]);
    of.set_gang(JobId(0), Gang::Strict, at(400)).unwrap();
    assert_eq!([400, 600].map(|millis| actions(&of, millis)), [[Run, Stop], [Stop, Run]]);
    // It is so without turns, too.
    for gang in [Gang::None, Gang::CellOs, Gang::Original] {
        let mut of = new(gang);
        of.enter(JobId(0), all(8, 2), 1, at(0)).unwrap();
        of.set_held(JobId(0), true, at(0)).unwrap();
        assert_eq!(actions(&of, 0), [Stop], "{gang}");
    }
}

#[test]
fn another_weight_changes_the_turns_unless_a_round_could_be_too_long() {
    let mut of = new(Gang::Adaptive);
    for job in 0..3 {
        of.enter(JobId(job), all(8, 2), 1, at(0)).unwrap();
    }
    of.set_weight(JobId(1), 3, at(0)).unwrap();
    let of_job_1 = |of: &Coscheduler| (0..5).filter(|turn| actions::<3>(of, 200 * turn)[1] == Action::Run).count();
    assert_eq!((of.round(at(0)), of_job_1(&of)), (5, 3));
    let before = format!("{of:?}");
    assert_eq!(of.set_weight(JobId(0), 9_997, at(0)), Err(TurnError::TooLong(10_001).into()));
    assert_eq!(of.set_weight(JobId(7), 1, at(0)), Err(SliceError::Unknown(JobId(7)).into()));
    assert_eq!(format!("{of:?}"), before);
    // Its own old weight does not count.
    of.set_weight(JobId(1), 0, at(0)).unwrap();
    assert_eq!((of.facts(JobId(1)).unwrap().weight, of.round(at(0))), (1, 3));
    of.set_weight(JobId(0), 9_998, at(0)).unwrap();
    assert_eq!(of.round(at(0)), 10_000);
    // Also if it waits for cells or has no turns.
    let mut of = with(Rules { most_slices: Some(1), ..Rules::default() });
    (0..2).for_each(|job| _ = of.enter(JobId(job), all(8, 2), 1, at(0)).unwrap());
    of.set_weight(JobId(1), 7, at(0)).unwrap();
    of.release(JobId(0), at(1)).unwrap();
    assert_eq!(of.table.slices()[0].weight, 7);
    let mut of = new(Gang::CellOs);
    of.enter(JobId(0), all(8, 2), 1, at(0)).unwrap();
    of.set_weight(JobId(0), 7, at(0)).unwrap();
    of.release(JobId(0), at(0)).unwrap();
    assert_eq!(of.weights.len(), 0);
}

#[test]
fn a_job_that_says_which_cells_gets_exactly_those() {
    for gang in Gang::ALL {
        let mut of = new(gang);
        let at_cells = |column, row, columns, rows| Rectangle { column, row, shape: Shape { columns, rows } };
        for job in 0..2 {
            let cells = at_cells(5, 0, 1, 2);
            let entry = if gang == Gang::CellOs && job == 1 { Entry::Waits } else { Entry::Placed(cells) };
            assert_eq!(of.enter(JobId(job), Request::At(cells), 1, at(0)), Ok(entry), "{gang}");
        }
        for cells in [at_cells(7, 0, 2, 1), at_cells(0, 2, 1, 1), at_cells(0, 0, 0, 1), at_cells(u32::MAX, 0, 1, 1)] {
            let error = SliceError::OffMesh { at: cells, mesh: EIGHT_BY_TWO };
            assert_eq!(of.enter(JobId(2), Request::At(cells), 1, at(0)), Err(error.into()), "{gang}");
        }
        let error = of.enter(JobId(2), Request::At(at_cells(7, 1, 2, 1)), 1, at(0)).unwrap_err().to_string();
        assert_eq!(error, "2x1 cells from column 7 and row 1 are not all on a mesh of 8x2");
    }
}

proptest! {
    #[test]
    fn no_two_jobs_run_on_a_cell_in_turn_whatever_the_clock_shows(
        events in prop::collection::vec((0_u32..12, 0_u64..400, 1_u32..5, 1_u32..3, prop_oneof![1_u32..4, Just(12)], any::<bool>()), 1..60),
        lag in 30_u64..2_000,
    ) {
        let mut of = with(Rules { lag: Span::from_millis(lag), ..Rules::default() });
        let mut now = 0;
        for (job, gap, columns, rows, weight, blocks) in events {
            now += gap;
            let job = JobId(job);
            match (of.cells(job, at(now)), blocks) {
                (None, _) => {
                    of.enter(job, all(columns, rows), weight, at(now)).unwrap();
                }
                (Some(_), true) => {
                    of.set_class(job, if rows == 1 { Class::Blocks } else { Class::Spins }, at(now)).unwrap();
                }
                (Some(_), false) => {
                    of.release(job, at(now)).unwrap();
                }
            }
            let weights: Vec<_> = of.weights.iter().map(|(&weight, &jobs)| (weight, jobs)).collect();
            let slices: Vec<_> = of.table.slices().iter().map(|slice| (slice.weight, 1)).collect();
            prop_assert!(turn::round_of_jobs(&slices) <= turn::round_of_jobs(&weights), "{:?}", of);
            for clock in [now.saturating_sub(lag), now.saturating_sub(30), now, now + 30, now + 777] {
                let in_turn = (0..12).map(JobId).filter(|job| of.jobs.get(job).is_some_and(|of| of.facts.class != Class::Blocks));
                let runs = in_turn.filter(|&job| of.action(job, at(clock)) == Action::Run);
                let cells: Vec<Rectangle> = runs.filter_map(|job| of.cells(job, at(clock))).collect();
                for (number, one) in cells.iter().enumerate() {
                    prop_assert!(cells[number + 1..].iter().all(|other| !one.overlaps(*other)), "{:?}", of);
                }
            }
        }
    }
}
