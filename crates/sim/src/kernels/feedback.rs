//! A multi-level feedback queue for the whole machine: [`policy::feedback`] carried out for several CPUs with one queue.
//!
//! Source: what is decided, and where it comes from, stands in [`policy::feedback`]; it was made for user-level threads on one CPU,
//! and no kernel has it like this. Nice values mean nothing to it: levels are found out, not given.
//!
//! * **Taking turns.** A CPU runs the first thread at the highest level that may run there, for what it has left of its level's `running_time`. Then
//!   the thread is one level lower; it goes on unless somebody waits at that level or above. Switches are not charged.
//! * **Preemption.** A thread that becomes ready takes the idle CPU with the lowest number. Where none idles it has a CPU told to pick again:
//!   one on its way to idleness, else the one whose thread is at the lowest level, if that is below its own; of equals the lowest
//!   number, and none that has been told already. As everywhere, a CPU that has been told runs whoever is first by then.
//! * **Boost.** At multiples of `boost` since the start of the run, before anything else that happens then. Nobody is preempted by it.
//! * **Yield.** Whoever yields goes behind the others of its level with what is left of its time; lower levels do not get the CPU.
//! * **Affinity.** Others pass over a thread that is bound.

use policy::feedback::{Boost, FeedbackQueue, Level, TurnOutcome};
use policy::{CpuId, Instant, Span, ThreadId};
use scenario::Machine;

use crate::engine::scheduler::{Marks, Picks, ReadyReason, Scheduler};
use crate::engine::winner::{Key, WinnerTree};
use crate::kernels::affinity::Affinity;
use crate::kernels::roster::Roster;

/// A CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Local {
    /// Who has it, or is coming.
    current: Option<ThreadId>,
    /// Up to when its thread is charged, once the switch to it is over.
    charged: Option<Instant>,
    /// Whether its thread's turn is over.
    is_over: bool,
    /// While it idles and has been told to pick: for whom.
    kept_for: Option<ThreadId>,
}

/// The scheduler; see the module.
#[derive(Clone, Debug)]
pub struct Feedback {
    queue: FeedbackQueue,
    affinity: Affinity,
    cpus: Vec<Local>,
    /// CPUs that may be taken from their threads, those at the lowest level first; the way to idleness is lower than any. Without those
    /// that have been told to pick already.
    victims: WinnerTree<u64>,
    /// How many threads have an idle CPU that has yet to pick them.
    kept: usize,
    boost: Option<Span>,
    next_boost: Instant,
}

impl Feedback {
    /// The scheduler of a machine for these threads.
    pub fn new(machine: &Machine, roster: &Roster) -> Feedback {
        let mut queue = FeedbackQueue::new(machine.feedback);
        // From the last on, so that the table has its size at once.
        (0..roster.len() as u32).rev().for_each(|thread| queue.add(ThreadId(thread)));
        let boost = match machine.feedback.boost {
            Boost::Every(period) => Some(period),
            Boost::Never => None,
        };
        let cpus = machine.cpus as usize;
        let mut victims = WinnerTree::new(cpus);
        victims.set_all(|slot, _| if slot < cpus { rank(None) } else { u64::NEVER });
        Feedback {
            queue,
            affinity: Affinity::new(machine, roster),
            cpus: vec![Local::default(); cpus],
            victims,
            kept: 0,
            boost,
            next_boost: boost.map_or(Instant::from_nanos(u64::MAX), |period| Instant::ZERO + period),
        }
    }

    /// Everything that the scheduler is asked comes after the boost of that moment. One that nobody was there to see comes late, which nobody can tell.
    #[inline]
    fn boost_if_due(&mut self, now: Instant) {
        let Some(period) = self.boost else { return };
        if now < self.next_boost {
            return;
        }
        self.next_boost = Instant::ZERO + now.since(Instant::ZERO).floor_to(period) + period;
        self.queue.boost();
        for (number, cpu) in self.cpus.iter().enumerate() {
            if cpu.current.is_some() && self.victims.key(number) != u64::NEVER {
                self.victims.set(number, rank(Some(Level(0))));
            }
        }
    }

    /// Charges the thread of a CPU for the time since it was last charged.
    #[inline]
    fn charge(&mut self, cpu: CpuId, now: Instant) {
        let local = &mut self.cpus[cpu.index()];
        if let (Some(thread), Some(charged)) = (local.current, local.charged) {
            local.charged = Some(now);
            local.is_over |= self.queue.charge(thread, now.since(charged)) == TurnOutcome::UsedUp;
        }
    }

