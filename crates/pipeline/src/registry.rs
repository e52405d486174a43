//! The stages of a run and their counters.

use std::sync::Arc;
use std::time::Duration;

use policy::Span;
use policy::priority::{StageKind, StageObservation};

use crate::counters::{Counters, DEPTHS, Takes};
use crate::plan::Place;
use crate::report::{RunReport, StageReport};
use crate::thread_table::ThreadTable;

/// The stages of a run.
#[derive(Default)]
pub(crate) struct Registry {
    /// The part of its report that is known before it starts, without stages.
    pub(crate) run: RunReport,
    pub(crate) stages: Vec<StageRecord>,
}

/// One stage.
pub(crate) struct StageRecord {
    /// The part of its report that is known before the run starts.
    pub(crate) report: StageReport,
    /// Its group.
    pub(crate) at: usize,
    /// Whether it is the first of its pipeline.
    pub(crate) is_first: bool,
    /// One for each copy.
    pub(crate) counters: Vec<Arc<Counters>>,
}

impl Registry {
    /// The kind of a group: that of a stage that blocks, if it has one.
    pub(crate) fn kind(&self, at: usize) -> StageKind {
        let kinds = self.stages.iter().filter(|stage| stage.at == at).map(|stage| stage.report.kind);
        kinds.reduce(|first, next| if first.blocks() { first } else { next }).unwrap_or_default()
    }

    /// Whether a thread of these groups runs a stage. No groups means a worker, which runs all
    /// stages of workers.
    pub(crate) fn is_run_at(&self, stage: usize, groups: &[usize]) -> bool {
        let StageRecord { at, report, .. } = &self.stages[stage];
        if groups.is_empty() { report.place == Place::Workers } else { groups.contains(at) }
    }

    /// Divides the time of a thread of these groups among its stages, in proportion to their busy
    /// times. Returns each stage with its part.
    pub(crate) fn divide(&self, time: u128, groups: &[usize], busy: &[u64]) -> impl Iterator<Item = (usize, u64)> {
        let mine: Vec<usize> = (0..busy.len()).filter(|&stage| self.is_run_at(stage, groups)).collect();
        let all: u128 = mine.iter().map(|&stage| u128::from(busy[stage])).sum();
        let count = mine.len() as u128;
        mine.into_iter().map(move |stage| {
            let part = (time * u128::from(busy[stage])).checked_div(all).unwrap_or(time / count);
            (stage, part.try_into().unwrap_or(u64::MAX))
        })
    }

    /// The state of all stages, `now` nanoseconds after the beginning.
    pub(crate) fn observe(&self, now: u64) -> Vec<StageObservation> {
        let observation = |stage: &StageRecord| {
            let in_call = |counters: &Counters| match counters.since.get() {
                0 => 0,
                since => now.saturating_sub(since - 1),
            };
            let busy = stage.sum(|counters| counters.busy() + in_call(counters));
            let waited = stage.sum(|counters| counters.waited.get());
            let (starved, blocked) = if stage.is_first { (0, waited) } else { (waited, 0) };
            let [busy, starved, blocked] = [busy, starved, blocked].map(Span::from_nanos);
            let (kind, copies) = (stage.report.kind, stage.counters.len() as u32);
            StageObservation { kind, copies, busy, starved, blocked, waiting_for_cpu: None, queued: 0 }
        };
        self.stages.iter().map(observation).collect()
    }

    /// The takes of all stages.
    pub(crate) fn takes(&self) -> Vec<Takes> {
        self.stages.iter().map(|stage| Takes::of(&stage.depths())).collect()
    }

    /// The number of buffers of a stage's pipeline.
    pub(crate) fn buffers(&self, stage: usize) -> usize {
        self.run.buffers_of(&self.stages[stage].report)
    }

    /// The last stage of each pipeline.
    fn last_stages(&self) -> impl Iterator<Item = &StageRecord> {
        self.stages.chunk_by(|_, next| !next.is_first).filter_map(<[_]>::last)
    }

