//! The stages of a run and their counters.

use std::sync::Arc;
use std::time::Duration;

use policy::Span;
use policy::priority::{StageKind, StageObservation};

use crate::counters::{Counters, DEPTHS};
use crate::machine::MachineReport;
use crate::plan::Place;
use crate::report::{PipelineReport, RunReport, StageReport};
use crate::thread_table::ThreadTable;
use crate::usage::Usages;

/// The stages of a run.
pub(crate) struct Registry {
    pub(crate) program: String,
    pub(crate) structure: String,
    pub(crate) cpus: usize,
    pub(crate) workers: usize,
    pub(crate) pipelines: Vec<PipelineRecord>,
    pub(crate) stages: Vec<StageRecord>,
}

/// One pipeline.
pub(crate) struct PipelineRecord {
    pub(crate) name: String,
    pub(crate) buffers: usize,
    pub(crate) block: usize,
}

/// One stage.
pub(crate) struct StageRecord {
    pub(crate) name: String,
    pub(crate) pipeline: usize,
    pub(crate) kind: StageKind,
    pub(crate) at: usize,
    pub(crate) place: Place,
    pub(crate) can_fork: bool,
    pub(crate) is_ordered: bool,
    pub(crate) is_fused: bool,
    pub(crate) is_first: bool,
    /// One for each copy.
    pub(crate) counters: Vec<Arc<Counters>>,
}

impl Registry {
    /// The kind of a group: that of a stage that blocks, if it has one.
    pub(crate) fn kind(&self, at: usize) -> StageKind {
        let mut kinds = self.stages.iter().filter(|stage| stage.at == at).map(|stage| stage.kind);
        let first = kinds.next().unwrap_or(StageKind::Compute);
        if first.blocks() { first } else { kinds.find(|kind| kind.blocks()).unwrap_or(first) }
    }

    /// Whether a thread of these groups runs a stage. No groups means a worker, which runs all
    /// stages of workers.
    pub(crate) fn is_run_at(&self, stage: usize, groups: &[usize]) -> bool {
        let StageRecord { at, place, .. } = self.stages[stage];
        if groups.is_empty() { place == Place::Workers } else { groups.contains(&at) }
    }

    /// The state of all stages, `now` nanoseconds after the beginning.
    pub(crate) fn observe(&self, now: u64) -> Vec<StageObservation> {
        let observation = |stage: &StageRecord| {
            let in_call = |counters: &Counters| match counters.since.get() {
                0 => 0,
                since => now.saturating_sub(since - 1),
            };
            let copies = stage.counters.len() as u32;
            let busy = sum(stage, |counters| counters.busy() + in_call(counters));
            let waited = sum(stage, |counters| counters.waited.get());
            let (starved, blocked) = if stage.is_first { (0, waited) } else { (waited, 0) };
            let [busy, starved, blocked] = [busy, starved, blocked].map(Span::from_nanos);
            StageObservation { kind: stage.kind, copies, busy, starved, blocked, waiting_for_cpu: Span::ZERO }
        };
        self.stages.iter().map(observation).collect()
    }

    /// How many buffers, and bytes in them, the last stages have passed on.
    pub(crate) fn passed(&self) -> (u64, u64) {
        let last = |pipeline: usize| self.stages.iter().rfind(|stage| stage.pipeline == pipeline);
        let passed = (0..self.pipelines.len()).filter_map(last);
        passed.fold((0, 0), |(buffers, bytes), stage| {
            let calls = sum(stage, |counters| counters.calls.get());
            (buffers + calls, bytes + sum(stage, |counters| counters.bytes.get()))
        })
    }

    /// The stage with the longest call in progress, and the duration of that call, `now`
    /// nanoseconds after the beginning.
    pub(crate) fn longest_call(&self, now: u64) -> Option<(&str, Duration)> {
        let calls = self
            .stages
            .iter()
            .flat_map(|stage| stage.counters.iter().map(move |counters| (stage, counters.since.get())));
        let (stage, since) = calls.filter(|&(_, since)| since > 0).min_by_key(|&(_, since)| since)?;
        Some((&stage.name, Duration::from_nanos(now.saturating_sub(since - 1))))
    }

