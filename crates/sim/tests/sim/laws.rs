//! Laws that hold forevery setting.

use policy::Span;
use policy::layout::Request;
use policy::table::WAITING;
use policy::waiting::WaitingRule;
use policy::wakeup::Scheme;
use proptest::prelude::*;
use proptest::sample::select;
use rowlock_sim::{Error, Limit, run, run_until};
use scenario::draw::Stream;
use scenario::message::Pattern;
use scenario::{
    Accounting, Compute, Distribution, Job, JobKind, Linux24, Machine, MachineKeys, Message, Pipeline, Scheduler,
    Setting, Tie,
};

use crate::pipeline::{any_pipeline, can_starve, has_nice_values};
use crate::timeline::{barrier, cpu, setting, short};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

fn rr(cpus: u32) -> Machine {
    Machine { scheduler: Scheduler::Rr, ..Machine::with_cpus(cpus) }
}

#[test]
fn cpu_bound_threads_under_round_robin_use_the_quantum_and_lose_the_switch() {
    let jobs = vec![Job::new("bound", 1, JobKind::Cpu { threads: 64, work: Some(us(10_000).into()) })];
    let outcome = run(&rr(32), &setting(jobs), 1).unwrap();
    let work = outcome.machine.work_percent.unwrap();
    assert!((work - 100.0 * 100.0 / 106.0).abs() < 0.2, "{work}");
}

#[test]
fn two_threads_alone_that_spin_long_enough_never_switch() {
    let outcome = run(&rr(2), &setting(vec![barrier("crew", 2, us(10), 1_000, "2cs+")]), 1).unwrap();
    // One switch to begin with, then a thousand computations of 10 us. When the last thread leaves,
    // no other one waits.
    assert_eq!(outcome.jobs[0].completion_ns, Some(us(6 + 10_000)));
    assert_eq!(outcome.jobs[0].ssr_percent, Some(100.0));
    assert_eq!(outcome.jobs[0].voluntary_switches, Some(0));
}

#[test]
fn a_run_that_is_cut_off_has_the_rounds_so_far_and_no_completion_time() {
    let jobs = || setting(vec![barrier("crew", 2, us(10), 1_000, "2cs+")]);
    let until = |limit: Limit| {
        let (outcome, end) = run_until(&rr(2), &jobs(), 1, limit).unwrap();
        (
            outcome.jobs[0].rounds.unwrap(),
            outcome.jobs[0].completion_ns,
            end.as_nanos(),
            outcome.machine.events.unwrap(),
        )
    };
    // As above: 6 us and then 10 us for each round.
    let at = |n: u64| policy::Instant::from_nanos(n);
    let (rounds, completion, end, _) = until(Limit { at: at(500_500), ..Limit::NONE });
    assert_eq!((rounds, completion, end), (49, None, 500_500));
    assert_eq!(until(Limit { at: at(10_006_000), ..Limit::NONE }).1, Some(us(10_006)));
    let (rounds, completion, _, events) = until(Limit { events: 100, ..Limit::NONE });
    assert_eq!((completion, events), (None, 100));
    assert!((10..100).contains(&rounds), "{rounds}");
    assert_eq!(until(Limit::NONE).1, run(&rr(2), &jobs(), 1).unwrap().jobs[0].completion_ns);
}

#[test]
fn threads_that_yield_to_each_other_at_no_cost_do_not_stop_the_clock() {
    let free = Machine { context_switch: Span::ZERO, yield_cost: Span::ZERO, ..rr(1) };
    let outcome = run(&free, &setting(vec![barrier("crew", 3, us(10), 5, "always-yield"), cpu("x", None)]), 1).unwrap();
    assert_eq!(outcome.jobs[0].rounds, Some(5));
}

#[test]
fn jobs_that_keep_running_count_once_and_keep_the_load() {
    let jobs = vec![cpu("short", Some(us(1_000))), cpu("long", Some(us(10_000)))];
    let keep = Setting { keep_running: true, ..setting(jobs.clone()) };
    let (alone, kept) = (run(&rr(1), &setting(jobs), 1).unwrap(), run(&rr(1), &keep, 1).unwrap());
    let completion = |outcome: &scenario::result::Outcome, job: usize| outcome.jobs[job].completion_ns.unwrap();
    assert!(completion(&kept, 0) <= completion(&alone, 0) + us(106));
    assert!(completion(&alone, 1) < us(12_500), "the long job has the CPU to itself in the end");
    assert!(completion(&kept, 1) > us(20_000), "the short job continues beside it");
    assert!(kept.jobs[0].delivered_work_ns.unwrap() <= us(1_000), "what it does after its end is not counted");
}

