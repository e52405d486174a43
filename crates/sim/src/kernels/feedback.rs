//! A multi-level feedback queue for the whole machine: [`policy::feedback`] for several CPUs with
//! one queue.
//!
//! Source: the rules and their sources are in [`policy::feedback`]. They were made for user-level
//! threads on one CPU, and no kernel has them like this. Nice values are ignored, because levels
//! are inferred from behaviour.
//!
//! * **Turns.** A CPU runs the first thread at the highest level that may run there, for the rest
//!   of its level's `running_time`. Then the thread falls by one level. It continues unless a
//!   thread waits at that level or above. Switches are not charged.
//! * **Preemption.** A thread that becomes ready takes the idle CPU with the lowest number. If none
//!   is idle, it marks a CPU to pick again: one that is switching to idleness, or else the one
//!   whose thread is at the lowest level, if that is below its own. Of equal CPUs it takes the one
//!   with the lowest number, and none that is marked already. As everywhere, a marked CPU runs the
//!   thread that is first when it picks.
//! * **Boost.** At multiples of `boost` since the start of the run, before all other events of that
//!   moment. A boost preempts no thread.
//! * **Yield.** A thread that yields goes behind the others of its level with the rest of its time.
//!   Lower levels do not get the CPU.
//! * **Affinity.** CPUs skip threads that are bound to other CPUs.

use policy::feedback::{FeedbackQueue, Level, TurnOutcome};
use policy::{CpuId, Instant, Span, ThreadId};
use scenario::Machine;

use crate::engine::scheduler::{Marks, Picks, ReadyReason, Scheduler};
use crate::engine::winner::{Key, WinnerTree};
use crate::kernels::affinity::Affinity;
use crate::kernels::roster::Roster;

#[derive(Clone, Copy, Debug, Default)]
struct CpuData {
    /// The thread that it runs or switches to.
    current: Option<ThreadId>,
    /// The moment up to which its thread is charged, once the switch to it is over.
    charged: Option<Instant>,
    is_over: bool,
    /// While it is idle and marked: the thread that it was marked for.
    kept_for: Option<ThreadId>,
}

#[derive(Clone, Debug)]
pub(crate) struct Feedback {
    queue: FeedbackQueue,
    affinity: Affinity,
    cpus: Vec<CpuData>,
    /// The CPUs that may be preempted, those at the lowest level first. A switch to idleness is
    /// lower than any level. CPUs that are marked already are not in the tree.
    victims: WinnerTree<u64>,
    boost: Option<Span>,
    next_boost: Instant,
}

impl Feedback {
    pub(crate) fn new(machine: &Machine, roster: &Roster) -> Feedback {
        let mut queue = FeedbackQueue::new(machine.feedback);
        // In descending order, so that the table is allocated once.
        (0..roster.len() as u32).rev().for_each(|thread| queue.add(ThreadId(thread)));
        let boost = machine.feedback.boost.period();
        let cpus = machine.cpus as usize;
        let mut victims = WinnerTree::new(cpus);
        victims.set_some(cpus, (0..cpus).map(|cpu| (cpu, rank(None))));
        Feedback {
            queue,
            affinity: Affinity::new(machine, roster),
            cpus: vec![CpuData::default(); cpus],
            victims,
            boost,
            next_boost: boost.map_or(Instant::from_nanos(u64::MAX), |period| Instant::ZERO + period),
        }
    }

    /// Boosts before any other operation of that moment. A boost may come late if no operation
    /// happened at its time, but that has no effect.
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

    /// The highest level with a waiting thread that may run on a CPU.
    fn highest(&self, cpu: CpuId) -> Option<Level> {
        if self.affinity.is_unrestricted() {
            self.queue.highest()
        } else {
            self.queue.highest_if(|thread| self.affinity.is_allowed(thread, cpu))
        }
    }

    /// Marks the CPU that a thread should preempt, if none is idle.
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

/// The key of a CPU among the victims: the lower the level of its thread, the smaller. `None` means
/// no thread.
fn rank(level: Option<Level>) -> u64 {
    level.map_or(0, |level| u64::from(u32::MAX - level.0))
}

impl Scheduler for Feedback {
    fn ready(&mut self, thread: ThreadId, why: ReadyReason, now: Instant, marks: &mut Marks) {
        self.boost_if_due(now);
        if let Some(cpu) = marks.first_idle(self.affinity.of(thread)) {
            self.cpus[cpu.index()].kept_for = Some(thread);
            self.victims.set(cpu.index(), u64::NEVER);
            return marks.mark(cpu);
        }
        match why {
            ReadyReason::Preempted => self.queue.enqueue_preempted(thread),
            ReadyReason::New | ReadyReason::Woken | ReadyReason::Yielded | ReadyReason::Moved(_) => {
                self.queue.enqueue(thread);
            }
        }
        self.preempt_for(thread, marks);
    }

    fn forget(&mut self, thread: ThreadId) {
        self.queue.add(thread);
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId> {
        self.boost_if_due(now);
        self.charge(cpu, now);
        let local = &mut self.cpus[cpu.index()];
        let is_over = std::mem::take(&mut local.is_over);
        let kept_for = local.kept_for.take();
        let continues = current.filter(|&thread| {
            let (own, best) = (self.queue.level(thread), self.highest(cpu));
            best.is_none_or(|best| if is_over { best > own } else { best >= own })
        });
        let next = if kept_for.is_some() {
            kept_for
        } else if continues.is_some() {
            continues
        } else if self.affinity.is_unrestricted() {
            self.queue.take()
        } else {
            let affinity = &self.affinity;
            self.queue.take_if(|thread| affinity.is_allowed(thread, cpu))
        };
        if next != current || next.is_none() {
            self.cpus[cpu.index()] = CpuData { current: next, ..CpuData::default() };
        }
        self.victims.set(cpu.index(), rank(next.map(|thread| self.queue.level(thread))));
        next
    }

    fn leave(&mut self, cpu: CpuId, _: ThreadId, now: Instant) {
        self.boost_if_due(now);
        self.charge(cpu, now);
        self.cpus[cpu.index()] = CpuData::default();
    }

    fn dequeue(&mut self, thread: ThreadId, now: Instant) {
        self.boost_if_due(now);
        match self.cpus.iter_mut().find(|cpu| cpu.kept_for == Some(thread)) {
            Some(cpu) => cpu.kept_for = None,
            None => self.queue.dequeue(thread),
        }
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

    fn alarmed(&mut self, cpu: CpuId, now: Instant, _: &mut Marks) -> Picks {
        self.boost_if_due(now);
        self.charge(cpu, now);
        Picks { this_cpu: self.cpus[cpu.index()].is_over, ..Picks::default() }
    }

    fn has_work_for(&self, cpu: CpuId) -> bool {
        self.highest(cpu).is_some()
    }

    fn waiting(&self) -> usize {
        self.queue.waiting() + self.cpus.iter().filter(|cpu| cpu.kept_for.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use scenario::{Job, JobKind, MachineKeys, Setting};

    use super::*;

    #[test]
    fn a_thread_that_is_forgotten_begins_at_the_highest_level() {
        let jobs = vec![Job::new("job", 1, JobKind::Cpu { threads: 1, work: None })];
        let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false };
        let mut kernel = Feedback::new(&Machine::with_cpus(1), &Roster::new(&setting, 1));
        let thread = ThreadId(0);
        kernel.queue.charge(thread, Span::from_millis(10_000));
        assert_eq!(kernel.queue.level(thread), Level(1));
        kernel.forget(thread);
        assert_eq!(kernel.queue.level(thread), Level(0));
    }
}
