//! Whether a simulation gets anywhere. A scheduler with unlucky options can switch for ever without letting anybody run, and
//! rules that yield can hand a CPU to each other for ever; threads without end can keep all others from theirs. Then an error is better than a
//! run without end.

use policy::feedback::{Boost, FeedbackRules};
use policy::{Instant, Span, priority};
use scenario::{JobKind, Machine, Setting};

use super::account::Use;
use crate::kernels::nice;
use crate::workloads::pipeline::NICE_STEP;

/// What the jobs that a run waits for were last seen to do.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Instant,
    /// Switches since then.
    switches: u64,
}

/// How long the jobs that a run waits for have got nowhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headway {
    /// When one of their threads last ran.
    ran: Mark,
    /// When one of them last computed.
    worked: Mark,
    /// So many switches are too many, if they have taken so long: far more than any scheduler needs to serve every thread once.
    switches: u64,
    span: Span,
}

impl Headway {
    pub(crate) fn new(machine: &Machine, setting: &Setting, threads: usize) -> Headway {
        let threads = threads as u64;
        let ticks = u64::from(machine.linux_2_4.allocation) + 1;
        let FeedbackRules { levels, running_time, boost } = machine.feedback;
        let boost = if let Boost::Every(period) = boost { period } else { Span::ZERO };
        let feedback = boost.max(running_time.scaled(1_000 * u64::from(levels)));
        let turn = machine
            .quantum
            .max(machine.slice)
            .max(machine.cfs.latency)
            .max(feedback)
            .max(machine.tick.scaled(1_000 * ticks));
        Headway {
            ran: Mark::default(),
            worked: Mark::default(),
            switches: 1_000_000 + 1_000 * threads,
            span: turn.scaled(10_000 * (threads + 1) * heaviest_to_lightest(setting)),
        }
    }

    /// A switch, a turn of a thread that the run does not wait for, or a thread that goes on after an alarm; returns the moment of the last headway if there have been too many without any.
    ///
    /// Waiting threads may spin and yield until the one that they wait for has its turn; that is covered by the time that must have
    /// passed too.
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

    /// A thread of a job that the run waits for used a CPU.
    #[inline]
    pub(crate) fn ran(&mut self, now: Instant, used: Use, span: Span) {
        if span.is_zero() {
            return;
        }
        self.ran = Mark { at: now, switches: 0 };
        if used == Use::Work {
            self.worked = self.ran;
        }
    }

    /// A job has ended.
    pub(crate) fn ended(&mut self, now: Instant) {
        self.ran = Mark { at: now, switches: 0 };
        self.worked = self.ran;
    }
}

/// How many times as much as the lightest thread the heaviest may weigh: by so much longer may the
/// lightest wait for its turn.
fn heaviest_to_lightest(setting: &Setting) -> u64 {
    let mut nices: Vec<i8> = setting.jobs.iter().map(|job| job.attributes.nice).collect();
    for job in &setting.jobs {
        let JobKind::Pipeline(line) = &job.kind else { continue };
        let favour = if line.priority == priority::PriorityRule::Default { 0 } else { NICE_STEP };
        let of_stages = line.stages.iter().map(|stage| stage.nice).chain([job.attributes.nice]);
        nices.extend(of_stages.flat_map(|nice| [nice.saturating_sub(favour), nice.saturating_add(favour)]));
    }
    let weights = || nices.iter().map(|&nice| nice::weight(nice));
    weights().max().unwrap_or(1).div_ceil(weights().min().unwrap_or(1))
}
