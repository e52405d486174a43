//! The lock: small cases by hand, and laws for every rule and scheduler.

use policy::record::{RecordedStep, Recorder, replay};
use policy::table::WAITING;
use policy::waiting::{Decision, Observation, Running};
use policy::{CpuId, Instant, Span, ThreadId};
use proptest::prelude::*;
use proptest::sample::select;
use rowlock_sim::observer::{CpuState, Observer};
use rowlock_sim::{run_observed, run_recorded};
use scenario::draw::Stream;
use scenario::{Distribution, Job, JobKind, Machine, Scheduler, Setting};

use crate::timeline::{assert_timeline, cpu, setting, short, time_sharing, timeline};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

fn exactly(n: u64) -> Distribution {
    Distribution::Normal { mean: us(n), sd: Span::ZERO }
}

/// Threads that compute for 10 us without the lock and for 5 us with it.
fn bank(threads: u32, rounds: u64, waiting: &str) -> Job {
    let (compute, critical, waiting) = (exactly(10), exactly(5), waiting.parse().unwrap());
    Job::new("bank", 1, JobKind::Lock { threads, compute, critical, rounds, waiting })
}

fn rr(cpus: u32) -> Machine {
    Machine { scheduler: Scheduler::Rr, ..Machine::with_cpus(cpus) }
}

#[test]
fn a_release_wakes_a_sleeper_which_then_has_to_find_the_lock_free() {
    let (text, outcome) = timeline(&rr(2), &setting(vec![bank(2, 2, "always-block")]), "ab", "ab");
    // a has the lock from 16 to 21. b, woken during its switch away, acquires it at 28 and keeps a
    // out from 31 to 33. Then b wakes a, which acquires it at 43, just before b returns.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         6 us cpu0: a
         6 us cpu1: b
         16 us cpu1: b blocks, then idle
         22 us cpu1: idle
         22 us cpu1: idle, then b
         28 us cpu1: b
         31 us cpu0: a blocks, then idle
         37 us cpu0: idle
         37 us cpu0: idle, then a
         43 us cpu0: a
         43 us cpu1: b blocks, then idle
         48 us cpu0: a ends, then idle
         49 us cpu1: idle
         49 us cpu1: idle, then b
         54 us cpu0: idle
         55 us cpu1: b
         60 us cpu1: b ends, then idle",
    );
    let bank = &outcome.jobs[0];
    assert_eq!((bank.completion_ns, bank.rounds), (Some(us(60)), Some(4)));
    assert_eq!((bank.delivered_work_ns, bank.voluntary_switches), (Some(us(60)), Some(3)));
}

#[test]
fn a_spinning_thread_acquires_the_lock_at_the_moment_of_its_release() {
    let (text, outcome) = timeline(&rr(2), &setting(vec![bank(2, 2, "always-spin")]), "ab", "ab");
    // a has it from 16 to 21, b from 21 to 26, a from 31 to 36, and b from 36 on, when it returns.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         6 us cpu0: a
         6 us cpu1: b
         36 us cpu0: a ends, then idle
         41 us cpu1: b ends, then idle",
    );
    let bank = &outcome.jobs[0];
    assert_eq!((bank.ssr_percent, bank.spin_ns), (Some(100.0), Some(us(5))));
}

#[test]
fn sleepers_are_not_woken_while_a_thread_spins() {
    // a, b and a again have the lock from 5 to 20. c sleeps from 11 on. At 15, when b releases the
    // lock, a spins again. At 20 no thread spins. From then on no thread spins for longer than 5
    // us.
    let (compute, critical) = (exactly(5), exactly(5));
    let kind = JobKind::Lock { threads: 3, compute, critical, rounds: 3, waiting: "6 us".parse().unwrap() };
    let job = Job::new("bank", 1, kind);
    let free = Machine { context_switch: Span::ZERO, ..rr(3) };
    let (text, outcome) = timeline(&free, &setting(vec![job]), "abc", "abc");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         0 ns cpu2: idle, then c
         0 ns cpu0: a
         0 ns cpu1: b
         0 ns cpu2: c
         11 us cpu2: c blocks, then idle
         11 us cpu2: idle
         20 us cpu2: idle, then c
         20 us cpu2: c
         35 us cpu0: a ends, then idle
         35 us cpu0: idle
         45 us cpu1: b ends, then idle
         45 us cpu1: idle
         50 us cpu2: c ends, then idle",
    );
    assert_eq!(outcome.jobs[0].voluntary_switches, Some(1));
}

