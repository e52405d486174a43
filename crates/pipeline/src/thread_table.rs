//! The threads of a run: their scheduling and their CPU time.

use std::time::Duration;

use policy::Span;
use policy::priority::{PriorityRule, StageKind, StageObservation, StagePriority};
use sys::process::{Usage, thread_usage};
use sys::scheduling::{Thread, nice, run_delay};
use wait::Mutex;

use crate::registry::Registry;
use crate::scheduling::{EffectiveAttribute, Scheduling, add_if_new};
use crate::stage_priorities::StagePriorities;

/// All threads of a run so far.
#[derive(Debug, Default)]
pub(crate) struct ThreadTable(Mutex<Vec<ThreadRecord>>);

#[derive(Debug)]
struct ThreadRecord {
    /// The groups that it runs. Empty for a worker.
    groups: Vec<usize>,
    /// `None` before it works and after its end, when the kernel may reuse its id.
    thread: Option<Thread>,
    /// Its nice value without a rule.
    base: i32,
    /// The priority that the controller gave it.
    priority: StagePriority,
    /// How long it had waited for CPUs at the last observation.
    waited: Duration,
    /// How long it waited for CPUs in all, once it has ended. `None` if the kernel does not tell.
    waited_in_all: Option<Duration>,
    /// The results of all requests for its scheduling.
    effective_attributes: Vec<EffectiveAttribute>,
    /// Its CPU time, once it has ended.
    used: Usage,
}

