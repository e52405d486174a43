mod cells;
mod weights;

use std::collections::BTreeSet;

use policy::gang::Gang;
use policy::layout::Request;
use policy::priority::{PriorityRule, StageKind};
use policy::table::WAITING;
use policy::waiting::WaitingRule;
use policy::{CpuId, Instant, Span, ThreadId};
use proptest::prelude::*;
use proptest::sample::select;
use scenario::message::Pattern;
use scenario::pipeline::{Stage, Structure};
use scenario::result::Outcome;
use scenario::{
    Accounting, Cfs, Compute, Distribution, Job, JobKind, Linux24, Machine, MachineKeys, Message, Pipeline, Scheduler,
    Setting, TickPhase,
};

use super::{Action, with_script};
use crate::observer::{CpuState, Observer};
use crate::run;
use crate::scheduler::ReadyReason;

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

fn machine(scheduler: Scheduler, cpus: u32) -> Machine {
    let cfs = Cfs { latency: us(140), granularity: us(20), wakeup_granularity: us(25), migration_cost: us(12) };
    let linux_2_4 = Linux24 { allocation: 2, accounting: Accounting::Exact, ..Linux24::default() };
    let (slice, tick, quantum) = (us(70), us(100), us(90));
    let tick_phase = TickPhase::Zero;
    Machine { scheduler, slice, tick, tick_phase, quantum, timeslice: 3, cfs, linux_2_4, ..Machine::with_cpus(cpus) }
}

fn setting(jobs: Vec<Job>) -> Setting {
    Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false }
}

fn cpu(name: &str, threads: u32, work: Span) -> Job {
    Job::new(name, 1, JobKind::Cpu { threads, work: Some(work.into()) })
}

fn barrier(name: &str, threads: u32, rounds: u64, waiting: &str) -> Job {
    let compute = Compute::Drawn(Distribution::Normal { mean: us(20), sd: us(5) });
    Job::new(name, 1, JobKind::Barrier { threads, compute, rounds, waiting: waiting.parse().unwrap() })
}

fn stop(thread: u32) -> Action {
    Action::Stop(ThreadId(thread))
}

fn resume(thread: u32) -> Action {
    Action::Resume(ThreadId(thread))
}

/// The time at which the first job is complete.
fn completion(machine: &Machine, setting: &Setting, script: &[(u64, Action)]) -> u64 {
    let script: Vec<(Span, Action)> = script.iter().map(|&(at, action)| (us(at), action)).collect();
    let outcome = with_script(&script, || run(machine, setting, 1)).unwrap();
    outcome.jobs[0].completion_ns.unwrap().as_nanos() / 1000
}

#[test]
fn a_stopped_thread_leaves_its_cpu_at_once_and_continues_when_it_is_resumed() {
    for scheduler in Scheduler::ALL {
        let one = |script: &[(u64, Action)]| {
            completion(&machine(scheduler, 1), &setting(vec![cpu("solo", 1, us(60))]), script)
        };
        // A switch of 6 us to the thread, 44 us of its work, a switch away from it. The same switch
        // to it at 200 us, and the rest.
        assert_eq!(one(&[(50, stop(0)), (200, resume(0))]), 206 + 16, "{scheduler:?}");
        // Stopped during the switch to it, it does not begin.
        assert_eq!(one(&[(3, stop(0)), (200, resume(0))]), 206 + 60, "{scheduler:?}");
        // Resumed during the switch away from it, it is ready when that is over.
        assert_eq!(one(&[(50, stop(0)), (52, resume(0))]), 62 + 16, "{scheduler:?}");
        assert_eq!(one(&[(50, stop(0)), (51, resume(0)), (54, stop(0)), (99, resume(0))]), 105 + 16, "{scheduler:?}");
        // It was stopped before it was ready for the first time.
        let mut late = cpu("solo", 1, us(60));
        late.arrival.at = us(10);
        let late = completion(&machine(scheduler, 1), &setting(vec![late]), &[(5, stop(0)), (100, resume(0))]);
        assert_eq!(late, 96 + 60, "{scheduler:?}");
    }
}

#[test]
fn a_ready_thread_that_is_stopped_gives_its_turn_to_others() {
    for scheduler in Scheduler::ALL {
        // Both threads want the CPU; the first of them ends alone, whatever the scheduler does.
        let both = setting(vec![cpu("first", 1, us(300)), cpu("second", 1, us(300))]);
        let at = completion(&machine(scheduler, 1), &both, &[(1, stop(1)), (2_000, resume(1))]);
        assert!([306, 312].contains(&at), "{scheduler:?}: {at}");
    }
}

