//! The CPU for a woken thread under `cfs` and `eevdf`, by the rules at the head of
//! `sim::kernels::wakeup`.

use crate::reference::load::Loads;
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
        let (cpus, loads) = (scene.is_free.len(), scene.loads);
        let mut target = scene.previous;
        if let Some((here, waker)) = scene.waker
            && !self.is_wide(waker, thread, cpus as u64, scene.now)
            && (scene.may_run)(here)
            && !scene.is_free[scene.previous]
            && here != scene.previous
            && 100 * (loads.of_cpu(here) + loads.of_sleeping(thread)) < 108 * loads.without(thread, scene.previous)
        {
            target = here;
        }
        let mut candidates = vec![target, scene.previous];
        if candidates.iter().all(|&cpu| !scene.is_free[cpu]) {
            candidates.push(self.memory(thread).recent);
            self.memory(thread).recent = scene.previous;
        }
        candidates.extend((1..cpus).map(|offset| (target + offset) % cpus));
        candidates.into_iter().find(|&cpu| scene.is_free[cpu] && (scene.may_run)(cpu)).unwrap_or(target)
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