    /// The highest level at which somebody waits that may run on a CPU.
    fn highest(&self, cpu: CpuId) -> Option<Level> {
        if self.affinity.is_unrestricted() {
            self.queue.highest()
        } else {
            self.queue.highest_if(|thread| self.affinity.is_allowed(thread, cpu))
        }
    }

    /// Tells the CPU to pick that a thread should have, where none idles.
    fn preempt_for(&mut self, thread: ThreadId, marks: &mut Marks) {
        let (cpu, key) = match self.affinity.of(thread) {
            None => self.victims.winner(),
            Some(set) => {
                let keys = set.iter().map(|cpu| (cpu.index(), self.victims.key(cpu.index())));
                keys.min_by_key(|&(cpu, key)| (key, cpu)).unwrap_or((0, u64::NEVER))
            }
        };
        if key < rank(Some(self.queue.level(thread))) {
            self.victims.set(cpu, u64::NEVER);
            marks.mark(CpuId(cpu as u32));
        }
    }
}

/// What a CPU competes with to be taken from a thread of a level, or from nobody: the lower the level, the smaller.
fn rank(level: Option<Level>) -> u64 {
    level.map_or(0, |level| u64::from(u32::MAX - level.0))
}

impl Scheduler for Feedback {
    fn ready(&mut self, thread: ThreadId, why: ReadyReason, now: Instant, marks: &mut Marks) {
        self.boost_if_due(now);
        if let Some(cpu) = marks.first_idle_among(self.affinity.of(thread)) {
            self.cpus[cpu.index()].kept_for = Some(thread);
            self.kept += 1;
            self.victims.set(cpu.index(), u64::NEVER);
            return marks.mark(cpu);
        }
        match why {
            ReadyReason::Preempted => self.queue.enqueue_preempted(thread),
            ReadyReason::New | ReadyReason::Woken | ReadyReason::Yielded | ReadyReason::Moved(_) => {
                self.queue.enqueue(thread)
            }
        }
        self.preempt_for(thread, marks);
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId> {
        self.boost_if_due(now);
        self.charge(cpu, now);
        let local = &mut self.cpus[cpu.index()];
        let is_over = std::mem::take(&mut local.is_over);
        let kept_for = local.kept_for.take();
        let goes_on = current.filter(|&thread| {
            let (own, best) = (self.queue.level(thread), self.highest(cpu));
            best.is_none_or(|best| if is_over { best > own } else { best >= own })
        });
        let next = if kept_for.is_some() {
            self.kept -= 1;
            kept_for
        } else if goes_on.is_some() {
            goes_on
        } else if self.affinity.is_unrestricted() {
            self.queue.take()
        } else {
            let affinity = &self.affinity;
            self.queue.take_if(|thread| affinity.is_allowed(thread, cpu))
        };
        if next != current || next.is_none() {
            self.cpus[cpu.index()] = Local { current: next, ..Local::default() };
        }
        self.victims.set(cpu.index(), rank(next.map(|thread| self.queue.level(thread))));
        next
    }

    fn leave(&mut self, cpu: CpuId, _: ThreadId, now: Instant) {
        self.boost_if_due(now);
        self.charge(cpu, now);
        self.cpus[cpu.index()] = Local::default();
    }

    fn note_yield(&mut self, cpu: CpuId, _: ThreadId, _: Instant) {
        self.cpus[cpu.index()].is_over = true;
    }

    fn alarm(&mut self, cpu: CpuId, now: Instant) -> Instant {
        self.boost_if_due(now);
        let local = &mut self.cpus[cpu.index()];
        let charged = *local.charged.get_or_insert(now);
        local.current.map_or(now, |thread| (charged + self.queue.time_left(thread)).min(self.next_boost))
    }

    fn alarmed(&mut self, cpu: CpuId, now: Instant, _: &Marks) -> Picks {
        self.boost_if_due(now);
        self.charge(cpu, now);
        Picks { this_cpu: self.cpus[cpu.index()].is_over, another: None }
    }

    fn has_work_for(&self, cpu: CpuId, _: Instant) -> bool {
        self.highest(cpu).is_some()
    }

    fn waiting(&self) -> usize {
        self.queue.waiting() + self.kept
    }
}
