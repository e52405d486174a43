//! Linux 2.6.23 to 6.5: the completely fair scheduler, as of 5.15.
//!
//! Source: `kernel/sched/fair.c` of Linux 5.15 (functions named below). Every CPU has its own
//! queue. A thread's virtual time advances while it runs, more slowly the larger its weight is. The
//! CPU runs the thread with the least virtual time. The other rules say how often a CPU picks
//! again, and to which CPU a thread belongs.
//!
//! * **Slice** (`sched_slice`): a thread's share of the latency, by weight. If the threads are so
//!   many that a minimal granularity for each exceeds the latency, the sum of these granularities
//!   is shared instead. A slice is never shorter than one granularity (`BASE_SLICE`).
//! * **Tick** (`check_preempt_tick`): the CPU picks again if the thread has run for longer than its
//!   slice. It also does if the thread has run for a granularity and is ahead of the first waiting
//!   thread by more than its slice. A thread that is picked again continues its slice. The
//!   machine says when CPUs tick (`ticks.rs`).
//! * **Pick** (`pick_next_entity`): the first is the thread with the least virtual time. The CPU
//!   prefers to it, in this order, the thread that preempts, the thread that was preempted last,
//!   and, if the first has yielded, the second. Each of these is only preferred if it is ahead of
//!   the first by no more than the wakeup granularity, in the virtual time of the first.
//! * **Placement** (`place_entity`): a queue has a minimum that follows its least virtual time and
//!   never falls. A new thread starts one slice after the minimum (`START_DEBIT`). A woken thread
//!   starts at most half a latency before it (`GENTLE_FAIR_SLEEPERS`).
//! * **Wakeup preemption** (`check_preempt_wakeup`): a thread that joins a queue preempts if the
//!   current thread is ahead of it by more than the wakeup granularity, in the virtual time of the
//!   joining thread. It is picked next. If the latency has no room for more threads, the preempted
//!   thread is picked after it (`LAST_BUDDY`).
//! * **Switch** (`__schedule`): interrupts are off during a switch. So a thread that wakes then
//!   preempts, if at all, when the switch is over and before the incoming thread has run.
//! * **Wakeup placement** (`select_task_rq_fair`) is in `kernels/wakeup.rs`. A new thread goes to
//!   the CPU with the least load, in the node and the core with the least load.
//! * **Migration**: a thread keeps its distance from the minimum of its queue. Its cache counts as
//!   cold.
//! * **Yield** (`yield_task_fair`): the thread is skipped, as above, until it is picked. Its
//!   virtual time does not change.
//! * **Nice** (`set_user_nice`, `reweight_entity`): a nice value is a weight. Virtual times do not
//!   change. A running thread begins a new slice, and is preempted if its weight falls. A waiting
//!   thread may preempt like one that joins the queue.
//! * **Balancing** is in `cfs/balance.rs`.
//!
//! How the rules were checked: function by function against the text of `fair.c` in a tree of Linux
//! 5.15.202 with a vendor's hooks, which are distinguished from the kernel's own lines by their
//! names. The tag 5.15 itself was not available. The defaults of `sched_features`, the setup of
//! domains (`sd_init`), and what `core.c` does for `set_user_nice` and idle times are from memory
//! of that version. A second scheduler, written for tests from this text, agrees event by event.
//!
//! Deviations: there are no groups, and so no autogroup, and no sched-idle or batch threads. A new
//! thread goes to the node with the least load, there to the core and to the CPU with the least;
//! the kernel prefers idle ones, and the node of the parent if the difference is small
//! (`find_idlest_group`). A CPU that runs a thread has no capacity left, however little that thread
//! runs (`group_has_capacity`). A thread that is being switched away from counts in its queue, but
//! its virtual time does not until the switch is over. Virtual times are rounded down to whole
//! nanoseconds once for each time on the CPU, not at each look. The switch to a thread, including
//! waking its CPU, counts as its running time. A tick that falls into a switch is skipped.

mod balance;
mod queue;
mod timeline;

use policy::{CpuId, Instant, Span, ThreadId};
use scenario::Machine;

use crate::engine::scheduler::{Marks, Picks, ReadyReason, Scheduler};
use crate::kernels::affinity::Affinity;
use crate::kernels::cfs::queue::{Entity, Idleness, Queue};
use crate::kernels::cfs::timeline::Place;
use crate::kernels::domains::Domains;
use crate::kernels::load::Loads;
use crate::kernels::nice;
use crate::kernels::occupancy::Occupancy;
use crate::kernels::roster::Roster;
use crate::kernels::ticks::Ticks;
use crate::kernels::wakeup::{Scene, Wakeups};

