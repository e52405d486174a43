//! Comparison of two runs of one setting.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use policy::{Instant, Span};
use rowlock_sim::roster::Roster;
use rowlock_sim::{Error, run_observed};
use scenario::result::{JobOutcome, MachineOutcome, Outcome};
use scenario::{Machine, Scheduler, Setting};

use crate::reference::affinity::Affinity;
use crate::reference::cfs::Cfs;
use crate::reference::eevdf::Eevdf;
use crate::reference::events::{ENOUGH, Event, Events, SeenEnough};
use crate::reference::feedback::Feedback;
use crate::reference::kernel::Kernel;
use crate::reference::linux_2_4::Linux24;
use crate::reference::linux_o1::LinuxO1;
use crate::reference::machine::{Reference, in_steps};
use crate::reference::rr::RoundRobin;
use crate::reference::world::JobState;

/// Runs `setting` on both simulators. Returns the difference, if any, as text: the setting, and the
/// first event that differs with those before it.
pub(crate) fn difference(machine: &Machine, setting: &Setting, seed: u64) -> Result<(), String> {
    let (fast, outcome) = by_simulator(machine, setting, seed)?;
    let (slow, expected) = by_reference(machine, setting, seed);
    let differs = first_difference(&slow.0, &fast.0).or_else(|| {
        let agree = match (&expected, &outcome) {
            (Some(expected), Some(outcome)) => {
                comparable(expected) == comparable(outcome) && are_close(&percents(expected), &percents(outcome))
            }
            (expected, outcome) => expected == outcome,
        };
        (!agree).then(|| format!("outcome of the reference: {expected:?}\nof the simulator: {outcome:?}"))
    });
    match differs {
        None => Ok(()),
        Some(text) => Err(in_full(machine, setting, seed) + &text),
    }
}

/// The events and the outcome of the simulator. No outcome if the run did not end.
fn by_simulator(machine: &Machine, setting: &Setting, seed: u64) -> Result<(Events, Option<Outcome>), String> {
    let mut events = Events::default();
    let run = AssertUnwindSafe(|| run_observed(machine, setting, seed, &mut events));
    let outcome = match catch_unwind(run) {
        Ok(Err(Error::NoHeadway { .. })) => None,
        Ok(outcome) => Some(outcome.map_err(|why| why.to_string())?),
        Err(payload) if payload.is::<SeenEnough>() => None,
        Err(payload) => resume_unwind(payload),
    };
    Ok((events, outcome))
}

fn in_full(machine: &Machine, setting: &Setting, seed: u64) -> String {
    let mut text = format!("seed {seed}, keep_running = {}\n{machine:?}\n", setting.keep_running);
    for job in &setting.jobs {
        let _ = writeln!(text, "{job:?}");
    }
    text
}

/// The events and the outcome of the reference.
fn by_reference(machine: &Machine, setting: &Setting, seed: u64) -> (Events, Option<Outcome>) {
    let threads = setting.jobs.iter().map(|job| job.copies * job.kind.threads(machine.cpus)).sum::<u32>() as usize;
    let affinity = Affinity::new(machine, setting);
    match machine.scheduler {
        Scheduler::Rr => {
            let quantum = in_steps(machine.quantum, machine.step).max(1);
            run(machine, setting, seed, RoundRobin::new(machine.cpus as usize, Some(quantum), affinity))
        }
        Scheduler::Feedback => run(machine, setting, seed, Feedback::new(machine, affinity, threads)),
        Scheduler::Fifo => run(machine, setting, seed, RoundRobin::new(machine.cpus as usize, None, affinity)),
        Scheduler::Linux24 => run(machine, setting, seed, Linux24::new(machine, setting)),
        Scheduler::LinuxO1 => run(machine, setting, seed, LinuxO1::new(machine, setting)),
        Scheduler::Cfs => run(machine, setting, seed, Cfs::new(machine, setting, seed)),
        Scheduler::Eevdf => run(machine, setting, seed, Eevdf::new(machine, &Roster::new(setting, machine.cpus), seed)),
    }
}

