//! From a scenario back to the text of a file.

use std::collections::HashSet;
use std::fmt::{self, Display, Write};

use crate::keys::{Key, compute, experiment, file, job, machine};
use crate::model::{Accounting, Compute, Job, Kind, Lengths, MachineKeys, Scenario, Scheduler, Tie};

impl Scenario {
    /// The scenario as a file, in one canonical form: [`crate::read`] reads it back as an equal scenario.
    ///
    /// The first arm stands as machine and jobs, and the sweep lists the values of all arms. What is not written in the
    /// scenario stays unwritten, and the defaults of `[experiment]` are spelled out.
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
    optional(out, &machine::SCHEDULER, keys.scheduler.map(Scheduler::name).map(quote))?;
    optional(out, &machine::QUANTUM, keys.quantum.map(quote))?;
    optional(out, &machine::TICK, keys.tick.map(quote))?;
    optional(out, &machine::SLICE, keys.slice.map(quote))?;
    optional(out, &machine::TIE, keys.tie.map(Tie::name).map(quote))?;
    optional(out, &machine::ALLOCATION, keys.allocation)?;
    optional(out, &machine::PENALTY, keys.penalty)?;
    optional(out, &machine::BONUS, keys.bonus)?;
    optional(out, &machine::THRESHOLD, keys.threshold)?;
    optional(out, &machine::ACCOUNTING, keys.accounting.map(Accounting::name).map(quote))?;
    optional(out, &machine::CHARGE_SWITCH, keys.charge_switch)?;
    optional(out, &machine::TAIL, keys.tail)?;
    optional(out, &machine::WAKEUP, keys.wakeup.map(quote))
}

fn write_job(job: &Job, out: &mut String) -> fmt::Result {
    line(out, &job::NAME, quote(&job.name))?;
    line(out, &job::KIND, quote(job.kind.name()))?;
    line(out, &job::COPIES, job.copies)?;
    match &job.kind {
        Kind::Barrier { threads, compute, rounds, waiting } => {
            line(out, &job::PARTIES, threads)?;
            match *compute {
                Compute::Normal { mean, sd } => line(out, &job::COMPUTE, lengths(Lengths { mean, sd }))?,
                Compute::Granularity(granularity) => line(out, &job::GRANULARITY, quote(granularity.name()))?,
            }
            line(out, &job::ROUNDS, rounds)?;
            line(out, &job::WAITING, quote(waiting))
        }
        Kind::Lock { threads, compute, critical, rounds, waiting } => {
            line(out, &job::CONTENDERS, threads)?;
            line(out, &job::OUTSIDE, lengths(*compute))?;
            line(out, &job::CRITICAL, lengths(*critical))?;
            line(out, &job::TURNS, rounds)?;
            line(out, &job::WAITING, quote(waiting))
        }
        Kind::Cpu { threads, work } => {
            line(out, &job::THREADS, threads)?;
            optional(out, &job::WORK, work.map(quote))
        }
        Kind::Command { argv, threads, work } => {
            line(out, &job::ARGV, format!("[{}]", argv.iter().map(quote).collect::<Vec<_>>().join(", ")))?;
            line(out, &job::SPREAD, threads)?;
            optional(out, &job::CPU_TIME, work.map(quote))
        }
    }
}

/// Never as a single span: a sweep may lead into the table.
fn lengths(Lengths { mean, sd }: Lengths) -> String {
    let (mean, sd) = (quote(mean), quote(sd));
    format!("{{ {} = {mean}, {} = {sd} }}", compute::MEAN.name, compute::SD.name)
}

fn line(out: &mut String, key: &Key, value: impl Display) -> fmt::Result {
    writeln!(out, "{} = {value}", key.name)
}

fn optional(out: &mut String, key: &Key, value: Option<impl Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| line(out, key, value))
}

/// A text as TOML writes it, between quotes.
fn quote(text: impl Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}