#[test]
fn a_check_tells_whether_the_missing_threads_have_cpus() {
    for scheduler in Scheduler::ALL {
        // How long the crew spins, in microseconds, and how often a thread blocks.
        let waits = |kind: JobKind, script: &[(u64, Action)]| {
            let script: Vec<(Span, Action)> = script.iter().map(|&(at, action)| (us(at), action)).collect();
            let setting = setting(vec![Job::new("crew", 1, kind)]);
            let outcome = with_script(&script, || run(&machine(scheduler, 2), &setting, 1)).unwrap();
            let crew = &outcome.jobs[0];
            (crew.spin_ns.unwrap().as_nanos() / 1_000, crew.voluntary_switches.unwrap())
        };
        let waiting = WaitingRule::OwnerRunning;
        let uniform = Compute::Drawn(Distribution::Uniform { from: us(100), to: us(200) });
        let crew = JobKind::Barrier { threads: 2, compute: uniform, rounds: 1, waiting };
        // The first one spins until the other arrives.
        let (spun, blocks) = waits(crew.clone(), &[]);
        assert!((1..100).contains(&spun) && blocks == 0, "{scheduler:?}: {spun} {blocks}");
        // The one that is not stopped finds that the other one is.
        for stopped in [0, 1] {
            let waited = waits(crew.clone(), &[(90, stop(stopped)), (1_000, resume(stopped))]);
            // The stop is a voluntary switch, too.
            assert_eq!(waited, (0, 2), "{scheduler:?}");
        }
    }
}

#[test]
fn a_thread_that_is_woken_while_it_is_stopped_continues_when_it_is_resumed() {
    for scheduler in Scheduler::ALL {
        // Thread 0 arrives after 20 us or so and blocks. The other completes the round after 206
        // us.
        let compute = Compute::Drawn(Distribution::Normal { mean: us(20), sd: us(0) });
        let kind = JobKind::Barrier { threads: 2, compute, rounds: 1, waiting: WaitingRule::AlwaysBlock };
        let script = [(10, stop(1)), (100, stop(0)), (200, resume(1)), (500, resume(0))];
        let at = completion(&machine(scheduler, 2), &setting(vec![Job::new("crew", 1, kind)]), &script);
        // A switch to the thread, which then ends.
        assert_eq!(at, 506, "{scheduler:?}");
    }
}

#[test]
fn a_spin_that_ends_while_its_thread_is_stopped_is_over_when_it_has_a_cpu() {
    for scheduler in Scheduler::ALL {
        let compute = Compute::Drawn(Distribution::Normal { mean: us(20), sd: us(0) });
        let kind = JobKind::Barrier { threads: 2, compute, rounds: 1, waiting: WaitingRule::AlwaysSpin };
        let script = [(10, stop(1)), (100, stop(0)), (200, resume(1)), (500, resume(0))];
        let script: Vec<(Span, Action)> = script.into_iter().map(|(at, action)| (us(at), action)).collect();
        let setting = setting(vec![Job::new("crew", 1, kind)]);
        let outcome = with_script(&script, || run(&machine(scheduler, 2), &setting, 1)).unwrap();
        let crew = &outcome.jobs[0];
        assert_eq!((crew.completion_ns, crew.spin_ns), (Some(us(506)), Some(us(74))), "{scheduler:?}");
    }
}

/// An outcome without the number of events, which includes the actions of the script.
fn essence(mut outcome: Outcome) -> Outcome {
    outcome.machine.events = None;
    outcome
}

#[test]
fn a_thread_that_is_stopped_and_resumed_in_one_event_loses_nothing() {
    for scheduler in Scheduler::ALL {
        for waiting in ["always-spin", "always-block", "2cs+"] {
            let (machine, setting) = (machine(scheduler, 2), setting(vec![barrier("crew", 2, 40, waiting)]));
            let without = essence(run(&machine, &setting, 1).unwrap());
            let script: Vec<(Span, Action)> =
                (1..200).map(|n| (us(7 * n), Action::StopAndResume(ThreadId(n as u32 % 2)))).collect();
            let with = essence(with_script(&script, || run(&machine, &setting, 1)).unwrap());
            assert_eq!(with, without, "{scheduler:?} {waiting}");
        }
    }
}

/// Follows the threads through the reported events.
#[derive(Default)]
struct Watch {
    ready: BTreeSet<ThreadId>,
}

impl Observer for Watch {
    fn cpu_changed(&mut self, _: Instant, _: CpuId, state: CpuState) {
        if let CpuState::Switching { to, .. } = state {
            assert!(to.is_none_or(|to| self.ready.remove(&to)), "a thread that was not ready gets a CPU");
        }
    }

    fn thread_ready(&mut self, _: Instant, thread: ThreadId, _: ReadyReason) {
        assert!(self.ready.insert(thread), "a ready thread becomes ready");
    }

    fn thread_stopped(&mut self, _: Instant, thread: ThreadId) {
        assert!(self.ready.remove(&thread), "a thread leaves a queue that it is not in");
    }
}

