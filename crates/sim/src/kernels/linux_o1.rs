//! Linux 2.6 before 2.6.23: the O(1) scheduler.
//!
//! Source: `kernel/sched.c` of Linux 2.6.11, `SD_CPU_INIT` in `include/linux/topology.h` (functions
//! and macros named below). Every CPU has its own queue with two arrays, active and expired, each
//! with a list for each of forty priorities. It runs the first thread of the best list in the
//! active array. A thread that has used up its timeslice goes to the expired array. When the active
//! array is empty, the arrays are swapped. No operation depends on the number of threads.
//!
//! * **Priority** (`effective_prio`, `CURRENT_BONUS`): that of the nice value, up to five better
//!   for a thread that has slept, up to five worse for one that has run. Sleep is counted up to ten
//!   timeslices. It is added when a thread wakes (`recalc_task_prio`), with more weight the less
//!   there is, and used up while the thread runs, more slowly the more there is. A woken thread's
//!   time in the queue also counts, at 38/128 (`schedule`, `activated`). A sleep that is longer
//!   than needed to become interactive makes the thread just interactive.
//! * **Timeslice** (`task_timeslice`): 100 ticks at nice 0, 800 at -20, 5 at 19. A tick is charged
//!   to the thread that runs at it (`scheduler_tick`). At the end of a timeslice the priority is
//!   computed again, and the thread expires unless it is interactive (`TASK_INTERACTIVE`). An
//!   interactive thread also expires if expired threads have waited for long or one of them has a
//!   better nice value (`EXPIRED_STARVING`).
//! * **Equal priorities** (`TIMESLICE_GRANULARITY`): an interactive thread goes to the end of its
//!   list after a part of its timeslice: 10 ticks times the number of CPUs at full bonus, and twice
//!   as many for each bonus less.
//! * **Wakeup** (`try_to_wake_up`, `wake_idle`): on the previous CPU if that is idle, else on the
//!   first idle one, else on the previous one. The thread preempts a thread of lower priority
//!   (`TASK_PREEMPTS_CURR`).
//! * **Yield** (`sys_sched_yield`): the thread goes to the end of its list in the expired array and
//!   keeps the rest of its timeslice.
//! * **Balancing** (`rebalance_tick`, `load_balance`, `find_busiest_group`, `move_tasks`): every 64
//!   to 256 ticks, or 1 to 4 if it is idle, a CPU takes threads from the one with the highest load,
//!   if that is a quarter above its own. It takes as many as bring neither beyond the average. It
//!   takes expired threads first, and none that ran within 2.5 ticks (`cache_hot_time`) unless it
//!   is idle or has failed twice. A CPU that is about to become idle tries immediately
//!   (`load_balance_newidle`).
//! * **Nice** (`set_user_nice`): the priority is that of the new nice value until it is next
//!   computed. The CPU picks again if the priority rises, or if it falls and the thread runs.
//! * **Affinity** (`cpus_allowed`): a thread starts, wakes and is taken only on its CPUs.
//!   **Moving** (`sched_setaffinity` to one CPU and back, `__migrate_task`) is a wakeup on that
//!   CPU.
//!
//! How the rules were checked: every rule was read in the source of 2.6.11 and, for the values of
//! `SD_CPU_INIT`, in that of 2.6.12-rc2. A second, slow implementation in this crate's tests was
//! written from the rules and agrees event by event. Cases with timestamps were calculated by hand.
//!
//! Deviations. *Times:* the kernel's milliseconds are ticks, so that they shrink with the tick. All
//! CPUs tick at the same moments. A tick that falls into a switch is skipped. The switch to a
//! thread, including waking its CPU, counts as its running time. *Wakeups:* no thread is attracted
//! to the CPU of its waker (`SD_WAKE_AFFINE`, `SD_WAKE_BALANCE`). All sleep counts as interruptible
//! and ended by a thread, even sleep for a device. `wake_idle` works as in kernels built for
//! hyper-threading. A CPU on which a thread was woken is not idle any more, even before it
//! switches. *Threads* exist from the start. They have slept nothing, have a whole timeslice, and
//! begin on the CPU with the fewest threads (no `sched_fork`, `wake_up_new_task`, `sched_exec`,
//! `sched_exit`). *Balancing:* there is one domain of all CPUs, without hyper-threads or nodes, and
//! no active balancing, so no running thread is taken. A CPU gives up after 32 threads that it may
//! not take. The busy CPUs carry out the ticks of the idle ones: each offers work to the next idle
//! CPU in turn. Ticks without work do not lengthen the idle interval. The interval counts from the
//! last look. CPUs look at different ticks, spread over the busy interval. There are no real-time
//! threads.