#[test]
fn a_job_that_keeps_running_counts_the_spins_of_its_last_round() {
    let crew = barrier("crew", 2, us(10), 1, "always-spin");
    let keep = Setting { keep_running: true, ..setting(vec![crew, cpu("long", Some(us(500)))]) };
    assert_eq!(run(&rr(3), &keep, 1).unwrap().jobs[0].ssr_percent, Some(100.0));
}

#[test]
fn a_switch_is_charged_once_even_if_another_job_ends_meanwhile() {
    // A thread of the crew is woken from 72 us to 128 us, and `short` ends around that time. In
    // every case the crew's CPU time is its computation, plus a switch for each time that a thread
    // got a CPU.
    let machine = Machine { wakeup_cost: us(50), ..rr(3) };
    for short in 10..90 {
        let jobs = vec![barrier("crew", 2, us(10), 2, "always-block"), cpu("short", Some(us(short)))];
        let outcome = run(&machine, &setting(jobs), 1).unwrap();
        let crew = &outcome.jobs[0];
        let computed = crew.delivered_work_ns.unwrap();
        assert_eq!(computed, us(40));
        let switches = (crew.cpu_ns.unwrap() - computed).as_nanos();
        assert_eq!(switches % us(6).as_nanos(), 0, "short = {short} us");
    }
}

#[test]
fn a_command_is_a_cpu_job_of_its_cpu_time() {
    let command = |work| JobKind::Command { argv: vec!["true".into()], threads: 2, work };
    let run_as = |kind| run(&rr(2), &setting(vec![Job::new("zip", 1, kind)]), 1);
    let as_command = run_as(command(Some(us(500)))).unwrap();
    let as_cpu = run_as(JobKind::Cpu { threads: 2, work: Some(us(250).into()) }).unwrap();
    assert_eq!(as_command, as_cpu);
    let refused = run_as(command(None)).unwrap_err();
    assert!(refused.to_string().contains("`zip`"), "{refused}");
}

fn linux_2_4() -> impl Strategy<Value = Linux24> {
    // A threshold shorter than a switch may keep all threads from running: see the test of that.
    let ticks = (1_u32..4, 0_u32..4, 0_u32..3, 1_u32..3);
    let named = (select(Accounting::ALL.to_vec()), select(Scheme::ALL.to_vec()));
    (ticks, named, any::<bool>(), any::<bool>()).prop_map(
        |((allocation, penalty, bonus, threshold), (accounting, wakeup), charge_switch, tail)| Linux24 {
            charge_switch,
            allocation,
            penalty,
            bonus,
            threshold,
            accounting,
            tail,
            wakeup,
        },
    )
}

#[test]
fn a_machine_on_which_no_thread_runs_is_reported_to_make_no_headway() {
    // The incoming thread is charged for the switch, and then preempted by the thread that it
    // preempted.
    let linux_2_4 = Linux24 { allocation: 3, penalty: 2, threshold: 0, ..Linux24::default() };
    let (step, context_switch, wakeup_cost) = (Span::from_nanos(243), us(8), us(21));
    let machine = Machine {
        scheduler: Scheduler::Linux24,
        tie: Tie::Timeout,
        linux_2_4,
        step,
        context_switch,
        wakeup_cost,
        tick: us(140),
        ..Machine::with_cpus(3)
    };
    let compute = Compute::Drawn(Distribution::Normal { mean: us(13), sd: us(3) });
    let kind = JobKind::Barrier { threads: 4, compute, rounds: 16, waiting: "cs".parse().unwrap() };
    let crew = Job::new("job0", 1, kind);
    let kind = JobKind::Command { argv: vec!["true".into()], threads: 2, work: Some(us(2_867)) };
    let other = Job::new("job1", 1, kind);
    let setting = Setting { keep_running: true, ..setting(vec![crew, other]) };
    let error = run(&machine, &setting, 319).unwrap_err();
    assert!(matches!(&error, Error::NoHeadway { .. }), "{error}");
    assert!(error.to_string().contains("threshold"), "{error}");
}

