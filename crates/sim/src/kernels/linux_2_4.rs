//! Linux 2.4: one run queue for all CPUs, epochs, and goodness.
//!
//! Source: Tsafrir and Feitelson, section 2.3 and appendix A; for all else `kernel/sched.c` of
//! Linux 2.4.5 (functions named below). Quantities that are counted in ticks
//! are options of the scenario.
//!
//! * **Epochs.** In an epoch a thread may run for its *counter*, which falls while it runs. When
//!   every thread that could run has used up its counter, a new epoch begins: the counter of every
//!   thread, including blocked and running ones, becomes half of what is left of it, rounded down,
//!   plus the allocation.
//! * **Goodness.** Zero for a thread with an empty counter. Otherwise its counter, plus the penalty
//!   if it last ran on this CPU, plus the bonus if it shares the memory of the thread that ran here
//!   last. Threads of one `barrier` job share their memory; all others have their own.
//! * **`schedule`.** A CPU first weighs the thread that it runs, if that can continue, then the
//!   others in the order of the run queue. Only a strictly larger goodness wins. Woken threads
//!   enter the queue at its head. Running and preempted threads keep their place there. If the best
//!   counter is empty, a new epoch begins and all threads are weighed again. Without a ready thread
//!   the CPU becomes idle, and no epoch begins.
//! * **Wakeup.** A [scheme](policy::wakeup) marks CPUs for threads that are woken together. A CPU
//!   that switches is judged by its incoming thread. A preempted thread is offered in the same way
//!   when the switch away from it is over (`schedule_tail`; the option `tail`), unless it has
//!   yielded. An idle CPU only looks for work when it is marked. So the original scheme can leave
//!   CPUs idle beside ready threads.
//! * **Accounting.** Exact: a thread is charged for each nanosecond, including the refill of its
//!   cache and, with `charge_switch`, the switch to it. Tick: the thread that runs when the timer
//!   interrupts, at multiples of the tick on all CPUs, loses a tick.
//! * **Nice** (`NICE_TO_TICKS`): a thread's allocation is multiplied by 20 less its nice value,
//!   over 20, and is at least one tick. It changes with the next epoch, or from the start if the
//!   thread begins with that nice value. The kernel also adds one tick for every thread, and 20
//!   less the nice value to goodness; both are left out.
//! * **Affinity** (`cpus_allowed`, `can_schedule`): a CPU weighs only threads that may run there,
//!   and is marked only for those. A CPU that finds all of their counters empty begins an epoch for
//!   all threads, as the kernel does.
//! * **Yield** (`SCHED_YIELD`): the thread is worth less than any other in the next choice.
//!
//! Choices that the sources leave open: if a counter runs out during the switch, the CPU chooses
//! again when the switch is over. A CPU is idle from the moment at which it chose to be. At the
//! start all CPUs choose in the order of their numbers, and no thread has a last CPU. If a CPU's
//! thread runs out at the moment at which another CPU begins an epoch, the first CPU chooses again
//! nevertheless.
//!
//! **Performance.** The kernel scans its whole queue. Here the best thread is found by category.
//! The bonuses take four values, so the best thread is the best among all threads (one tournament,
//! keyed by counter and place in the queue), among those that last ran here (a short list), or
//! among those of the job that ran here last (a range of the tournament). Each of these is weighed
//! with its true goodness. Since a larger goodness within a category means a larger counter, none
//! is missed. If any thread is bound, all threads are weighed.

use std::ops::Range;

use policy::wakeup::{AddressSpace, Awakened, Cpu, CpuState, Cpus, Goodness, LONGEST, Weights};
use policy::{CpuId, Instant, Span, ThreadId};
use scenario::{Accounting, Machine};

use crate::engine::scheduler::{Marks, Picks, ReadyReason, Scheduler};
use crate::engine::winner::{Key, WinnerTree};
use crate::kernels::affinity::Affinity;
use crate::kernels::roster::Roster;

