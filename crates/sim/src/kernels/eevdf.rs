//! Linux since 6.6: earliest eligible virtual deadline first, the scheduler of today's hosts.
//!
//! Source: `kernel/sched/fair.c` of Linux 6.18 (functions named below). Every CPU has its own
//! queue. A thread's virtual time advances while it runs, more slowly the larger its weight is. Its
//! *lag* is how far it is behind the average of its queue by weight. A thread that is not ahead of
//! the average is *eligible*. The CPU runs the eligible thread with the earliest virtual deadline,
//! which is one slice after the virtual time at which the request was made.
//!
//! * **Protection** (`RUN_TO_PARITY`, `protect_slice`): a running thread that is eligible keeps its
//!   CPU until it has reached the deadline that it had when it was picked.
//! * **Tick** (`update_curr`, `update_deadline`): at a tick, a thread that has reached its deadline
//!   gets the next one, and the CPU picks again if others wait. The same happens when another
//!   thread joins its queue. The machine says when CPUs tick (`ticks.rs`).
//! * **Placement** (`place_entity`, `update_entity_lag`): a thread leaves with its lag, which is
//!   bounded by two slices or one tick, whichever is longer. It is placed so that it has that lag
//!   again after being counted. New threads have no lag, and half a slice to their first deadline.
//! * **Delayed dequeue** (`DELAY_DEQUEUE`, `DELAY_ZERO`): a thread that blocks while it is ahead of
//!   the average stays in its queue until it would be picked. Then it leaves without a positive
//!   lag. If it is woken before, it continues to wait in that queue (`requeue_delayed_entity`),
//!   even if other CPUs are idle. If it has fallen behind the average meanwhile, it is placed at
//!   the average with a new request. A thread that is stopped leaves its queue immediately, with
//!   its lag (`DEQUEUE_SPECIAL`).
//! * **Wakeup** (`select_task_rq_fair`): `kernels/wakeup.rs` says to which CPU a woken thread goes.
//!   A new one goes to the CPU with the fewest threads, in the node and the core with the fewest. A
//!   thread that joins a queue preempts if the CPU would pick it (`check_preempt_wakeup_fair`).
//! * **Idle balancing** (`sched_balance_newidle`, and the kick from the tick of a busy CPU on which
//!   a thread waits): a CPU without work looks at the CPU with the largest load among those with a
//!   waiting thread; of equal ones, at the next after itself, cyclically. It takes the thread that
//!   has waited longest there, unless that ran within the last 0.5 ms (`task_hot`). It looks at the
//!   first 32 threads of a queue. A kick goes to the first idle CPU that would take a thread.
//! * **Balancing between busy CPUs** (`sched_balance_rq`): a CPU balances at a tick, every 16 ms
//!   times the number of CPUs, less one tick, and half as often after it has found nothing to do.
//!   Of the CPUs on which a thread waits, it takes load from the one whose queue weighs most if
//!   that has over 17 % more load than itself, or if no thread waits on itself. It takes as much as
//!   it can without moving either of the two past the average of all CPUs. Threads with too much
//!   load for that, ahead of their queue, or hot are left. After one failure, loads count half and
//!   threads may be ahead; after two, loads count a quarter and threads may be hot.
//! * **Domains** (`kernels/domains.rs`): all of this happens within a core first, then within a
//!   node, then across nodes. The interval of a CPU at each level is 16 ms times the number of CPUs
//!   of its domain there. Idle CPUs of idle cores are asked first (`should_we_balance`).
//! * **A running thread** (`need_active_balance`, `active_load_balance_cpu_stop`) is pushed to an
//!   idle CPU if no idle CPU takes a waiting one, and that has failed in a domain more than three
//!   times (within a core two, across nodes four): the threads that wait beside it may not run
//!   there, or its group is crowded. A tick of a CPU with a waiting thread, or with a busy CPU
//!   beside it in its node, asks all idle CPUs. Each counts a failure once in a millisecond times
//!   the number of CPUs of the domain, and half as often after it has found nothing to do.
//! * **Load** (PELT) is an average of the recent past (`kernels/load.rs`).
//! * **Moving** (`sched_setaffinity` to one CPU and back): the thread goes to the queue of that CPU
//!   with its lag.
//! * **Affinity**: a bound thread starts, wakes and is taken only on its CPUs. If all threads
//!   that wait in the longest queue are bound to other CPUs, the next queue is tried
//!   (`LBF_ALL_PINNED`).
//! * **Custom slices** (`sched_setattr` with a runtime): a thread's requests have the length of its
//!   slice. A thread is protected for no longer than the shortest slice in its queue
//!   (`set_protect_slice`). If a thread joins with a shorter slice than that of the running thread,
//!   the two are compared without protection (`PREEMPT_SHORT`). If the CPU would pick the joining
//!   thread, the protection ends; otherwise it is cut to the shortest slice
//!   (`update_protect_slice`).
//! * **Groups** (`groups`; `calc_group_shares`): every job is a group, as with autogroups if each
//!   job has its own session, and weighs as much as one thread. A thread has its share, by weight,
//!   of that among all threads of its job in any queue.
//!   The weight of a group can change while it runs (`sched_group_set_shares`). Its threads follow
//!   at once, each as if its nice value had changed.
//! * **Nice** (`reweight_entity`, `prio_changed_fair`): a nice value is a weight. A thread whose
//!   weight changes keeps its lag and the rest of its request as they are in real time. Its CPU
//!   picks again if it runs and its weight falls, or if it waits and would now be picked.
//! * **Yield** (`yield_task_fair`): an eligible thread forfeits the rest of its request, and its
//!   virtual time jumps to its deadline. So one yield beside a CPU-bound thread costs the yielding
//!   thread about a slice, and the other runs until a tick.
//!
//! How the rules were checked: against the text of the patches that brought slices, protection,
//! delayed dequeue and eligibility in balancing to 6.12 to 6.18, and against descriptions of the
//! later tree that quote these functions. Wakeup placement, domains, intervals, imbalances, and
//! which threads are taken or pushed were checked function by function against the text of `fair.c`
//! and `topology.c` in a tree of Linux 6.18.2 (a private copy, not the kernel's own repository). A
//! second scheduler, written for tests from this text, agrees event by event.
//!
//! Deviations: groups are flat, while the kernel has a queue of queues. A group's weight is divided
//! among its threads on all CPUs, as the kernel divides it among CPUs by load and then among the
//! threads there. But eligibility and deadlines are those of threads and not of groups, and a
//! thread's share is updated when it joins a queue, is picked or ticks. There are no buddies. A CPU
//! that runs a thread has no capacity left, however little that thread runs (`group_has_capacity`).
//! A busy CPU is compared with other CPUs, and not its group with other groups; groups are compared
//! by their numbers of threads only, and nodes like cores, without an imbalance that is allowed
//! (`adjust_numa_imbalance`). A new thread prefers no node. Idle balancing is tried however short
//! the CPU's idle times are. It takes one thread, and never a hot one, unless both CPUs are of one
//! core. Its failures are counted apart from those of busy CPUs. At most one running thread is
//! pushed at a tick. No delayed thread is migrated. A thread that is being switched away from is
//! not counted in its queue until its switch is over, but it counts in loads. Virtual times are
//! updated each time they are read, and rounded down to whole nanoseconds. The switch to a thread,
//! including waking its CPU, counts as its running time. A tick that falls into a switch is
//! skipped.
//!
//! **Performance.** Waiting threads are in a tree by deadline that knows the least virtual time in
//! each part of it. CPUs are found by bits and tournaments. An event costs the logarithm of the
//! number of threads in a queue and of CPUs. If threads are bound to CPUs, or all waiting
//! threads are hot at a tick, threads and CPUs may have to be looked at one by one.