/// Busy, computed, at the device, starved.
fn outcome_of_stages(job: &scenario::result::JobOutcome) -> Vec<(Span, Span, Span, Span)> {
    let sums = |stage: &scenario::result::StageOutcome| {
        let [busy, computed, device, starved] = [stage.busy_ns, stage.computed_ns, stage.device_ns, stage.starved_ns];
        (busy.unwrap(), computed.unwrap(), device.unwrap(), starved.unwrap())
    };
    job.stages.iter().map(sums).collect()
}

fn lengths(micros: u64) -> Distribution {
    Distribution::Normal { mean: us(micros), sd: us(micros / 4) }
}

/// Settings with all kinds of jobs, small enough for a check after each event.
fn any_setting() -> impl Strategy<Value = (Machine, Setting)> {
    let compute = (0_u64..60, 0_u64..20)
        .prop_map(|(mean, sd)| Compute::Drawn(Distribution::Normal { mean: us(mean), sd: us(sd) }));
    let kind = (0_usize..4, 1_u32..7, compute, 1_u64..30, 0..WAITING.len(), prop::option::of(0_u64..3_000)).prop_map(
        |(kind, threads, compute, rounds, policy, work)| match kind {
            0 => JobKind::Cpu { threads, work: work.map(|n| Distribution::Uniform { from: us(n / 2), to: us(n) }) },
            1 => JobKind::Command { argv: vec!["true".into()], threads, work: Some(us(work.unwrap_or(0))) },
            2 => {
                let (compute, critical) = (lengths(10), lengths(threads.into()));
                JobKind::Lock { threads, compute, critical, rounds, waiting: WAITING[policy].example }
            }
            _ => JobKind::Barrier { threads, compute, rounds, waiting: WAITING[policy].example },
        },
    );
    let kind = (kind, any_pipeline()).prop_map(|(kind, pipeline)| match kind {
        // Instead of the locks and the barriers of many threads.
        JobKind::Lock { threads: 5.., .. } => JobKind::Pipeline(pipeline),
        JobKind::Barrier { threads: ranks @ 5.., rounds, waiting, .. } => JobKind::Message(Message {
            request: Request::Ranks(ranks),
            pattern: Pattern::ALL[rounds as usize % 3],
            bytes: 100,
            rounds,
            compute: rounds.is_multiple_of(2).then(|| lengths(10)),
            sleep: rounds.is_multiple_of(5).then(|| lengths(30)),
            waiting,
            weight: 1,
        }),
        kind => kind,
    });
    let job = (1_u32..3, kind).prop_map(|(copies, kind)| Job::new("", copies, kind));
    let costs = (0_u64..9, 0_u64..30, 1_u64..3_000);
    let machine =
        (1_u32..5, costs, 1_u64..200, select(Scheduler::ALL.to_vec()), linux_2_4(), select(Tie::ALL.to_vec()));
    let machine = machine.prop_map(|(cpus, (switch, wakeup, step), quantum, scheduler, linux_2_4, tie)| Machine {
        scheduler,
        tie,
        linux_2_4,
        step: Span::from_nanos(step),
        context_switch: us(switch),
        wakeup_cost: us(wakeup),
        quantum: us(quantum),
        tick: us(10 * quantum),
        slice: us(7 * quantum),
        ..Machine::with_cpus(cpus)
    });
    let machine = machine.prop_map(short);
    (machine, prop::collection::vec(job, 1..5), prop::bool::ANY).prop_map(|(machine, mut jobs, keep_running)| {
        jobs.iter_mut().enumerate().for_each(|(n, job)| job.name = format!("job{n}"));
        // A thread that never runs at the tick is never charged, and may keep all others from
        // running forever.
        let counts_ticks = machine.scheduler == Scheduler::Linux24 && machine.linux_2_4.accounting == Accounting::Tick;
        let cheats = counts_ticks || machine.scheduler == Scheduler::LinuxO1;
        // A thread that has a CPU keeps it: see `fifo`.
        let hogs = !machine.scheduler.shares_time();
        // Threads without end may keep nicer ones from running forever: see `linux_2_4`.
        let is_nice = |job: &Job| matches!(&job.kind, JobKind::Pipeline(line) if has_nice_values(line));
        let must_end = hogs || (machine.scheduler == Scheduler::Linux24 && jobs.iter().any(is_nice));
        let keep_running = keep_running && !cheats && !must_end;
        for job in &mut jobs {
            if let JobKind::Cpu { work, .. } = &mut job.kind
                && must_end
            {
                work.get_or_insert(us(3_000).into());
            }
            if let JobKind::Barrier { waiting: waiting @ WaitingRule::AlwaysSpin, .. }
            | JobKind::Lock { waiting: waiting @ WaitingRule::AlwaysSpin, .. }
            | JobKind::Pipeline(Pipeline { waiting: waiting @ WaitingRule::AlwaysSpin, .. })
            | JobKind::Message(Message { waiting: waiting @ WaitingRule::AlwaysSpin, .. }) = &mut job.kind
                && hogs
            {
                *waiting = WaitingRule::Adaptive;
            }
            if let JobKind::Pipeline(line) = &mut job.kind
                && can_starve(&machine, line)
            {
                line.waiting = WaitingRule::AlwaysBlock;
            }
            if let JobKind::Barrier { waiting: waiting @ WaitingRule::AlwaysYield, .. }
            | JobKind::Lock { waiting: waiting @ WaitingRule::AlwaysYield, .. }
            | JobKind::Pipeline(Pipeline { waiting: waiting @ WaitingRule::AlwaysYield, .. })
            | JobKind::Message(Message { waiting: waiting @ WaitingRule::AlwaysYield, .. }) = &mut job.kind
                && cheats
            {
                *waiting = WaitingRule::AlwaysBlock;
            }
        }
        (machine, Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running })
    })
}

