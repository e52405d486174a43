//! Both simulators agree, event by event.

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use policy::waiting::{Bound, WaitingRule};
use policy::wakeup::Scheme;
use proptest::prelude::*;
use scenario::{
    Attributes, Cfs, Compute, Distribution, Granularity, Job, JobKind, Linux24, Machine, MachineKeys, Scheduler,
    Setting, Tie,
};

use crate::reference::compare::difference;
use crate::reference::settings::{
    a_thousand_times_as_long, any_attributes, any_attributes_and_slice, any_cfs, any_machine,
    any_machine_of_milliseconds, any_setting, with_attributes,
};

/// A setting in which no thread keeps a CPU forever. Without preemption, the others would never
/// run.
fn with_ends(mut setting: Setting) -> Setting {
    setting.keep_running = false;
    for job in &mut setting.jobs {
        match &mut job.kind {
            JobKind::Cpu { work, .. } => *work = work.take().or(Some(Span::from_micros(300).into())),
            JobKind::Barrier { waiting: waiting @ WaitingRule::AlwaysSpin, .. } => {
                *waiting = WaitingRule::TwoPhase(Bound::Fixed(Span::from_micros(90)));
            }
            _ => {}
        }
    }
    setting
}

proptest! {
    #[test]
    fn round_robin_agrees_with_the_reference(
        machine in any_machine(Scheduler::Rr), setting in any_setting(), seed in 0_u64..1_000_000,
        attributes in prop::collection::vec(any_attributes(), 4),
    ) {
        let setting = with_attributes(setting, machine.cpus, attributes);
        difference(&machine, &setting, seed).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn fifo_agrees_with_the_reference(
        machine in any_machine(Scheduler::Fifo), setting in any_setting(), seed in 0_u64..1_000_000,
        attributes in prop::collection::vec(any_attributes(), 4),
    ) {
        let setting = with_ends(with_attributes(setting, machine.cpus, attributes));
        difference(&machine, &setting, seed).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn feedback_agrees_with_the_reference(
        machine in any_machine(Scheduler::Feedback), setting in any_setting(), seed in 0_u64..1_000_000,
        attributes in prop::collection::vec(any_attributes(), 4),
        levels in 1_u32..6, running_time in 1_u64..60, boost in prop::option::weighted(0.8, 1_u64..400),
    ) {
        let boost = boost.map_or(Boost::Never, |micros| Boost::Every(Span::from_micros(micros)));
        let feedback = FeedbackRules { levels, running_time: Span::from_micros(running_time), boost };
        let setting = with_attributes(setting, machine.cpus, attributes);
        difference(&Machine { feedback, ..machine }, &setting, seed).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn linux_2_4_agrees_with_the_reference(
        machine in any_machine(Scheduler::Linux24), setting in any_setting(), seed in 0_u64..1_000_000,
        attributes in prop_oneof![Just(Vec::new()), prop::collection::vec(any_attributes(), 4)],
    ) {
        let setting = with_attributes(setting, machine.cpus, attributes);
        difference(&machine, &setting, seed).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn eevdf_agrees_with_the_reference(
        machine in any_machine(Scheduler::Eevdf), setting in any_setting(), seed in 0_u64..1_000_000,
    ) {
        difference(&machine, &setting, seed).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    // Nice values make runs long.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]
    #[test]
    fn linux_o1_agrees_with_the_reference(
        machine in any_machine(Scheduler::LinuxO1), timeslice in 1_u32..30, setting in any_setting(),
        attributes in prop::collection::vec(any_attributes(), 4), seed in 0_u64..1_000_000,
    ) {
        let setting = with_attributes(setting, machine.cpus, attributes);
        difference(&Machine { timeslice, ..machine }, &setting, seed).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn cfs_agrees_with_the_reference(
        machine in any_machine(Scheduler::Cfs), cfs in any_cfs(), setting in any_setting(),
        attributes in prop::collection::vec(any_attributes(), 4), seed in 0_u64..1_000_000,
    ) {
        let setting = with_attributes(setting, machine.cpus, attributes);
        difference(&Machine { cfs, ..machine }, &setting, seed).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn eevdf_over_milliseconds_with_slices_affinities_and_nice_values_agrees_with_the_reference(
        machine in any_machine_of_milliseconds(), setting in any_setting(),
        attributes in prop::collection::vec(any_attributes_and_slice(), 4), seed in 0_u64..1_000_000,
    ) {
        let setting = with_attributes(a_thousand_times_as_long(setting), machine.cpus, attributes);
        difference(&machine, &setting, seed).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn cfs_over_milliseconds_agrees_with_the_reference(
        machine in any_machine_of_milliseconds(), cfs in any_cfs(), setting in any_setting(),
        attributes in prop::collection::vec(any_attributes(), 4), seed in 0_u64..1_000_000,
    ) {
        let longer = |span: Span| span.scaled(100_000);
        let cfs = Cfs {
            latency: longer(cfs.latency),
            granularity: longer(cfs.granularity),
            wakeup_granularity: longer(cfs.wakeup_granularity),
            migration_cost: longer(cfs.migration_cost),
        };
        let setting = with_attributes(a_thousand_times_as_long(setting), machine.cpus, attributes);
        difference(&Machine { scheduler: Scheduler::Cfs, cfs, ..machine }, &setting, seed).map_err(TestCaseError::fail)?;
    }
}

/// The machine of Tsafrir and Feitelson.
fn machine_of_the_paper(scheduler: Scheduler, wakeup: Scheme) -> Machine {
    let linux_2_4 = Linux24 { wakeup, ..Linux24::default() };
    Machine { scheduler, step: Span::from_micros(1), tick: Linux24::TICK, linux_2_4, ..Machine::with_cpus(32) }
}

/// A job of eleven threads, and so many threads beside it that each CPU has three.
fn agree_at_the_size_of_the_paper(machine: &Machine, granularity: Granularity, waiting: &str, seed: u64) {
    let crew = JobKind::Barrier {
        threads: 11,
        compute: Compute::Granularity(granularity),
        rounds: 200,
        waiting: waiting.parse().unwrap(),
    };
    let crowd = JobKind::Cpu { threads: 85, work: None };
    let jobs = [("crew", crew), ("crowd", crowd)].map(|(name, kind)| Job::new(name, 1, kind));
    let setting =
        Setting { machine: MachineKeys::default(), jobs: jobs.into(), coscheduling: None, keep_running: false };
    if let Err(text) = difference(machine, &setting, seed) {
        panic!("{text}");
    }
}

#[test]
fn round_robin_at_the_size_of_the_paper_agrees_with_the_reference() {
    let machine = machine_of_the_paper(Scheduler::Rr, Scheme::Original);
    agree_at_the_size_of_the_paper(&machine, Granularity::Fine, "cs", 1);
    agree_at_the_size_of_the_paper(&machine, Granularity::Medium, "2cs+", 2);
}

#[test]
fn cfs_at_the_size_of_the_paper_agrees_with_the_reference() {
    let us = Span::from_micros;
    let cfs = Cfs { latency: us(300), granularity: us(40), wakeup_granularity: us(50), migration_cost: us(25) };
    let machine = Machine { cfs, tick: us(40), ..machine_of_the_paper(Scheduler::Cfs, Scheme::Original) };
    agree_at_the_size_of_the_paper(&machine, Granularity::Fine, "2cs+", 1);
    agree_at_the_size_of_the_paper(&machine, Granularity::Medium, "always-block", 2);
}

#[test]
fn eevdf_at_the_size_of_the_paper_agrees_with_the_reference() {
    let machine = machine_of_the_paper(Scheduler::Eevdf, Scheme::Original);
    agree_at_the_size_of_the_paper(&machine, Granularity::Fine, "2cs+", 1);
}

#[test]
fn linux_o1_at_the_size_of_the_paper_agrees_with_the_reference() {
    let machine = Machine { timeslice: 20, ..machine_of_the_paper(Scheduler::LinuxO1, Scheme::Original) };
    agree_at_the_size_of_the_paper(&machine, Granularity::Fine, "2cs+", 1);
}

#[test]
fn linux_2_4_at_the_size_of_the_paper_agrees_with_the_reference() {
    // The global view has too many pairings for so many CPUs.
    for wakeup in [Scheme::Original, Scheme::Ap] {
        let machine = machine_of_the_paper(Scheduler::Linux24, wakeup);
        agree_at_the_size_of_the_paper(&machine, Granularity::Fine, "cs", 1);
        agree_at_the_size_of_the_paper(&machine, Granularity::Fine, "2cs+", 2);
        agree_at_the_size_of_the_paper(&machine, Granularity::Medium, "always-block", 3);
    }
}

/// A case that random settings seldom contain: a job without end has two CPUs, and another job is
/// bound to one of them. The first begins an epoch whenever it is spent on the other CPU, so that
/// it is never spent on this one.
#[test]
#[ignore = "takes a while; ./check --full runs it"]
fn a_bound_job_that_endless_epochs_starve_is_starved_in_both() {
    let us = Span::from_micros;
    let linux_2_4 = Linux24 { allocation: 15, penalty: 12, bonus: 3, threshold: 3, tail: false, ..Linux24::default() };
    let machine = Machine {
        scheduler: Scheduler::Linux24,
        tie: Tie::Timeout,
        step: us(1),
        context_switch: us(8),
        tick: us(4),
        linux_2_4,
        ..Machine::with_cpus(3)
    };
    let endless = Job::new("job0", 2, JobKind::Cpu { threads: 1, work: None });
    let work = Some(Distribution::Exponential { mean: us(276) });
    let attributes = Attributes { nice: 15, cpus: "1".parse().ok(), ..Attributes::default() };
    let bound = Job { attributes, ..Job::new("job1", 3, JobKind::Cpu { threads: 6, work }) };
    let setting = Setting {
        machine: MachineKeys::default(),
        jobs: vec![endless, bound],
        coscheduling: None,
        keep_running: false,
    };
    if let Err(text) = difference(&machine, &setting, 146_208) {
        panic!("{text}");
    }
    let error = rowlock_sim::run(&machine, &setting, 146_208).unwrap_err();
    assert!(matches!(&error, rowlock_sim::Error::NoHeadway { .. }), "{error}");
}

/// A case that random settings seldom contain: a thread's counter ran out during a switch. In the
/// step in which the switch ends, the new epoch of another CPU comes first.
#[test]
fn a_new_epoch_does_not_hide_a_counter_that_ran_out_in_the_switch() {
    let us = Span::from_micros;
    let linux_2_4 = Linux24 { allocation: 2, penalty: 2, bonus: 0, threshold: 3, tail: false, ..Linux24::default() };
    let machine = Machine {
        scheduler: Scheduler::Linux24,
        step: us(1),
        context_switch: us(4),
        tick: us(9),
        spin_margin: Bound::Fixed(us(7)),
        linux_2_4,
        ..Machine::with_cpus(5)
    };
    let job = |name: &str, copies, threads, mean, sd, rounds, waiting: &str| {
        let compute = Compute::Drawn(Distribution::Normal { mean: Span::from_nanos(mean), sd: Span::from_nanos(sd) });
        let kind = JobKind::Barrier { threads, compute, rounds, waiting: waiting.parse().unwrap() };
        Job::new(name, copies, kind)
    };
    let jobs = vec![
        job("job0", 3, 2, 8_000, 0, 1, "2cs+"),
        job("job1", 1, 3, 17_930, 9_182, 5, "2cs+"),
        job("job2", 2, 3, 3_000, 0, 1, "always-block"),
    ];
    let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: true };
    if let Err(text) = difference(&machine, &setting, 155_573) {
        panic!("{text}");
    }
}
