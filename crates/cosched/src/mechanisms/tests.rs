//! Tests of the freezers with real processes. Signals are tested with `processes`.

use std::fs;
use std::process::Stdio;
use std::sync::atomic::Ordering::SeqCst;

use policy::Span;
use policy::gang::Gang;
use rustix::process::Signal;
use sys::cgroups::Hierarchy;
use sys::containment::{Contained, Manner, contain_in};
use sys::identity::Identity;
use testing::Child;

use super::*;
use crate::process_list::PLACES;
use crate::process_list::tests::list;
use crate::processes::tests::{identity, state as state_of, until};
use crate::processes::{descendants, mark};
use crate::restraint::StopChoice;
use crate::state::tests::entering;
use crate::state::{Entering, State};
use crate::topology::Topology;

const FREEZERS: [StopMechanism; 2] = [StopMechanism::Freeze, StopMechanism::Freezer];

/// A job of one program in a group.
struct Subject {
    /// Dropped first: its group can be removed then.
    contained: Contained,
    means: StopMeans,
    state: State,
    list: ProcessList,
    mechanisms: Mechanisms,
}

impl Subject {
    /// Starts a shell script. `None` if the mechanism does not work here.
    fn start(mechanism: StopMechanism, script: &str) -> Option<Subject> {
        let means = StopMeans::prepare(Some(StopChoice::By(mechanism)), false)
            .map_err(|why| testing::skip_part("ROWLOCK_REQUIRE_GROUPS", &why.to_string(), "run the test as root"));
        let means = means.ok()?;
        let mut command = testing::command("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let lifeline = contain_in(&mut command, Manner::Background, &[means.group()?]).unwrap();
        let contained = Contained::new(command.spawn().unwrap(), lifeline);
        let state = state_with(Some(means.stop_by()));
        Some(Subject { contained, means, state, list: list(), mechanisms: Mechanisms::default() })
    }

    fn apply(&mut self, step: fn(&mut dyn Mechanism, &Target<'_>) -> io::Result<()>) -> io::Result<()> {
        let (id, job) = self.state.jobs().next().unwrap();
        step(self.mechanisms.of(job.stop_by.as_ref().unwrap()), &job.target(id, &self.list))
    }

    fn restrain(&mut self) {
        self.apply(|mechanism, target| mechanism.restrain(target)).unwrap();
    }

    fn release(&mut self) {
        self.apply(|mechanism, target| mechanism.release(target)).unwrap();
    }

    fn leave(&mut self) {
        self.apply(|mechanism, target| mechanism.leave(target)).unwrap();
    }

    fn mark(&self) -> u32 {
        self.list.group_mark().load(SeqCst)
    }

    /// Whether all processes of the group have stopped.
    fn is_frozen(&self) -> bool {
        let read = |version, file: &str| {
            let mut all = Hierarchy::all().into_iter().filter(|hierarchy| hierarchy.version == version);
            let group = self.means.group().unwrap().path();
            all.find_map(|hierarchy| fs::read_to_string(hierarchy.mount.join(group).join(file)).ok()).unwrap()
        };
        match self.means.stop_by().mechanism {
            StopMechanism::Freeze => read(2, "cgroup.events").contains("frozen 1"),
            _ => read(1, "freezer.state") == "FROZEN\n",
        }
    }

    fn processes(&self) -> Vec<Identity> {
        descendants(&[self.contained.id()])
    }

    /// Lets `cat` in the job answer.
    fn expect_answer(&mut self) {
        use std::io::{BufRead, BufReader, Write};
        let process = self.contained.process();
        process.stdin.as_mut().unwrap().write_all(b"line\n").unwrap();
        let mut answer = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
        assert_eq!(answer, "line\n");
    }
}

/// A table with one job of this process.
pub(super) fn state_with(stop_by: Option<StopBy>) -> State {
    let mut state = State::new(Topology::of_cpus(&[0]), Span::from_millis(20));
    let entering = Entering { agent: Identity::own(), request: None, ..entering(1, Gang::Strict, 1) };
    let id = state.enter(&entering, crate::now()).unwrap();
    stop_by.into_iter().for_each(|stop_by| state.set_stop_by(id, stop_by).unwrap());
    state
}

#[test]
fn a_job_is_frozen_with_all_that_it_starts_and_goes_on_however_often_that_is_asked() {
    for mechanism in FREEZERS {
        let Some(mut subject) = Subject::start(mechanism, "while :; do /bin/true; done & exec cat") else { continue };
        until(|| subject.processes().len() > 1);
        for count in 1..4 {
            // A parent that waits for its child to execute a program does not count as frozen in
            // version 1 before it is asked again. It does not run either.
            until(|| {
                subject.restrain();
                subject.is_frozen()
            });
            let frozen = subject.processes();
            subject.restrain();
            assert!(mark::is_ours(subject.mark()) && mark::stops(subject.mark()) == count);
            assert!(subject.processes().iter().all(|process| frozen.contains(process)), "a process has begun");
            for _ in 0..2 {
                subject.release();
                assert!(!mark::is_ours(subject.mark()) && mark::stops(subject.mark()) == count);
            }
            subject.expect_answer();
        }
    }
}

#[test]
fn a_stop_of_a_user_during_ours_acts_when_the_job_is_left_to_its_terminal_and_remains() {
    for mechanism in FREEZERS {
        for signal in [Signal::STOP, Signal::TSTP] {
            // Its process group is not orphaned: its keeper is in another one of the same session.
            let Some(mut subject) = Subject::start(mechanism, "exec sleep 1000") else { continue };
            until(|| subject.processes().len() == 1);
            let sleep = subject.processes()[0].pid;
            subject.restrain();
            until(|| subject.is_frozen());
            sys::signals::send(rustix::process::Pid::from_raw(sleep as i32).unwrap(), signal.as_raw()).unwrap();
            subject.leave();
            until(|| state_of(sleep) == b'T');
            subject.restrain();
            until(|| subject.is_frozen());
            subject.release();
            until(|| !subject.is_frozen());
            assert_eq!(state_of(sleep), b'T');
        }
    }
}

#[test]
fn a_job_whose_threads_give_way_is_stopped_only_if_its_user_holds_it_or_they_do_not() {
    let sleep = Child::start(testing::command("sleep").arg("1000"));
    let stop_by = |hint| StopBy { mechanism: StopMechanism::Signals, group: None, hint };
    let (mut state, list, mut mechanisms) = (state_with(Some(stop_by(Hint::Obeyed))), list(), Mechanisms::default());
    list.set(&[identity(sleep.id())], PLACES);
    let id = state.jobs().next().unwrap().0;
    let mut stops = |state: &State| {
        let target = state.job(id).unwrap().target(id, &list);
        mechanisms.stop(&target).unwrap();
        // A process that is not stopped by us has no mark of its own.
        let is_stopped = list.iter().any(|(_, word)| mark::is_ours(word.load(SeqCst)));
        assert!(list.is_stopped());
        mechanisms.run(&target).unwrap();
        assert!(!list.is_stopped());
        is_stopped
    };
    assert!(!stops(&state));
    state.set_held(id, true, crate::now()).unwrap();
    assert!(stops(&state));
    state.set_held(id, false, crate::now()).unwrap();
    assert!(!stops(&state));
    assert_eq!(mark::stops(list.group_mark().load(SeqCst)), 2, "threads block for that as for a stop");
    state.set_hint(id, Hint::Ignored).unwrap();
    assert!(stops(&state));
}

#[test]
fn a_frozen_job_that_is_killed_or_whose_job_leaves_the_table_has_ended_when_its_group_is_removed() {
    for mechanism in FREEZERS {
        let Some(mut subject) = Subject::start(mechanism, "exec sleep 1000") else { continue };
        until(|| subject.processes().len() == 1);
        subject.restrain();
        until(|| subject.is_frozen());
        subject.mechanisms.forget_unused();
        assert!(subject.is_frozen());
        // In this switch, it was not found in the table.
        subject.mechanisms.forget_unused();
        until(|| !subject.is_frozen());
        subject.restrain();
        until(|| subject.is_frozen());
        let Subject { means, mut contained, .. } = subject;
        contained.end();
        drop(means);
        assert!(!contained.process().wait().unwrap().success());
    }
}

#[test]
fn a_job_whose_group_is_not_to_be_reached_goes_on_and_that_is_said_once() {
    let own = Child::start(testing::command("sleep").arg("1000"));
    for mechanism in FREEZERS {
        let works = StopMeans::prepare(Some(StopChoice::By(mechanism)), false).is_ok();
        for group in [None, Some(""), Some("/"), Some("rowlock-job-1-x"), Some("../rowlock-job-1-x")] {
            let stop_by = StopBy { mechanism, group: group.map(str::to_owned), hint: Hint::Unused };
            let (state, list, mut mechanisms) = (state_with(Some(stop_by)), list(), Mechanisms::default());
            let (id, job) = state.jobs().next().unwrap();
            let (target, of) = (job.target(id, &list), mechanisms.of(job.stop_by.as_ref().unwrap()));
            let why = of.restrain(&target).unwrap_err();
            assert!(!works || why.kind() == io::ErrorKind::InvalidInput, "{group:?}: {why}");
            of.release(&target).unwrap();
            of.restrain(&target).unwrap();
        }
    }
    assert_ne!(state_of(own.id()), b'T');
}
