//! The CPU for a woken thread, as the fair schedulers of Linux choose it.
//!
//! Source: `kernel/sched/fair.c` of Linux 6.18 (functions named below). These functions decide the
//! same in 5.15.
//!
//! * **Attraction** (`select_task_rq_fair`, `wake_affine`): the thread goes to its own CPU, or is
//!   attracted to that of its waker. It is attracted if its own CPU is not idle
//!   (`wake_affine_idle`) and the waker's would have less load with it than its own has without it,
//!   by 8 %, or 5 % if both are of one core (`wake_affine_weight`), if it may run there.
//! * **Wide wakeups** (`wake_wide`, `record_wakee`): a thread is not attracted if one of the two,
//!   as a waker, often changes the thread that it wakes, and the other does, too. Every thread
//!   counts how often it wakes another thread than before (`wakee_flips`). The count is halved when
//!   the thread wakes one and that has not happened for more than a second. A wakeup is wide if the
//!   lower count is at least the number of CPUs of a node, and the higher one as many times that.
//! * **Idle CPUs** (`select_idle_sibling`): the thread goes to the first of these that is idle and
//!   of the node of the chosen CPU: that CPU, its own, the one that was its own at the last such
//!   search (`recent_used_cpu`), and the next ones after the chosen one (`select_idle_cpu`). If
//!   none is, it goes to the chosen one.
//! * **Idle cores**: if cores have several CPUs and a core of that node is idle, the next CPU after
//!   the chosen one whose core is idle comes before other ones (`select_idle_core`). If no core is
//!   idle, an idle CPU of the core of its own one comes first (`select_idle_smt`).
//!
//! How the rules were checked: function by function against the text of `fair.c` in trees of Linux
//! 6.18.2 and 5.15.100 (private copies, not the kernel's own repository). The second simulator,
//! written for tests from this text, agrees event by event.
//!
//! Deviations: no wakeup is synchronous (`WF_SYNC`), as those of futexes are not. A thread that the
//! device or a timer wakes has no waker, and stays. If a wait ends while the CPU switches away from
//! the thread, its waker is the incoming thread. The search for an idle CPU looks at all of them at
//! no cost (`SIS_PROP`, `SIS_UTIL`). The second since the last halving is counted in nanoseconds
//! and not in ticks. The recent CPU of a new thread is its first one, and in the kernel that of its
//! parent. Whether a core is idle is looked up, while the kernel keeps a hint (`has_idle_cores`).
//! 5.15.100 asks whether the thread may run on its own CPU where it should ask that of the recent
//! one; here, as in 6.18, the recent one is asked for.

use policy::{CpuId, Instant, Span, ThreadId};

use crate::kernels::affinity::Affinity;
use crate::kernels::domains::{Domains, others};
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
    memories: Vec<Memory>,
}

/// The knowledge of a kernel at a wakeup.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) now: Instant,
    /// The CPU of the event, and the thread there that wakes the other.
    pub(crate) waker: Option<(CpuId, ThreadId)>,
    pub(crate) domains: &'a Domains,
    pub(crate) occupancy: &'a Occupancy,
    pub(crate) affinity: &'a Affinity,
    pub(crate) loads: &'a Loads,
}

impl Wakeups {
    pub(crate) fn new(threads: usize) -> Wakeups {
        Wakeups { memories: vec![Memory::new(CpuId(0)); threads] }
    }

    /// A new thread begins on a CPU.
    pub(crate) fn begin(&mut self, thread: ThreadId, cpu: CpuId) {
        self.memories[thread.index()] = Memory::new(cpu);
    }

    /// The CPU for a thread that was on `previous`.
    pub(crate) fn cpu_for(&mut self, thread: ThreadId, previous: CpuId, scene: Scene<'_>) -> CpuId {
        let Scene { now, waker, domains, occupancy, affinity, loads } = scene;
        let size = domains.cpus_of_node();
        let here = waker.filter(|&(_, waker)| self.note(waker, thread, size, now)).map(|(here, _)| here);
        let may_go = |here: &CpuId| {
            *here != previous && !occupancy.free.contains(previous) && affinity.is_allowed(thread, *here)
        };
        let attracts = |here: &CpuId| {
            let percent = domains.imbalance_percent(*here, previous);
            loads.attracts(thread, *here, previous, percent, now)
        };
        let target = here.filter(may_go).filter(attracts).unwrap_or(previous);
        self.idle_cpu(thread, target, previous, scene)
    }

    /// Notes which thread wakes which, in a node of so many CPUs. Returns whether the thread can be
    /// attracted to the waker.
    fn note(&mut self, waker: ThreadId, thread: ThreadId, cpus: u32, now: Instant) -> bool {
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
        fewer < cpus || more < fewer * cpus
    }

    /// The first idle CPU among the candidates, if there is one, else the target.
    fn idle_cpu(&mut self, thread: ThreadId, target: CpuId, previous: CpuId, scene: Scene<'_>) -> CpuId {
        let Scene { domains, occupancy, affinity, .. } = scene;
        let is_free = |cpu: &CpuId| occupancy.free.contains(*cpu) && domains.share_cache(*cpu, target);
        if let Some(free) = [target, previous].into_iter().find(is_free) {
            return free;
        }
        let recent = std::mem::replace(&mut self.memories[thread.index()].recent, previous.0 as u16);
        let recent = CpuId(recent.into());
        if is_free(&recent) && affinity.is_allowed(thread, recent) {
            return recent;
        }
        if domains.has_siblings()
            && let Some(cpu) = of_idle_core_or_sibling(thread, target, previous, scene)
        {
            return cpu;
        }
        let node = domains.node(target);
        let next = |from: u32, end: u32| {
            let free = occupancy.free.first_at_or_after(CpuId(from), affinity.of(thread));
            free.filter(|cpu| cpu.0 < end)
        };
        next(target.0 + 1, node.end).or_else(|| next(node.start, target.0)).unwrap_or(target)
    }
}

