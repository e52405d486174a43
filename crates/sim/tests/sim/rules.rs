//! Every policy of the table runs here, and its record replays.

use policy::record::{RecordedStep, Recorder, replay};
use policy::table::WAITING;
use policy::waiting::{Decision, Observation, WaitingRule};
use policy::{CpuId, Instant, Span, ThreadId};
use rowlock_sim::observer::{CpuState, Observer};
use rowlock_sim::scheduler::ReadyReason;
use rowlock_sim::{run_observed, run_recorded};
use scenario::{Compute, Distribution, Job, JobKind, Machine, MachineKeys, Scheduler, Setting};

use crate::timeline::{cpu, time_sharing};

#[test]
fn every_policy_runs_under_every_scheduler_and_its_record_replays() {
    for entry in WAITING {
        for scheduler in time_sharing() {
            let (mean, sd) = (Span::from_micros(20), Span::from_micros(2));
            let kind = JobKind::Barrier {
                threads: 5,
                compute: Compute::Drawn(Distribution::Normal { mean, sd }),
                rounds: 200,
                waiting: entry.example,
            };
            let jobs = vec![Job::new("crew", 2, kind), cpu("x", None)];
            let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false };
            let tick = Span::from_micros(400);
            let machine = Machine { scheduler, tick, timeslice: 1, ..Machine::with_cpus(3) };
            let (outcome, records) = run_recorded(&machine, &setting, 1).unwrap();
            assert_eq!(outcome.jobs[0].rounds, Some(200), "{} under {}", entry.form, scheduler.name());
            for record in &records[..2] {
                let entries = record.entries();
                // All threads but the last to arrive have asked at least once in each round.
                assert!(entries.len() >= 4 * 200, "{} entries", entries.len());
                let mut questions = entries.iter().filter(|entry| entry.decision.is_some());
                assert!(questions.all(|entry| !entry.missing.is_empty()), "a thread is missing at every question");
                assert_eq!(replay(entry.example, machine.costs(), &entries), []);
            }
        }
    }
}

/// The record of a job of three threads on two CPUs beside endless threads, and the work that it
/// did.
fn run_beside(endless: u32, rule: &str) -> (Vec<RecordedStep>, Option<Span>) {
    let kind = JobKind::Barrier {
        threads: 3,
        compute: Compute::Drawn(Distribution::Normal { mean: Span::from_micros(20), sd: Span::from_micros(5) }),
        rounds: 100,
        waiting: rule.parse().unwrap(),
    };
    let crowd = Job::new("crowd", 1, JobKind::Cpu { threads: endless, work: None });
    let jobs = vec![Job::new("crew", 1, kind), crowd];
    let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false };
    let (outcome, records) = run_recorded(&Machine::with_cpus(2), &setting, 1).unwrap();
    (records[0].entries(), outcome.jobs[0].delivered_work_ns)
}

#[test]
fn the_load_is_all_competing_threads_and_the_blocked_ones_of_the_same_job() {
    for (endless, spins) in [(1, false), (3, true)] {
        let rule = if spins { "load-aware 4" } else { "load-aware" };
        let (record, _) = run_beside(endless, rule);
        let questions: Vec<&RecordedStep> = record.iter().filter(|entry| entry.decision.is_some()).collect();
        assert!(questions.iter().any(|entry| matches!(entry.decision, Some(Decision::Block))));
        // It does not count threads that have ended.
        assert!(questions.iter().all(|entry| (3 + endless - 2..=3 + endless).contains(&entry.load)));
        let before_the_end = &questions[..questions.len() - 3];
        assert!(before_the_end.iter().all(|entry| entry.load == 3 + endless), "{rule}");
        let spun = questions.iter().any(|entry| matches!(entry.decision, Some(Decision::Spin(_))));
        assert_eq!(spun, spins, "{rule}");
    }
}

#[test]
fn the_draws_of_a_rule_do_not_change_the_work() {
    let (record, work) = run_beside(1, "randomized");
    assert_eq!(work, run_beside(1, "always-block").1);
    let draws: std::collections::BTreeSet<u32> = record.iter().map(|entry| entry.draw).collect();
    assert!(draws.len() > 100, "{} draws", draws.len());
}

/// Four threads that meet every 0.5 us beside two CPU-bound ones, on two CPUs.
fn crowd(scheduler: Scheduler) -> (Setting, Machine) {
    let (mean, sd) = (Span::from_nanos(500), Span::from_nanos(50));
    let compute = Compute::Drawn(Distribution::Normal { mean, sd });
    let kind = JobKind::Barrier { threads: 4, compute, rounds: 20_000, waiting: WaitingRule::Adaptive };
    let jobs = vec![Job::new("crew", 1, kind), cpu("x", None), cpu("y", None)];
    let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false };
    (setting, Machine { scheduler, context_switch: Span::from_micros(2), ..Machine::with_cpus(2) })
}

/// The record of the four.
fn crowded(scheduler: Scheduler) -> Vec<RecordedStep> {
    let (setting, machine) = crowd(scheduler);
    let (outcome, records) = run_recorded(&machine, &setting, 1).unwrap();
    assert_eq!(outcome.jobs[0].rounds, Some(20_000));
    let entries = records[0].entries();
    assert_eq!(replay(WaitingRule::Adaptive, machine.costs(), &entries), []);
    entries
}

#[test]
fn a_thread_that_moves_continues_on_the_cpu_of_its_choice() {
    let entries = crowded(Scheduler::Eevdf);
    let mut moves = 0;
    for (index, entry) in entries.iter().enumerate() {
        let Some(Decision::Move(to)) = entry.decision else { continue };
        let next = entries[index + 1..].iter().find(|next| next.thread == entry.thread);
        let Some(next) = next.filter(|next| next.decision.is_some() && next.seen == Observation::Moved) else {
            continue;
        };
        assert_eq!(next.own_cpu, to);
        moves += 1;
    }
    assert!(moves > 0, "{} entries", entries.len());
}

/// How often a thread became ready because it moved.
struct Arrivals(usize);

impl Observer for Arrivals {
    fn cpu_changed(&mut self, _: Instant, _: CpuId, _: CpuState) {}

    fn thread_ready(&mut self, _: Instant, _: ThreadId, why: ReadyReason) {
        self.0 += usize::from(matches!(why, ReadyReason::Moved(_)));
    }
}

#[test]
fn a_thread_that_moves_arrives_even_if_its_barrier_completes_on_the_way() {
    for scheduler in [Scheduler::Eevdf, Scheduler::LinuxO1] {
        let moves = |entry: &&RecordedStep| matches!(entry.decision, Some(Decision::Move(to)) if to != entry.own_cpu);
        let decided = crowded(scheduler).iter().filter(moves).count();
        let (setting, machine) = crowd(scheduler);
        let mut arrivals = Arrivals(0);
        run_observed(&machine, &setting, 1, &mut arrivals).unwrap();
        assert_eq!(arrivals.0, decided, "{}", scheduler.name());
        assert!(decided > 0, "{}", scheduler.name());
    }
}

#[test]
fn no_thread_moves_if_all_cpus_share_one_queue() {
    let entries = crowded(Scheduler::Rr);
    assert!(entries.iter().all(|entry| !matches!(entry.decision, Some(Decision::Move(_)))));
}
