//! The table of a run's threads: their priorities, and the results of all requests for scheduling.

use std::time::Duration;

use policy::Span;
use policy::priority::{
    MachineObservation, PriorityController, PriorityRule, StageKind, StageObservation, StagePriority,
};
use sys::scheduling::{Thread, nice, run_delay};
use wait::Mutex;

use crate::registry::Registry;
use crate::scheduling::{EffectiveAttribute, Scheduling, add_if_new};
use crate::stage_priorities::StagePriorities;

/// The threads of a run that are alive, and the scheduling of all threads so far.
#[derive(Debug, Default)]
pub(crate) struct ThreadTable {
    threads: Mutex<Vec<ThreadRecord>>,
    attributes: Mutex<Vec<GroupAttributes>>,
}

#[derive(Debug)]
struct ThreadRecord {
    thread: Thread,
    /// Its nice value without a rule.
    base: i32,
    /// The groups that it runs. Empty for a worker.
    groups: Vec<usize>,
    /// The priority that the controller gave it.
    priority: StagePriority,
    /// How long it had waited for CPUs at the last observation.
    waited: Duration,
}

/// The effective scheduling of the threads of these groups.
#[derive(Debug)]
struct GroupAttributes {
    groups: Vec<usize>,
    effective_attributes: Vec<EffectiveAttribute>,
}

impl ThreadTable {
    /// Runs `work` on the calling thread, with the requested scheduling and the initial priority
    /// that the rule gives it.
    pub(crate) fn run_registered(
        &self,
        groups: &[(usize, StageKind)],
        scheduling: &Scheduling,
        rule: PriorityRule,
        work: impl FnOnce(&mut StagePriorities<'_>),
    ) {
        let places: Vec<usize> = groups.iter().map(|&(at, _)| at).collect();
        scheduling.apply_to_this_thread().into_iter().for_each(|attribute| self.add(&places, attribute));
        let thread = Thread::current();
        let base = nice(thread).unwrap_or(0);
        // A worker has the priority of compute stages.
        let asked = if groups.is_empty() { &[(usize::MAX, StageKind::Compute)] } else { groups };
        let mut priorities = StagePriorities::begin(
            rule,
            asked,
            Box::new(|priority| self.add(&places, Scheduling::adjust_nice(thread, base, priority))),
        );
        let groups = places.clone();
        let waited = Duration::ZERO;
        self.threads.lock().push(ThreadRecord { thread, base, groups, priority: StagePriority::Neutral, waited });
        work(&mut priorities);
        // Before the kernel can reuse its id.
        self.threads.lock().retain(|record| record.thread != thread);
    }

    /// Adds how long the threads of each stage waited for CPUs since the last call. The wait of a
    /// thread that runs several stages is divided in proportion to their busy times.
    pub(crate) fn add_waits(&self, registry: &Registry, observed: &mut [StageObservation]) {
        for record in self.threads.lock().iter_mut() {
            let Some(waited) = run_delay(record.thread) else { continue };
            let since = waited.saturating_sub(std::mem::replace(&mut record.waited, waited)).as_nanos();
            let mine: Vec<usize> =
                (0..observed.len()).filter(|&stage| registry.is_run_at(stage, &record.groups)).collect();
            let busy: u128 = mine.iter().map(|&stage| u128::from(observed[stage].busy.as_nanos())).sum();
            for &stage in &mine {
                let part = match busy {
                    0 => since / mine.len() as u128,
                    _ => since * u128::from(observed[stage].busy.as_nanos()) / busy,
                };
                observed[stage].waiting_for_cpu += Span::from_nanos(part.try_into().unwrap_or(u64::MAX));
            }
        }
    }

    /// Asks the controller for the priorities of all stages, and applies them.
    pub(crate) fn adjust_priorities(
        &self,
        controller: &mut PriorityController,
        registry: &Registry,
        observed: &[StageObservation],
        machine: &MachineObservation,
    ) {
        let priorities = controller.decide(observed, machine);
        let mut notes = Vec::new();
        for record in self.threads.lock().iter_mut() {
            let is_its = |stage: usize| registry.is_run_at(stage, &record.groups);
            let mine = priorities.iter().enumerate().filter(|&(stage, _)| is_its(stage)).map(|(_, &priority)| priority);
            let priority = mine.max().unwrap_or_default();
            if priority != record.priority {
                record.priority = priority;
                notes.push((record.groups.clone(), Scheduling::adjust_nice(record.thread, record.base, priority)));
            }
        }
        notes.into_iter().for_each(|(groups, attribute)| self.add(&groups, attribute));
    }

    /// The effective scheduling of the threads of a stage, or of the workers.
    pub(crate) fn effective(&self, is_its: impl Fn(&[usize]) -> bool) -> Vec<EffectiveAttribute> {
        let mut all = Vec::new();
        for attributes in self.attributes.lock().iter().filter(|attributes| is_its(&attributes.groups)) {
            attributes.effective_attributes.iter().for_each(|attribute| add_if_new(&mut all, attribute.clone()));
        }
        all
    }

    fn add(&self, groups: &[usize], attribute: EffectiveAttribute) {
        let mut attributes = self.attributes.lock();
        match attributes.iter_mut().find(|attributes| attributes.groups == groups) {
            Some(attributes) => add_if_new(&mut attributes.effective_attributes, attribute),
            None => attributes.push(GroupAttributes { groups: groups.to_vec(), effective_attributes: vec![attribute] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Place;
    use crate::registry::StageRecord;

    use super::*;

    fn worker_stage(name: &str) -> StageRecord {
        StageRecord {
            name: name.to_owned(),
            pipeline: 0,
            kind: StageKind::Compute,
            at: 0,
            place: Place::Workers,
            can_fork: true,
            is_ordered: true,
            is_fused: false,
            is_first: false,
            counters: Vec::new(),
        }
    }

    fn observed(busy: u64) -> StageObservation {
        let none = Span::ZERO;
        let busy = Span::from_nanos(busy);
        StageObservation {
            kind: StageKind::Compute,
            copies: 1,
            busy,
            starved: none,
            blocked: none,
            waiting_for_cpu: none,
        }
    }

    #[test]
    fn a_worker_s_wait_for_a_cpu_is_divided_among_its_stages() {
        let registry = Registry {
            program: String::new(),
            structure: String::new(),
            cpus: 1,
            workers: 1,
            pipelines: Vec::new(),
            stages: vec![worker_stage("a"), worker_stage("b")],
        };
        let table = ThreadTable::default();
        table.run_registered(&[], &Scheduling::default(), PriorityRule::Default, |_| {
            let own = || run_delay(Thread::current()).map(|waited| waited.as_nanos() as u64);
            let Some(before) = own() else { return };
            let mut stages = [observed(3000), observed(1000)];
            table.add_waits(&registry, &mut stages);
            let after = own().unwrap();
            let [a, b] = stages.map(|stage| stage.waiting_for_cpu.as_nanos());
            // Rounding loses less than a nanosecond of each part.
            assert!((before..=after + 2).contains(&(a + b + 2)), "{a} + {b} of {before} to {after}");
            assert!(a.abs_diff(3 * b) <= 4, "{a}, {b}");
            // Each wait is counted once.
            let mut stages = [observed(3000), observed(1000)];
            table.add_waits(&registry, &mut stages);
            assert!(stages[0].waiting_for_cpu.as_nanos() + a <= own().unwrap());
        });
        assert!(table.threads.lock().is_empty());
    }
}
