//! Writes a scenario as a file.

use std::collections::HashSet;
use std::fmt::{self, Display, Write};

use crate::distribution::Distribution;
use crate::fibers::{FiberCosts, FiberGroup, Fibers};
use crate::keys::{Key, compute, experiment, file, group, job, machine, stage};
use crate::model::{Accounting, Compute, Job, JobKind, MachineKeys, Scenario, Scheduler, Tie};
use crate::pipeline::{Pipeline, Stage, StageTurn};

impl Scenario {
    /// The scenario as a file, in one canonical form: [`crate::read()`] reads it back as an equal scenario.
    ///
    /// The first arm is written as machine and jobs, and the sweep lists the values of all arms.
    /// Keys that are not set stay unwritten, and the defaults of `[experiment]` are written out. If
    /// a barrier or lock job used `work` instead of `rounds`, the rounds of the first arm are
    /// written; a sweep that changes their number does not survive the round trip.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        line(out, &file::TITLE, quote(&self.title))?;
        let Some(arm) = self.arms.first() else { return Ok(()) };
        writeln!(out, "\n[{}]", file::MACHINE.name)?;
        write_machine(&arm.setting.machine, out)?;
        for job in &arm.setting.jobs {
            writeln!(out, "\n[[{}]]", file::JOB.name)?;
            write_job(job, out)?;
        }
        writeln!(out, "\n[{}]", file::EXPERIMENT.name)?;
        line(out, &experiment::REPEAT, self.experiment.repeat)?;
        line(out, &experiment::SEED, self.experiment.seed)?;
        line(out, &experiment::KEEP_RUNNING, arm.setting.keep_running)?;
        optional(out, &experiment::COMPARE, self.experiment.compare.as_deref().map(quote))?;
        optional(out, &experiment::X, self.experiment.x.as_deref().map(quote))?;
        if !arm.factors.is_empty() {
            writeln!(out, "\n[{}.{}]", file::EXPERIMENT.name, experiment::SWEEP.name)?;
        }
        for (index, (path, _)) in arm.factors.iter().enumerate() {
            let mut seen = HashSet::new();
            let values = self.arms.iter().filter_map(|arm| arm.factors.get(index)).map(|(_, value)| value.to_string());
            let values: Vec<String> = values.filter(|value| seen.insert(value.clone())).collect();
            writeln!(out, "{} = [{}]", quote(path), values.join(", "))?;
        }
        Ok(())
    }
}

fn write_machine(keys: &MachineKeys, out: &mut String) -> fmt::Result {
    optional(out, &machine::LIKE, keys.like_host.then(|| quote("host")))?;
    optional(out, &machine::CPUS, keys.cpus)?;
    optional(out, &machine::STEP, keys.step.map(quote))?;
    optional(out, &machine::CONTEXT_SWITCH, keys.context_switch.map(quote))?;
    optional(out, &machine::WAKEUP_COST, keys.wakeup_cost.map(quote))?;
    optional(out, &machine::YIELD_COST, keys.yield_cost.map(quote))?;
    optional(out, &machine::SPIN_MARGIN, keys.spin_margin.map(quote))?;
    optional(out, &machine::DEVICE_DEPTH, keys.device_depth)?;
    optional(out, &machine::SCHEDULER, keys.scheduler.map(Scheduler::name).map(quote))?;
    optional(out, &machine::QUANTUM, keys.quantum.map(quote))?;
    optional(out, &machine::TICK, keys.tick.map(quote))?;
    optional(out, &machine::SLICE, keys.slice.map(quote))?;
    optional(out, &machine::GROUPS, keys.groups)?;
    optional(out, &machine::LATENCY, keys.latency.map(quote))?;
    optional(out, &machine::GRANULARITY, keys.granularity.map(quote))?;
    optional(out, &machine::WAKEUP_GRANULARITY, keys.wakeup_granularity.map(quote))?;
    optional(out, &machine::MIGRATION_COST, keys.migration_cost.map(quote))?;
    optional(out, &machine::LEVELS, keys.levels)?;
    optional(out, &machine::RUNNING_TIME, keys.running_time.map(quote))?;
    optional(out, &machine::BOOST, keys.boost.map(quote))?;
    optional(out, &machine::TIE, keys.tie.map(Tie::name).map(quote))?;
    optional(out, &machine::ALLOCATION, keys.allocation)?;
    optional(out, &machine::PENALTY, keys.penalty)?;
    optional(out, &machine::BONUS, keys.bonus)?;
    optional(out, &machine::THRESHOLD, keys.threshold)?;
    optional(out, &machine::ACCOUNTING, keys.accounting.map(Accounting::name).map(quote))?;
    optional(out, &machine::CHARGE_SWITCH, keys.charge_switch)?;
    optional(out, &machine::TAIL, keys.tail)?;
    optional(out, &machine::WAKEUP, keys.wakeup.map(quote))?;
    optional(out, &machine::TIMESLICE, keys.timeslice)
}

