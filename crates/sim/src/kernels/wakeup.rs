//! The CPU for a woken thread, as the fair schedulers of Linux choose it.
//!
//! Source: `kernel/sched/fair.c` of Linux 6.18 (functions named below). These functions decide the
//! same in 5.15.
//!
//! * **Attraction** (`select_task_rq_fair`, `wake_affine`): the thread goes to its own CPU, or is
//!   attracted to that of its waker. It is attracted if its own CPU is not idle
//!   (`wake_affine_idle`) and the waker's would have less load with it than its own has without it,
//!   by 8 % (`wake_affine_weight`), if it may run there.
//! * **Wide wakeups** (`wake_wide`, `record_wakee`): a thread is not attracted if one of the two,
//!   as a waker, often changes the thread that it wakes, and the other does, too. Every thread counts how
//!   often it wakes another thread than before (`wakee_flips`). The count is halved when the thread
//!   wakes one and that has not happened for more than a second. A wakeup is wide if the lower
//!   count is at least the number of CPUs, and the higher one as many times that.
//! * **Idle CPUs** (`select_idle_sibling`): the thread goes to the first of these that is idle: the
//!   chosen CPU, its own, the one that was its own at the last such search (`recent_used_cpu`), and
//!   the next ones after the chosen one (`select_idle_cpu`). If none is, it goes to the chosen one.
//!
//! How the rules were checked: function by function against the text of `fair.c` in trees of Linux
//! 6.18.2 and 5.15.100 (private copies, not the kernel's own repository). The second simulator,
//! written for tests from this text, agrees event by event.
//!
//! Deviations: no wakeup is synchronous (`WF_SYNC`), as those of futexes are not. A thread that the
//! device or a timer wakes has no waker, and stays. If a wait ends while the CPU switches away from
//! the thread, its waker is the incoming thread. The search for an idle CPU looks at all of them at
//! no cost (`SIS_PROP`, `SIS_UTIL`). The second since the last halving is counted in nanoseconds and
//! not in ticks. The recent CPU of a new thread is its first one, and in the kernel that of its
//! parent. 5.15.100 asks whether the thread may run on its own CPU where it should ask that of the
//! recent one; here, as in 6.18, the recent one is asked for.

use policy::{CpuId, Instant, Span, ThreadId};

use crate::kernels::affinity::Affinity;
use crate::kernels::load::Loads;
use crate::kernels::occupancy::Occupancy;

/// The period after which the count of changes is halved (`HZ`).
const MEMORY: Span = Span::from_millis(1_000);

const NO_THREAD: u32 = u32::MAX;

/// The memory of a thread. Small, because a run may have a hundred thousand.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// When its changes were halved.
    halved: Instant,
    /// The thread that it last woke, and how often that was another one than before.
    woke: u32,
    changes: u16,
    /// The CPU that was its own at the last search for an idle one.
    recent: u16,
}

impl Memory {
    /// That of a thread that begins on this CPU.
    fn new(cpu: CpuId) -> Memory {
        Memory { halved: Instant::ZERO, woke: NO_THREAD, changes: 0, recent: cpu.0 as u16 }
    }
}

/// The memory of all threads.
#[derive(Clone, Debug)]
pub(crate) struct Wakeups {
    cpus: u32,
    memories: Vec<Memory>,
}

impl Wakeups {
    pub(crate) fn new(cpus: u32, threads: usize) -> Wakeups {
        Wakeups { cpus, memories: vec![Memory::new(CpuId(0)); threads] }
    }

    /// A new thread begins on a CPU.
    pub(crate) fn begin(&mut self, thread: ThreadId, cpu: CpuId) {
        self.memories[thread.index()] = Memory::new(cpu);
    }

    /// The CPU for a thread that was on `previous`.
    #[expect(clippy::too_many_arguments, reason = "all of it is one decision")]
    pub(crate) fn cpu_for(
        &mut self,
        thread: ThreadId,
        previous: CpuId,
        waker: Option<(CpuId, ThreadId)>,
        now: Instant,
        occupancy: &Occupancy,
        affinity: &Affinity,
        loads: &Loads,
    ) -> CpuId {
        let here = waker.filter(|&(_, waker)| self.note(waker, thread, now)).map(|(here, _)| here);
        let may_go = |here: &CpuId| {
            *here != previous && !occupancy.free.contains(previous) && affinity.is_allowed(thread, *here)
        };
        let target =
            here.filter(may_go).filter(|&here| loads.attracts(thread, here, previous, now)).unwrap_or(previous);
        self.idle_cpu(thread, target, previous, occupancy, affinity)
    }

