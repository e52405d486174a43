//! A job that has the machine to itself. Its outcome follows from the cost of a switch, the barrier
//! and the drawn computations alone, under every scheduler.

use policy::Span;
use rowlock_sim::run;
use scenario::{Compute, Granularity, Job, JobKind, Machine, Scheduler};

use crate::timeline::setting;

/// The time of a round in microseconds and the SSR of 11 threads alone on 32 CPUs, computing in
/// whole microseconds.
fn alone(scheduler: Scheduler, granularity: Granularity, waiting: &str) -> (f64, Option<f64>) {
    const ROUNDS: u64 = 2_000;
    let machine = Machine { scheduler, step: Span::from_micros(1), ..Machine::with_cpus(32) };
    let compute = Compute::Granularity(granularity);
    let kind = JobKind::Barrier { threads: 11, compute, rounds: ROUNDS, waiting: waiting.parse().unwrap() };
    let outcome = run(&machine, &setting(vec![Job::new("crew", 1, kind)]), 1).unwrap();
    let completion = outcome.jobs[0].completion_ns.unwrap().as_secs_f64();
    (completion * 1e6 / ROUNDS as f64, outcome.jobs[0].ssr_percent)
}

#[test]
fn a_job_alone_that_spins_long_enough_takes_its_slowest_computation_a_round() {
    for scheduler in Scheduler::ALL {
        // The slowest of 11 computations, in whole microseconds, is 6 in most rounds of a
        // fine-grain job.
        let (fine, ssr) = alone(scheduler, Granularity::Fine, "2cs+");
        assert!((fine - 5.69).abs() <= 0.05, "{scheduler:?}: {fine}");
        assert_eq!(ssr, Some(100.0), "{scheduler:?}");
        let (medium, ssr) = alone(scheduler, Granularity::Medium, "2cs+");
        assert!((medium - 30.3).abs() <= 0.2, "{scheduler:?}: {medium}");
        assert!(ssr.is_some_and(|ssr| ssr >= 99.5), "{scheduler:?}: {ssr:?}");
    }
}

#[test]
fn a_job_alone_that_blocks_pays_for_switches_in_every_round() {
    for scheduler in Scheduler::ALL {
        let ((fine, _), (medium, ssr)) = (
            alone(scheduler, Granularity::Fine, "always-block"),
            alone(scheduler, Granularity::Medium, "always-block"),
        );
        assert!((fine - 16.2).abs() <= 0.5, "{scheduler:?}: {fine}");
        assert!((medium - 38.4).abs() <= 0.7, "{scheduler:?}: {medium}");
        assert_eq!(ssr, None);
    }
}