#[derive(Clone, Debug)]
pub(crate) struct Cfs {
    latency: i64,
    granularity: i64,
    wakeup_granularity: i64,
    migration_cost: Span,
    ticks: Ticks,
    /// The number of threads that fill a latency (`sched_nr_latency`).
    crowd: usize,
    entities: Vec<Entity>,
    queues: Vec<Queue>,
    /// Loads: the weights of queues, and those of queues that have more than one thread.
    occupancy: Occupancy,
    domains: Domains,
    affinity: Affinity,
    wakeups: Wakeups,
    loads: Loads,
    /// When the next busy CPU may ask idle ones for help (`nohz.next_balance`).
    next_kick: Instant,
}

impl Cfs {
    pub(crate) fn new(machine: &Machine, roster: &Roster, seed: u64) -> Cfs {
        let options = machine.cfs;
        let nanos = |span: Span| span.as_nanos() as i64;
        let (latency, granularity) = (nanos(options.latency), nanos(options.granularity));
        let weight_of = |thread| nice::weight(roster.attributes(ThreadId(thread as u32)).nice);
        let idle = Idleness { since: None, average: 2 * nanos(options.migration_cost) };
        Cfs {
            latency,
            granularity,
            wakeup_granularity: nanos(options.wakeup_granularity),
            migration_cost: options.migration_cost,
            ticks: Ticks::new(machine, seed),
            crowd: options.latency.as_nanos().div_ceil(options.granularity.as_nanos()) as usize,
            entities: (0..roster.len()).map(|thread| Entity::new(weight_of(thread))).collect(),
            queues: vec![Queue { idle, ..Queue::default() }; machine.cpus as usize],
            occupancy: Occupancy::new(machine.cpus as usize),
            domains: Domains::new(machine),
            affinity: Affinity::new(machine, roster),
            wakeups: Wakeups::new(roster.len()),
            loads: Loads::new(machine.cpus, roster.len()),
            next_kick: Instant::ZERO,
        }
    }

    fn entity(&self, thread: ThreadId) -> &Entity {
        &self.entities[thread.index()]
    }

    fn queue(&mut self, cpu: CpuId) -> &mut Queue {
        &mut self.queues[cpu.index()]
    }

    #[inline]
    fn update(&mut self, cpu: CpuId, now: Instant) {
        self.queues[cpu.index()].update(now, &mut self.entities);
    }
}

/// Queues and virtual times.
impl Cfs {
    /// Adds a thread that is in no queue to that of its CPU.
    fn enqueue(&mut self, thread: ThreadId) {
        let Entity { cpu, weight, .. } = *self.entity(thread);
        let queue = &mut self.queues[cpu.index()];
        queue.threads += 1;
        queue.weight += u64::from(weight);
        self.note(cpu);
        self.wait(thread);
    }

    /// A thread of a queue begins to wait in it.
    fn wait(&mut self, thread: ThreadId) {
        let cpu = self.entity(thread).cpu;
        self.queues[cpu.index()].timeline.insert(thread, &mut self.entities);
    }

    /// A thread stops waiting, but still counts in its queue.
    fn stop_waiting(&mut self, thread: ThreadId) {
        let cpu = self.entity(thread).cpu;
        self.queues[cpu.index()].timeline.remove(thread, &mut self.entities);
        self.entities[thread.index()].place = Place::ON_CPU;
    }

    /// Removes a thread that does not wait from its queue.
    fn remove(&mut self, thread: ThreadId) {
        let Entity { cpu, weight, .. } = *self.entity(thread);
        self.entities[thread.index()].place = Place::AWAY;
        let queue = &mut self.queues[cpu.index()];
        queue.threads -= 1;
        queue.weight -= u64::from(weight);
        queue.buddies.clear(thread);
        self.note(cpu);
    }

    /// Removes the current thread of a CPU from its queue.
    fn take_off(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.update(cpu, now);
        self.remove(thread);
        let queue = &mut self.queues[cpu.index()];
        queue.current = None;
        queue.advance(&self.entities);
    }

    fn note(&mut self, cpu: CpuId) {
        let Queue { threads, weight, .. } = self.queues[cpu.index()];
        self.occupancy.note(cpu, weight as usize, if threads > 1 { weight as usize } else { 0 });
    }

    /// The difference in minimal virtual time between the queue of `cpu` and that of `than`.
    fn later(&mut self, cpu: CpuId, than: CpuId, now: Instant) -> i64 {
        self.update(than, now);
        self.update(cpu, now);
        self.queues[cpu.index()].min_vruntime - self.queues[than.index()].min_vruntime
    }

    /// Moves a thread that is in no queue to `cpu`, where virtual time is ahead by `later` and its
    /// cache is cold.
    fn migrate(&mut self, thread: ThreadId, cpu: CpuId, later: i64) {
        let entity = &mut self.entities[thread.index()];
        entity.vruntime += later;
        (entity.cpu, entity.last_ran) = (cpu, None);
    }

