//! Detection of simulations that make no headway, and their errors.
//!
//! A scheduler with unlucky options can switch forever without running any thread. Rules that
//! yield can pass a CPU back and forth forever. Threads without end can keep all others from the
//! CPUs. This depends on the jobs, so no file can be rejected for it. In these cases an error is
//! better than a run without end. A run with a limit ends anyway.

use policy::gang::Lowering;
use policy::record::Recorder;
use policy::{Instant, Span, priority};
use scenario::{JobKind, Machine, Setting};

use super::account::CpuUse;
use super::observer::{CpuState, Observer};
use super::scheduler::Scheduler;
use super::threads::{Activity, ENDLESS};
use super::winner::Key;
use super::{Cpu, Engine};
use crate::Error;
use crate::kernels::nice;
use crate::workloads::pipeline::NICE_STEP;

/// The last activity of the jobs that a run waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Instant,
    /// The number of switches since then.
    switches: u64,
}

/// How long the awaited jobs have made no headway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headway {
    /// When one of their threads last ran.
    ran: Mark,
    /// When one of them last computed.
    worked: Mark,
    /// There is no headway after this many switches if they have also taken this long. Both are far
    /// more than any scheduler needs to serve every thread once.
    switches: u64,
    span: Span,
}

impl Headway {
    pub(crate) fn new(machine: &Machine, setting: &Setting, threads: usize) -> Headway {
        let (threads, feedback) = (threads as u64, machine.feedback);
        let turns = [
            machine.quantum,
            machine.slice,
            machine.cfs.latency,
            feedback.boost.period().unwrap_or(Span::ZERO),
            feedback.running_time.scaled(1_000 * u64::from(feedback.levels)),
            machine.tick.scaled(1_000 * (u64::from(machine.linux_2_4.allocation) + 1)),
            setting.coscheduling.map_or(Span::ZERO, |of| of.slice),
        ];
        let turn = turns.into_iter().fold(Span::ZERO, Span::max);
        Headway {
            ran: Mark::default(),
            worked: Mark::default(),
            switches: 1_000_000 + 1_000 * threads,
            span: turn.scaled(10_000 * (threads + 1) * heaviest_to_lightest(setting)),
        }
    }

    /// Counts a switch, a turn of a thread that the run does not wait for, or a thread that
    /// continues after an alarm. Returns the moment of the last headway if there were too many
    /// without any.
    ///
    /// Waiting threads may spin and yield until the thread that they wait for has its turn. The
    /// minimum time covers that.
    #[inline]
    pub(crate) fn switch(&mut self, now: Instant) -> Option<Instant> {
        self.ran.switches += 1;
        self.worked.switches += 1;
        let is_over = |since: Mark| since.switches > self.switches && now.since(since.at) > self.span;
        if is_over(self.ran) {
            return Some(self.ran.at);
        }
        is_over(self.worked).then_some(self.worked.at)
    }

    /// A thread of an awaited job used a CPU.
    #[inline]
    pub(crate) fn ran(&mut self, now: Instant, used: CpuUse, span: Span) {
        if span.is_zero() {
            return;
        }
        self.ran = Mark { at: now, switches: 0 };
        if used == CpuUse::Work {
            self.worked = self.ran;
        }
    }

    /// From now on any span without headway is long enough to wait for some.
    pub(crate) fn wait_forever(&mut self) {
        self.switches = u64::MAX;
    }

    pub(crate) fn ended(&mut self, now: Instant) {
        (self.ran, self.worked) = (Mark { at: now, switches: 0 }, Mark { at: now, switches: 0 });
    }
}

/// How often in a row cells looked, or jobs were classified, while no CPU had anything to do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quiet {
    events: u64,
    since: Instant,
    /// The number of the last of these events.
    last: u64,
}

/// For how long turns and classes may go on without any other event.
const LONGEST_QUIET: Span = Span::from_millis(1_000);

/// The ratio of the heaviest thread's weight to the lightest one's. The lightest may have to wait
/// for its turn by this factor longer.
fn heaviest_to_lightest(setting: &Setting) -> u64 {
    let mut nices: Vec<i8> = setting.jobs.iter().map(|job| job.attributes.nice).collect();
    for job in &setting.jobs {
        let JobKind::Pipeline(line) = &job.kind else { continue };
        let step = if line.priority == priority::PriorityRule::Default { 0 } else { NICE_STEP };
        let of_stages = line.stages.iter().map(|stage| stage.nice).chain([job.attributes.nice]);
        nices.extend(of_stages.flat_map(|nice| [nice.saturating_sub(step), nice.saturating_add(step)]));
    }
    let mut lowered = 1;
    match setting.coscheduling.filter(|of| of.how.changes_priorities()).map(|of| of.lower) {
        Some(Lowering::Nice(steps)) => {
            nices.extend(nices.clone().iter().map(|nice| nice.saturating_add_unsigned(steps).min(19)));
        }
        Some(Lowering::Weight(weight)) => lowered = 1024 / u64::from(weight.max(1)),
        None => {}
    }
    let weights = || nices.iter().map(|&nice| nice::weight(nice));
    lowered * weights().max().unwrap_or(1).div_ceil(weights().min().unwrap_or(1))
}

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// Counts a step without headway, once all jobs have arrived.
    #[inline]
    pub(super) fn count_step_without_headway(&mut self) -> Result<(), Error> {
        if self.workload.to_come > 0 {
            return Ok(());
        }
        self.headway.switch(self.now).map_or(Ok(()), |since| Err(self.stall_error(Some(since))))
    }

    /// Fails if each slice has had its turn and each job its class while no CPU had anything to do,
    /// and nothing else is to come: then it stays so.
    pub(super) fn fail_if_only_turns_are_left(&mut self) -> Result<(), Error> {
        let is_quiet = self.queue.winner_of(0..self.cpus.len()).1 == u64::NEVER;
        let (events, now) = (self.events, self.now);
        let Some(of) = &mut self.coscheduling else { return Ok(()) };
        let before = of.quiet;
        let continues = is_quiet && before.events > 0 && before.last + 1 == events;
        let (count, since) = if continues { (before.events + 1, before.since) } else { (is_quiet.into(), now) };
        of.quiet = Quiet { events: count, since, last: events };
        let round = 2 * (of.decisions.round(now) + 1) * of.cells.len() as u64;
        if count > round && now.since(since) > LONGEST_QUIET && self.agenda.has_only_turns() {
            return Err(self.stall_error(None));
        }
        Ok(())
    }

    pub(super) fn stall_error(&self, no_headway_since: Option<Instant>) -> Error {
        let unfinished = self.workload.jobs.first_unfinished();
        let Some(job) = unfinished.map(|job| self.workload.jobs.name(job)) else { return Error::TooLong };
        let at = self.now;
        match no_headway_since {
            Some(since) => Error::NoHeadway { since, job },
            // The other jobs or messages arrive after the clock has run out.
            None if !self.agenda.has_only_turns() => Error::TooLong,
            None if self.cpus.iter().all(|cpu| cpu.state == CpuState::Idle) => Error::Stuck { at, job },
            None if self.cpus.iter().any(|cpu| self.is_hogged(cpu)) => Error::Hogged { at, job },
            None => Error::TooLong,
        }
    }

    /// Whether the thread of a CPU continues forever unless it is preempted.
    fn is_hogged(&self, cpu: &Cpu) -> bool {
        let CpuState::Running(thread) = cpu.state else { return false };
        let activity = self.workload.threads[thread.index()].activity;
        matches!(activity, Activity::Compute { left: ENDLESS } | Activity::Spin { left: ENDLESS, .. })
    }
}
