//! Agents on a scripted clock.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use policy::gang::{Class, Gang};
use rustix::process::{Signal, getpid, kill_process};
use sys::identity::Identity;
use testing::Child;

use super::*;
use crate::claim::Claims;
use crate::process_list::PLACES;
use crate::processes::tests::{identity, state, until};
use crate::state::tests::entering;
use crate::topology::Topology;

const SLICE: Span = Span::from_millis(20);
const SIGNALS: Option<StopChoice> = Some(StopChoice::By(crate::StopMechanism::Signals));

fn table_in(place: &Path) -> Table {
    Table::enter(place, || State::new(Topology::of_cpus(&[0, 1]), SLICE)).unwrap()
}

/// A job that always takes turns.
fn strict(_: &State) -> Entering {
    Entering { gang: Gang::Strict, ..Scripted::entering() }
}

/// Two jobs that take turns from the start of the clock on, and the words of their claims.
struct Scripted {
    state: State,
    jobs: [JobId; 2],
    words: [AtomicU64; 2],
}

impl Scripted {
    fn new() -> Scripted {
        let mut state = State::new(Topology::of_cpus(&[0, 1]), SLICE);
        let jobs = [0, 1].map(|_| state.enter(&Scripted::entering(), Instant::ZERO).unwrap());
        Scripted { state, jobs, words: Default::default() }
    }

    fn entering() -> Entering {
        Entering { agent: Identity::own(), ..entering(2, Gang::Adaptive, 1) }
    }

    /// Lets an agent look at a time. Returns whether it switches.
    fn look(&self, now: Instant) -> bool {
        let claims = Claims { claim: &self.words[0], switched: &self.words[1] };
        let turn = turn(1 << 32, self.state.next_boundary(now));
        match claims.claim(Wanted::Turn(turn), None) {
            Answer::Granted(claim) => claims.finish(claim, turn),
            _ => false,
        }
    }
}

#[test]
fn however_far_the_clock_jumps_there_is_one_switch_to_the_turn_of_that_time() {
    testing::isolated_by(crate::ranks::tests::pass, || {
        let place = tempfile::tempdir().unwrap();
        let table = || table_in(place.path());
        let agents = [0, 1].map(|_| Agent::enter(table(), SIGNALS, strict, &mut ()).unwrap());
        let ranks = agents.each_ref().map(|agent| {
            let rank = Child::start(testing::command("sleep").arg("1000"));
            agent.shared.list.set(&[identity(rank.id())], PLACES);
            agent.set_mechanisms().unwrap();
            rank
        });
        let (shared, now) = (&agents[0].shared, Cell::new(wait::now()));
        let (clock, none) = (|| now.get(), || vec![identity(ranks[0].id())]);
        let mut waits = || 0;
        let mut watch = Watch::new(shared, &clock, &none, &mut waits);
        let mut look = || while watch.look().unwrap().is_none() {};
        look();
        for jump in
            [0, 1, 10, 3_600, 30 * 24 * 3_600, 400 * 24 * 3_600].map(|seconds| Span::from_millis(1_000 * seconds))
        {
            for into in [0, 7, 20, 39].map(Span::from_millis) {
                now.set(now.get() + jump + into);
                let turn = |state: &State| agents.each_ref().map(|agent| state.action(agent.job(), now.get()));
                look();
                let switched = shared.table.page().switched();
                let (version, latest) = shared.table.latest().unwrap();
                assert_eq!(switched, super::turn(version, latest.next_boundary(now.get())), "{jump} {into}");
                for (action, rank) in turn(&latest).into_iter().zip(&ranks) {
                    until(|| (state(rank.id()) == b'T') == (action == Some(Action::Stop)));
                }
                assert_eq!(turn(&latest).iter().filter(|&&action| action == Some(Action::Run)).count(), 1);
                look();
                assert_eq!(shared.table.page().switched(), switched, "the switch is done");
            }
        }
        agents.into_iter().for_each(|agent| agent.leave().unwrap());
    });
}

