//! Writes a scenario as a file.

use std::collections::HashSet;
use std::fmt::Display;

use policy::layout::Request;

use crate::coscheduling::Coscheduling;
use crate::distribution::Distribution;
use crate::fibers::{FiberCosts, FiberGroup, Fibers};
use crate::keys::{Key, Value, compute, coscheduling, experiment, file, group, job, stage};
use crate::message::Message;
use crate::model::{Compute, Job, JobKind, Scenario};
use crate::pipeline::{Pipeline, Stage, StageTurn};

impl Scenario {
    /// The scenario as a file, in one canonical form: [`crate::read()`] reads it back as an equal
    /// scenario.
    ///
    /// The first arm is written as machine and jobs, and the sweep lists the values of all arms.
    /// Keys that are not set stay unwritten, and the defaults of `[experiment]` are written out. If
    /// a barrier or lock job used `work` instead of `rounds`, the rounds of the first arm are
    /// written; a sweep that changes their number does not survive the round trip.
    pub fn to_toml(&self) -> String {
        let out = &mut String::new();
        line(out, &file::TITLE, &self.title);
        let Some(arm) = self.arms.first() else { return std::mem::take(out) };
        *out += &format!("\n[{}]\n", file::MACHINE.name);
        arm.setting.machine.write(out);
        if let Some(coscheduling) = &arm.setting.coscheduling {
            *out += &format!("\n[{}]\n", file::COSCHEDULING.name);
            write_coscheduling(coscheduling, out);
        }
        for job in &arm.setting.jobs {
            *out += &format!("\n[[{}]]\n", file::JOB.name);
            write_job(job, out);
        }
        *out += &format!("\n[{}]\n", file::EXPERIMENT.name);
        line(out, &experiment::REPEAT, self.experiment.repeat);
        line(out, &experiment::SEED, self.experiment.seed);
        line(out, &experiment::KEEP_RUNNING, arm.setting.keep_running);
        optional(out, &experiment::COMPARE, self.experiment.compare.as_ref());
        optional(out, &experiment::X, self.experiment.x.as_ref());
        if !arm.factors.is_empty() {
            *out += &format!("\n[{}.{}]\n", file::EXPERIMENT.name, experiment::SWEEP.name);
        }
        for (index, (path, _)) in arm.factors.iter().enumerate() {
            let mut seen = HashSet::new();
            let values = self.arms.iter().filter_map(|arm| arm.factors.get(index)).map(|(_, value)| value.to_string());
            *out += &format!("{} = {}\n", quote(path), list(values.filter(|value| seen.insert(value.clone()))));
        }
        std::mem::take(out)
    }
}

fn write_coscheduling(coscheduling: &Coscheduling, out: &mut String) {
    let Coscheduling { how, slice, partition, movement, most_slices, lower, clock_skew, reschedule, .. } = coscheduling;
    line(out, &coscheduling::HOW, how);
    line(out, &coscheduling::SLICE, slice);
    line(out, &coscheduling::PARTITION, partition);
    line(out, &coscheduling::MOVE, movement);
    optional(out, &coscheduling::MOST_SLICES, most_slices.as_ref());
    line(out, &coscheduling::LOWER, lower);
    line(out, &coscheduling::CLOCK_SKEW, clock_skew);
    line(out, &coscheduling::RESCHEDULE, reschedule);
    let Coscheduling { create, start, switch_cost, switch_cost_per_job, .. } = coscheduling;
    line(out, &coscheduling::CREATE, create);
    line(out, &coscheduling::START, start);
    line(out, &coscheduling::SWITCH_COST, switch_cost);
    line(out, &coscheduling::SWITCH_COST_PER_JOB, switch_cost_per_job);
}