    /// The report of the run. `back` has the number of buffers at the end, for each pipeline in
    /// order.
    pub(crate) fn report(
        &self,
        clock: Duration,
        usages: &Usages,
        table: &ThreadTable,
        back: &[(usize, usize)],
    ) -> RunReport {
        let busy: Vec<u64> = self.stages.iter().map(|stage| sum(stage, Counters::busy)).collect();
        let group = |stage: usize| (self.stages[stage].at, self.stages[stage].place == Place::Workers);
        let shares = usages.divide(&busy, group);
        let clock_ns = clock.as_nanos() as u64;
        let stages = self.stages.iter().zip(&busy).zip(shares).enumerate();
        let (user_ns, system_ns) = usages.total();
        RunReport {
            schema_version: 1,
            program: self.program.clone(),
            structure: self.structure.clone(),
            clock_ns,
            cpus: self.cpus,
            workers: self.workers,
            user_ns,
            system_ns,
            machine: MachineReport::default(),
            failure: None,
            pipelines: self.pipelines.iter().enumerate().map(|(pipeline, _)| self.pipeline(pipeline, back)).collect(),
            stages: stages
                .map(|(index, ((stage, &busy), used))| {
                    let effective_attributes = table.effective(|groups| self.is_run_at(index, groups));
                    StageReport { effective_attributes, ..self.stage(stage, busy, used, clock_ns) }
                })
                .collect(),
        }
    }

    fn pipeline(&self, pipeline: usize, back: &[(usize, usize)]) -> PipelineReport {
        let PipelineRecord { name, buffers, block } = &self.pipelines[pipeline];
        let last = self.stages.iter().rfind(|stage| stage.pipeline == pipeline);
        PipelineReport {
            name: name.clone(),
            buffers: *buffers,
            buffers_back: back.get(pipeline).map_or(0, |&(_, count)| count),
            block: *block,
            rounds: last.map_or(0, |stage| sum(stage, |counters| counters.calls.get())),
        }
    }

    /// The total time in calls of the stages of a group.
    fn busy_at(&self, at: usize) -> u64 {
        self.stages.iter().filter(|stage| stage.at == at).map(|stage| sum(stage, Counters::busy)).sum()
    }

    fn stage(&self, stage: &StageRecord, busy: u64, (user_ns, system_ns): (u64, u64), clock: u64) -> StageReport {
        let copies = stage.counters.len();
        let waited = sum(stage, |counters| counters.waited.get());
        let waiting_for_worker = sum(stage, |counters| counters.waited_for_worker.get());
        let place = match stage.place {
            Place::Workers => "workers",
            Place::Threads => "threads",
            Place::Junction => "junction",
        };
        let idle = match stage.place {
            // The stages of a group work and wait together, which is reported for the first one.
            Place::Workers if stage.is_fused => 0,
            Place::Workers => (clock * copies as u64).saturating_sub(self.busy_at(stage.at) + waiting_for_worker),
            _ => waited,
        };
        let mut depths: Vec<u64> =
            (0..DEPTHS).map(|depth| sum(stage, |counters| counters.depths[depth].get())).collect();
        depths.truncate(depths.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1));
        StageReport {
            name: stage.name.clone(),
            pipeline: self.pipelines[stage.pipeline].name.clone(),
            kind: stage.kind,
            place: place.to_owned(),
            can_fork: stage.can_fork,
            copies,
            is_ordered: stage.is_ordered,
            is_fused: stage.is_fused,
            calls: sum(stage, |counters| counters.calls.get()),
            repeated: sum(stage, |counters| counters.repeated.get()),
            bytes: sum(stage, |counters| counters.bytes.get()),
            busy_ns: busy,
            starved_ns: if stage.is_first { 0 } else { idle },
            blocked_ns: if stage.is_first { idle } else { 0 },
            waiting_for_worker_ns: waiting_for_worker,
            user_ns,
            system_ns,
            depths,
            effective_attributes: Vec::new(),
        }
    }
}

fn sum(stage: &StageRecord, what: impl Fn(&Counters) -> u64) -> u64 {
    stage.counters.iter().map(|counters| what(counters)).sum()
}
