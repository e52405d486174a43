//! Tests with real processes and threads.

use std::cell::OnceCell;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use policy::JobId;
use sys::identity::Identity;
use sys::priorities::check_idle_and_back;
use sys::scheduling::{Attributes, Policy, Thread, attributes, nice, set_nice, set_policy};

use super::*;
use crate::mechanisms::Mechanisms;
use crate::mechanisms::tests::state_with;
use crate::process_list::tests::list;
use crate::process_list::{PLACES, ProcessList};
use crate::processes::tests::{identity, state, until};
use crate::processes::threads;
use crate::restraint::{Hint, LowerBy, StopBy, StopMechanism};
use crate::state::State;

/// A job with one process, and the mechanisms for it.
struct Subject {
    state: State,
    id: JobId,
    list: ProcessList,
    process: Identity,
    mechanisms: Mechanisms,
}

impl Subject {
    fn new(process: Identity, lower_by: Option<LowerBy>) -> Subject {
        let mut state = state_with(Some(StopBy { mechanism: StopMechanism::Signals, group: None, hint: Hint::Unused }));
        let (id, _) = state.jobs().next().unwrap();
        lower_by.into_iter().for_each(|lower_by| state.set_lower_by(id, lower_by).unwrap());
        let list = list();
        list.set(&[process], PLACES);
        Subject { state, id, list, process, mechanisms: Mechanisms::default() }
    }

    fn act(&mut self, step: fn(&mut Mechanisms, &Target<'_>) -> io::Result<()>) {
        let target = self.state.job(self.id).unwrap().target(self.id, &self.list);
        step(&mut self.mechanisms, &target).unwrap();
    }

    fn target(&self) -> Target<'_> {
        self.state.job(self.id).unwrap().target(self.id, &self.list)
    }

    /// Policy and nice value of all of its threads.
    fn priorities(&self) -> Vec<(Policy, i32)> {
        let numbers = threads(self.process).unwrap();
        // One may end meanwhile.
        numbers.into_iter().filter_map(|number| try_priority(Thread::from_number(number)?)).collect()
    }
}

fn try_priority(thread: Thread) -> Option<(Policy, i32)> {
    // The kernel reports no nice value among the attributes under `SCHED_IDLE`.
    Some((attributes(thread).ok()?.policy, nice(thread).ok()?))
}

fn priority(thread: Thread) -> (Policy, i32) {
    try_priority(thread).unwrap()
}

/// A thread that lives as long as the second value.
fn start_thread() -> (Thread, Sender<()>) {
    let ((tell, told), (end, ended)) = (channel(), channel::<()>());
    thread::spawn(move || {
        tell.send(Thread::current()).unwrap();
        let _ = ended.recv();
    });
    (told.recv().unwrap(), end)
}

/// The mechanisms for threads, with the priority of a lowered thread. Empty if they cannot be used.
fn mechanisms() -> Vec<(LowerBy, (Policy, i32))> {
    if let Err(why) = check_idle_and_back() {
        eprintln!("not tested: {why}");
        return Vec::new();
    }
    let (policy, ordinary) = priority(Thread::current());
    let lowered = (ordinary + 15).min(19);
    vec![(LowerBy::SchedIdle, (Policy::Idle, ordinary)), (LowerBy::Nice { ordinary }, (policy, lowered))]
}

#[test]
fn all_threads_are_lowered_and_raised_with_those_that_they_have_created_meanwhile() {
    testing::isolated(|| {
        let ordinary = priority(Thread::current());
        for (lower_by, lowered) in mechanisms() {
            let mut own = Subject::new(Identity::own(), Some(lower_by));
            let _before = start_thread();
            for _ in 0..2 {
                own.act(Mechanisms::lower);
                let (_, _meanwhile) = start_thread();
                assert!(own.priorities().len() >= 3 && own.priorities().iter().all(|&now| now == lowered));
                own.act(Mechanisms::lower);
                assert!(own.priorities().iter().all(|&now| now == lowered), "lowered once");
                own.act(Mechanisms::run);
                assert!(own.priorities().iter().all(|&now| now == ordinary));
            }
        }
    });
}

#[test]
fn a_thread_that_is_created_after_threads_were_listed_is_raised_as_well() {
    testing::isolated(|| {
        if mechanisms().is_empty() {
            return;
        }
        let mut own = Subject::new(Identity::own(), Some(LowerBy::SchedIdle));
        own.act(Mechanisms::lower);
        let created = OnceCell::new();
        let raise = |thread| {
            created.get_or_init(start_thread);
            priority(thread).0 == Policy::Idle && set_policy(thread, Policy::Other).is_ok()
        };
        change_all(&own.target(), raise, |_| false);
        assert!(own.priorities().iter().all(|&(policy, _)| policy == Policy::Other));
    });
}

