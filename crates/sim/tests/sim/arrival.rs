//! Jobs that arrive while others run.

use policy::Span;
use policy::priority::{self, StageKind};
use policy::waiting::WaitingRule;
use rowlock_sim::run;
use scenario::pipeline::{Stage, Structure};
use scenario::{Arrival, Distribution, Job, JobKind, Machine, Pipeline, Scheduler};

use crate::timeline::{barrier, cpu, setting};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

/// The job, arriving after `at` microseconds.
fn from(at: u64, job: Job) -> Job {
    Job { arrival: Arrival { at: us(at), every: None }, ..job }
}

fn machine(scheduler: Scheduler, cpus: u32) -> Machine {
    Machine { scheduler, step: us(1), ..Machine::with_cpus(cpus) }
}

#[test]
fn a_job_on_its_own_cpu_takes_the_same_time_whenever_it_arrives() {
    for scheduler in Scheduler::ALL {
        let machine = machine(scheduler, 2);
        let long = || cpu("long", Some(us(5_000)));
        let late = run(&machine, &setting(vec![long(), from(1_000, cpu("late", Some(us(300))))]), 1).unwrap();
        // A switch from idleness, and then only its work.
        let expected = machine.context_switch + machine.wakeup_cost + us(300);
        assert_eq!(late.jobs[1].completion_ns, Some(expected), "{scheduler:?}");
        assert_eq!(late.jobs[0].completion_ns, run(&machine, &setting(vec![long()]), 1).unwrap().jobs[0].completion_ns);
    }
}

#[test]
fn a_machine_is_idle_until_a_job_arrives() {
    for scheduler in Scheduler::ALL {
        let outcome = run(&machine(scheduler, 1), &setting(vec![from(994, cpu("late", Some(us(1_000))))]), 1).unwrap();
        assert_eq!(outcome.jobs[0].completion_ns, Some(us(1_006)), "{scheduler:?}");
        let idle = outcome.machine.idle_percent.unwrap();
        assert!((idle - 49.7).abs() < 1e-9, "{scheduler:?}: {idle}");
    }
}

#[test]
fn copies_arrive_in_turn_and_each_counts_from_its_own_arrival() {
    let arrival = Arrival { at: Span::ZERO, every: Some(Distribution::exactly(us(1_000))) };
    let outcome = run(
        &machine(Scheduler::Rr, 1),
        &setting(vec![Job { arrival, ..Job { copies: 3, ..cpu("one", Some(us(300))) } }]),
        1,
    );
    let completions: Vec<_> = outcome.unwrap().jobs.iter().map(|job| job.completion_ns).collect();
    assert_eq!(completions, [Some(us(306)); 3]);
}

#[test]
fn jobs_that_have_not_arrived_add_no_load() {
    // The rule blocks from two threads for each CPU on. So it never spins beside the other job, but
    // does until that arrives.
    let crew = || barrier("crew", 2, us(10), 20, "load-aware 2");
    let crowd = |at| from(at, Job::new("crowd", 1, JobKind::Cpu { threads: 4, work: Some(us(50).into()) }));
    let spins = |at| {
        let outcome = run(&machine(Scheduler::Rr, 2), &setting(vec![crew(), crowd(at)]), 1).unwrap();
        outcome.jobs[0].ssr_percent
    };
    let alone = run(&machine(Scheduler::Rr, 2), &setting(vec![crew()]), 1).unwrap().jobs[0].ssr_percent;
    assert!(alone.is_some());
    assert_eq!(spins(1_000_000), alone);
    assert_ne!(spins(0), alone);
}

#[test]
fn an_endless_job_may_run_for_long_before_the_first_job_that_ends_arrives() {
    let crowd = Job::new("crowd", 1, JobKind::Cpu { threads: 9, work: None });
    let jobs = vec![crowd, from(2_000_000, cpu("late", Some(us(10))))];
    let outcome = run(&machine(Scheduler::Rr, 1), &setting(jobs), 1).unwrap();
    assert!(outcome.jobs[1].completion_ns.unwrap() < us(2_000), "{outcome:?}");
}

#[test]
fn a_late_pipeline_counts_the_time_of_its_stages_from_its_arrival() {
    let stage = Stage {
        name: "read".into(),
        kind: StageKind::Io,
        compute: Some(us(10).into()),
        device: Some(us(100).into()),
        fork: 1,
        nice: 0,
    };
    let pipeline = Pipeline {
        stages: vec![stage],
        buffers: 1,
        rounds: 5,
        structure: Structure::Threads,
        shared: Vec::new(),
        priority: priority::PriorityRule::LimitingResource,
        waiting: WaitingRule::AlwaysBlock,
    };
    let line = Job::new("line", 1, JobKind::Pipeline(pipeline));
    for scheduler in Scheduler::ALL {
        let at = |at| run(&machine(scheduler, 1), &setting(vec![from(at, line.clone())]), 1).unwrap().jobs;
        assert_eq!(at(0), at(500), "{scheduler:?}");
    }
}