/// The scheduler's data of a thread.
#[derive(Clone, Copy, Debug)]
struct Task {
    /// The rest of its allocation; while it has a CPU, as of the last charge. Up to date if it is
    /// ready or has a CPU.
    counter: Span,
    /// The epochs that the counter has seen.
    epochs: u64,
    /// The time that it gets in each epoch.
    allocation: Span,
    /// Its place in the run queue: smaller is nearer to the head.
    rank: i64,
    last_cpu: Option<CpuId>,
    space: AddressSpace,
    /// While it is ready: its place in the list of the threads that last ran on its CPU.
    place: usize,
    is_ready: bool,
}

/// The scheduler's data of a CPU that wakeup schemes do not see.
#[derive(Clone, Copy, Debug, Default)]
struct CpuData {
    current: Option<ThreadId>,
    /// Whether the switch to the current thread is over.
    is_running: bool,
    has_yielded: bool,
    /// The thread's allocation ran out at this moment, but another CPU's new epoch has refilled it.
    ran_out: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Linux24 {
    machine: Machine,
    weights: Weights,
    allocation: Span,
    /// A tick: the smallest allocation.
    least: Span,
    unit: Span,
    tasks: Vec<Task>,
    affinity: Affinity,
    /// The threads of each address space, which have consecutive numbers.
    spaces: Vec<Range<usize>>,
    cpus: Cpus,
    locals: Vec<CpuData>,
    /// The ready threads, the largest counter first; of equal ones, the one nearest to the head.
    ready: WinnerTree<u128>,
    /// The ready threads by the CPU on which they last ran, and in one more list those that never
    /// ran.
    ready_by_cpu: Vec<Vec<ThreadId>>,
    next_tail: i64,
    next_head: i64,
    /// The epochs that have begun.
    epochs: u64,
}

impl Task {
    /// Halves and refills the counter in each epoch that it has not seen.
    fn refill(&mut self, epochs: u64, unit: Span) {
        while self.epochs < epochs {
            let before = self.counter;
            self.counter = Span::from_nanos(before.as_nanos() / 2).floor_to(unit) + self.allocation;
            // After a few epochs it stands still.
            self.epochs = if self.counter == before { epochs } else { self.epochs + 1 };
        }
    }
}

impl Linux24 {
    pub(crate) fn new(machine: &Machine, roster: &Roster) -> Linux24 {
        let options = machine.linux_2_4;
        let ticks = |count: u32| machine.tick.scaled(1000 * u64::from(count)).min(LONGEST);
        let unit = match options.accounting {
            Accounting::Exact => machine.step,
            Accounting::Tick => machine.tick,
        };
        let allocation = ticks(options.allocation).floor_to(unit);
        let (least, penalty) = (ticks(1).floor_to(unit), ticks(options.penalty));
        let mut tasks = Vec::with_capacity(roster.len());
        let mut ranges = Vec::with_capacity(roster.address_spaces().count());
        for (space, threads) in (0..).zip(roster.address_spaces()) {
            ranges.push(tasks.len()..tasks.len() + threads as usize);
            let first = tasks.len() as u32;
            tasks.extend((first..first + threads).map(|thread| {
                let nice = roster.attributes(ThreadId(thread)).nice;
                let (allocation, space) = (share(allocation, nice).floor_to(unit).max(least), AddressSpace(space));
                Task {
                    counter: allocation,
                    epochs: 0,
                    allocation,
                    rank: 0,
                    last_cpu: None,
                    space,
                    place: 0,
                    is_ready: false,
                }
            }));
        }
        let cpus = machine.cpus as usize;
        let idle = Cpu { state: CpuState::Idle { since: Instant::ZERO }, last_space: None, marked: false };
        Linux24 {
            machine: *machine,
            weights: Weights { penalty, bonus: ticks(options.bonus), threshold: ticks(options.threshold) },
            allocation,
            least,
            unit,
            ready: WinnerTree::new(tasks.len()),
            tasks,
            affinity: Affinity::new(machine, roster),
            spaces: ranges,
            cpus: vec![idle; cpus].into(),
            locals: vec![CpuData::default(); cpus],
            ready_by_cpu: vec![Vec::new(); cpus + 1],
            next_tail: 0,
            next_head: -1,
            epochs: 0,
        }
    }

