//! Nice values: their effect under each scheduler, and how jobs and stages get them.

use policy::Span;
use policy::priority::{self, StageKind};
use policy::waiting::WaitingRule;
use rowlock_sim::run;
use scenario::pipeline::{Stage, Structure};
use scenario::{Attributes, Distribution, Job, JobKind, Linux24, Machine, Pipeline, Scheduler, Setting};

use crate::timeline::{cpu, setting, short};

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

/// A job of one thread that computes a millisecond `rounds` times.
fn bound(name: &str, nice: i8, rounds: u64) -> Job {
    let compute = Some(Distribution::Normal { mean: ms(1), sd: Span::ZERO });
    let stage = Stage { name: "work".into(), kind: StageKind::Compute, compute, device: None, fork: 1, nice };
    let pipeline = Pipeline {
        stages: vec![stage],
        buffers: 1,
        rounds,
        structure: Structure::Threads,
        shared: Vec::new(),
        priority: priority::PriorityRule::Default,
        waiting: WaitingRule::AlwaysBlock,
    };
    Job::new(name, 1, JobKind::Pipeline(pipeline))
}

fn machine(scheduler: Scheduler) -> Machine {
    let linux_2_4 = scheduler == Scheduler::Linux24;
    let tick = if linux_2_4 { Span::from_micros(100) } else { ms(1) };
    Machine { scheduler, tick, timeslice: 4, context_switch: Span::ZERO, ..Machine::with_cpus(1) }
}

/// The share of the CPU of the first job until it ended, against another one with a nice value.
fn share(scheduler: Scheduler, nice: i8) -> f64 {
    let jobs = vec![bound("first", 0, 500), bound("second", nice, 6_000)];
    let outcome = run(&machine(scheduler), &setting(jobs), 1).unwrap();
    0.5 / outcome.jobs[0].completion_ns.unwrap().as_secs_f64()
}

#[test]
fn under_eevdf_cpu_time_is_divided_by_weight() {
    for (nice, weight) in [(0, 1024.0), (5, 335.0), (19, 15.0), (-5, 3121.0)] {
        let (share, expected) = (share(Scheduler::Eevdf, nice), 1024.0 / (1024.0 + weight));
        assert!((share - expected).abs() < 0.01, "nice {nice}: {share} for {expected}");
    }
}

#[test]
fn under_cfs_cpu_time_is_divided_by_weight_as_soon_as_it_is_set() {
    let (share, expected) = (share(Scheduler::Cfs, 5), 1024.0 / (1024.0 + 335.0));
    assert!((share - expected).abs() < 0.01, "{share} for {expected}");
}

#[test]
fn under_linux_2_4_cpu_time_is_divided_by_allocation() {
    for (nice, allocation) in [(0, 20.0), (10, 10.0), (19, 1.0), (-20, 40.0)] {
        let (share, expected) = (share(Scheduler::Linux24, nice), 20.0 / (20.0 + allocation));
        assert!((share - expected).abs() < 0.01, "nice {nice}: {share} for {expected}");
    }
}

#[test]
fn under_linux_o1_cpu_time_is_divided_by_timeslice() {
    for (nice, timeslice) in [(0, 4.0), (10, 2.0), (19, 1.0), (-20, 32.0)] {
        let (share, expected) = (share(Scheduler::LinuxO1, nice), 4.0 / (4.0 + timeslice));
        assert!((share - expected).abs() < 0.01, "nice {nice}: {share} for {expected}");
    }
}

#[test]
fn round_robin_ignores_nice_values() {
    assert!((share(Scheduler::Rr, 19) - 0.5).abs() < 0.01);
}

/// The time of a pipeline that reads and computes beside a hog, under a rule.
fn beside_a_hog(rule: priority::PriorityRule, structure: Structure) -> Span {
    let lengths = |micros| Some(Distribution::Normal { mean: Span::from_micros(micros), sd: Span::ZERO });
    let stage =
        |name: &str, kind, compute, device| Stage { name: name.into(), kind, compute, device, fork: 1, nice: 0 };
    let stages = vec![
        stage("read", StageKind::Io, lengths(50), lengths(400)),
        stage("work", StageKind::Compute, lengths(1_000), None),
        stage("write", StageKind::Io, lengths(50), lengths(400)),
    ];
    let waiting = WaitingRule::AlwaysBlock;
    let line = Pipeline { stages, buffers: 4, rounds: 500, structure, shared: Vec::new(), priority: rule, waiting };
    let jobs =
        vec![Job::new("line", 1, JobKind::Pipeline(line)), Job::new("hog", 1, JobKind::Cpu { threads: 1, work: None })];
    run(&machine(Scheduler::Eevdf), &setting(jobs), 1).unwrap().jobs[0].completion_ns.unwrap()
}

#[test]
fn beside_a_hog_raising_computing_stages_helps_and_lowering_them_harms() {
    for structure in Structure::ALL {
        let [default, raised, lowered, found] = [
            priority::PriorityRule::Default,
            priority::PriorityRule::NiceDown(StageKind::Compute),
            priority::PriorityRule::NiceUp(StageKind::Compute),
            priority::PriorityRule::LimitingResource,
        ]
        .map(|rule| beside_a_hog(rule, structure));
        assert!(raised.scaled(1_300) < default, "{structure:?}: {raised}, {default}");
        assert!(default.scaled(1_300) < lowered, "{structure:?}: {default}, {lowered}");
        assert!(
            found.scaled(1_200) < default,
            "the CPU is the bottleneck, and the rule finds it: {structure:?}: {found}, {default}"
        );
    }
}

#[test]
fn a_nice_thread_that_waits_long_for_its_turn_still_ends() {
    // It weighs 15 of 2063. So after 10 us of running it waits for more than a millisecond, while
    // the others compute a million times.
    let us = Span::from_micros;
    let machine = short(Machine {
        scheduler: Scheduler::Cfs,
        step: Span::from_nanos(1),
        quantum: us(1),
        slice: us(7),
        tick: us(10),
        linux_2_4: Linux24 { allocation: 1, ..Linux24::default() },
        ..machine(Scheduler::Cfs)
    });
    let others = Job::new("others", 2, JobKind::Cpu { threads: 1, work: Some(Span::from_nanos(1).into()) });
    let nice = Job { attributes: Attributes { nice: 19, ..Attributes::default() }, ..cpu("nice", Some(us(20))) };
    let setting = Setting { keep_running: true, ..setting(vec![others, nice]) };
    let outcome = run(&machine, &setting, 1).unwrap();
    assert!(outcome.jobs[2].completion_ns > Some(ms(1)), "{outcome:?}");
}

#[test]
fn stages_without_a_nice_value_have_that_of_their_job() {
    let first = |of_job: i8, of_stage: i8| {
        let mut job = bound("first", of_stage, 100);
        job.attributes.nice = of_job;
        run(&machine(Scheduler::Eevdf), &setting(vec![job, bound("second", 0, 200)]), 1).unwrap()
    };
    assert_eq!(first(5, 0), first(0, 5));
    assert_eq!(first(-3, 5), first(0, 5));
    assert_ne!(first(5, 0), first(0, 0));
}

#[test]
fn a_job_that_may_run_nowhere_is_refused() {
    let mut job = bound("first", 0, 1);
    job.attributes.cpus = Some("1-3".parse().unwrap());
    let refused = run(&machine(Scheduler::Eevdf), &setting(vec![job]), 1).unwrap_err();
    assert!(refused.to_string().contains("may run on CPUs 1-3 only"), "{refused}");
}
