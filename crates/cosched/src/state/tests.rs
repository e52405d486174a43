use proptest::prelude::*;

use super::*;

pub(crate) fn state(cpus: u32) -> State {
    State::new(Topology::of_cpus(&(0..cpus).collect::<Vec<_>>()), Span::from_millis(20))
}

pub(crate) fn entering(ranks: u32, gang: Gang, weight: u32) -> Entering {
    let agent = Identity { pid: 7, started: 8 };
    let (command, request) = ("command".to_owned(), Some(Request::Ranks(ranks)));
    Entering {
        agent,
        stolen: Span::ZERO,
        command,
        ranks,
        request,
        weight,
        gang,
        with: None,
        waits_for_cells: false,
        memory: None,
        client: None,
        program: None,
    }
}

pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

/// The actions of all jobs for a while.
fn actions(state: &State, from: u64) -> Vec<Vec<Option<Action>>> {
    (from..from + 100)
        .step_by(5)
        .map(|millis| state.jobs().map(|(id, _)| state.action(id, at(millis))).collect())
        .collect()
}

#[test]
fn two_jobs_on_the_same_cells_run_in_turn_and_others_beside_them() {
    let mut state = state(4);
    let [a, b] = [0, 1].map(|_| state.enter(&entering(4, Gang::Strict, 1), at(0)).unwrap());
    let outside = Entering { request: None, ..entering(1, Gang::Adaptive, 1) };
    let outside = state.enter(&outside, at(0)).unwrap();
    for millis in 20..200 {
        let running = [a, b].map(|job| state.action(job, at(millis)) == Some(Action::Run));
        assert_ne!(running[0], running[1], "{millis} ms");
        assert_eq!(state.action(outside, at(millis)), Some(Action::Run));
    }
    assert_eq!(state.facts(outside), None);
    assert!(matches!(state.set_weight(outside, 2, at(0)), Err(StateError::NoTurns(_))));
    assert!(matches!(state.set_weight(JobId(9), 2, at(0)), Err(StateError::Unknown(_))));
}

#[test]
fn threads_are_told_the_next_boundary_if_their_job_takes_turns_and_is_not_lowered() {
    let mut state = state(2);
    let gangs = [Gang::Strict, Gang::Strict, Gang::Moderate, Gang::None];
    let [a, b, lowered, none] = gangs.map(|gang| state.enter(&entering(2, gang, 1), at(0)).unwrap());
    let turns = |state: &State, millis| [a, b, lowered, none].map(|job| state.turn(job, at(millis)));
    let mut seen = std::collections::BTreeSet::new();
    for millis in 100..220 {
        let boundary = state.next_boundary(at(millis)).unwrap();
        let expected = |job| match state.action(job, at(millis)) {
            Some(Action::Run) => Turn::OursUntil(boundary),
            _ => Turn::OthersUntil(boundary),
        };
        let [own, other, lowered, none] = turns(&state, millis);
        assert_eq!([own, other], [a, b].map(expected), "{millis} ms");
        assert!(!lowered.is_others() && none.is_none());
        seen.insert([own.is_others(), other.is_others(), lowered.is_none()]);
    }
    assert_eq!(seen, [[false, true, true], [true, false, true], [true, true, false]].into());
    state.set_held(a, true, at(220)).unwrap();
    state.set_suspended(b, true, at(220)).unwrap();
    assert_eq!(turns(&state, 300), [Turn::NoTurns; 4], "one job alone takes no turns");
    assert_eq!(state.turn(JobId(99), at(300)), Turn::NoTurns);
}

#[test]
fn a_held_job_is_stopped_and_a_suspended_one_is_left_alone_and_both_cede_their_turns() {
    let mut state = state(2);
    let [a, b] = [0, 1].map(|_| state.enter(&entering(2, Gang::Strict, 1), at(0)).unwrap());
    state.set_held(a, true, at(1)).unwrap();
    state.set_suspended(a, true, at(2)).unwrap();
    assert_eq!(state.action(a, at(100)), None);
    state.set_suspended(a, false, at(3)).unwrap();
    assert_eq!(state.action(a, at(100)), Some(Action::Stop), "it is still held");
    assert!((100..200).all(|millis| state.action(b, at(millis)) == Some(Action::Run)));
    state.set_held(a, false, at(200)).unwrap();
    assert!((300..340).any(|millis| state.action(a, at(millis)) == Some(Action::Run)));
    let outside = state.enter(&Entering { request: None, ..entering(1, Gang::None, 1) }, at(0)).unwrap();
    state.set_held(outside, true, at(1)).unwrap();
    assert_eq!(state.action(outside, at(2)), Some(Action::Stop));
}