mod balance;
mod queue;
mod task;

use policy::{CpuId, CpuSet, Instant, Span, ThreadId};
use scenario::Machine;

use self::balance::{Balance, Loads};
use self::queue::Queue;
use self::task::{Task, Tuning};
use crate::engine::scheduler::{Marks, Picks, ReadyReason, Scheduler};
use crate::kernels::affinity::Affinity;
use crate::kernels::next_tick;
use crate::kernels::roster::Roster;

#[derive(Clone, Debug)]
pub(crate) struct LinuxO1 {
    tuning: Tuning,
    tasks: Vec<Task>,
    queues: Vec<Queue>,
    affinity: Affinity,
    /// The CPUs without a running or waiting thread.
    idle: CpuSet,
    loads: Loads,
    /// The idle CPU that was last offered work.
    offered: CpuId,
}

impl LinuxO1 {
    pub(crate) fn new(machine: &Machine, roster: &Roster) -> LinuxO1 {
        let (tuning, cpus) = (Tuning::new(machine), machine.cpus as usize);
        let task = |thread| Task::new(roster.attributes(ThreadId(thread as u32)).nice, &tuning);
        LinuxO1 {
            tasks: (0..roster.len()).map(task).collect(),
            tuning,
            queues: crate::cpu_ids(cpus).map(|cpu| Queue::new(Balance::staggered(cpu, cpus))).collect(),
            affinity: Affinity::new(machine, roster),
            idle: crate::cpu_ids(cpus).collect(),
            loads: Loads::new(cpus),
            offered: CpuId(machine.cpus - 1),
        }
    }

    fn gain(&mut self, cpu: CpuId, now: Instant) {
        let smoothed = self.smoothed(cpu, self.tuning.ticks(now));
        let queue = &mut self.queues[cpu.index()];
        queue.balance.load = smoothed;
        queue.running += 1;
        self.idle.remove(cpu);
        self.update_load(cpu);
    }

    fn lose(&mut self, cpu: CpuId, now: Instant) {
        let queue = &mut self.queues[cpu.index()];
        queue.running -= 1;
        queue.balance.load_at = self.tuning.ticks(now);
        self.update_load(cpu);
    }

    /// The CPU for a new thread: the one with the fewest threads, the lowest of equal ones.
    fn cpu_to_start_on(&self, thread: ThreadId) -> CpuId {
        let allowed = crate::cpu_ids(self.queues.len()).filter(|cpu| self.affinity.is_allowed(thread, *cpu));
        allowed.min_by_key(|cpu| self.queues[cpu.index()].running).unwrap_or(CpuId(0))
    }

    /// The CPU for a woken thread.
    fn cpu_to_wake_on(&self, thread: ThreadId) -> CpuId {
        let previous = self.tasks[thread.index()].cpu;
        if self.idle.contains(previous) {
            return previous;
        }
        self.idle.first_among(self.affinity.of(thread)).unwrap_or(previous)
    }

    /// Puts a thread into the active array of a queue (`activate_task`), and marks the CPU if the
    /// thread should preempt.
    fn activate(&mut self, thread: ThreadId, cpu: CpuId, now: Instant, marks: &mut Marks) {
        let task = &mut self.tasks[thread.index()];
        task.cpu = cpu;
        task.since = now;
        let priority = task.priority;
        self.gain(cpu, now);
        let queue = &mut self.queues[cpu.index()];
        if priority < queue.current_priority(&self.tasks) {
            marks.mark(cpu);
        }
        queue.push(thread, queue.active, &mut self.tasks);
    }