impl ThreadTable {
    /// Runs `work` on the calling thread, with the requested scheduling and the initial priority
    /// that the rule gives it. Measures its CPU time.
    pub(crate) fn run_registered<V>(
        &self,
        groups: &[(usize, StageKind)],
        scheduling: &Scheduling,
        rule: PriorityRule,
        work: impl FnOnce(&mut StagePriorities<'_>) -> V,
    ) -> V {
        let (thread, before) = (Thread::current(), thread_usage());
        let waited_before = run_delay(thread);
        let effective_attributes = scheduling.apply_to_this_thread();
        let base = nice(thread).unwrap_or(0);
        let number = {
            let mut records = self.0.lock();
            records.push(ThreadRecord {
                groups: groups.iter().map(|&(at, _)| at).collect(),
                thread: None,
                base,
                priority: StagePriority::Neutral,
                waited: waited_before.unwrap_or_default(),
                waited_in_all: None,
                effective_attributes,
                used: Usage::default(),
            });
            records.len() - 1
        };
        // A worker has the priority of compute stages.
        let asked = if groups.is_empty() { &[(usize::MAX, StageKind::Compute)] } else { groups };
        let apply = |priority| {
            let attribute = Scheduling::adjust_nice(thread, base, priority);
            add_if_new(&mut self.0.lock()[number].effective_attributes, attribute);
        };
        let mut priorities = StagePriorities::begin(rule, asked, Box::new(apply));
        self.0.lock()[number].thread = Some(thread);
        let value = work(&mut priorities);
        let used = thread_usage().since(before);
        let waited = run_delay(thread).zip(waited_before).map(|(now, before)| now.saturating_sub(before));
        let record = &mut self.0.lock()[number];
        (record.thread, record.used, record.waited_in_all) = (None, used, waited);
        value
    }

    /// Adds how long the threads of each stage waited for CPUs since the last call. The wait of a
    /// thread that runs several stages is divided in proportion to their busy times.
    pub(crate) fn add_waits(&self, registry: &Registry, observed: &mut [StageObservation]) {
        let busy: Vec<u64> = observed.iter().map(|stage| stage.busy.as_nanos()).collect();
        for record in self.0.lock().iter_mut() {
            let Some(waited) = record.thread.and_then(run_delay) else { continue };
            let since = waited.saturating_sub(std::mem::replace(&mut record.waited, waited)).as_nanos();
            for (stage, part) in registry.divide(since, &record.groups, &busy) {
                let waiting = &mut observed[stage].waiting_for_cpu;
                *waiting = Some(waiting.unwrap_or(Span::ZERO) + Span::from_nanos(part));
            }
        }
    }

    /// Applies the priorities of all stages.
    pub(crate) fn adjust_priorities(&self, priorities: &[StagePriority], registry: &Registry) {
        for record in self.0.lock().iter_mut() {
            let Some(thread) = record.thread else { continue };
            let mine = priorities.iter().enumerate().filter(|&(stage, _)| registry.is_run_at(stage, &record.groups));
            let priority = mine.map(|(_, &priority)| priority).max().unwrap_or_default();
            if priority != std::mem::replace(&mut record.priority, priority) {
                let attribute = Scheduling::adjust_nice(thread, record.base, priority);
                add_if_new(&mut record.effective_attributes, attribute);
            }
        }
    }

    /// The effective scheduling of the threads of a stage, or of the workers.
    pub(crate) fn effective(&self, is_its: impl Fn(&[usize]) -> bool) -> Vec<EffectiveAttribute> {
        let mut all = Vec::new();
        for record in self.0.lock().iter().filter(|record| is_its(&record.groups)) {
            record.effective_attributes.iter().for_each(|attribute| add_if_new(&mut all, attribute.clone()));
        }
        all
    }

    /// The total user and system time, in nanoseconds.
    pub(crate) fn total_usage(&self) -> (u64, u64) {
        let mut total = Usage::default();
        self.0.lock().iter().for_each(|record| total += record.used);
        user_and_system(total)
    }

    /// How long the threads of each stage waited for CPUs, in nanoseconds, divided like
    /// [`ThreadTable::usages`]. `None` if that is unknown of one of them.
    pub(crate) fn waits(&self, registry: &Registry, busy: &[u64]) -> Vec<Option<u64>> {
        let mut waits = vec![Some(0); busy.len()];
        for ThreadRecord { groups, waited_in_all, .. } in self.0.lock().iter() {
            let waited = waited_in_all.unwrap_or_default().as_nanos();
            for (stage, part) in registry.divide(waited, groups, busy) {
                waits[stage] = waits[stage].filter(|_| waited_in_all.is_some()).map(|all| all + part);
            }
        }
        waits
    }

    /// The user and system time of each stage. The time of a thread that runs several stages is
    /// divided in proportion to their busy times.
    pub(crate) fn usages(&self, registry: &Registry, busy: &[u64]) -> Vec<(u64, u64)> {
        let mut shares = vec![(0, 0); busy.len()];
        for ThreadRecord { groups, used, .. } in self.0.lock().iter() {
            let (user, system) = user_and_system(*used);
            registry.divide(user.into(), groups, busy).for_each(|(stage, part)| shares[stage].0 += part);
            registry.divide(system.into(), groups, busy).for_each(|(stage, part)| shares[stage].1 += part);
        }
        shares
    }
}

fn user_and_system(used: Usage) -> (u64, u64) {
    // The kernel may update the system time later than the total.
    let system = used.system.min(used.cpu);
    ((used.cpu - system).as_nanos() as u64, system.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use crate::plan::Place;
    use crate::registry::StageRecord;
    use crate::report::StageReport;

    use super::*;

    fn worker_stage() -> StageRecord {
        let report = StageReport { place: Place::Workers, ..StageReport::default() };
        StageRecord { report, at: 0, is_first: false, counters: Vec::new() }
    }

    fn observed(busy: u64) -> StageObservation {
        let (none, busy) = (Span::ZERO, Span::from_nanos(busy));
        let (kind, copies) = (StageKind::Compute, 1);
        StageObservation { kind, copies, busy, starved: none, blocked: none, waiting_for_cpu: None, queued: 0 }
    }

    #[test]
    fn a_worker_s_wait_for_a_cpu_is_divided_among_its_stages() {
        let registry = Registry { stages: vec![worker_stage(), worker_stage()], ..Registry::default() };
        let table = ThreadTable::default();
        table.run_registered(&[], &Scheduling::default(), PriorityRule::Default, |_| {
            let own = || run_delay(Thread::current()).map(|waited| waited.as_nanos() as u64);
            let Some(before) = own() else { return };
            table.0.lock()[0].waited = Duration::ZERO;
            let mut stages = [observed(3000), observed(1000)];
            table.add_waits(&registry, &mut stages);
            let after = own().unwrap();
            let [a, b] = stages.map(|stage| stage.waiting_for_cpu.unwrap().as_nanos());
            // Rounding loses less than a nanosecond of each part.
            assert!((before..=after + 2).contains(&(a + b + 2)), "{a} + {b} of {before} to {after}");
            assert!(a.abs_diff(3 * b) <= 4, "{a}, {b}");
            // Each wait is counted once.
            let mut stages = [observed(3000), observed(1000)];
            table.add_waits(&registry, &mut stages);
            assert!(stages[0].waiting_for_cpu.unwrap().as_nanos() + a <= own().unwrap());
        });
        assert!(table.0.lock().iter().all(|record| record.thread.is_none()));
        // After the end of a thread, its whole wait is divided, if the kernel told it.
        for (waited, parts) in [(Some(4000), [Some(3), Some(1)]), (None, [None; 2])] {
            table.0.lock()[0].waited_in_all = waited.map(Duration::from_nanos);
            assert_eq!(table.waits(&registry, &[3000, 1000]), parts.map(|part| part.map(|part: u64| part * 1000)));
        }
    }
}
