//! The states of CPUs as text with timestamps, and settings small enough to follow by hand.

use policy::feedback::{Boost, FeedbackRules};
use policy::{CpuId, Instant, Span, ThreadId};
use rowlock_sim::observer::{CpuState, LeaveReason, Observer};
use rowlock_sim::run_observed;
use scenario::draw::Stream;
use scenario::result::Outcome;
use scenario::{Cfs, Compute, Distribution, Job, JobKind, Machine, MachineKeys, Scheduler, Setting, TickPhase};

/// A machine whose switches are free, so that virtual times are round, and which ticks at multiples
/// of 4 ms.
pub(crate) fn machine(cpus: u32, scheduler: Scheduler) -> Machine {
    let (slice, tick) = (Span::from_millis(3), Span::from_millis(4));
    let tick_phase = TickPhase::Zero;
    Machine { scheduler, slice, tick, tick_phase, context_switch: Span::ZERO, ..Machine::with_cpus(cpus) }
}

/// The same machine, with the parameters of each scheduler as short as its slices.
pub(crate) fn short(machine: Machine) -> Machine {
    let part = |thousandths| machine.slice.scaled(thousandths);
    let cfs =
        Cfs { latency: part(2_000), granularity: part(250), wakeup_granularity: part(333), migration_cost: part(167) };
    let feedback = FeedbackRules { levels: 4, running_time: part(100), boost: Boost::Every(part(4_000)) };
    Machine { cfs, feedback, timeslice: 3, ..machine }
}

/// The schedulers under which threads without end keep no other thread from running.
pub(crate) fn time_sharing() -> Vec<Scheduler> {
    Scheduler::ALL.into_iter().filter(|scheduler| scheduler.shares_time()).collect()
}

/// A job of one CPU-bound thread. Endless without `work`.
pub(crate) fn cpu(name: &str, work: Option<Span>) -> Job {
    Job::new(name, 1, JobKind::Cpu { threads: 1, work: work.map(Distribution::from) })
}

/// A barrier job whose threads all compute for exactly `compute`.
pub(crate) fn barrier(name: &str, threads: u32, compute: Span, rounds: u64, waiting: &str) -> Job {
    let compute = Compute::Drawn(Distribution::Normal { mean: compute, sd: Span::ZERO });
    let waiting = waiting.parse().unwrap();
    Job::new(name, 1, JobKind::Barrier { threads, compute, rounds, waiting })
}

pub(crate) fn setting(jobs: Vec<Job>) -> Setting {
    Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false }
}

/// Runs a setting whose threads are queued in this order at the start, and returns the states of
/// the CPUs. A thread is called by the letter at its number in `names`.
pub(crate) fn timeline(machine: &Machine, setting: &Setting, names: &str, order: &str) -> (String, Outcome) {
    let order: Vec<u32> = order.chars().map(|name| names.find(name).unwrap() as u32).collect();
    let mut observer = Log { names: names.chars().collect(), text: String::new() };
    let outcome = run_observed(machine, setting, seed_for(&order), &mut observer).unwrap();
    (observer.text, outcome)
}

/// A seed with which the engine's initial shuffle yields `order`.
fn seed_for(order: &[u32]) -> u64 {
    let shuffled = |seed| {
        let mut threads: Vec<u32> = (0..order.len() as u32).collect();
        Stream::named(seed, "initial queue order", 0).shuffle(&mut threads);
        threads
    };
    (0..100_000).find(|seed| shuffled(*seed) == order).expect("some seed yields every order of a few threads")
}

struct Log {
    names: Vec<char>,
    text: String,
}

impl Observer for Log {
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState) {
        let name = |thread: ThreadId| self.names[thread.index()].to_string();
        let state = match state {
            CpuState::Idle => "idle".to_owned(),
            CpuState::Running(thread) => name(thread),
            CpuState::Switching { from, to } => {
                let from = from.map_or("idle".to_owned(), |(thread, how)| {
                    let how = match how {
                        LeaveReason::Preempted => "preempted",
                        LeaveReason::Yielding => "yields",
                        LeaveReason::Blocking => "blocks",
                        LeaveReason::Stopped => "is stopped",
                        LeaveReason::Ending => "ends",
                    };
                    format!("{} {how}", name(thread))
                });
                format!("{from}, then {}", to.map_or("idle".to_owned(), name))
            }
        };
        self.text += &format!("{at} cpu{cpu}: {state}\n");
    }
}

/// Compares a timeline with lines written by hand.
pub(crate) fn assert_timeline(actual: &str, by_hand: &str) {
    let clean = |text: &str| text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    assert_eq!(clean(actual), clean(by_hand), "\nwhat happened:\n{actual}");
}
