use policy::gang::Gang;
use sys::identity::Identity;

use super::super::tests::{at, entering, state};
use super::*;
use crate::state::Client;

const USER: u32 = 54_111;

/// A job of a user, for which the process with this id acts.
fn of(user: u32, pid: u32, weight: u32) -> Entering {
    let process = Identity { pid, started: 1 };
    Entering { client: Some(Client { process, user }), ..entering(2, Gang::Strict, weight) }
}

fn enter(state: &mut State, entering: &Entering) -> Result<JobId, ShareError> {
    state.enter(entering, at(0)).map_err(|why| match why {
        StateError::Share(why) => why,
        why => panic!("{why}"),
    })
}

#[test]
fn the_weights_of_a_user_are_limited_and_those_of_root_are_not() {
    let mut state = state(2);
    let waiting = Entering { waits_for_cells: true, ..of(USER, 2, 8) };
    assert_eq!(enter(&mut state, &of(USER, 1, 9)), Err(ShareError::Weight));
    let first = enter(&mut state, &of(USER, 1, 8)).unwrap();
    enter(&mut state, &waiting).unwrap();
    for (pid, weight) in [8, 8, 8, 8, 8, 7].into_iter().enumerate() {
        enter(&mut state, &of(USER, pid as u32 + 3, weight)).unwrap();
    }
    assert_eq!(enter(&mut state, &of(USER, 9, 2)), Err(ShareError::Weights(63)));
    for (user, weight, expected) in [(USER, 9, Err(ShareError::Weight)), (USER, 8, Ok(())), (0, 1000, Ok(()))] {
        assert_eq!(state.check_weight(user, Some(first), weight), expected);
    }
    state.set_weight(first, 1, at(0)).unwrap();
    enter(&mut state, &of(USER, 9, 8)).unwrap();
    assert_eq!(state.check_weight(USER, Some(first), 2), Err(ShareError::Weights(63)));
    enter(&mut state, &of(USER + 1, 10, 8)).unwrap();
    enter(&mut state, &of(0, 11, 1000)).unwrap();
}

#[test]
fn the_jobs_of_a_user_are_limited_and_a_process_has_one() {
    let mut state = state(2);
    for pid in 1..=JOBS as u32 {
        enter(&mut state, &of(USER, pid, 1)).unwrap();
    }
    let without_turns = Entering { request: None, ..of(USER, 1000, 1) };
    assert_eq!(enter(&mut state, &without_turns), Err(ShareError::Jobs));
    assert_eq!(enter(&mut state, &of(USER + 1, 7, 1)), Err(ShareError::Process(JobId(7))));
    enter(&mut state, &of(USER + 1, 1000, 1)).unwrap();
    state.release(JobId(1), at(0)).unwrap();
    enter(&mut state, &of(USER, 1, 1)).unwrap();
}

#[test]
fn processes_are_reserved_for_a_job_as_far_as_its_user_may_have_them() {
    let mut state = state(2);
    let large = Entering { ranks: 100, ..of(USER, 1, 1) };
    let [large, small, own] =
        [large, of(USER, 2, 1), entering(2, Gang::Strict, 1)].map(|entering| enter(&mut state, &entering).unwrap());
    let many = Entering { ranks: 27, ..of(USER, 3, 1) };
    assert_eq!(enter(&mut state, &many), Err(ShareError::Ranks { most: 128, present: 102 }));
    let places = |state: &State| [large, small, own].map(|job| state.job(job).unwrap().places());
    assert_eq!(places(&state), [100, 2, PLACES]);
    for (job, processes, is_more, expected) in [
        (small, 2, false, [100, 2]),
        (small, 9, true, [100, 16]),
        (large, 101, true, [112, 16]),
        (small, 17, false, [112, 16]),
        (large, usize::MAX / 2, false, [112, 16]),
    ] {
        assert_eq!((state.reserve(job, processes).unwrap(), &places(&state)[..2]), (is_more, &expected[..]));
    }
    assert!(!state.reserve(own, PLACES + 1).unwrap());
    // Its ranks are few enough, and all places are taken.
    let late = enter(&mut state, &of(USER, 3, 1)).unwrap();
    assert_eq!(state.job(late).unwrap().places(), 0);
    state.release(late, at(0)).unwrap();
    state.release(large, at(0)).unwrap();
    assert!(state.reserve(small, 9999).unwrap());
    assert_eq!(state.job(small).unwrap().places(), PROCESSES);
    let read = State::from_bytes(&state.to_bytes(), at(1)).unwrap();
    assert_eq!(read.job(small).unwrap(), state.job(small).unwrap());
}