    /// The moment up to which charging has noticed time: with tick accounting, the last interrupt.
    #[inline]
    fn noticed(&self, now: Instant) -> Instant {
        match self.machine.linux_2_4.accounting {
            Accounting::Exact => now,
            Accounting::Tick => Instant::ZERO + now.since(Instant::ZERO).floor_to(self.unit),
        }
    }

    /// The key of a ready thread in the tournament.
    fn key(task: &Task) -> u128 {
        // The larger counter comes first. The order of ranks also holds for the unsigned numbers.
        let place = (task.rank as u64) ^ (1 << 63);
        u128::from(!task.counter.as_nanos()) << 64 | u128::from(place)
    }

    /// Makes a thread ready.
    fn insert(&mut self, thread: ThreadId) {
        let task = &mut self.tasks[thread.index()];
        task.refill(self.epochs, self.unit);
        task.is_ready = true;
        self.ready.set(thread.index(), Self::key(task));
        let list = &mut self.ready_by_cpu[task.last_cpu.map_or(self.locals.len(), CpuId::index)];
        task.place = list.len();
        list.push(thread);
    }

    fn remove(&mut self, thread: ThreadId) {
        let task = &mut self.tasks[thread.index()];
        task.is_ready = false;
        let (cpu, place) = (task.last_cpu, task.place);
        self.ready.set(thread.index(), u128::NEVER);
        let list = &mut self.ready_by_cpu[cpu.map_or(self.locals.len(), CpuId::index)];
        list.swap_remove(place);
        if let Some(moved) = list.get(place) {
            self.tasks[moved.index()].place = place;
        }
    }

    #[inline]
    fn goodness(&self, thread: ThreadId, cpu: CpuId) -> Goodness {
        let task = &self.tasks[thread.index()];
        let shares = self.cpus[cpu.index()].last_space == Some(task.space);
        self.weights.goodness(task.counter, task.last_cpu == Some(cpu), shares)
    }

    /// [The best thread](Self::best) if threads are bound: among all that may run there.
    fn best_of_all(&self, cpu: CpuId) -> Option<(Goodness, ThreadId)> {
        let threads = (0..self.tasks.len() as u32).map(ThreadId);
        let may_run = |thread: &ThreadId| self.tasks[thread.index()].is_ready && self.affinity.is_allowed(*thread, cpu);
        let nearest_first = |thread: ThreadId| std::cmp::Reverse(self.tasks[thread.index()].rank);
        let weighed = threads.filter(may_run).map(|thread| (self.goodness(thread, cpu), thread));
        weighed.max_by_key(|&(goodness, thread)| (goodness, nearest_first(thread)))
    }

    /// The best ready thread for a CPU, and its goodness.
    fn best(&self, cpu: CpuId) -> Option<(Goodness, ThreadId)> {
        if !self.affinity.is_unrestricted() {
            return self.best_of_all(cpu);
        }
        let (first, key) = self.ready.winner();
        if key == u128::NEVER {
            return None;
        }
        let first = ThreadId(first as u32);
        let mut best = (self.goodness(first, cpu), first);
        let mut weigh = |thread: ThreadId| {
            let goodness = self.goodness(thread, cpu);
            let rank = |thread: ThreadId| self.tasks[thread.index()].rank;
            if goodness > best.0 || (goodness == best.0 && rank(thread) < rank(best.1)) {
                best = (goodness, thread);
            }
        };
        self.ready_by_cpu[cpu.index()].iter().for_each(|&thread| weigh(thread));
        if let Some(AddressSpace(space)) = self.cpus[cpu.index()].last_space {
            let (sibling, key) = self.ready.winner_of(self.spaces[space as usize].clone());
            if key != u128::NEVER {
                weigh(ThreadId(sibling as u32));
            }
        }
        Some(best)
    }