fn write_job(job: &Job, out: &mut String) {
    line(out, &job::NAME, &job.name);
    line(out, &job::KIND, job.kind.name());
    line(out, &job::COPIES, job.copies);
    line(out, &job::ARRIVAL, job.arrival.at);
    optional(out, &job::EVERY, job.arrival.every.as_ref().map(distribution));
    let nice = job.attributes.nice;
    line(out, &job::NICE, if cfg!(rowlock_canary = "a-nice-value-loses-its-sign") { nice.abs() } else { nice });
    optional(out, &job::CPUS, job.attributes.cpus.as_ref());
    optional(out, &job::SLICE, job.attributes.slice);
    match &job.kind {
        JobKind::Barrier { threads, compute, rounds, waiting } => {
            line(out, &job::PARTIES, threads);
            match compute {
                Compute::Drawn(times) => line(out, &job::COMPUTE, distribution(times)),
                Compute::Granularity(granularity) => line(out, &job::GRANULARITY, granularity),
            }
            line(out, &job::ROUNDS, rounds);
            line(out, &job::WAITING, waiting);
        }
        JobKind::Lock { threads, compute, critical, rounds, waiting } => {
            line(out, &job::CONTENDERS, threads);
            line(out, &job::OUTSIDE, distribution(compute));
            line(out, &job::CRITICAL, distribution(critical));
            line(out, &job::TURNS, rounds);
            line(out, &job::WAITING, waiting);
        }
        JobKind::Cpu { threads, work } => {
            line(out, &job::THREADS, threads);
            optional(out, &job::WORK, work.as_ref().map(distribution));
        }
        JobKind::Command { argv, threads, work } => {
            line(out, &job::ARGV, list(argv.iter().map(quote)));
            line(out, &job::SPREAD, threads);
            optional(out, &job::CPU_TIME, *work);
        }
        JobKind::Pipeline(pipeline) => write_pipeline(pipeline, out),
        JobKind::Fibers(fibers) => write_fibers(fibers, out),
        JobKind::Message(message) => write_message(message, out),
    }
}

fn write_pipeline(pipeline: &Pipeline, out: &mut String) {
    let stage = |Stage { name, kind, compute, device, fork, nice }: &Stage| {
        let times = [(&stage::COMPUTE, compute), (&stage::DEVICE, device)];
        let mut keys = vec![assignment(&stage::NAME, name), assignment(&stage::KIND, kind)];
        keys.extend(times.into_iter().filter_map(|(key, time)| Some(assignment(key, distribution(time.as_ref()?)))));
        keys.extend([assignment(&stage::FORK, fork), assignment(&stage::NICE, nice)]);
        table(&keys)
    };
    tables(out, &job::STAGES, pipeline.stages.iter().map(stage));
    line(out, &job::BUFFERS, pipeline.buffers);
    line(out, &job::PASSES, pipeline.rounds);
    line(out, &job::STRUCTURE, pipeline.structure);
    let turn = |StageTurn { stage, times }: &StageTurn| {
        let name = pipeline.stages.get(*stage).map_or("", |stage| stage.name.as_str());
        quote(format!("{name}*{times}"))
    };
    line(out, &job::THREAD, list(pipeline.shared.iter().map(|turns| list(turns.iter().map(turn)))));
    line(out, &job::PRIORITY, pipeline.priority);
    line(out, &job::QUEUEING, pipeline.waiting);
}

fn write_message(message: &Message, out: &mut String) {
    let Message { request, pattern, bytes, rounds, compute, sleep, waiting, weight } = message;
    match request {
        Request::Ranks(ranks) => line(out, &job::RANKS, ranks),
        Request::Rectangle(shape) => line(out, &job::MESH, shape),
        // No scenario has it: files do not say which cells.
        Request::At(cells) => line(out, &job::MESH, cells.shape),
    }
    line(out, &job::PATTERN, pattern);
    line(out, &job::BYTES, bytes);
    line(out, &job::EXCHANGES, rounds);
    optional(out, &job::BEFORE_SENDING, compute.as_ref().map(distribution));
    optional(out, &job::SLEEP, sleep.as_ref().map(distribution));
    line(out, &job::RECEIVING, waiting);
    line(out, &job::WEIGHT, weight);
}

