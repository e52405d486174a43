//! Outcomes of whole runs, to the nanosecond. A change here changes predictions, and wants a line in the CHANGELOG.

use policy::Span;
use rowlock_sim::run;
use scenario::{Compute, Granularity, Job, Kind, Lengths, Machine, Scheduler};

use crate::timeline::{barrier, cpu, setting};

/// One line a job, and one for the machine.
fn outcome(scheduler: Scheduler, waiting: &str, seed: u64) -> String {
    let crew = Kind::Barrier {
        threads: 5,
        compute: Compute::Granularity(Granularity::Fine),
        rounds: 2_000,
        waiting: waiting.parse().unwrap(),
    };
    let crowd = Kind::Cpu { threads: 6, work: None };
    let jobs = vec![
        Job { name: "crew".into(), copies: 2, kind: crew },
        barrier("pair", 2, Span::from_micros(40), 500, waiting),
        Job { name: "crowd".into(), copies: 1, kind: crowd },
    ];
    let machine =
        Machine { scheduler, tick: Span::from_micros(400), slice: Span::from_micros(300), ..Machine::with_cpus(4) };
    let outcome = run(&machine, &setting(jobs), seed).unwrap();
    let mut text = format!("{} {waiting} seed {seed}: {:?}\n", scheduler.name(), outcome.machine);
    outcome.jobs.iter().for_each(|job| text += &format!("  {job:?}\n"));
    text
}

#[test]
fn outcomes_are_those_of_the_golden_file() {
    let arms = Scheduler::ALL.into_iter().flat_map(|scheduler| {
        ["always-block", "always-yield", "cs", "2cs+", "always-spin"].map(|waiting| outcome(scheduler, waiting, 1))
    });
    insta::assert_snapshot!(arms.collect::<String>());
}

#[test]
fn outcomes_of_locks_are_those_of_the_golden_file() {
    let lengths = |mean, sd| Lengths { mean: Span::from_micros(mean), sd: Span::from_micros(sd) };
    let arms = Scheduler::ALL.into_iter().flat_map(|scheduler| {
        ["always-block", "cs", "always-spin", "owner-running", "variable-competitive"].map(|waiting| {
            let (compute, critical) = (lengths(20, 5), lengths(6, 2));
            let waiting = waiting.parse().unwrap();
            let kind = Kind::Lock { threads: 5, compute, critical, rounds: 500, waiting };
            let jobs = vec![Job { name: "bank".into(), copies: 1, kind }, cpu("x", None)];
            let machine = Machine { scheduler, tick: Span::from_micros(400), ..Machine::with_cpus(4) };
            let outcome = run(&machine, &setting(jobs), 1).unwrap();
            format!("{} {waiting}: {:?}\n  {:?}\n", scheduler.name(), outcome.machine, outcome.jobs[0])
        })
    });
    insta::assert_snapshot!(arms.collect::<String>());
}

#[test]
fn another_seed_gives_another_outcome() {
    for scheduler in Scheduler::ALL {
        let body = |seed| outcome(scheduler, "cs", seed).split_once(':').map(|(_, rest)| rest.to_owned());
        assert_ne!(body(1), body(2));
    }
}