#[test]
fn a_job_with_another_runs_when_that_one_runs() {
    let mut state = state(4);
    let [a, other] = [0, 1].map(|_| state.enter(&entering(2, Gang::Strict, 1), at(0)).unwrap());
    let with = |with: u32| Entering { with: Some(JobId(with)), ..entering(2, Gang::Strict, 1) };
    let b = state.enter(&with(a.0), at(0)).unwrap();
    let turns = actions(&state, 100);
    assert!(turns.iter().all(|turn| turn[0] == turn[2] && turn[1] != turn[0]), "{turns:?}");
    assert_eq!([a, other, b].map(|job| state.task(job)), [a, other, a]);
    assert!(matches!(state.enter(&with(9), at(0)), Err(StateError::Unknown(JobId(9)))));
    let outside = state.enter(&Entering { request: None, ..entering(1, Gang::None, 1) }, at(0)).unwrap();
    assert!(matches!(state.enter(&with(outside.0), at(0)), Err(StateError::NoTurns(_))));
}

#[test]
fn a_job_whose_threads_are_lowered_competes_with_jobs_of_other_task_groups() {
    let mut state = state(2);
    // An agent that does not exist has no task group.
    let gone = Identity { pid: u32::MAX, started: 8 };
    let lowered = Entering { agent: gone, ..entering(2, Gang::Moderate, 1) };
    let lowered = state.enter(&lowered, at(0)).unwrap();
    let other = Entering { agent: Identity::own(), ..entering(2, Gang::Strict, 1) };
    let other = state.enter(&other, at(0)).unwrap();
    assert_eq!(state.lowered_in_vain(other), None);
    state.set_lower_by(lowered, LowerBy::SchedIdle).unwrap();
    // The mechanism that is known is kept.
    state.set_lower_by(lowered, LowerBy::Nice { ordinary: 0 }).unwrap();
    assert_eq!(state.job(lowered).unwrap().lower_by, Some(LowerBy::SchedIdle));
    assert_eq!(state.lowered_in_vain(other), Some(lowered));
    assert_eq!(state.lowered_in_vain(lowered), None);
    // Of two in one session, the group of one is apart.
    let weighed = Entering { agent: Identity::own(), ..entering(2, Gang::Moderate, 1) };
    let weighed = state.enter(&weighed, at(0)).unwrap();
    state.set_lower_by(other, LowerBy::SchedIdle).unwrap();
    state.release(lowered, at(0)).unwrap();
    assert_eq!(state.lowered_in_vain(weighed), None);
    state.set_lower_by(weighed, LowerBy::Weight { version: 1, group: "group".to_owned() }).unwrap();
    assert_eq!(state.lowered_in_vain(weighed), Some(other));
}

#[test]
fn a_long_command_is_shortened_between_characters() {
    let mut state = state(2);
    let long = Entering { command: "ä".repeat(1_000), ..entering(1, Gang::Strict, 1) };
    let job = state.enter(&long, at(0)).unwrap();
    assert_eq!(state.job(job).unwrap().command, "ä".repeat(500));
}

#[test]
fn turns_that_begin_later_than_the_next_boundary_are_refused() {
    let mut state = state(2);
    for _ in 0..2 {
        state.enter(&entering(2, Gang::Strict, 1), at(500)).unwrap();
    }
    let bytes = state.to_bytes();
    assert!(State::from_bytes(&bytes, at(500)).is_ok());
    assert_eq!(State::from_bytes(&bytes, at(400)).unwrap_err(), "its turns begin too late");
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Enter(u32, Gang, u32),
    EnterWith(usize, u32, Gang),
    Queue(u32, Option<u64>),
    Admit(usize, u64),
    Release(usize),
    Hold(usize, bool),
    Suspend(usize, bool),
    Weight(usize, u32),
    How(usize, Gang),
    Class(usize, Class),
}