fn write_job(job: &Job, out: &mut String) -> fmt::Result {
    line(out, &job::NAME, quote(&job.name))?;
    line(out, &job::KIND, quote(job.kind.name()))?;
    line(out, &job::COPIES, job.copies)?;
    line(out, &job::ARRIVAL, quote(job.arrival.at))?;
    optional(out, &job::EVERY, job.arrival.every.as_ref().map(distribution))?;
    let nice = job.attributes.nice;
    line(out, &job::NICE, if cfg!(rowlock_canary = "a-nice-value-loses-its-sign") { nice.abs() } else { nice })?;
    optional(out, &job::CPUS, job.attributes.cpus.as_ref().map(quote))?;
    optional(out, &job::SLICE, job.attributes.slice.map(quote))?;
    match &job.kind {
        JobKind::Barrier { threads, compute, rounds, waiting } => {
            line(out, &job::PARTIES, threads)?;
            match compute {
                Compute::Drawn(times) => line(out, &job::COMPUTE, distribution(times))?,
                Compute::Granularity(granularity) => line(out, &job::GRANULARITY, quote(granularity.name()))?,
            }
            line(out, &job::ROUNDS, rounds)?;
            line(out, &job::WAITING, quote(waiting))
        }
        JobKind::Lock { threads, compute, critical, rounds, waiting } => {
            line(out, &job::CONTENDERS, threads)?;
            line(out, &job::OUTSIDE, distribution(compute))?;
            line(out, &job::CRITICAL, distribution(critical))?;
            line(out, &job::TURNS, rounds)?;
            line(out, &job::WAITING, quote(waiting))
        }
        JobKind::Cpu { threads, work } => {
            line(out, &job::THREADS, threads)?;
            optional(out, &job::WORK, work.as_ref().map(distribution))
        }
        JobKind::Command { argv, threads, work } => {
            line(out, &job::ARGV, format!("[{}]", argv.iter().map(quote).collect::<Vec<_>>().join(", ")))?;
            line(out, &job::SPREAD, threads)?;
            optional(out, &job::CPU_TIME, work.map(quote))
        }
        JobKind::Pipeline(pipeline) => write_pipeline(pipeline, out),
        JobKind::Fibers(fibers) => write_fibers(fibers, out),
    }
}

fn write_pipeline(pipeline: &Pipeline, out: &mut String) -> fmt::Result {
    writeln!(out, "{} = [", job::STAGES.name)?;
    for Stage { name, kind, compute, device, fork, nice } in &pipeline.stages {
        write!(out, "    {{ {} = {}, {} = {}", stage::NAME.name, quote(name), stage::KIND.name, quote(kind))?;
        for (key, time) in [(stage::COMPUTE, compute), (stage::DEVICE, device)] {
            if let Some(time) = time {
                write!(out, ", {} = {}", key.name, distribution(time))?;
            }
        }
        writeln!(out, ", {} = {fork}, {} = {nice} }},", stage::FORK.name, stage::NICE.name)?;
    }
    writeln!(out, "]")?;
    line(out, &job::BUFFERS, pipeline.buffers)?;
    line(out, &job::PASSES, pipeline.rounds)?;
    line(out, &job::STRUCTURE, quote(pipeline.structure.name()))?;
    let turn = |StageTurn { stage, times }: &StageTurn| {
        let name = pipeline.stages.get(*stage).map_or("", |stage| stage.name.as_str());
        quote(format!("{name}*{times}"))
    };
    let thread = |turns: &Vec<StageTurn>| format!("[{}]", turns.iter().map(turn).collect::<Vec<_>>().join(", "));
    let threads: Vec<String> = pipeline.shared.iter().map(thread).collect();
    line(out, &job::THREAD, format!("[{}]", threads.join(", ")))?;
    line(out, &job::PRIORITY, quote(pipeline.priority))?;
    line(out, &job::QUEUEING, quote(pipeline.waiting))
}