    /// Notes which thread wakes which. Returns whether the thread can be attracted to the waker.
    fn note(&mut self, waker: ThreadId, thread: ThreadId, now: Instant) -> bool {
        let memory = &mut self.memories[waker.index()];
        if now.since(memory.halved) > MEMORY {
            (memory.changes, memory.halved) = (memory.changes / 2, now);
        }
        if memory.woke != thread.0 {
            memory.woke = thread.0;
            memory.changes = memory.changes.saturating_add(1);
        }
        let [one, other] = [waker, thread].map(|thread| u32::from(self.memories[thread.index()].changes));
        let (fewer, more) = (one.min(other), one.max(other));
        fewer < self.cpus || more < fewer * self.cpus
    }

    /// The first idle CPU among the candidates, if there is one, else the target.
    fn idle_cpu(
        &mut self,
        thread: ThreadId,
        target: CpuId,
        previous: CpuId,
        occupancy: &Occupancy,
        affinity: &Affinity,
    ) -> CpuId {
        let is_free = |cpu: &CpuId| occupancy.free.contains(*cpu);
        if let Some(free) = [target, previous].into_iter().find(is_free) {
            return free;
        }
        let recent = std::mem::replace(&mut self.memories[thread.index()].recent, previous.0 as u16);
        let recent = CpuId(recent.into());
        if is_free(&recent) && affinity.is_allowed(thread, recent) {
            return recent;
        }
        let next = CpuId((target.0 + 1) % self.cpus);
        occupancy.free.first_from(next, affinity.of(thread)).unwrap_or(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_small() {
        assert!(size_of::<Memory>() <= 16, "{}", size_of::<Memory>());
    }

    #[test]
    fn a_wakeup_is_wide_if_a_waker_of_many_wakes_a_thread_that_wakes_several() {
        let [master, worker] = [ThreadId(0), ThreadId(1)];
        let mut wakeups = Wakeups::new(2, 20);
        // Without a change, a thread that wakes one other thread is no waker of many.
        assert!((0..50).all(|_| wakeups.note(worker, master, Instant::ZERO)));
        // The worker changes twice, and the master four times.
        wakeups.note(worker, ThreadId(2), Instant::ZERO);
        for woken in 3..6 {
            assert!(wakeups.note(master, ThreadId(woken), Instant::ZERO));
        }
        assert!(!wakeups.note(master, worker, Instant::ZERO));
        // The counts are halved a second later, not before.
        assert!(!wakeups.note(master, worker, Instant::ZERO + MEMORY));
        assert!(wakeups.note(master, worker, Instant::ZERO + MEMORY + Span::from_nanos(1)));
    }

    #[test]
    fn a_thread_goes_to_the_chosen_cpu_its_own_the_recent_one_or_the_next_idle_one() {
        let thread = ThreadId(0);
        let affinity = Affinity::default();
        let mut wakeups = Wakeups::new(6, 1);
        wakeups.begin(thread, CpuId(5));
        let mut occupancy = Occupancy::new(6);
        let mut choose = |target, previous, occupied: &[u32]| {
            crate::cpu_ids(6).for_each(|cpu| occupancy.note(cpu, usize::from(occupied.contains(&cpu.0)), 0));
            wakeups.idle_cpu(thread, CpuId(target), CpuId(previous), &occupancy, &affinity).0
        };
        assert_eq!(choose(1, 2, &[]), 1);
        assert_eq!(choose(1, 2, &[1]), 2);
        assert_eq!(choose(1, 2, &[1, 2]), 5);
        // Now CPU 2 is the recent one.
        assert_eq!(choose(3, 4, &[3, 4]), 2);
        assert_eq!(choose(3, 1, &[1, 3, 4]), 5);
        assert_eq!(choose(3, 4, &[0, 1, 2, 3, 4, 5]), 3);
    }
}