    /// How long a thread may run at a time in the queue of `cpu` (`sched_slice`). A thread that is
    /// not in the queue is counted, too.
    fn slice(&self, thread: ThreadId, cpu: CpuId) -> i64 {
        let entity = self.entity(thread);
        let queue = &self.queues[cpu.index()];
        let (threads, weight) = match entity.place.is_queued() {
            true => (queue.threads, queue.weight),
            false => (queue.threads + 1, queue.weight + u64::from(entity.weight)),
        };
        let period = if threads > self.crowd { threads as i64 * self.granularity } else { self.latency };
        let part = i128::from(period) * i128::from(entity.weight) / i128::from(weight);
        (part as i64).max(self.granularity)
    }

    /// Whether one thread is ahead of another by at most the wakeup granularity, in the virtual
    /// time of the other (`wakeup_preempt_entity`).
    fn is_fair(&self, ahead: ThreadId, behind: ThreadId) -> bool {
        let (ahead, behind) = (self.entity(ahead), self.entity(behind));
        ahead.vruntime - behind.vruntime <= behind.virtually(self.wakeup_granularity)
    }

    /// Compares a thread that has joined the queue of its CPU, or has gained weight there, with the
    /// current one, and notes the buddies. Returns whether it should preempt
    /// (`check_preempt_wakeup`). Not called if the CPU is already marked.
    fn check_preemption(&mut self, thread: ThreadId) -> bool {
        let cpu = self.entity(thread).cpu;
        let Some(current) = self.queues[cpu.index()].current else { return true };
        if self.is_fair(current, thread) {
            return false;
        }
        let is_full = self.queues[cpu.index()].threads >= self.crowd;
        let buddies = &mut self.queue(cpu).buddies;
        buddies.next = Some(thread);
        if is_full {
            buddies.last = Some(current);
        }
        true
    }

    /// Ends the slice of the current thread at a tick if it is over, and returns whether it is
    /// (`check_preempt_tick`).
    fn end_slice_if_over(&mut self, cpu: CpuId, now: Instant) -> bool {
        let queue = &self.queues[cpu.index()];
        let (Some(current), Some(least)) = (queue.current, queue.timeline.least()) else { return false };
        let (slice, ran) = (self.slice(current, cpu), now.since(queue.began).as_nanos() as i64);
        if ran > slice {
            self.queue(cpu).buddies.clear(current);
            return true;
        }
        ran >= self.granularity && self.entity(current).vruntime - least > slice
    }

    /// The thread that `cpu` should run: `current`, which it runs and which can continue, or a
    /// waiting one (`pick_next_entity`).
    fn best(&self, cpu: CpuId, current: Option<ThreadId>) -> Option<ThreadId> {
        let Queue { timeline, buddies, .. } = &self.queues[cpu.index()];
        // The earlier of the current thread and a waiting one; the waiting one if they are equal.
        let earlier = |waits: Option<ThreadId>| match (waits, current) {
            (Some(waits), Some(current)) if self.entity(current).vruntime < self.entity(waits).vruntime => {
                Some(current)
            }
            (waits, current) => waits.or(current),
        };
        let first = earlier(timeline.first())?;
        let is_fair = |thread: &ThreadId| self.is_fair(*thread, first);
        if let Some(buddy) = buddies.next.filter(is_fair).or(buddies.last.filter(is_fair)) {
            return Some(buddy);
        }
        if buddies.skip != Some(first) {
            return Some(first);
        }
        let second = if current == Some(first) { timeline.first() } else { earlier(timeline.second()) };
        second.filter(is_fair).or(Some(first))
    }
}

/// Placement of threads on CPUs.
impl Cfs {
    /// The CPU for a woken thread (`select_task_rq_fair`).
    fn cpu_to_wake_on(&mut self, thread: ThreadId, here: Option<CpuId>, now: Instant) -> CpuId {
        let previous = self.entity(thread).cpu;
        let waker = here.and_then(|here| Some(here).zip(self.queues[here.index()].current));
        let (domains, occupancy, affinity, loads) = (&self.domains, &self.occupancy, &self.affinity, &self.loads);
        self.wakeups.cpu_for(thread, previous, Scene { now, waker, domains, occupancy, affinity, loads })
    }
}

impl Scheduler for Cfs {
    fn looks_when_idle(&self) -> bool {
        false
    }

    fn moves(&self) -> bool {
        true
    }