fn write_fibers(fibers: &Fibers, out: &mut String) -> fmt::Result {
    let Fibers { groups, workers, rules, locks, preemptible, costs: FiberCosts { create, switch, lock } } = fibers;
    writeln!(out, "{} = [", job::GROUPS.name)?;
    for FiberGroup { name, fibers, bursts, compute, critical, checkpoint, think, join_every } in groups {
        write!(out, "    {{ {} = {}, {} = {fibers}", group::NAME.name, quote(name), group::FIBERS.name)?;
        write!(out, ", {} = {}, {} = {bursts}", group::COMPUTE.name, distribution(compute), group::BURSTS.name)?;
        let lengths = [(&group::CRITICAL, critical), (&group::THINK, think)];
        let lengths = lengths.map(|(key, times)| (key, times.as_ref().map(distribution)));
        let others = [
            (&group::CHECKPOINT, checkpoint.map(quote)),
            (&group::JOIN_EVERY, join_every.map(|every| every.to_string())),
        ];
        for (key, value) in lengths.into_iter().chain(others) {
            if let Some(value) = value {
                write!(out, ", {} = {value}", key.name)?;
            }
        }
        writeln!(out, " }},")?;
    }
    writeln!(out, "]")?;
    line(out, &job::WORKERS, workers)?;
    line(out, &job::LEVELS, rules.levels)?;
    line(out, &job::RUNNING_TIME, quote(rules.running_time))?;
    line(out, &job::BOOST, quote(rules.boost))?;
    // Unused locks would be rejected.
    if groups.iter().any(|group| group.critical.is_some()) {
        line(out, &job::LOCKS, locks)?;
    }
    line(out, &job::PREEMPTIBLE, preemptible)?;
    line(out, &job::CREATE_COST, quote(create))?;
    line(out, &job::SWITCH_COST, quote(switch))?;
    line(out, &job::LOCK_COST, quote(lock))
}

/// Always a table, never a single span: a sweep may lead into it.
fn distribution(of: &Distribution) -> String {
    let mut keys = vec![(&compute::DISTRIBUTION, quote(of.name()))];
    match of {
        // Without its name, which is the default.
        Distribution::Normal { mean, sd } => keys = vec![(&compute::MEAN, quote(mean)), (&compute::SD, quote(sd))],
        Distribution::LogNormal { mean, sd } => {
            keys.extend([(&compute::MEAN, quote(mean)), (&compute::SD, quote(sd))]);
        }
        Distribution::Exponential { mean } => keys.push((&compute::MEAN, quote(mean))),
        Distribution::Uniform { from, to } => keys.extend([(&compute::FROM, quote(from)), (&compute::TO, quote(to))]),
        Distribution::Empirical(list) => {
            let values: Vec<String> = list.values().iter().map(quote).collect();
            keys.push((&compute::VALUES, format!("[{}]", values.join(", "))));
            if let Some(weights) = list.weights() {
                let weights: Vec<String> =
                    weights.iter().map(|&weight| toml::Value::from(weight).to_string()).collect();
                keys.push((&compute::WEIGHTS, format!("[{}]", weights.join(", "))));
            }
        }
    }
    let keys: Vec<String> = keys.into_iter().map(|(key, value)| format!("{} = {value}", key.name)).collect();
    format!("{{ {} }}", keys.join(", "))
}

fn line(out: &mut String, key: &Key, value: impl Display) -> fmt::Result {
    writeln!(out, "{} = {value}", key.name)
}

fn optional(out: &mut String, key: &Key, value: Option<impl Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| line(out, key, value))
}

/// A quoted TOML string.
fn quote(text: impl Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}