    /// Begins an epoch: halves and refills the counters of all threads. Those that neither are ready
    /// nor have a CPU follow when they become ready.
    fn begin_epoch(&mut self, now: Instant) {
        let seen = self.noticed(now);
        for (cpu, local) in self.cpus.iter().zip(&mut self.locals) {
            let (Some(thread), CpuState::Thread { spent, .. }) = (local.current, cpu.state) else { continue };
            let task = &mut self.tasks[thread.index()];
            task.counter = cpu.state.counter(seen).unwrap_or(task.counter);
            local.ran_out |= local.is_running && spent <= seen;
        }
        self.epochs += 1;
        let (tasks, epochs, unit) = (&mut self.tasks, self.epochs, self.unit);
        let ready = self.ready_by_cpu.iter().map(Vec::len).sum();
        self.ready.set_some(
            ready,
            self.ready_by_cpu.iter().flatten().map(|thread| {
                let task = &mut tasks[thread.index()];
                task.refill(epochs, unit);
                (thread.index(), Self::key(task))
            }),
        );
        for (number, local) in self.locals.iter().enumerate() {
            if let (Some(thread), CpuState::Thread { charged_from, .. }) = (local.current, self.cpus[number].state) {
                let task = &mut self.tasks[thread.index()];
                task.refill(epochs, unit);
                let charged_from = seen.max(charged_from);
                let spent = charged_from + task.counter;
                self.cpus.set_state(number, CpuState::Thread { charged_from, spent });
            }
        }
    }

    /// Charges the current thread of a CPU from a moment on.
    fn charge_from(&mut self, cpu: CpuId, thread: ThreadId, from: Instant) {
        let charged_from = self.noticed(from);
        let spent = charged_from + self.tasks[thread.index()].counter;
        self.cpus.set_state(cpu.index(), CpuState::Thread { charged_from, spent });
    }

    /// Stores the rest of the counter of a CPU's current thread.
    fn store_counter(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        if let Some(counter) = self.cpus[cpu.index()].state.counter(self.noticed(now)) {
            self.tasks[thread.index()].counter = counter;
        }
    }

    /// Marks CPUs for threads that became ready together (`reschedule_idle` for each).
    fn reschedule_idle(&mut self, threads: &[ThreadId], now: Instant, marks: &mut Marks) {
        let awakened = |thread: &ThreadId| {
            let Task { counter, last_cpu, space, .. } = self.tasks[thread.index()];
            Awakened { counter, last_cpu, space, cpus: self.affinity.of(*thread) }
        };
        let now = self.noticed(now);
        let scheme = self.machine.linux_2_4.wakeup;
        if let [one] = threads {
            scheme.mark(&self.weights, now, &[awakened(one)], &mut self.cpus, |cpu| marks.mark(cpu));
        } else {
            let awakened: Vec<Awakened<'_>> = threads.iter().map(awakened).collect();
            scheme.mark(&self.weights, now, &awakened, &mut self.cpus, |cpu| marks.mark(cpu));
        }
    }

    fn insert_at_head(&mut self, thread: ThreadId) {
        self.tasks[thread.index()].rank = self.next_head;
        self.next_head -= 1;
        self.insert(thread);
    }
}

/// A thread's allocation by its nice value.
fn share(allocation: Span, nice: i8) -> Span {
    // In thousandths: each nice value is a twentieth.
    allocation.scaled(50 * (20 - i64::from(nice.clamp(-20, 19))) as u64)
}

impl Scheduler for Linux24 {
    fn looks_when_idle(&self) -> bool {
        false
    }

    // The epochs of one CPU can refill a thread on another one before or as it is used up, again
    // and again.
    fn can_starve(&self) -> bool {
        true
    }

    fn ready(&mut self, thread: ThreadId, why: ReadyReason, now: Instant, marks: &mut Marks) {
        match why {
            // `fork` wakes the new process.
            ReadyReason::New if now > Instant::ZERO => {
                let task = &mut self.tasks[thread.index()];
                // Earlier epochs have given it nothing.
                (task.counter, task.epochs) = (task.allocation, self.epochs);
                self.woken(&[thread], now, marks);
            }
            ReadyReason::New => {
                self.tasks[thread.index()].rank = self.next_tail;
                self.next_tail += 1;
                self.insert(thread);
            }
            ReadyReason::Woken => self.woken(&[thread], now, marks),
            ReadyReason::Preempted | ReadyReason::Yielded | ReadyReason::Moved(_) => {
                self.insert(thread);
                if self.machine.linux_2_4.tail && why == ReadyReason::Preempted {
                    self.reschedule_idle(&[thread], now, marks);
                }
            }
        }
    }