/// Checks that no thread acquires a lock that is held or releases one that it does not hold, and
/// that every thread that acquires it has a CPU.
#[derive(Default)]
struct Exclusion {
    owner: Option<ThreadId>,
    cpus: Vec<Option<ThreadId>>,
    turns: u64,
}

impl Observer for Exclusion {
    fn cpu_changed(&mut self, _: Instant, cpu: CpuId, state: CpuState) {
        self.cpus.resize(self.cpus.len().max(cpu.index() + 1), None);
        self.cpus[cpu.index()] = match state {
            CpuState::Running(thread) => Some(thread),
            CpuState::Idle | CpuState::Switching { .. } => None,
        };
    }

    fn lock_acquired(&mut self, at: Instant, thread: ThreadId) {
        assert_eq!(self.owner.replace(thread), None, "thread {thread} acquires the lock at {at}");
        assert!(self.cpus.contains(&Some(thread)), "thread {thread} acquires the lock at {at} without a CPU");
        self.turns += 1;
    }

    fn lock_released(&mut self, at: Instant, thread: ThreadId) {
        assert_eq!(self.owner.take(), Some(thread), "thread {thread} releases the lock at {at}");
    }
}

/// The sum of the draws of a lock job's threads.
fn drawn(kind: &JobKind, seed: u64, step: Span) -> Span {
    let &JobKind::Lock { threads, ref compute, ref critical, rounds, .. } = kind else { return Span::ZERO };
    let of_thread = |number| -> Span {
        let mut stream = Stream::named(seed, "bank", number);
        let round = |_| compute.law().draw(&mut stream, step) + critical.law().draw(&mut stream, step);
        (0..rounds).map(round).sum()
    };
    (0..threads).map(of_thread).sum()
}

/// Rules that never leave their CPU to the owner may take a timeslice for each turn.
fn any_bank() -> impl Strategy<Value = (Machine, JobKind, u32)> {
    let lengths =
        || (0_u64..40, 0_u64..10).prop_map(|(mean, sd)| Distribution::Normal { mean: us(mean), sd: us(sd.min(mean)) });
    let kind = (1_u32..7, lengths(), lengths(), 1_u64..40, 0..WAITING.len());
    let kind = kind.prop_map(|(threads, compute, critical, rounds, rule)| JobKind::Lock {
        threads,
        compute,
        critical,
        rounds,
        waiting: WAITING[rule].example,
    });
    let machine = (1_u32..5, 0_u64..9, 0_u64..30, 1_u64..3_000, 10_u64..200, select(time_sharing()));
    let machine = machine.prop_map(|(cpus, switch, wakeup, step, quantum, scheduler)| Machine {
        step: Span::from_nanos(step),
        context_switch: us(switch),
        wakeup_cost: us(wakeup),
        quantum: us(quantum),
        tick: us(10 * quantum),
        slice: us(7 * quantum),
        scheduler,
        ..Machine::with_cpus(cpus)
    });
    let machine = machine.prop_map(short);
    (machine, kind, 0_u32..4)
}