/// Two stages that compute and use the device.
fn pipeline(rounds: u64, waiting: WaitingRule) -> Pipeline {
    let (compute, device) = (Some(us(15).into()), Some(us(10).into()));
    let stage = |name: &str, fork| {
        let (compute, device) = (compute.clone(), device.clone());
        Stage { name: name.into(), kind: StageKind::Io, compute, device, fork, nice: 0 }
    };
    let (stages, priority) = (vec![stage("read", 1), stage("write", 2)], PriorityRule::Default);
    Pipeline { stages, buffers: 3, rounds, structure: Structure::Threads, shared: Vec::new(), priority, waiting }
}

/// Ranks that compute, sleep and exchange messages.
fn message(ranks: u32, rounds: u64, waiting: WaitingRule) -> Message {
    let (compute, sleep) = (Some(us(10).into()), (ranks > 3).then(|| us(15).into()));
    let (request, pattern) = (Request::Ranks(ranks), Pattern::ALL[rounds as usize % 3]);
    Message { request, pattern, bytes: 100, rounds, compute, sleep, waiting, weight: 1 }
}

fn any_jobs() -> impl Strategy<Value = Vec<Job>> {
    let compute = (0_u64..40, 0_u64..9)
        .prop_map(|(mean, sd)| Compute::Drawn(Distribution::Normal { mean: us(mean), sd: us(sd) }));
    let kind = (0_usize..5, 1_u32..5, compute, 1_u64..20, 0..WAITING.len()).prop_map(
        |(kind, threads, compute, rounds, rule)| {
            let waiting = WAITING[rule].example;
            match kind {
                0 => JobKind::Cpu { threads, work: Some(us(20 * rounds).into()) },
                1 => {
                    let (compute, critical) = (us(10).into(), us(5).into());
                    JobKind::Lock { threads, compute, critical, rounds, waiting }
                }
                2 => JobKind::Pipeline(pipeline(rounds, waiting)),
                3 => JobKind::Message(message(threads + 1, rounds, waiting)),
                _ => JobKind::Barrier { threads, compute, rounds, waiting },
            }
        },
    );
    let job = (kind, prop::bool::ANY, -5_i8..10).prop_map(|(kind, is_late, nice)| {
        let mut job = Job::new("", 1, kind);
        job.arrival.at = if is_late { us(100) } else { Span::ZERO };
        job.attributes.nice = nice;
        job
    });
    prop::collection::vec(job, 1..4).prop_map(|mut jobs| {
        jobs.iter_mut().enumerate().for_each(|(n, job)| job.name = format!("job{n}"));
        jobs
    })
}

/// A rule that can end under this scheduler: see the laws.
fn tamed(jobs: &mut [Job], scheduler: Scheduler) {
    for job in jobs {
        if let JobKind::Barrier { waiting, .. }
        | JobKind::Lock { waiting, .. }
        | JobKind::Pipeline(Pipeline { waiting, .. })
        | JobKind::Message(Message { waiting, .. }) = &mut job.kind
        {
            match waiting {
                WaitingRule::AlwaysSpin if !scheduler.shares_time() => *waiting = WaitingRule::Adaptive,
                WaitingRule::AlwaysYield if scheduler == Scheduler::LinuxO1 => *waiting = WaitingRule::AlwaysBlock,
                _ => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Meanwhile, the engine's invariants are checked after every event.
    #[test]
    fn stops_at_any_time_delay_threads_and_take_no_work_from_them(
        mut jobs in any_jobs(),
        scheduler in select(Scheduler::ALL.to_vec()),
        cpus in 1_u32..4,
        (switch, groups) in (0_u64..9, any::<bool>()),
        actions in prop::collection::vec((0_u64..900, any::<bool>(), 0_u32..12), 0..60),
        seed in 0_u64..1_000,
    ) {
        tamed(&mut jobs, scheduler);
        let machine = Machine { context_switch: us(switch), groups, ..machine(scheduler, cpus) };
        let setting = setting(jobs);
        let threads: u32 = setting.jobs.iter().map(|job| job.kind.threads(cpus)).sum();
        let action = |(at, stops, thread): (u64, bool, u32)| {
            (us(at), if stops { stop(thread % threads) } else { resume(thread % threads) })
        };
        let mut script: Vec<(Span, Action)> = actions.into_iter().map(action).collect();
        script.extend((0..threads).map(|thread| (us(1_000), resume(thread))));
        let undisturbed = run(&machine, &setting, seed).unwrap();
        let mut watch = Watch::default();
        let outcome = with_script(&script, || crate::run_observed(&machine, &setting, seed, &mut watch)).unwrap();
        for (with, without) in outcome.jobs.iter().zip(&undisturbed.jobs) {
            prop_assert!(with.completion_ns.is_some());
            prop_assert_eq!((with.rounds, with.delivered_work_ns), (without.rounds, without.delivered_work_ns));
        }
        let again = with_script(&script, || run(&machine, &setting, seed)).unwrap();
        prop_assert_eq!(again, outcome);
    }
}