    fn woken(&mut self, threads: &[ThreadId], now: Instant, marks: &mut Marks) {
        threads.iter().for_each(|&thread| self.insert_at_head(thread));
        self.reschedule_idle(threads, now, marks);
    }

    fn pick(&mut self, cpu: CpuId, current: Option<ThreadId>, now: Instant) -> Option<ThreadId> {
        let number = cpu.index();
        self.cpus.unmark(number);
        let was_idle = matches!(self.cpus[number].state, CpuState::Idle { .. });
        let has_yielded = std::mem::take(&mut self.locals[number].has_yielded);
        self.locals[number].ran_out = false;
        if let Some(current) = current {
            self.store_counter(cpu, current, now);
        }
        let weigh = |scheduler: &Self| {
            let own = current
                .map(|thread| (if has_yielded { Goodness(-1) } else { scheduler.goodness(thread, cpu) }, thread));
            match (own, scheduler.best(cpu)) {
                (Some(own), Some(other)) => Some(if other.0 > own.0 { other } else { own }),
                (own, other) => own.or(other),
            }
        };
        let mut best = weigh(self);
        if let Some((Goodness(0), _)) = best {
            self.begin_epoch(now);
            self.locals[number].ran_out = false;
            best = weigh(self);
        }
        let next = best.map(|(_, thread)| thread);
        match next {
            None if was_idle => {}
            None => {
                self.locals[number].current = None;
                self.cpus.set_state(number, CpuState::Idle { since: now });
            }
            // Charged as before, for the rest of the counter.
            Some(thread) if next == current => self.charge_from(cpu, thread, now),
            Some(thread) => {
                self.remove(thread);
                self.tasks[thread.index()].last_cpu = Some(cpu);
                self.cpus.set_last_space(number, self.tasks[thread.index()].space);
                self.locals[number] = CpuData { current: next, ..CpuData::default() };
                // No thread pays for waking the CPU.
                let Machine { wakeup_cost, context_switch, linux_2_4, .. } = self.machine;
                let waking = if was_idle { wakeup_cost } else { Span::ZERO };
                let switch = if linux_2_4.charge_switch { Span::ZERO } else { context_switch };
                self.charge_from(cpu, thread, now + waking + switch);
            }
        }
        next
    }

    fn leave(&mut self, cpu: CpuId, thread: ThreadId, now: Instant) {
        self.store_counter(cpu, thread, now);
        self.locals[cpu.index()].current = None;
    }

    fn dequeue(&mut self, thread: ThreadId, _: Instant) {
        if self.tasks[thread.index()].is_ready {
            self.remove(thread);
        }
    }

    fn note_yield(&mut self, cpu: CpuId, _: ThreadId, _: Instant) {
        self.locals[cpu.index()].has_yielded = true;
    }

    fn alarm(&mut self, cpu: CpuId, now: Instant) -> Instant {
        self.locals[cpu.index()].is_running = true;
        match self.cpus[cpu.index()].state {
            CpuState::Thread { spent, .. } => spent.max(now),
            CpuState::Idle { .. } => now,
        }
    }

    fn alarmed(&mut self, cpu: CpuId, now: Instant, _: &mut Marks) -> Picks {
        // A new epoch may have refilled the counter since the alarm was set.
        let counter = self.cpus[cpu.index()].state.counter(self.noticed(now));
        let is_spent = counter.is_none_or(Span::is_zero);
        Picks { this_cpu: is_spent || self.locals[cpu.index()].ran_out, ..Picks::default() }
    }

    fn set_nice(&mut self, thread: ThreadId, nice: i8, _: Instant, _: &mut Marks) {
        let task = &mut self.tasks[thread.index()];
        task.refill(self.epochs, self.unit);
        task.allocation = share(self.allocation, nice).floor_to(self.unit).max(self.least);
    }

    fn waiting(&self) -> usize {
        self.tasks.iter().filter(|task| task.is_ready).count()
    }
}