proptest! {
    /// Meanwhile, debug builds check the engine's invariants after every event.
    #[test]
    fn any_setting_ends_does_its_work_and_repeats_itself((machine, setting) in any_setting(), seed in 0_u64..1_000) {
        let outcome = match run(&machine, &setting, seed) {
            // Switches may take all of a thread's share of a CPU: see the test of that among the
            // tests of pipelines. They must be the cause: if switches are free, all jobs end.
            Err(Error::NoHeadway { .. }) if machine.scheduler == Scheduler::Cfs && setting.keep_running => {
                let free = Machine { context_switch: Span::ZERO, ..machine };
                prop_assert!(run(&free, &setting, seed).is_ok());
                return Ok(());
            }
            outcome => outcome.unwrap(),
        };
        prop_assert_eq!(&outcome, &run(&machine, &setting, seed).unwrap());
        for ((name, job), came) in setting.jobs_with_copies().zip(&outcome.jobs) {
            prop_assert_eq!(&name, &came.job);
            prop_assert_eq!(came.completion_ns.is_none(), job.kind.is_endless());
            prop_assert!(came.spin_ns.unwrap() + came.delivered_work_ns.unwrap() <= came.cpu_ns.unwrap());
            match job.kind {
                JobKind::Barrier { rounds, .. } | JobKind::Message(Message { rounds, .. }) => {
                    prop_assert_eq!(came.rounds, Some(rounds));
                }
                JobKind::Lock { rounds, threads, .. } => prop_assert_eq!(came.rounds, Some(rounds * u64::from(threads))),
                JobKind::Pipeline(ref pipeline) => {
                    prop_assert_eq!(came.rounds, Some(pipeline.rounds));
                    for (stage, came) in pipeline.stages.iter().zip(&outcome_of_stages(came)) {
                        let (busy, computed, device, starved) = *came;
                        prop_assert!(computed + device <= busy, "{} of {:?}", stage.name, pipeline);
                        let completion = outcome.jobs.iter().find(|job| job.job == name).unwrap().completion_ns.unwrap();
                        prop_assert_eq!(busy + starved, completion.scaled(1000 * u64::from(stage.fork)));
                    }
                }
                JobKind::Cpu { work: Some(ref work), threads } if !setting.keep_running => {
                    let draw = |number| work.law().draw(&mut Stream::named(seed, &came.job, number), machine.step);
                    prop_assert_eq!(came.delivered_work_ns.unwrap(), (0..threads).map(draw).sum::<Span>());
                }
                _ => {}
            }
        }
        let of = &outcome.machine;
        let percents = [of.work_percent, of.spin_percent, of.switch_percent, of.idle_percent];
        // There are no shares if no time has passed: endless jobs alone, which a file may not have.
        if let Some(sum) = percents.into_iter().sum::<Option<f64>>() {
            prop_assert!((sum - 100.0).abs() < 1e-9, "{percents:?}");
        }
    }
}