    /// How many buffers, and bytes in them, the last stages have passed on.
    pub(crate) fn passed(&self) -> (u64, u64) {
        self.last_stages().fold((0, 0), |(buffers, bytes), stage| {
            let calls = stage.sum(|counters| counters.calls.get());
            (buffers + calls, bytes + stage.sum(|counters| counters.bytes.get()))
        })
    }

    /// The stage with the longest call in progress, and the duration of that call, `now`
    /// nanoseconds after the beginning.
    pub(crate) fn longest_call(&self, now: u64) -> Option<(&str, Duration)> {
        let calls =
            self.stages.iter().flat_map(|stage| stage.counters.iter().map(move |copy| (stage, copy.since.get())));
        let (stage, since) = calls.filter(|&(_, since)| since > 0).min_by_key(|&(_, since)| since)?;
        Some((&stage.report.name, Duration::from_nanos(now.saturating_sub(since - 1))))
    }

    /// The report of the run. `back` has the number of buffers at the end, for each pipeline in
    /// order.
    pub(crate) fn report(&self, clock: Duration, table: &ThreadTable, back: &[usize]) -> RunReport {
        let mut run = RunReport { clock_ns: clock.as_nanos() as u64, ..self.run.clone() };
        (run.user_ns, run.system_ns) = table.total_usage();
        for ((pipeline, &back), last) in run.pipelines.iter_mut().zip(back).zip(self.last_stages()) {
            (pipeline.buffers_back, pipeline.rounds) = (back, last.sum(|counters| counters.calls.get()));
        }
        let busy: Vec<u64> = self.stages.iter().map(|stage| stage.sum(Counters::busy)).collect();
        let (usages, waits) = (table.usages(self, &busy), table.waits(self, &busy));
        let stages = self.stages.iter().zip(usages).zip(waits).enumerate();
        let stages = stages.map(|(index, ((stage, (user_ns, system_ns)), waiting_for_cpu_ns))| {
            let effective_attributes = table.effective(|groups| self.is_run_at(index, groups));
            let (busy_ns, report) = (busy[index], self.stage(stage, run.clock_ns));
            StageReport { busy_ns, user_ns, system_ns, waiting_for_cpu_ns, effective_attributes, ..report }
        });
        run.stages = stages.collect();
        run
    }

    /// The report of a stage, as far as its counters tell.
    fn stage(&self, stage: &StageRecord, clock: u64) -> StageReport {
        let waiting_for_worker_ns = stage.sum(|counters| counters.waited_for_worker.get());
        let idle = match stage.report.place {
            // The stages of a group work and wait together, which is reported for the first one.
            Place::Workers if stage.report.is_fused => 0,
            Place::Workers => {
                let group = self.stages.iter().filter(|other| other.at == stage.at);
                let busy: u64 = group.map(|stage| stage.sum(Counters::busy)).sum();
                (clock * stage.counters.len() as u64).saturating_sub(busy + waiting_for_worker_ns)
            }
            _ => stage.sum(|counters| counters.waited.get()),
        };
        let mut depths = stage.depths();
        depths.truncate(depths.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1));
        StageReport {
            calls: stage.sum(|counters| counters.calls.get()),
            repeated: stage.sum(|counters| counters.repeated.get()),
            bytes: stage.sum(|counters| counters.bytes.get()),
            setup_ns: stage.sum(|counters| counters.setup.get()),
            starved_ns: if stage.is_first { 0 } else { idle },
            blocked_ns: if stage.is_first { idle } else { 0 },
            waiting_for_worker_ns,
            depths,
            ..stage.report.clone()
        }
    }
}

impl StageRecord {
    fn sum(&self, counter: impl Fn(&Counters) -> u64) -> u64 {
        self.counters.iter().map(|counters| counter(counters)).sum()
    }

    /// How often a buffer was taken with 0, 1, 2, ... others left in the queue.
    fn depths(&self) -> Vec<u64> {
        (0..DEPTHS).map(|depth| self.sum(|counters| counters.depths.0[depth].get())).collect()
    }
}