#[test]
fn jobs_are_observed_soon_although_they_take_no_turns_unless_there_is_only_one() {
    let (Scripted { mut state, jobs, .. }, now) = (Scripted::new(), Instant::ZERO);
    jobs.into_iter().for_each(|job| state.set_class(job, Class::Computes, now).unwrap());
    assert_eq!((state.next_boundary(now), longest_sleep(&state)), (None, OBSERVATION));
    state.release(jobs[0], now).unwrap();
    assert_eq!((state.next_boundary(now), longest_sleep(&state)), (None, LONGEST_SLEEP));
}

#[test]
fn a_switch_is_late_since_the_first_boundary_that_has_passed() {
    let begun = Instant::ZERO + SLICE;
    for (missed, late) in [(0, 0), (0, 19), (1, 0), (1, 5), (3, 19), (50_000, 7)] {
        let scripted = Scripted::new();
        assert!(scripted.look(begun));
        let first = scripted.state.next_boundary(begun).unwrap();
        let late = SLICE.scaled(1000 * missed) + Span::from_millis(late);
        let now = first + late;
        let next = scripted.state.next_boundary(now).unwrap();
        let last = scripted.words[1].load(SeqCst);
        assert_eq!(now.since(first_boundary(last, next, SLICE)), late);
    }
}

#[test]
fn a_signal_that_comes_when_the_job_can_start_ends_it_and_it_leaves_the_table() {
    testing::isolated_by(crate::ranks::tests::pass, || {
        let place = tempfile::tempdir().unwrap();
        let table = || table_in(place.path());
        let entering = |_: &State| {
            // The signals that would end a wait are blocked by now.
            kill_process(getpid(), Signal::TERM).unwrap();
            Scripted::entering()
        };
        let other = table();
        let entered = Agent::enter(table(), None, entering, &mut ());
        assert!(matches!(entered, Err(AgentError::Asked(15))), "{entered:?}");
        assert_eq!(other.state().unwrap().jobs().len(), 0);
    });
}

#[test]
fn a_change_by_the_thread_of_an_agent_that_has_left_the_table_is_no_failure() {
    testing::isolated_by(crate::ranks::tests::pass, || {
        let place = tempfile::tempdir().unwrap();
        let table = table_in(place.path());
        let mut agent = Agent::enter(table, SIGNALS, |_: &State| Scripted::entering(), &mut ()).unwrap();
        let set_idles = |shared: &Shared| {
            let watch = Watch::new(shared, &wait::now, &Vec::new, &mut || 0)
                .update(|state, _| state.set_idles(shared.job, true));
            (watch, shared.failed.lock().unwrap().is_some())
        };
        assert_eq!(set_idles(&agent.shared), (true, false));
        agent.end().unwrap();
        assert_eq!(set_idles(&agent.shared), (false, false));
    });
}

#[test]
fn an_agent_takes_over_switches_that_others_have_begun_and_do_not_finish() {
    testing::isolated_by(crate::ranks::tests::pass, || {
        let place = tempfile::tempdir().unwrap();
        let table = || table_in(place.path());
        let mut agent = Agent::enter(table(), SIGNALS, strict, &mut ()).unwrap();
        let other = table();
        other.update(|state, now| state.enter(&strict(state), now).map_err(AgentError::from)).unwrap();
        let begin = || until(|| matches!(other.page().claims().claim(Wanted::Again, None), Answer::Granted(_)));
        begin();
        let rank = Child::start(testing::command("sleep").arg("1000"));
        let process = identity(rank.id());
        agent.set_mechanisms().unwrap();
        agent.watch(move || vec![process], || 0).unwrap();
        for _ in 0..3 {
            until(|| state(process.pid) == b'T');
            begin();
            until(|| state(process.pid) != b'T');
            begin();
        }
        agent.leave().unwrap();
    });
}
