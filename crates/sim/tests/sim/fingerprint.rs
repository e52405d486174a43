//! Fingerprints: a hash of all events of a run, for each setting, scheduler and seed.
//!
//! A changed fingerprint means that some event has changed, even if only at the end of a long run.
//! The change may be right or wrong, but it must be intended.

use std::fmt::Write;

use policy::wakeup::Scheme;
use policy::{CpuId, Instant, JobId, Span, ThreadId};
use rowlock_sim::observer::{CpuState, Observer, ThreadPhase};
use rowlock_sim::run_observed;
use rowlock_sim::scheduler::ReadyReason;
use scenario::{
    Accounting, Compute, Granularity, Job, JobKind, Linux24, Machine, MachineKeys, Scheduler, Setting, Tie,
};

use crate::timeline::{barrier, setting, short};

/// FNV-1a over the moment, the kind of event, and the numbers in it.
struct Fingerprint(u64);

impl Fingerprint {
    fn add(&mut self, at: Instant, what: u64, one: u64, other: u64) {
        for byte in [at.as_nanos(), what, one, other].into_iter().flat_map(u64::to_le_bytes) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Observer for Fingerprint {
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState) {
        let number = |thread: Option<ThreadId>| thread.map_or(0, |thread| u64::from(thread.0) + 1);
        let (what, from, to) = match state {
            CpuState::Idle => (0, None, None),
            CpuState::Running(thread) => (1, None, Some(thread)),
            CpuState::Switching { from, to } => {
                (2 + from.map_or(0, |(_, how)| 1 + how as u64), from.map(|(it, _)| it), to)
            }
        };
        self.add(at, what, u64::from(cpu.0), number(from) << 32 | number(to));
    }

    fn thread_began(&mut self, at: Instant, thread: ThreadId, what: ThreadPhase) {
        self.add(at, 16 + what as u64, u64::from(thread.0), 0);
    }

    fn thread_ready(&mut self, at: Instant, thread: ThreadId, why: ReadyReason) {
        let (why, cpu) = match why {
            ReadyReason::New => (0, 0),
            ReadyReason::Woken => (1, 0),
            ReadyReason::Preempted => (2, 0),
            ReadyReason::Yielded => (3, 0),
            ReadyReason::Moved(cpu) => (4, u64::from(cpu.0)),
        };
        self.add(at, 32 + why, u64::from(thread.0), cpu);
    }

    fn barrier_completed(&mut self, at: Instant, job: JobId, last: ThreadId) {
        self.add(at, 48, u64::from(job.0), u64::from(last.0));
    }

    fn thread_woken(&mut self, at: Instant, waker: ThreadId, woken: ThreadId) {
        self.add(at, 49, u64::from(waker.0), u64::from(woken.0));
    }
}

fn crew(threads: u32, granularity: Granularity, rounds: u64, waiting: &str) -> Job {
    let compute = Compute::Granularity(granularity);
    let kind = JobKind::Barrier { threads, compute, rounds, waiting: waiting.parse().unwrap() };
    Job::new(format!("crew-{}", granularity.name()), 1, kind)
}

fn crowd(threads: u32, work: Option<Span>) -> Job {
    Job::new("crowd", 1, JobKind::Cpu { threads, work: work.map(Into::into) })
}

/// Settings that cover all features: alone and beside others, fine and coarse, copies, with and
/// without end. The crowd has an end, and no job keeps running, if otherwise no other job would
/// run.
fn settings(scheduler: Scheduler) -> Vec<(&'static str, Setting)> {
    let keep_running = scheduler.shares_time();
    let work = (!scheduler.shares_time()).then_some(Span::from_millis(2));
    use Granularity::{Coarse, Fine, Medium};
    let homogeneous = Job { copies: 4, ..crew(5, Medium, 60, "cs") };
    let mix = vec![crew(6, Fine, 200, "2cs+"), crew(4, Medium, 80, "cs+"), crew(3, Coarse, 30, "always-block")];
    vec![
        ("alone", setting(vec![crew(7, Fine, 300, "2cs+")])),
        ("against a crowd", setting(vec![crew(7, Fine, 200, "cs"), crowd(15, work)])),
        ("homogeneous", setting(vec![homogeneous])),
        ("mix that keeps running", Setting { keep_running, ..setting(mix) }),
        ("yielding", setting(vec![crew(6, Fine, 60, "always-yield"), crowd(5, work)])),
        ("one thread", setting(vec![barrier("solo", 1, Span::ZERO, 500, "cs")])),
    ]
}

fn machines() -> Vec<(String, Machine)> {
    let paper = |scheduler| {
        let step = Some(Span::from_micros(1));
        let tick = (scheduler == Scheduler::LinuxO1).then_some(Span::from_micros(20));
        let keys = MachineKeys { scheduler: Some(scheduler), step, tick, ..MachineKeys::default() };
        let slice = Span::from_micros(300);
        short(Machine { slice, ..keys.complete(&Machine::with_cpus(8)) })
    };
    let mut machines: Vec<(String, Machine)> =
        Scheduler::ALL.map(|scheduler| (scheduler.name().to_owned(), paper(scheduler))).into();
    let base = paper(Scheduler::Linux24);
    let mut add = |name: &str, machine: Machine| machines.push((format!("linux-2.4, {name}"), machine));
    let options = base.linux_2_4;
    add("ap", Machine { linux_2_4: Linux24 { wakeup: Scheme::Ap, ..options }, ..base });
    add("gv", Machine { linux_2_4: Linux24 { wakeup: Scheme::Gv, ..options }, ..base });
    add("tick accounting", Machine { linux_2_4: Linux24 { accounting: Accounting::Tick, ..options }, ..base });
    add("switches for free", Machine { linux_2_4: Linux24 { charge_switch: false, ..options }, ..base });
    add("no tail", Machine { linux_2_4: Linux24 { tail: false, ..options }, ..base });
    add("timeout first", Machine { tie: Tie::Timeout, ..base });
    machines
}

#[test]
fn fingerprints_are_those_of_the_golden_file() {
    let mut text = String::new();
    for (machine_name, machine) in machines() {
        for (setting_name, setting) in settings(machine.scheduler) {
            let of = |seed| {
                let mut fingerprint = Fingerprint(0xcbf2_9ce4_8422_2325);
                let outcome = run_observed(&machine, &setting, seed, &mut fingerprint).unwrap();
                format!("{:016x} {:6}", fingerprint.0, outcome.machine.events.unwrap())
            };
            writeln!(text, "{machine_name:28} {setting_name:24} {}  {}", of(1), of(2)).unwrap();
        }
    }
    insta::assert_snapshot!(text);
}