fn run<K: Kernel>(machine: &Machine, setting: &Setting, seed: u64, kernel: K) -> (Events, Option<Outcome>) {
    let mut reference = Reference::new(machine, setting, seed, kernel);
    reference.run(seed);
    if !reference.is_over() || reference.events.0.len() > ENOUGH {
        reference.events.0.truncate(ENOUGH);
        return (reference.events, None);
    }
    let jobs = reference.world.jobs.iter().map(|job| job_outcome(job, machine.step)).collect();
    let total = u64::from(machine.cpus) * reference.world.now;
    let [work, spin, switch, idle] = reference.used.map(|steps| (total > 0).then(|| percent(steps, total)));
    let of_machine = MachineOutcome {
        cpus: machine.cpus,
        scheduler: machine.scheduler.name().to_owned(),
        work_percent: work,
        spin_percent: spin,
        switch_percent: switch,
        idle_percent: idle,
        events: None,
        coscheduling: None,
    };
    (reference.events, Some(Outcome { jobs, machine: of_machine }))
}

fn job_outcome(job: &JobState, step: Span) -> JobOutcome {
    use crate::reference::world::JobKind;
    let span = |steps: u64| Some(Span::from_nanos(steps * step.as_nanos()));
    let counts = &job.counts;
    JobOutcome {
        job: job.name.clone(),
        completion_ns: job.completed.and_then(span),
        start_ns: None,
        rounds: match job.kind {
            JobKind::Barrier { rounds, .. } => Some(job.met.min(rounds)),
            JobKind::Cpu { .. } => None,
        },
        ssr_percent: (counts.spins > 0).then(|| percent(counts.spins_that_succeeded, counts.spins)),
        cpu_ns: span(counts.cpu),
        spin_ns: span(counts.spinning),
        delivered_work_ns: span(counts.working),
        voluntary_switches: Some(counts.blocked),
        involuntary_switches: Some(counts.preempted),
        stages: Vec::new(),
        fibers: None,
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// An outcome without what depends on the calculation: the number of events in the simulator's
/// queue, and the last digits of percentages.
fn comparable(outcome: &Outcome) -> Outcome {
    let mut jobs = outcome.jobs.clone();
    jobs.iter_mut().for_each(|job| job.ssr_percent = None);
    let machine = MachineOutcome {
        cpus: outcome.machine.cpus,
        scheduler: outcome.machine.scheduler.clone(),
        ..MachineOutcome::default()
    };
    Outcome { jobs, machine }
}

fn percents(outcome: &Outcome) -> Vec<Option<f64>> {
    let machine = &outcome.machine;
    let of_machine = [machine.work_percent, machine.spin_percent, machine.switch_percent, machine.idle_percent];
    outcome.jobs.iter().map(|job| job.ssr_percent).chain(of_machine).collect()
}

fn are_close(these: &[Option<f64>], those: &[Option<f64>]) -> bool {
    these.iter().zip(those).all(|pair| match pair {
        (Some(this), Some(that)) => (this - that).abs() < 1e-9,
        (this, that) => this == that,
    })
}

fn first_difference(slow: &[(Instant, Event)], fast: &[(Instant, Event)]) -> Option<String> {
    let longer = slow.len().max(fast.len());
    let at = (0..longer).find(|&at| slow.get(at) != fast.get(at))?;
    let mut text = String::new();
    for (time, event) in &slow[at.saturating_sub(10)..at] {
        let _ = writeln!(text, "{time}: {event:?}");
    }
    for (name, events) in [("the reference", slow), ("the simulator", fast)] {
        let _ = writeln!(text, "then {name} has");
        for (time, event) in events.iter().skip(at).take(3) {
            let _ = writeln!(text, "    {time}: {event:?}");
        }
    }
    Some(text)
}
