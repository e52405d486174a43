use policy::gang::Action;

use super::super::tests::{at, entering, state};
use super::*;

fn waiting(ranks: u32) -> Entering {
    Entering { waits_for_cells: true, ..entering(ranks, Gang::Strict, 1) }
}

/// Enters a job, and lets it start if it can.
fn enter(state: &mut State, entering: &Entering) -> (JobId, bool) {
    let job = state.enter(entering, at(0)).unwrap();
    let has_started = !state.job(job).unwrap().is_queued() || state.admit(job, 0, at(0)).unwrap();
    (job, has_started)
}

#[test]
fn a_job_waits_until_all_its_cells_are_free_and_none_overtakes_it() {
    let mut state = state(4);
    let (first, has_started) = enter(&mut state, &waiting(3));
    assert!(has_started);
    let (large, has_started) = enter(&mut state, &waiting(2));
    assert!(!has_started);
    let (small, has_started) = enter(&mut state, &waiting(1));
    assert!(!has_started, "a cell is free, but another job is before it");
    assert_eq!(state.queue().collect::<Vec<_>>(), [large, small]);
    let (now, has_started) = enter(&mut state, &entering(1, Gang::Strict, 1));
    assert!(has_started, "it does not wait");
    state.release(first, at(1)).unwrap();
    assert!(!state.admit(small, 0, at(1)).unwrap());
    assert!(state.admit(large, 0, at(1)).unwrap());
    assert!(state.admit(small, 0, at(1)).unwrap());
    for job in [now, large, small] {
        assert!((1..100).all(|millis| state.action(job, at(millis)) == Some(Action::Run)));
    }
    assert!(!state.admit(large, 0, at(1)).unwrap(), "it has started already");
}

#[test]
fn a_job_in_the_queue_can_only_be_released() {
    let mut state = state(2);
    enter(&mut state, &waiting(2));
    let (job, _) = enter(&mut state, &waiting(2));
    assert_eq!((state.action(job, at(0)), state.facts(job)), (None, None));
    let with = Entering { with: Some(job), ..entering(1, Gang::Strict, 1) };
    for refused in [
        state.set_held(job, true, at(0)),
        state.set_weight(job, 2, at(0)),
        state.set_gang(job, Gang::None, at(0)),
        state.enter(&with, at(0)).map(drop),
    ] {
        assert!(matches!(refused, Err(StateError::Queued(other)) if other == job), "{refused:?}");
    }
    state.release(job, at(0)).unwrap();
    assert_eq!(state.queue().count(), 0);
    assert!(matches!(state.admit(job, 0, at(0)), Err(StateError::Unknown(_))));
}

#[test]
fn a_job_waits_until_the_memory_is_left_that_it_claims() {
    let mut state = state(2);
    let claims = |memory| Entering { memory: Some(memory), ..entering(2, Gang::Strict, 1) };
    enter(&mut state, &entering(2, Gang::Strict, 1));
    let (job, has_started) = enter(&mut state, &claims(100));
    assert!(!has_started);
    assert!(!state.admit(job, 99, at(0)).unwrap());
    assert!(state.admit(job, 100, at(0)).unwrap(), "it does not wait for cells");
    assert_eq!(state.job(job).unwrap().memory, Some(100));
    let both = Entering { waits_for_cells: true, ..claims(0) };
    assert!(!enter(&mut state, &both).1);
}

#[test]
fn a_job_without_cells_waits_only_behind_others() {
    let mut state = state(2);
    let outside = Entering { request: None, ..waiting(1) };
    assert!(enter(&mut state, &outside).1);
    enter(&mut state, &waiting(2));
    let (second, _) = enter(&mut state, &waiting(2));
    let (outside, has_started) = enter(&mut state, &outside);
    assert!(!has_started);
    state.release(second, at(0)).unwrap();
    assert!(state.admit(outside, 0, at(0)).unwrap());
}