fn changes() -> impl Strategy<Value = Vec<(u64, Change)>> {
    let gang = || prop::sample::select(vec![Gang::Adaptive, Gang::Strict, Gang::None]);
    let class = prop::sample::select(vec![Class::Unknown, Class::Spins, Class::Blocks, Class::Computes]);
    let change = prop_oneof![
        (1..6_u32, gang(), 1..4_u32).prop_map(|(ranks, gang, weight)| Change::Enter(ranks, gang, weight)),
        (0..8_usize, 1..6_u32, gang()).prop_map(|(with, ranks, gang)| Change::EnterWith(with, ranks, gang)),
        (1..6_u32, prop::option::of(0..3_u64)).prop_map(|(ranks, memory)| Change::Queue(ranks, memory)),
        (0..8_usize, 0..3_u64).prop_map(|(job, left)| Change::Admit(job, left)),
        (0..8_usize).prop_map(Change::Release),
        (0..8_usize, any::<bool>()).prop_map(|(job, is)| Change::Hold(job, is)),
        (0..8_usize, any::<bool>()).prop_map(|(job, is)| Change::Suspend(job, is)),
        (0..8_usize, 1..4_u32).prop_map(|(job, weight)| Change::Weight(job, weight)),
        (0..8_usize, gang()).prop_map(|(job, gang)| Change::How(job, gang)),
        (0..8_usize, class).prop_map(|(job, class)| Change::Class(job, class)),
    ];
    prop::collection::vec((0..60_u64, change), 0..25)
}

fn apply(state: &mut State, change: Change, now: Instant) {
    let id = |number: usize, state: &State| state.jobs().map(|(id, _)| id).nth(number).unwrap_or(JobId(0));
    // Unknown jobs are refused.
    let _ = match change {
        Change::Enter(ranks, gang, weight) => state.enter(&entering(ranks, gang, weight), now).map(drop),
        Change::EnterWith(with, ranks, gang) => {
            let with = Some(id(with, state));
            state.enter(&Entering { with, ..entering(ranks, gang, 1) }, now).map(drop)
        }
        Change::Queue(ranks, memory) => {
            let queued = Entering { waits_for_cells: true, memory, ..entering(ranks, Gang::Strict, 1) };
            state.enter(&queued, now).map(drop)
        }
        Change::Admit(job, left) => state.admit(id(job, state), left, now).map(drop),
        Change::Release(job) => state.release(id(job, state), now),
        Change::Hold(job, is) => state.set_held(id(job, state), is, now),
        Change::Suspend(job, is) => state.set_suspended(id(job, state), is, now),
        Change::Weight(job, weight) => state.set_weight(id(job, state), weight, now),
        Change::How(job, gang) => state.set_gang(id(job, state), gang, now),
        Change::Class(job, class) => state.set_class(id(job, state), class, now),
    };
}

proptest! {
    #[test]
    fn a_version_that_is_written_and_read_decides_the_same(changes in changes()) {
        let mut state = state(4);
        let mut millis = 0;
        for (later, change) in changes {
            millis += later;
            let mut read = State::from_bytes(&state.to_bytes(), at(millis)).unwrap();
            apply(&mut state, change, at(millis));
            apply(&mut read, change, at(millis));
            prop_assert_eq!(actions(&state, millis), actions(&read, millis));
            prop_assert_eq!(state.to_bytes(), read.to_bytes());
            prop_assert_eq!(state.next_boundary(at(millis)), read.next_boundary(at(millis)));
        }
    }

    #[test]
    fn a_version_with_any_changed_bytes_is_refused_or_usable(
        changes in changes(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut state = state(4);
        for (number, (_, change)) in (0..).zip(changes) {
            apply(&mut state, change, at(number * 30));
        }
        let mut bytes = state.to_bytes();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            // Another digit makes another number.
            bytes[place] = if bytes[place].is_ascii_digit() { b'0' + byte % 10 } else { byte };
        }
        if let Ok(mut read) = State::from_bytes(&bytes, at(1_000)) {
            actions(&read, 1_000);
            for number in 0..8 {
                apply(&mut read, Change::Class(number, Class::Blocks), at(2_000));
                apply(&mut read, Change::Enter(2, Gang::Strict, 1), at(3_000));
                apply(&mut read, Change::Release(0), at(4_000));
            }
        }
    }
}