    fn ready(&mut self, thread: ThreadId, why: ReadyReason, now: Instant, marks: &mut Marks) {
        match why {
            // It was counted during the switch.
            ReadyReason::Preempted | ReadyReason::Yielded => {
                self.update(self.entity(thread).cpu, now);
                return self.wait(thread);
            }
            ReadyReason::New => {
                let cpu = self.occupancy.emptiest_by_levels(&self.domains, self.affinity.of(thread));
                self.entities[thread.index()].cpu = cpu;
                self.wakeups.begin(thread, cpu);
                self.loads.begin(thread, now);
                self.update(cpu, now);
                let debit = self.entity(thread).virtually(self.slice(thread, cpu));
                self.entities[thread.index()].vruntime = self.queues[cpu.index()].min_vruntime + debit;
            }
            ReadyReason::Woken => {
                let cpu = self.cpu_to_wake_on(thread, marks.here(), now);
                let previous = self.entity(thread).cpu;
                let later = self.later(cpu, previous, now);
                if cpu != previous {
                    self.migrate(thread, cpu, later);
                }
                let (longest_idle, credit) = (2 * self.migration_cost.as_nanos() as i64, self.latency / 2);
                let queue = self.queue(cpu);
                queue.idle.end(now, longest_idle);
                let earliest = queue.min_vruntime - credit;
                let entity = &mut self.entities[thread.index()];
                entity.vruntime = entity.vruntime.max(earliest);
            }
            ReadyReason::Moved(to) => {
                let to = if self.affinity.is_allowed(thread, to) { to } else { self.entity(thread).cpu };
                let later = self.later(to, self.entity(thread).cpu, now);
                self.migrate(thread, to, later);
            }
        }
        self.enqueue(thread);
        let Entity { cpu, weight, .. } = *self.entity(thread);
        self.loads.join(thread, cpu, weight, now);
        if !marks.is_marked(cpu) && self.check_preemption(thread) {
            marks.mark(cpu);
        }
    }

    fn forget(&mut self, thread: ThreadId) {
        self.entities[thread.index()].last_ran = None;
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId> {
        self.update(cpu, now);
        if self.queues[cpu.index()].threads == 0 {
            self.queue(cpu).idle.since.get_or_insert(now);
            self.balance_newly_idle(cpu, now);
        }
        let best = self.best(cpu, current)?;
        if current == Some(best) {
            return current;
        }
        self.stop_waiting(best);
        let queue = &mut self.queues[cpu.index()];
        queue.begin(best, now, &self.entities);
        queue.buddies.clear(best);
        queue.idle.since = None;
        Some(best)
    }

    fn leave(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.take_off(cpu, thread, now);
        self.loads.leave(thread, now);
    }

    fn block(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.take_off(cpu, thread, now);
        self.loads.sleep(thread, now);
    }

    fn dequeue(&mut self, thread: ThreadId, now: Instant) {
        if self.entity(thread).place.is_waiting() {
            let cpu = self.entity(thread).cpu;
            self.update(cpu, now);
            self.stop_waiting(thread);
            self.remove(thread);
            self.queues[cpu.index()].advance(&self.entities);
            self.loads.leave(thread, now);
        }
    }

    fn note_yield(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.update(cpu, now);
        let queue = self.queue(cpu);
        if queue.threads > 1 {
            queue.buddies.clear(thread);
            queue.buddies.skip = Some(thread);
        }
    }

    fn alarm(&mut self, cpu: CpuId, now: Instant) -> Instant {
        self.ticks.next(cpu, now)
    }

    fn alarmed(&mut self, cpu: CpuId, now: Instant, marks: &mut Marks) -> Picks {
        self.update(cpu, now);
        let mut this_cpu = self.end_slice_if_over(cpu, now);
        this_cpu |= self.balance_busy(cpu, this_cpu, now);
        Picks { this_cpu, ..self.ask_for_help(cpu, now, marks) }
    }

    fn has_work_for(&self, cpu: CpuId) -> bool {
        !self.queues[cpu.index()].timeline.is_empty()
    }

    fn set_nice(&mut self, thread: ThreadId, nice: i8, now: Instant, marks: &mut Marks) {
        let Entity { cpu, weight: before, place, .. } = *self.entity(thread);
        let weight = nice::weight(nice) as u32;
        if weight == before {
            return;
        }
        if !place.is_queued() {
            self.entities[thread.index()].weight = weight;
            return;
        }
        self.update(cpu, now);
        self.loads.reweight(thread, weight, now);
        if place.is_waiting() {
            self.stop_waiting(thread);
        }
        self.remove(thread);
        self.entities[thread.index()].weight = weight;
        self.enqueue(thread);
        if !place.is_waiting() {
            self.stop_waiting(thread);
        }
        let is_current = self.queues[cpu.index()].current == Some(thread);
        if is_current {
            self.queues[cpu.index()].begin(thread, now, &self.entities);
        }
        if self.queues[cpu.index()].threads == 1 || marks.is_marked(cpu) {
            return;
        }
        if if is_current { weight < before } else { place.is_waiting() && self.check_preemption(thread) } {
            marks.mark(cpu);
        }
    }

    fn waiting(&self) -> usize {
        self.queues.iter().map(|queue| queue.timeline.len()).sum()
    }
}