proptest! {
    /// Meanwhile, debug builds check after each event that every sleeper will be woken.
    #[test]
    fn one_thread_at_a_time_has_the_lock_and_each_gets_all_of_its_turns(
        (machine, kind, crowd) in any_bank(), seed in 0_u64..1_000,
    ) {
        let mut jobs = vec![Job::new("bank", 1, kind.clone())];
        jobs.extend((0..crowd).map(|number| cpu(&format!("x{number}"), None)));
        let mut observer = Exclusion::default();
        let outcome = run_observed(&machine, &setting(jobs), seed, &mut observer).unwrap();
        let JobKind::Lock { threads, rounds, .. } = kind else { panic!("no lock") };
        let turns = u64::from(threads) * rounds;
        prop_assert_eq!((observer.turns, observer.owner), (turns, None));
        prop_assert_eq!(outcome.jobs[0].rounds, Some(turns));
        prop_assert_eq!(outcome.jobs[0].delivered_work_ns, Some(drawn(&kind, seed, machine.step)));
    }
}

/// A machine on which threads sometimes lose their CPU while they have the lock.
fn hasty(cpus: u32, scheduler: Scheduler) -> Machine {
    short(Machine { scheduler, tick: us(40), slice: us(30), ..Machine::with_cpus(cpus) })
}

fn recorded(machine: &Machine, waiting: &str) -> Vec<RecordedStep> {
    let (compute, critical) =
        (Distribution::Normal { mean: us(10), sd: us(4) }, Distribution::Normal { mean: us(5), sd: us(2) });
    let kind = JobKind::Lock { threads: 5, compute, critical, rounds: 100, waiting: waiting.parse().unwrap() };
    let setting = setting(vec![Job::new("bank", 1, kind), cpu("x", None)]);
    let (outcome, records) = run_recorded(machine, &setting, 1).unwrap();
    assert_eq!(outcome.jobs[0].rounds, Some(500), "{waiting}");
    records[0].entries()
}

#[test]
fn every_policy_waits_for_a_lock_under_every_scheduler_and_its_record_replays() {
    for entry in WAITING {
        for scheduler in time_sharing() {
            let machine = hasty(3, scheduler);
            let record = recorded(&machine, &entry.example.to_string());
            assert!(record.len() >= 100, "{} entries", record.len());
            assert_eq!(replay(entry.example, machine.costs(), &record), [], "{}", entry.form);
            // Each wait has its own number, and does not know the owner.
            let (questions, ends): (Vec<_>, Vec<_>) = record.iter().partition(|entry| entry.decision.is_some());
            assert!(questions.iter().all(|entry| entry.threads == 0 && entry.thread >= ThreadId(5)));
            assert!(questions.iter().all(|entry| entry.missing.is_empty()));
            let waits: std::collections::BTreeSet<ThreadId> = questions.iter().map(|entry| entry.thread).collect();
            assert_eq!(waits.len(), ends.len(), "each wait ends once");
        }
    }
}

#[test]
fn the_owner_running_rule_blocks_if_the_owner_has_no_cpu_and_spins_otherwise() {
    let record = recorded(&hasty(2, Scheduler::Eevdf), "owner-running");
    let after = |running| record.iter().filter(move |entry| entry.seen == Observation::Checked(running));
    let decided = |running| after(running).filter_map(|entry| entry.decision).collect::<Vec<_>>();
    let (all, not_all) = (decided(Running::All), decided(Running::NotAll));
    assert!(!all.is_empty() && all.iter().all(|decision| matches!(decision, Decision::Spin(_))));
    assert!(!not_all.is_empty() && not_all.iter().all(|decision| *decision == Decision::Block));
}

#[test]
fn turns_beyond_those_of_a_job_that_keeps_running_are_not_counted() {
    let jobs = vec![bank(2, 10, "cs"), cpu("long", Some(us(5_000)))];
    let keep = Setting { keep_running: true, ..setting(jobs) };
    let outcome = rowlock_sim::run(&rr(2), &keep, 1).unwrap();
    assert_eq!(outcome.jobs[0].rounds, Some(20));
    assert!(outcome.jobs[1].completion_ns.unwrap() > us(5_500), "the lock's threads continue beside it");
}