#[test]
fn a_thread_that_a_killed_switcher_has_lowered_is_raised() {
    testing::isolated(|| {
        let ordinary = priority(Thread::current());
        for (lower_by, (policy, nice)) in mechanisms() {
            let (thread, _lives) = start_thread();
            set_policy(thread, policy).unwrap();
            set_nice(thread, nice).unwrap();
            Subject::new(Identity::own(), Some(lower_by)).act(Mechanisms::run);
            assert_eq!(priority(thread), ordinary);
        }
    });
}

#[test]
fn a_priority_that_its_program_or_a_user_has_given_to_a_thread_remains() {
    testing::isolated(|| {
        let ordinary = priority(Thread::current()).1;
        for (lower_by, (_, lowered)) in mechanisms() {
            let mut own = Subject::new(Identity::own(), Some(lower_by.clone()));
            let [(before, _first), (meanwhile, _second)] = [(); 2].map(|()| start_thread());
            let chosen = (Policy::Batch, ordinary + 3);
            let choose = |thread| {
                set_policy(thread, chosen.0).unwrap();
                set_nice(thread, chosen.1).unwrap();
            };
            choose(before);
            own.act(Mechanisms::lower);
            assert_eq!(priority(before), chosen);
            assert_eq!(priority(meanwhile).1, lowered);
            choose(meanwhile);
            own.act(Mechanisms::run);
            assert_eq!((priority(before), priority(meanwhile)), (chosen, chosen), "{lower_by:?}");
        }
    });
}

#[test]
fn a_nice_value_that_a_user_gives_to_a_thread_while_it_is_idle_is_its_own_when_it_is_raised() {
    testing::isolated(|| {
        let chosen = priority(Thread::current()).1 + 2;
        if mechanisms().is_empty() {
            return;
        }
        let mut own = Subject::new(Identity::own(), Some(LowerBy::SchedIdle));
        let (thread, _lives) = start_thread();
        own.act(Mechanisms::lower);
        set_nice(thread, chosen).unwrap();
        own.act(Mechanisms::run);
        assert_eq!(priority(thread), (Policy::Other, chosen));
    });
}

#[test]
fn a_stopped_job_that_is_to_be_lowered_continues_and_a_lowered_one_that_is_to_stop_is_raised() {
    let child = testing::Child::start(testing::command("sleep").arg("1000"));
    let priorities = |subject: &Subject| subject.priorities()[0];
    for (lower_by, lowered) in mechanisms() {
        let mut subject = Subject::new(identity(child.id()), Some(lower_by));
        let ordinary = priorities(&subject);
        subject.act(Mechanisms::stop);
        until(|| state(child.id()) == b'T');
        assert_eq!(priorities(&subject), ordinary);
        subject.act(Mechanisms::lower);
        assert_ne!(state(child.id()), b'T');
        assert_eq!(priorities(&subject), lowered);
        subject.act(Mechanisms::leave);
        assert_eq!(priorities(&subject), ordinary);
        subject.act(Mechanisms::lower);
        subject.act(Mechanisms::stop);
        until(|| state(child.id()) == b'T');
        assert_eq!(priorities(&subject), ordinary);
        subject.act(Mechanisms::run);
        assert_ne!(state(child.id()), b'T');
        assert_eq!(priorities(&subject), ordinary);
    }
}

#[test]
fn a_job_that_was_never_to_be_lowered_is_not_raised_either() {
    testing::isolated(|| {
        let mut own = Subject::new(Identity::own(), None);
        let (thread, _lives) = start_thread();
        set_policy(thread, Policy::Idle).unwrap();
        for step in [Mechanisms::lower, Mechanisms::run] {
            own.act(step);
            assert_eq!(attributes(thread).map(|Attributes { policy, .. }| policy).unwrap(), Policy::Idle);
            assert_eq!(priority(Thread::current()).0, Policy::Other);
        }
    });
}

#[test]
fn threads_of_another_process_that_has_got_the_id_are_left_alone() {
    testing::isolated(|| {
        let own = Identity::own();
        for (lower_by, _) in mechanisms() {
            let before = priority(Thread::current());
            Subject { process: own, ..Subject::new(Identity { started: own.started + 1, ..own }, Some(lower_by)) }
                .act(Mechanisms::lower);
            assert_eq!(priority(Thread::current()), before);
        }
    });
}