    /// The timeslice of the current thread is over: it expires, or stays active.
    fn end_timeslice(&mut self, cpu: CpuId, thread: ThreadId, tick: u64) {
        let (queue, tuning) = (&mut self.queues[cpu.index()], &self.tuning);
        queue.remove(thread, &mut self.tasks);
        let task = &mut self.tasks[thread.index()];
        task.update_priority(tuning);
        task.slice = tuning.timeslice_of(task.nice);
        let since = *queue.expired_since.get_or_insert(tick);
        let limit = tuning.starvation_limit() * u64::from(queue.running);
        let starving = tick - since > limit || task.static_priority() > queue.best_expired;
        if task.is_interactive() && !starving {
            queue.push(thread, queue.active, &mut self.tasks);
        } else {
            queue.best_expired = queue.best_expired.min(task.static_priority());
            queue.push(thread, queue.expired(), &mut self.tasks);
        }
    }

    /// Charges a tick to the current thread (`scheduler_tick`). Returns whether the CPU should pick
    /// again.
    fn charge_tick(&mut self, cpu: CpuId, tick: u64) -> bool {
        let queue = &mut self.queues[cpu.index()];
        let Some(thread) = queue.current else { return false };
        let task = &mut self.tasks[thread.index()];
        if task.array != Some(queue.active) {
            return true;
        }
        task.slice -= 1;
        if task.slice == 0 {
            self.end_timeslice(cpu, thread, tick);
            return true;
        }
        let turns = task.should_let_equals_run(&self.tuning);
        if turns {
            queue.remove(thread, &mut self.tasks);
            queue.push(thread, queue.active, &mut self.tasks);
        }
        turns
    }
}

impl Scheduler for LinuxO1 {
    fn looks_when_idle(&self) -> bool {
        false
    }

    fn moves(&self) -> bool {
        true
    }

