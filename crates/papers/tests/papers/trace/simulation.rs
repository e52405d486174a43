//! The trace of a simulation shows what happened in it.

use std::collections::BTreeMap;

use measure::trace::end_of_simulation;
use measure::trace::simulated::SimulationTracer;
use policy::priority::StageKind;
use policy::table::WAITING;
use policy::waiting::WaitingRule;
use policy::{CpuId, Instant, JobId, Span, ThreadId};
use proptest::prelude::*;
use scenario::pipeline::{Stage, Structure};
use scenario::result::Outcome;
use scenario::{Arrival, Cfs, Compute, Distribution, Job, JobKind, Machine, MachineKeys, Pipeline, Scheduler, Setting};
use sim::observer::{CpuState, Observer, ThreadPhase};
use sim::scheduler::ReadyReason;
use testing::perfetto::{self, Trace};

use crate::trace::history::{History, arrows};

/// Adds up the running time of each thread on each CPU, and forwards events to another observer.
struct Accounting<W> {
    cpus: Vec<(Instant, CpuState)>,
    ran: BTreeMap<(CpuId, ThreadId), u64>,
    wakings: usize,
    rounds: usize,
    other: W,
}

impl<W> Accounting<W> {
    fn new(cpus: u32, other: W) -> Accounting<W> {
        let cpus = vec![(Instant::ZERO, CpuState::Idle); cpus as usize];
        Accounting { cpus, ran: BTreeMap::new(), wakings: 0, rounds: 0, other }
    }

    fn account(&mut self, at: Instant, cpu: CpuId, state: CpuState) {
        let (since, before) = std::mem::replace(&mut self.cpus[cpu.index()], (at, state));
        if let CpuState::Running(thread) = before {
            *self.ran.entry((cpu, thread)).or_default() += at.since(since).as_nanos();
        }
    }
}

impl<W: Observer> Observer for Accounting<W> {
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState) {
        self.account(at, cpu, state);
        self.other.cpu_changed(at, cpu, state);
    }

    fn thread_began(&mut self, at: Instant, thread: ThreadId, what: ThreadPhase) {
        self.other.thread_began(at, thread, what);
    }

    fn thread_ready(&mut self, at: Instant, thread: ThreadId, why: ReadyReason) {
        self.other.thread_ready(at, thread, why);
    }

    fn barrier_completed(&mut self, at: Instant, job: JobId, last: ThreadId) {
        self.rounds += 1;
        self.other.barrier_completed(at, job, last);
    }

    fn thread_woken(&mut self, at: Instant, waker: ThreadId, woken: ThreadId) {
        self.wakings += 1;
        self.other.thread_woken(at, waker, woken);
    }
}

fn traced(machine: &Machine, setting: &Setting, seed: u64) -> (Outcome, Trace, Accounting<()>) {
    let watch = SimulationTracer::new(Vec::new(), setting, machine.cpus);
    let mut accounting = Accounting::new(machine.cpus, watch);
    let outcome = sim::run_observed(machine, setting, seed, &mut accounting).unwrap();
    let end = end_of_simulation(setting, machine.step, seed, &outcome);
    for cpu in 0..machine.cpus {
        accounting.account(end, CpuId(cpu), CpuState::Idle);
    }
    let Accounting { cpus, ran, wakings, rounds, other } = accounting;
    let trace = perfetto::read(&other.finish(end).unwrap()).unwrap();
    (outcome, trace, Accounting { cpus, ran, wakings, rounds, other: () })
}

/// How long each thread ran on each CPU according to the trace, by thread name.
fn ran(trace: &Trace) -> BTreeMap<(u64, String), u64> {
    let mut ran = BTreeMap::new();
    for (&cpu, switches) in &trace.switches {
        for pair in switches.windows(2).filter(|pair| pair[0].to != 0 && !pair[0].name.starts_with("switch/")) {
            *ran.entry((cpu, pair[0].name.clone())).or_default() += pair[1].at - pair[0].at;
        }
    }
    ran
}

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

/// A pipeline that reads, computes and writes.
fn line(buffers: u32, time: Span, rounds: u64, waiting: WaitingRule) -> Pipeline {
    let time = || Some(Distribution::exactly(time));
    let stage =
        |name: &str, kind, compute, device| Stage { name: name.into(), kind, compute, device, fork: 1, nice: 0 };
    let stages = vec![
        stage("read", StageKind::Io, None, time()),
        Stage { fork: 2, ..stage("work", StageKind::Compute, time(), None) },
        stage("write", StageKind::Io, time(), time()),
    ];
    let (structure, priority) = (Structure::Workers, policy::priority::PriorityRule::DynamicUpDown);
    Pipeline { stages, buffers, rounds, structure, shared: Vec::new(), priority, waiting }
}