fn write_fibers(fibers: &Fibers, out: &mut String) {
    let Fibers { groups, workers, rules, locks, preemptible, costs: FiberCosts { create, switch, lock } } = fibers;
    let group = |group: &FiberGroup| {
        let FiberGroup { name, fibers, bursts, compute, critical, checkpoint, think, join_every } = group;
        let times = [(&group::CRITICAL, critical), (&group::THINK, think)];
        let mut keys = vec![
            assignment(&group::NAME, name),
            assignment(&group::FIBERS, fibers),
            assignment(&group::COMPUTE, distribution(compute)),
            assignment(&group::BURSTS, bursts),
        ];
        keys.extend(times.into_iter().filter_map(|(key, time)| Some(assignment(key, distribution(time.as_ref()?)))));
        keys.extend(checkpoint.map(|checkpoint| assignment(&group::CHECKPOINT, checkpoint)));
        keys.extend(join_every.map(|every| assignment(&group::JOIN_EVERY, every)));
        table(&keys)
    };
    tables(out, &job::GROUPS, groups.iter().map(group));
    line(out, &job::WORKERS, workers);
    line(out, &job::LEVELS, rules.levels);
    line(out, &job::RUNNING_TIME, rules.running_time);
    line(out, &job::BOOST, rules.boost);
    // Unused locks would be rejected.
    if groups.iter().any(|group| group.critical.is_some()) {
        line(out, &job::LOCKS, locks);
    }
    line(out, &job::PREEMPTIBLE, preemptible);
    line(out, &job::CREATE_COST, create);
    line(out, &job::SWITCH_COST, switch);
    line(out, &job::LOCK_COST, lock);
}

/// Always a table, never a single span: a sweep may lead into it.
fn distribution(of: &Distribution) -> String {
    let mut keys = match of {
        // Without its name, which is the default.
        Distribution::Normal { .. } => Vec::new(),
        of => vec![assignment(&compute::DISTRIBUTION, of.name())],
    };
    match of {
        Distribution::Normal { mean, sd } | Distribution::LogNormal { mean, sd } => {
            keys.extend([assignment(&compute::MEAN, mean), assignment(&compute::SD, sd)]);
        }
        Distribution::Exponential { mean } => keys.push(assignment(&compute::MEAN, mean)),
        Distribution::Uniform { from, to } => {
            keys.extend([assignment(&compute::FROM, from), assignment(&compute::TO, to)]);
        }
        Distribution::Empirical(of) => {
            keys.push(assignment(&compute::VALUES, list(of.values().iter().map(quote))));
            let weights =
                of.weights().map(|weights| weights.iter().map(|&weight| toml::Value::from(weight).to_string()));
            keys.extend(weights.map(|weights| assignment(&compute::WEIGHTS, list(weights))));
        }
    }
    table(&keys)
}

fn line(out: &mut String, key: &Key, value: impl Display) {
    *out += &assignment(key, value);
    out.push('\n');
}

/// Writes a line if there is a value.
pub(crate) fn optional(out: &mut String, key: &Key, value: Option<impl Display>) {
    if let Some(value) = value {
        line(out, key, value);
    }
}

/// Writes a list of tables, one on each line.
fn tables(out: &mut String, key: &Key, tables: impl Iterator<Item = String>) {
    let tables: String = tables.map(|table| format!("    {table},\n")).collect();
    line(out, key, format_args!("[\n{tables}]"));
}

/// A key and its value, in quotes if the values of the key are texts.
fn assignment(key: &Key, value: impl Display) -> String {
    let value = match key.value {
        Value::Text | Value::Name | Value::OneOf(_) | Value::Cpus | Value::Waiting | Value::Priority => quote(value),
        Value::Shape | Value::Topology | Value::Bandwidth | Value::Lowering => quote(value),
        Value::Span | Value::Time | Value::Period | Value::Margin | Value::Path | Value::Axis => quote(value),
        _ => value.to_string(),
    };
    format!("{} = {value}", key.name)
}

/// A table on one line.
fn table(keys: &[String]) -> String {
    format!("{{ {} }}", keys.join(", "))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// A quoted TOML string.
fn quote(text: impl Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}
