//! Jobs of fibers.

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use scenario::draw::Stream;
use scenario::fibers::{FiberCosts, FiberGroup};
use scenario::result::JobOutcome;
use scenario::{Distribution, Fibers, Job, JobKind, Setting};

use crate::runs::{self, job, setting};

pub(crate) const TRIALS: &[(&str, fn())] = &[
    ("fibers_that_take_locks_and_join_each_other_all_end", program_of_the_study),
    ("fibers_deliver_the_work_that_was_drawn", drawn_work_is_delivered),
    ("all_fibers_or_a_sample_are_timed", timed),
    ("fibers_run_under_every_kind_of_queue", every_queue_configuration),
    ("fibers_that_keep_running_are_counted_once", keep_running),
    ("fibers_run_on_several_workers", several_workers),
    ("fibers_run_with_and_without_preemption", preemptible),
];

fn micros(mean: u64) -> Distribution {
    Distribution::Normal { mean: Span::from_micros(mean), sd: Span::from_nanos(mean * 100) }
}

fn group(name: &str, fibers: u32, bursts: u32, compute: Distribution) -> FiberGroup {
    FiberGroup {
        name: name.into(),
        fibers,
        bursts,
        compute,
        critical: None,
        checkpoint: None,
        think: None,
        join_every: None,
    }
}

fn fibers(groups: Vec<FiberGroup>) -> Fibers {
    Fibers {
        groups,
        workers: 1,
        rules: FeedbackRules::default(),
        locks: 2,
        preemptible: false,
        costs: FiberCosts::default(),
    }
}

/// Fibers that respond and sleep, and fibers that compute, with checkpoints and with critical
/// sections.
fn mixed() -> Fibers {
    let think = Some(Distribution::Exponential { mean: Span::from_micros(50) });
    let quick = FiberGroup { critical: Some(micros(1)), think, ..group("quick", 5, 8, micros(6)) };
    let checkpoint = Some(Span::from_micros(3));
    fibers(vec![quick, FiberGroup { checkpoint, critical: Some(micros(20)), ..group("long", 3, 2, micros(100)) }])
}

fn run(of: Fibers) -> JobOutcome {
    let setting = setting(vec![job("fibers", JobKind::Fibers(of))]);
    runs::run(&setting).unwrap().outcome.jobs.remove(0)
}

fn program_of_the_study() {
    let nanos = |nanos| Distribution::exactly(Span::from_nanos(nanos));
    let all = FiberGroup { critical: Some(nanos(20)), join_every: Some(16), ..group("all", 500, 1, nanos(10)) };
    let outcome = run(fibers(vec![all]));
    assert_eq!(outcome.rounds, Some(500));
    assert!(outcome.completion_ns > Some(Span::ZERO) && outcome.cpu_ns > Some(Span::ZERO), "{outcome:?}");
    // A sample: every sixteenth.
    assert_eq!(outcome.fibers.unwrap().groups[0].responses, 32);
}

fn drawn_work_is_delivered() {
    let of = mixed();
    let drawn = |group: &FiberGroup| {
        let program = group.program("fibers");
        let fiber = |number| {
            let mut stream: Stream = program.stream(1, number);
            let bursts = (0..group.bursts).map(|_| program.burst(&mut stream, Span::from_nanos(1)));
            bursts.map(|burst| burst.compute + burst.critical.unwrap_or(Span::ZERO)).sum::<Span>()
        };
        (0..group.fibers).map(fiber).sum::<Span>()
    };
    let wanted: Span = of.groups.iter().map(drawn).sum();
    let delivered = run(of).delivered_work_ns.unwrap();
    // Each computation is rounded to an iteration.
    assert!(delivered.as_nanos().abs_diff(wanted.as_nanos()) < wanted.as_nanos() / 500, "{delivered} of {wanted}");
}

fn timed() {
    let of = run(mixed()).fibers.unwrap();
    let timed: Vec<(&str, u64)> = of.groups.iter().map(|group| (group.group.as_str(), group.responses)).collect();
    assert_eq!(timed, [("quick", 40), ("long", 6)]);
    for group in of.groups {
        let all = [group.response_p50_ns, group.response_p95_ns, group.response_p99_ns, group.response_worst_ns];
        assert!(all[0] > Some(Span::ZERO) && all.is_sorted(), "{all:?}");
    }
}

fn every_queue_configuration() {
    for levels in [1, 3, 1_024] {
        for boost in [Boost::Never, Boost::Every(Span::from_micros(50))] {
            let rules = FeedbackRules { levels, running_time: Span::from_micros(10), boost };
            assert_eq!(run(Fibers { rules, ..mixed() }).rounds, Some(46), "{rules:?}");
        }
    }
}

fn keep_running() {
    let other = JobKind::Cpu { threads: 1, work: Some(Distribution::exactly(Span::from_millis(20))) };
    let jobs = vec![job("fibers", JobKind::Fibers(mixed())), job("other", other)];
    let setting = Setting { keep_running: true, ..setting(jobs) };
    let outcome = runs::run(&setting).unwrap().outcome;
    assert_eq!(outcome.jobs[0].rounds, Some(46));
    assert_eq!(outcome.jobs[0].fibers.as_ref().unwrap().groups[0].responses, 40);
}

fn several_workers() {
    let jobs = vec![Job::new("fibers", 2, JobKind::Fibers(Fibers { workers: 2, ..mixed() }))];
    let outcome = runs::run(&setting(jobs)).unwrap().outcome;
    assert!(outcome.jobs.iter().all(|job| job.rounds == Some(46)), "{outcome:?}");
}

fn preemptible() {
    let exactly = |micros| Distribution::exactly(Span::from_micros(micros));
    let groups = vec![group("long", 1, 1, exactly(100_000)), group("short", 1, 1, exactly(20_000))];
    // When the timer interrupts a fiber depends on the machine. `rowlock_host::executors::fibers`
    // has tests with a scripted clock.
    for preemptible in [true, false] {
        let outcome = run(Fibers { preemptible, ..fibers(groups.clone()) });
        assert_eq!((outcome.rounds, outcome.delivered_work_ns), (Some(2), Some(Span::from_millis(120))));
        assert!(outcome.fibers.unwrap().groups.iter().all(|group| group.responses == 1));
    }
}
