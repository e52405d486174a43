//! Sizes at which something might overflow, stop or never end.
//!
//! The large ones only run in a release build, because a debug build checks every thread after
//! every event.

use policy::Span;
use rowlock_sim::run;
use scenario::{Job, JobKind, Machine, MachineKeys, Scheduler};

use crate::timeline::{barrier, cpu, setting, time_sharing};

fn machine(scheduler: Scheduler, cpus: u32) -> Machine {
    let keys = MachineKeys { scheduler: Some(scheduler), ..MachineKeys::default() };
    keys.complete(&Machine::with_cpus(cpus))
}

#[test]
fn one_thread_on_one_cpu_needs_its_work_and_one_switch() {
    for scheduler in Scheduler::ALL {
        let outcome = run(&machine(scheduler, 1), &setting(vec![cpu("a", Some(Span::from_millis(50)))]), 1).unwrap();
        assert_eq!(outcome.jobs[0].completion_ns, Some(Span::from_micros(50_006)), "{}", scheduler.name());
    }
}

#[test]
fn computations_of_length_zero_take_a_step_each_and_end() {
    for scheduler in time_sharing() {
        for waiting in ["always-block", "cs", "2cs+", "always-spin"] {
            let jobs = vec![barrier("crew", 3, Span::ZERO, 200, waiting), barrier("solo", 1, Span::ZERO, 200, waiting)];
            let outcome = run(&machine(scheduler, 1), &setting(jobs), 1).unwrap();
            assert_eq!(outcome.jobs[0].rounds, Some(200), "{} {waiting}", scheduler.name());
        }
    }
}

#[test]
fn threads_with_simultaneous_events_still_meet() {
    for scheduler in Scheduler::ALL {
        let free = Machine { context_switch: Span::ZERO, ..machine(scheduler, 4) };
        let crew = |n: u32| barrier(&format!("crew{n}"), 4, Span::from_micros(10), 100, "cs");
        let outcome = run(&free, &setting((0..4).map(crew).collect()), 1).unwrap();
        assert!(outcome.jobs.iter().all(|job| job.rounds == Some(100)), "{}", scheduler.name());
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "a debug build checks ten thousand threads after every event")]
fn ten_thousand_threads_meet_while_as_many_compute() {
    for scheduler in Scheduler::ALL {
        let crowd = JobKind::Cpu { threads: 10_000, work: Some(Span::from_millis(1).into()) };
        let jobs = vec![barrier("crew", 10_000, Span::from_micros(50), 20, "2cs+"), Job::new("crowd", 1, crowd)];
        let outcome = run(&machine(scheduler, 32), &setting(jobs), 1).unwrap();
        assert_eq!(outcome.jobs[0].rounds, Some(20), "{}", scheduler.name());
        assert_eq!(outcome.jobs[1].delivered_work_ns, Some(Span::from_millis(10_000)));
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "a debug build checks the machine after each of sixty million events")]
fn ten_million_barriers_are_counted_to_the_last() {
    for scheduler in Scheduler::ALL {
        let crew = barrier("crew", 2, Span::from_micros(5), 10_000_000, "2cs+");
        let outcome = run(&machine(scheduler, 2), &setting(vec![crew]), 1).unwrap();
        assert_eq!(outcome.jobs[0].rounds, Some(10_000_000), "{}", scheduler.name());
        assert_eq!(outcome.jobs[0].delivered_work_ns, Some(Span::from_millis(100_000)));
    }
}