fn any_setting() -> impl Strategy<Value = (Machine, Setting)> {
    let kind = (0_usize..4, 1_u32..6, 0_u64..60, 1_u64..8, 0..WAITING.len(), prop::option::of(0_u64..600));
    let kind = kind.prop_map(|(kind, threads, mean, rounds, policy, work)| match kind {
        0 => JobKind::Cpu { threads, work: work.map(|n| us(n).into()) },
        1 => {
            let (compute, critical) = (us(mean), us(mean / 2));
            let [compute, critical] = [compute, critical].map(|mean| Distribution::Normal { mean, sd: Span::ZERO });
            JobKind::Lock { threads, compute, critical, rounds, waiting: WAITING[policy].example }
        }
        2 => JobKind::Pipeline(line(threads, us(mean), rounds, WAITING[policy].example)),
        _ => {
            let compute = Compute::Drawn(Distribution::Normal { mean: us(mean), sd: us(mean / 4) });
            JobKind::Barrier { threads, compute, rounds, waiting: WAITING[policy].example }
        }
    });
    let job = (1_u32..3, 0_u64..3, kind).prop_map(|(copies, at, kind)| {
        let arrival = Arrival { at: us(300 * at), every: None };
        Job { arrival, ..Job::new("", copies, kind) }
    });
    let machine = (
        1_u32..5,
        0_u64..9,
        0_u64..30,
        1_u64..200,
        prop::sample::select(
            Scheduler::ALL.into_iter().filter(|scheduler| scheduler.shares_time()).collect::<Vec<_>>(),
        ),
    );
    let machine = machine.prop_map(|(cpus, switch, wakeup, quantum, scheduler)| Machine {
        scheduler,
        context_switch: us(switch),
        wakeup_cost: us(wakeup),
        quantum: us(quantum),
        // With the slices of real kernels, a thread that yields would do so a million times.
        tick: us(200),
        slice: us(150),
        timeslice: 3,
        cfs: Cfs { latency: us(300), granularity: us(75), wakeup_granularity: us(100), migration_cost: us(50) },
        ..Machine::with_cpus(cpus)
    });
    (machine, prop::collection::vec(job, 1..4)).prop_map(|(machine, mut jobs)| {
        jobs.iter_mut().enumerate().for_each(|(n, job)| job.name = format!("job{n}"));
        (machine, Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false })
    })
}

proptest! {
    #[test]
       fn a_trace_shows_where_and_how_long_each_thread_ran_and_adds_up_to_the_outcome(
        (machine, setting) in any_setting(),
        seed in 0_u64..1_000,
    ) {
        let (outcome, trace, accounting) = traced(&machine, &setting, seed);
        let names: Vec<_> = setting
            .jobs_with_copies()
            .flat_map(|(name, job)| (0..job.kind.threads(machine.cpus)).map(move |number| format!("{name}/{number}")))
            .collect();
        let told = accounting.ran.iter().map(|(&(cpu, thread), &span)| ((u64::from(cpu.0), names[thread.index()].clone()), span));
        prop_assert_eq!(ran(&trace), told.collect::<BTreeMap<_, _>>());

        let history = History::of(&trace);
        for job in &outcome.jobs {
            let work = job.delivered_work_ns.unwrap().as_nanos();
            prop_assert_eq!(history.running_at(&job.job, "compute"), work, "{}", &job.job);
            let spin = job.spin_ns.unwrap().as_nanos();
            prop_assert_eq!(history.running_at(&job.job, "spin"), spin, "{}", &job.job);
            // The job is also charged for the switches to it.
            prop_assert!(history.running(&job.job) <= job.cpu_ns.unwrap().as_nanos(), "{}", &job.job);
            let rounds = history.phases.get("rounds").map_or(0, Vec::len);
            prop_assert_eq!(rounds, accounting.rounds);
        }
        let end = end_of_simulation(&setting, machine.step, seed, &outcome).as_nanos();
        if let Some(percent) = outcome.machine.switch_percent {
            // The engine counts a yield as a switch even if no other thread takes the CPU.
            let yields: u64 = outcome.jobs.iter().map(|job| history.running_at(&job.job, "yield")).sum();
            let switches = history.running("switch") + yields;
            let share = 100.0 * switches as f64 / (end as f64 * f64::from(machine.cpus));
            prop_assert!((share - percent).abs() < 1e-6, "{share} for {percent}");
        }

        let arrows = arrows(&trace);
        prop_assert_eq!(arrows.len(), accounting.wakings);
        for (from, to) in arrows {
            prop_assert_eq!(&*from.name, "wakes");
            prop_assert!(from.at <= to.at);
        }
    }
}

#[test]
fn blocked_threads_are_woken_by_the_last_to_arrive() {
    let kind = JobKind::Barrier {
        threads: 3,
        compute: Compute::Drawn(Distribution::Normal { mean: us(50), sd: us(5) }),
        rounds: 4,
        waiting: "always-block".parse().unwrap(),
    };
    let jobs = vec![Job::new("crew", 1, kind)];
    let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false };
    let machine = Machine { scheduler: Scheduler::Rr, ..Machine::with_cpus(3) };
    let (_, trace, _) = traced(&machine, &setting, 1);
    // Two threads sleep in each round. Their waker runs on the CPU that the waking names.
    assert_eq!(arrows(&trace).len(), 8);
    for (from, to) in arrows(&trace) {
        let (waker, woken) = (&trace.tracks[&from.track], &trace.tracks[&to.track]);
        let (cpu, _) = trace
            .wakings
            .iter()
            .find(|(_, wakings)| wakings.iter().any(|waking| waking.at == from.at && waking.name == woken.name))
            .unwrap();
        let running = trace.switches[cpu].iter().rfind(|switch| switch.at < from.at).unwrap();
        assert_eq!(running.name, waker.name);
    }
}

#[test]
fn switches_that_take_no_time_are_not_shown() {
    let jobs = vec![Job::new("x", 3, JobKind::Cpu { threads: 1, work: Some(us(500).into()) })];
    let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false };
    let free = Machine { context_switch: Span::ZERO, scheduler: Scheduler::Rr, ..Machine::with_cpus(1) };
    let (_, trace, _) = traced(&free, &setting, 1);
    let names: Vec<_> = trace.switches[&0].iter().map(|switch| switch.name.as_str()).collect();
    assert!(names.len() > 15 && names.iter().all(|name| !name.starts_with("switch")), "{names:?}");
}
