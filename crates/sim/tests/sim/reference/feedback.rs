//! A multi-level feedback queue: a list for each level, and the used time of each thread, counted
//! step by step.

use policy::feedback::Boost;
use rowlock_sim::observer::CpuState;
use rowlock_sim::scheduler::ReadyReason;
use scenario::Machine;

use crate::reference::affinity::Affinity;
use crate::reference::kernel::Kernel;
use crate::reference::machine::in_steps;
use crate::reference::world::{Cpu, Thread, World};

pub(crate) struct Feedback {
    affinity: Affinity,
    running_time: u64,
    boost: Option<u64>,
    /// The waiting threads of each level, in order. A thread for which an idle CPU is reserved is
    /// not among them.
    lists: Vec<Vec<Thread>>,
    level: Vec<usize>,
    /// How many steps of the time at its level each thread has used.
    used: Vec<u64>,
    kept_for: Vec<Option<Thread>>,
    /// CPUs that were marked and have not scheduled yet.
    told: Vec<bool>,
    /// CPUs that have become idle and not looked for work since.
    has_to_look: Vec<bool>,
    /// CPUs whose thread has used up its time since it was chosen.
    turn_is_over: Vec<bool>,
}

impl Feedback {
    pub(crate) fn new(machine: &Machine, affinity: Affinity, threads: usize) -> Feedback {
        let steps = |span| in_steps(span, machine.step).max(1);
        let cpus = machine.cpus as usize;
        Feedback {
            affinity,
            running_time: steps(machine.feedback.running_time),
            boost: match machine.feedback.boost {
                Boost::Every(period) => Some(steps(period)),
                Boost::Never => None,
            },
            lists: vec![Vec::new(); machine.feedback.levels as usize],
            level: vec![0; threads],
            used: vec![0; threads],
            kept_for: vec![None; cpus],
            told: vec![false; cpus],
            has_to_look: vec![false; cpus],
            turn_is_over: vec![false; cpus],
        }
    }

    /// The first thread that waits at the highest level and may run on a CPU, and that level.
    fn first_for(&self, cpu: Cpu) -> Option<(usize, Thread)> {
        for (level, list) in self.lists.iter().enumerate() {
            for &thread in list {
                if self.affinity.is_allowed(thread, cpu) {
                    return Some((level, thread));
                }
            }
        }
        None
    }

    /// A thread that has used up its time falls a level.
    fn lower_if_due(&mut self, thread: Thread) -> bool {
        let is_due = self.used[thread] >= self.running_time;
        if is_due {
            self.used[thread] = 0;
            self.level[thread] = (self.level[thread] + 1).min(self.lists.len() - 1);
        }
        is_due
    }

    fn tell_a_cpu(&mut self, world: &World, thread: Thread) {
        let mut found: Option<(usize, Cpu)> = None;
        for cpu in 0..world.cpus.len() {
            if self.told[cpu] || self.kept_for[cpu].is_some() || !self.affinity.is_allowed(thread, cpu) {
                continue;
            }
            let level = world.thread_on(cpu).map_or(usize::MAX, |other| self.level[other]);
            if level > self.level[thread] && found.is_none_or(|(lowest, _)| level > lowest) {
                found = Some((level, cpu));
            }
        }
        if let Some((_, cpu)) = found {
            self.told[cpu] = true;
        }
    }
}

impl Kernel for Feedback {
    fn pass_step(&mut self, world: &World) {
        for cpu in 0..world.cpus.len() {
            if let Some(thread) = world.running_on(cpu) {
                self.used[thread] += 1;
            }
        }
        if self.boost.is_some_and(|boost| world.now.is_multiple_of(boost)) {
            self.level.fill(0);
            let all = self.lists.concat();
            self.lists.fill(Vec::new());
            self.lists[0] = all;
        }
    }

    fn ready(&mut self, world: &World, threads: &[Thread], why: ReadyReason) {
        for &thread in threads {
            let idles = |&cpu: &Cpu| {
                world.cpus[cpu].state == CpuState::Idle && !self.has_to_look[cpu] && self.kept_for[cpu].is_none()
            };
            let idle = (0..world.cpus.len()).filter(idles).find(|&cpu| self.affinity.is_allowed(thread, cpu));
            if let Some(cpu) = idle {
                self.kept_for[cpu] = Some(thread);
                continue;
            }
            let list = &mut self.lists[self.level[thread]];
            if why == ReadyReason::Preempted && self.used[thread] > 0 {
                list.insert(0, thread);
            } else {
                list.push(thread);
            }
            self.tell_a_cpu(world, thread);
        }
    }

    fn schedule(&mut self, _world: &World, cpu: Cpu, previous: Option<Thread>) -> Option<Thread> {
        self.told[cpu] = false;
        self.has_to_look[cpu] = false;
        let mut is_over = std::mem::take(&mut self.turn_is_over[cpu]);
        if let Some(thread) = self.kept_for[cpu].take() {
            return Some(thread);
        }
        if let Some(thread) = previous {
            is_over |= self.lower_if_due(thread);
        }
        let first = self.first_for(cpu);
        if let (Some(previous), Some((level, _))) = (previous, first)
            && (level > self.level[previous] || level == self.level[previous] && !is_over)
        {
            return Some(previous);
        }
        let Some((level, thread)) = first else { return previous };
        self.lists[level].retain(|&other| other != thread);
        Some(thread)
    }

    fn leave(&mut self, _world: &World, cpu: Cpu, thread: Thread) {
        self.lower_if_due(thread);
        self.turn_is_over[cpu] = false;
    }

    fn end_switch(&mut self, world: &World, cpu: Cpu) {
        self.has_to_look[cpu] = world.cpus[cpu].state == CpuState::Idle;
    }

    fn time_is_up(&self, world: &World, cpu: Cpu) -> bool {
        world.running_on(cpu).is_some_and(|thread| self.used[thread] >= self.running_time)
    }

    fn has_to_schedule(&self, _world: &World, cpu: Cpu) -> bool {
        self.told[cpu] || self.has_to_look[cpu] || self.kept_for[cpu].is_some()
    }
}