mod balance;
mod entity;
mod state;
mod timeline;
mod wakeup;

use policy::{CellId, CpuId, Instant, JobId, ThreadId};

use self::entity::{Entity, NEVER, Queue};
pub(crate) use self::state::Eevdf;
use crate::engine::scheduler::{Marks, Picks, ReadyReason, Scheduler};
use crate::kernels::nice;

impl Scheduler for Eevdf {
    fn moves(&self) -> bool {
        true
    }

    fn ready(&mut self, thread: ThreadId, why: ReadyReason, now: Instant, marks: &mut Marks) {
        let was_delayed = self.entity(thread).is_delayed;
        let cpu = match why {
            _ if was_delayed => self.entity(thread).cpu,
            ReadyReason::New => self.occupancy.emptiest_by_levels(&self.domains, self.affinity.of(thread)),
            ReadyReason::Moved(to) if self.affinity.is_allowed(thread, to) => to,
            ReadyReason::Woken | ReadyReason::Moved(_) => self.cpu_to_wake_on(thread, marks.here(), now),
            // It left the queue only for the length of the switch.
            ReadyReason::Preempted | ReadyReason::Yielded => {
                self.enqueue(thread, self.entity(thread).cpu);
                return;
            }
        };
        let request_is_over = self.update(cpu, now);
        let is_due = self.is_due(cpu, request_is_over);
        if was_delayed {
            self.requeue(thread, cpu);
        } else {
            if why == ReadyReason::New {
                self.wakeups.begin(thread, cpu);
                self.loads.begin(thread, now);
            }
            self.join_group(thread, now);
            self.loads.join(thread, cpu, self.entity(thread).weight, now);
            let entity = self.entity(thread);
            let request = entity.virtually(entity.slice);
            self.place(thread, cpu, if why == ReadyReason::New { request / 2 } else { request });
        }
        if is_due || marks.is_marked(cpu) || self.check_preemption(thread, cpu) {
            marks.mark(cpu);
        }
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId> {
        self.update(cpu, now);
        let mut next = self.choose(cpu);
        if self.occupancy.free.contains(cpu) {
            self.steal(cpu, now);
            next = self.choose(cpu);
        }
        let Some(next) = next else { return current };
        if let Some(current) = current {
            self.queues[cpu.index()].remove(&self.entities[current.index()]);
        }
        self.run(cpu, next, current);
        Some(next)
    }

    fn leave(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.update(cpu, now);
        self.take_off(cpu, thread);
        self.loads.leave(thread, now);
    }

    fn block(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.update(cpu, now);
        if self.queues[cpu.index()].is_eligible(self.entity(thread)) {
            self.take_off(cpu, thread);
            self.loads.sleep(thread, now);
        } else {
            self.delay(thread, cpu);
        }
    }

    fn dequeue(&mut self, thread: ThreadId, now: Instant) {
        let Entity { cpu, is_waiting, is_delayed, .. } = *self.entity(thread);
        if is_delayed {
            self.update(cpu, now);
            self.finish_delay(thread, cpu);
        } else if is_waiting {
            self.update(cpu, now);
            self.remember_lag(thread, cpu);
            self.unlink(thread, cpu);
            self.loads.leave(thread, now);
            self.leave_group(thread);
            self.note_load(cpu);
        }
    }

    fn note_yield(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.update(cpu, now);
        let queue = &mut self.queues[cpu.index()];
        let entity = &mut self.entities[thread.index()];
        if !queue.waiting.is_empty() && queue.is_eligible(entity) {
            queue.advance(entity, entity.deadline - entity.vruntime);
            entity.vruntime = entity.deadline;
            entity.deadline += entity.virtually(entity.slice);
        }
    }

    fn alarm(&mut self, cpu: CpuId, now: Instant) -> Instant {
        self.ticks.next(cpu, now)
    }

    fn alarmed(&mut self, cpu: CpuId, now: Instant, marks: &mut Marks) -> Picks {
        let request_is_over = self.update(cpu, now);
        let this_cpu = self.is_due(cpu, request_is_over);
        if let Some(current) = self.queues[cpu.index()].current {
            self.follow_group(ThreadId(current), now);
            self.note_load(cpu);
        }
        let preempted = self.balance(cpu, now);
        let another = if self.queues[cpu.index()].ready() > 0 { self.helper(now, marks) } else { None };
        let push = if another.is_none() { self.push_running(cpu, now, marks) } else { None };
        Picks { this_cpu: this_cpu || preempted, another, push }
    }

    fn has_work_for(&self, cpu: CpuId) -> bool {
        self.queues[cpu.index()].ready() > 0
    }

    fn forget(&mut self, thread: ThreadId) {
        let entity = &mut self.entities[thread.index()];
        (entity.lag, entity.last_ran) = (0, NEVER);
    }

    fn set_nice(&mut self, thread: ThreadId, nice: i8, now: Instant, marks: &mut Marks) {
        let weight = self.set_own_weight(thread, nice::weight(nice) as u32);
        self.change_weight(thread, weight, now, marks);
    }

    fn set_group_weight(&mut self, _: CellId, job: JobId, weight: u32, now: Instant, marks: &mut Marks) {
        for thread in self.set_weight_of_group(job.index(), weight.into()) {
            let thread = ThreadId(thread as u32);
            self.change_weight(thread, self.share(thread), now, marks);
        }
    }

    fn waiting(&self) -> usize {
        self.queues.iter().map(Queue::ready).sum()
    }
}
