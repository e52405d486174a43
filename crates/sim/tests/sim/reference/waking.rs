//! The CPU for a woken thread under `cfs` and `eevdf`, by the rules at the head of
//! `sim::kernels::wakeup`.

use crate::reference::load::Loads;
use crate::reference::topology::Topology;
use crate::reference::world::{Cpu, Thread};

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Default)]
struct Memory {
    last_woken: Option<Thread>,
    changes: u64,
    halved: u64,
    recent: Cpu,
}

#[derive(Default)]
pub(crate) struct Waking(Vec<Memory>);

/// What a kernel knows at a wakeup.
pub(crate) struct Scene<'a> {
    pub(crate) now: u64,
    pub(crate) previous: Cpu,
    pub(crate) waker: Option<(Cpu, Thread)>,
    pub(crate) loads: &'a Loads,
    pub(crate) topology: &'a Topology,
    pub(crate) is_free: Vec<bool>,
    pub(crate) may_run: &'a dyn Fn(Cpu) -> bool,
}

impl Waking {
    fn memory(&mut self, thread: Thread) -> &mut Memory {
        if self.0.len() <= thread {
            self.0.resize(thread + 1, Memory::default());
        }
        &mut self.0[thread]
    }

    pub(crate) fn begin(&mut self, thread: Thread, cpu: Cpu) {
        *self.memory(thread) = Memory { recent: cpu, ..Memory::default() };
    }

    pub(crate) fn cpu_for(&mut self, thread: Thread, scene: &Scene<'_>) -> Cpu {
        let (cpus, loads, topology) = (scene.is_free.len(), scene.loads, scene.topology);
        let mut target = scene.previous;
        if let Some((here, waker)) = scene.waker
            && !self.is_wide(waker, thread, topology.cpus_of_node() as u64, scene.now)
            && (scene.may_run)(here)
            && !scene.is_free[scene.previous]
            && here != scene.previous
        {
            let percent =
                if topology.has_siblings() && topology.are_one_core(here, scene.previous) { 105 } else { 108 };
            let with = loads.of_cpu(here) + loads.of_sleeping(thread);
            if 100 * with < percent * loads.without(thread, scene.previous) {
                target = here;
            }
        }
        let is_near_and_free = |cpu: Cpu| scene.is_free[cpu] && topology.are_one_node(cpu, target);
        let mut candidates = vec![target, scene.previous];
        if candidates.iter().all(|&cpu| !is_near_and_free(cpu)) {
            candidates.push(self.memory(thread).recent);
            self.memory(thread).recent = scene.previous;
        }
        let next: Vec<Cpu> = (1..cpus).map(|offset| (target + offset) % cpus).collect();
        if topology.has_siblings() {
            let is_core_idle = |cpu: &Cpu| topology.core(*cpu).into_iter().all(|cpu| scene.is_free[cpu]);
            if topology.node(target).iter().any(is_core_idle) {
                candidates.extend(next.iter().copied().filter(is_core_idle));
            } else if topology.are_one_node(scene.previous, target) {
                candidates.extend(topology.core(scene.previous));
            }
        }
        candidates.extend(next);
        candidates.into_iter().find(|&cpu| is_near_and_free(cpu) && (scene.may_run)(cpu)).unwrap_or(target)
    }

    /// Counts the wakeup, and says whether both are wakers of many.
    fn is_wide(&mut self, waker: Thread, woken: Thread, cpus: u64, now: u64) -> bool {
        let memory = self.memory(waker);
        if now > memory.halved + SECOND {
            memory.changes /= 2;
            memory.halved = now;
        }
        if memory.last_woken != Some(woken) {
            memory.last_woken = Some(woken);
            memory.changes += 1;
        }
        let (one, other) = (self.memory(waker).changes, self.memory(woken).changes);
        one.min(other) >= cpus && one.max(other) >= one.min(other) * cpus
    }
}