#[test]
fn a_thousand_jobs_start_in_their_order_and_the_queue_is_written_and_read() {
    let mut state = state(2);
    let jobs: Vec<JobId> = (0..1_000).map(|_| state.enter(&waiting(2), at(0)).unwrap()).collect();
    state = State::from_bytes(&state.to_bytes(), at(0)).unwrap();
    assert_eq!(state.queue().collect::<Vec<_>>(), jobs);
    for (place, &job) in jobs.iter().enumerate() {
        assert!(state.admit(job, 0, at(1)).unwrap());
        assert_eq!(state.queue().next(), jobs.get(place + 1).copied());
        if let Some(&next) = jobs.get(place + 1) {
            assert!(!state.admit(next, 0, at(1)).unwrap(), "job {job} runs");
        }
        state.release(job, at(2)).unwrap();
    }
    assert_eq!(state.jobs().len(), 0);
}

#[test]
fn a_version_in_which_a_job_has_cells_and_waits_is_refused() {
    let mut state = state(2);
    enter(&mut state, &waiting(2));
    let (job, _) = enter(&mut state, &waiting(2));
    assert!(State::from_bytes(&state.to_bytes(), at(0)).is_ok());
    let cells = state.jobs().find_map(|(_, job)| job.cells);
    state.jobs.get_mut(&job).unwrap().cells = cells;
    assert_eq!(State::from_bytes(&state.to_bytes(), at(0)).unwrap_err(), "a job has cells and waits for them");
}

#[test]
fn a_job_that_waits_does_not_block_those_of_other_users() {
    let mut state = state(2);
    let of = |user, pid| {
        let process = sys::identity::Identity { pid, started: 1 };
        Entering { memory: Some(100), client: Some(crate::state::Client { process, user }), ..waiting(1) }
    };
    let [large, behind, other] = [of(1, 1), of(1, 2), of(2, 3)].map(|entering| state.enter(&entering, at(0)).unwrap());
    assert_eq!(state.queue_of(behind).collect::<Vec<_>>(), [large, behind]);
    assert!(!state.admit(large, 99, at(0)).unwrap());
    assert!(!state.admit(behind, 100, at(0)).unwrap(), "another job of its user is before it");
    assert!(state.admit(other, 100, at(0)).unwrap());
}

#[test]
fn of_ended_jobs_only_those_are_released_that_run_or_would_be_the_first() {
    let mut state = state(2);
    let of = |pid| Entering { agent: sys::identity::Identity { pid, started: 1 }, ..waiting(2) };
    let jobs: Vec<JobId> = (1..=6).map(|pid| state.enter(&of(pid), at(0)).unwrap()).collect();
    assert!(state.admit(jobs[0], 0, at(0)).unwrap());
    let mut release = |ended: &[u32]| {
        let asked = std::cell::RefCell::new(Vec::new());
        let is_alive = |agent: sys::identity::Identity| {
            asked.borrow_mut().push(agent.pid);
            !ended.contains(&agent.pid)
        };
        (state.release_ended(is_alive, at(1)).unwrap(), asked.into_inner())
    };
    assert_eq!(release(&[4]), (vec![], vec![1, 2]), "it waits behind others");
    assert_eq!(release(&[1, 2, 4]), (vec![jobs[0], jobs[1]], vec![1, 2, 3]));
    assert_eq!(release(&[3, 4]), (vec![jobs[2], jobs[3]], vec![3, 4, 5]));
}

#[test]
fn jobs_that_come_to_the_queue_and_leave_it_from_there_concern_no_agent() {
    let mut state = state(2);
    enter(&mut state, &entering(2, Gang::Strict, 1));
    let before = state.clone();
    let (job, _) = enter(&mut state, &waiting(2));
    let queued = state.clone();
    assert!(queued.differs_in_queue_alone(&before));
    state.release(job, at(1)).unwrap();
    assert!(state.differs_in_queue_alone(&queued));
    let mut held = state.clone();
    held.set_held(JobId(1), true, at(1)).unwrap();
    assert!(!held.differs_in_queue_alone(&state));
    let mut ended = queued.clone();
    ended.release(JobId(1), at(1)).unwrap();
    assert!(!ended.differs_in_queue_alone(&queued));
    let freed = ended.clone();
    assert!(ended.admit(job, 0, at(1)).unwrap());
    assert!(!ended.differs_in_queue_alone(&freed));
}