/// A CPU of an idle core in the node of the target or, if no core there is idle, an idle CPU of the
/// core of `previous`.
fn of_idle_core_or_sibling(thread: ThreadId, target: CpuId, previous: CpuId, scene: Scene<'_>) -> Option<CpuId> {
    let Scene { domains, occupancy, affinity, .. } = scene;
    let is_idle = |cpu: u32| occupancy.free.contains(CpuId(cpu));
    let has_idle_core = |cpu: &CpuId| domains.core(*cpu).all(is_idle);
    let may_run = |cpu: &CpuId| affinity.is_allowed(thread, *cpu);
    if others(domains.node(target), target).any(|cpu| has_idle_core(&cpu)) {
        return others(domains.node(target), target).filter(may_run).find(has_idle_core);
    }
    let siblings = domains.core(previous).map(CpuId).filter(|_| domains.share_cache(previous, target));
    siblings.filter(may_run).find(|cpu| is_idle(cpu.0))
}

#[cfg(test)]
mod tests {
    use scenario::Machine;

    use super::*;

    #[test]
    fn a_memory_is_small() {
        assert!(size_of::<Memory>() <= 16, "{}", size_of::<Memory>());
    }

    #[test]
    fn a_wakeup_is_wide_if_a_waker_of_many_wakes_a_thread_that_wakes_several() {
        let [master, worker] = [ThreadId(0), ThreadId(1)];
        let mut wakeups = Wakeups::new(20);
        // Without a change, a thread that wakes one other thread is no waker of many.
        assert!((0..50).all(|_| wakeups.note(worker, master, 2, Instant::ZERO)));
        // The worker changes twice, and the master four times.
        wakeups.note(worker, ThreadId(2), 2, Instant::ZERO);
        for woken in 3..6 {
            assert!(wakeups.note(master, ThreadId(woken), 2, Instant::ZERO));
        }
        assert!(!wakeups.note(master, worker, 2, Instant::ZERO));
        // The counts are halved a second later, not before.
        assert!(!wakeups.note(master, worker, 2, Instant::ZERO + MEMORY));
        assert!(wakeups.note(master, worker, 2, Instant::ZERO + MEMORY + Span::from_nanos(1)));
    }

    /// A thread, which began on CPU 5 of a machine, chooses among CPUs of which some are occupied.
    fn chooser(topology: &str) -> impl FnMut(u32, u32, &[u32]) -> u32 {
        let topology: scenario::Topology = topology.parse().unwrap();
        let cpus = topology.cpus();
        let domains = Domains::new(&Machine { topology: Some(topology), ..Machine::with_cpus(cpus) });
        let mut wakeups = Wakeups::new(1);
        wakeups.begin(ThreadId(0), CpuId(5));
        let mut occupancy = Occupancy::new(cpus as usize);
        let (affinity, loads) = (Affinity::default(), Loads::new(cpus, 1));
        move |target, previous, occupied| {
            crate::cpu_ids(cpus as usize)
                .for_each(|cpu| occupancy.note(cpu, usize::from(occupied.contains(&cpu.0)), 0));
            let (now, waker) = (Instant::ZERO, None);
            let (domains, affinity, loads, occupancy) = (&domains, &affinity, &loads, &occupancy);
            let scene = Scene { now, waker, domains, occupancy, affinity, loads };
            wakeups.idle_cpu(ThreadId(0), CpuId(target), CpuId(previous), scene).0
        }
    }

    #[test]
    fn an_idle_core_comes_before_an_idle_sibling_and_neither_is_sought_in_another_node() {
        let mut choose = chooser("2x3x2");
        // The idle CPU 5 was recent; now CPU 0 is.
        assert_eq!(choose(0, 0, &[0, 2, 3]), 5);
        // The core of CPUs 4 and 5 is idle, and so are the siblings 1 and 3.
        assert_eq!(choose(0, 0, &[0, 2]), 4);
        // No core is idle: the sibling of the thread's own CPU.
        assert_eq!(choose(0, 2, &[0, 2, 4]), 3);
        // Its own CPU is in another node: the next one in this node.
        assert_eq!(choose(2, 8, &[0, 2, 4, 8]), 3);
        // No CPU of the node is idle.
        assert_eq!(choose(2, 2, &[0, 1, 2, 3, 4, 5]), 2);
        assert_eq!(choose(2, 8, &[0, 1, 2, 3, 4, 5]), 2);
    }

    #[test]
    fn a_thread_goes_to_the_chosen_cpu_its_own_the_recent_one_or_the_next_idle_one() {
        let mut choose = chooser("1x6x1");
        assert_eq!(choose(1, 2, &[]), 1);
        assert_eq!(choose(1, 2, &[1]), 2);
        assert_eq!(choose(1, 2, &[1, 2]), 5);
        // Now CPU 2 is the recent one.
        assert_eq!(choose(3, 4, &[3, 4]), 2);
        assert_eq!(choose(3, 1, &[1, 3, 4]), 5);
        assert_eq!(choose(3, 4, &[0, 1, 2, 3, 4, 5]), 3);
    }
}