    fn ready(&mut self, thread: ThreadId, why: ReadyReason, now: Instant, marks: &mut Marks) {
        let cpu = match why {
            // It is already in its queue.
            ReadyReason::Preempted | ReadyReason::Yielded => {
                self.tasks[thread.index()].leaving = false;
                return;
            }
            ReadyReason::New => self.cpu_to_start_on(thread),
            ReadyReason::Woken => self.cpu_to_wake_on(thread),
            ReadyReason::Moved(to) if self.affinity.is_allowed(thread, to) => to,
            ReadyReason::Moved(_) => self.tasks[thread.index()].cpu,
        };
        if why != ReadyReason::New {
            let task = &mut self.tasks[thread.index()];
            task.slept(now.since(task.since), &self.tuning);
            task.is_woken = true;
        }
        self.activate(thread, cpu, now, marks);
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId> {
        if let Some(current) = current {
            self.tasks[current.index()].ran(now, &self.tuning);
        }
        if self.queues[cpu.index()].running == 0 {
            self.balance_newly_idle(cpu, now);
        }
        let queue = &mut self.queues[cpu.index()];
        if queue.running == 0 {
            (queue.current, queue.expired_since) = (None, None);
            self.idle.insert(cpu);
            return None;
        }
        let next = queue.first()?;
        if self.tasks[next.index()].is_woken {
            // Part of its time in the queue counts as sleep.
            let array = queue.remove(next, &mut self.tasks)?;
            let task = &mut self.tasks[next.index()];
            let waited = now.since(task.since).as_nanos();
            task.slept(Span::from_nanos((u128::from(waited) * 38 / 128) as u64), &self.tuning);
            task.is_woken = false;
            queue.push(next, array, &mut self.tasks);
        }
        if Some(next) != current {
            if let Some(current) = current {
                self.tasks[current.index()].leaving = true;
            }
            self.tasks[next.index()].since = now;
            queue.current = Some(next);
        }
        Some(next)
    }

    fn leave(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.tasks[thread.index()].ran(now, &self.tuning);
        self.queues[cpu.index()].remove(thread, &mut self.tasks);
        self.lose(cpu, now);
    }

    fn dequeue(&mut self, thread: ThreadId, now: Instant) {
        let task = &mut self.tasks[thread.index()];
        let cpu = task.cpu;
        if self.queues[cpu.index()].remove(thread, &mut self.tasks).is_some() {
            // The kernel lets it run before it stops. Its sleep begins there.
            self.tasks[thread.index()].since = now;
            self.lose(cpu, now);
        }
    }

    fn note_yield(&mut self, cpu: CpuId, thread: ThreadId, _: Instant) {
        let queue = &mut self.queues[cpu.index()];
        queue.remove(thread, &mut self.tasks);
        queue.push(thread, queue.expired(), &mut self.tasks);
    }

    fn alarm(&mut self, _: CpuId, now: Instant) -> Instant {
        next_tick(now, self.tuning.tick)
    }

    fn alarmed(&mut self, cpu: CpuId, now: Instant, marks: &mut Marks) -> Picks {
        let is_spent = self.charge_tick(cpu, self.tuning.ticks(now));
        let is_preempted = self.rebalance(cpu, now);
        let another = self.offer_to_idle(now, marks);
        Picks { this_cpu: is_spent || is_preempted, another, push: None }
    }

    fn has_work_for(&self, cpu: CpuId) -> bool {
        self.queues[cpu.index()].running > 0
    }

    fn forget(&mut self, thread: ThreadId) {
        let task = &mut self.tasks[thread.index()];
        *task = Task::new(task.nice, &self.tuning);
    }

    fn set_nice(&mut self, thread: ThreadId, nice: i8, _: Instant, marks: &mut Marks) {
        let nice = nice.clamp(-20, 19);
        if self.tasks[thread.index()].nice == nice {
            return;
        }
        let cpu = self.tasks[thread.index()].cpu;
        let queue = &mut self.queues[cpu.index()];
        let array = queue.remove(thread, &mut self.tasks);
        let task = &mut self.tasks[thread.index()];
        let before = task.priority;
        task.nice = nice;
        task.priority = task.static_priority();
        let (after, is_current) = (task.priority, queue.current == Some(thread));
        if let Some(array) = array {
            queue.push(thread, array, &mut self.tasks);
            if after < before || (after > before && is_current) {
                marks.mark(cpu);
            }
        }
    }

    fn waiting(&self) -> usize {
        // Running threads are in their queues, and so are those that are being switched away from.
        let queued = self.tasks.iter().filter(|task| task.array.is_some() && !task.leaving).count();
        queued - self.queues.iter().filter(|queue| queue.current.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Attributes;

    #[test]
    fn a_thread_that_moves_goes_where_it_wants_if_it_may_run_there() {
        let machine = Machine { scheduler: scenario::Scheduler::LinuxO1, ..Machine::with_cpus(3) };
        let mut roster = Roster::default();
        let cpus = Some([CpuId(0), CpuId(1)].into_iter().collect());
        roster.enter(1, Attributes { cpus, ..Attributes::default() }, false);
        let (mut linux, mut marks, start) = (LinuxO1::new(&machine, &roster), Marks::new(3), Instant::ZERO);
        linux.ready(ThreadId(0), ReadyReason::New, start, &mut marks);
        for (to, expected) in [(CpuId(1), CpuId(1)), (CpuId(2), CpuId(1)), (CpuId(0), CpuId(0))] {
            let cpu = linux.tasks[0].cpu;
            linux.pick(cpu, None, start);
            linux.leave(cpu, ThreadId(0), start);
            linux.pick(cpu, None, start);
            linux.ready(ThreadId(0), ReadyReason::Moved(to), start, &mut marks);
            assert_eq!(linux.tasks[0].cpu, expected);
        }
    }
}
