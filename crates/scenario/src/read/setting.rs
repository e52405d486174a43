//! Reads the machine and the jobs of one arm.

use std::ops::Range;

use policy::Span;
use toml::de::DeTable;

use super::cells;
use super::coscheduling::{self, coscheduling};
use super::fibers::{GROUPS, fibers};
use super::message::message;
use super::pipeline::{STAGES, pipeline};
use super::table::{NamedTables, ReadReport, Table};
use super::value::{self, Node};
use crate::arrival::Arrival;
use crate::diagnostics::Diagnostic;
use crate::distribution::Distribution;
use crate::keys::{self, Key, experiment, file, job, machine};
use crate::model::{Attributes, Compute, Granularity, Job, JobKind, Machine, MachineKeys, Setting};

/// Reads the setting of one arm from the file with the arm's values in it. Returns `None` if a
/// problem was reported.
pub(super) fn setting(root: &Table<'_, '_>) -> Option<Setting> {
    let report = root.report;
    let mark = report.mark();
    let table = root.table(&file::MACHINE);
    let machine = table.as_ref().map(machine_keys).unwrap_or_default();
    let is_sound = report.mark() == mark;
    let coscheduling = table.as_ref().and_then(|table| coscheduling(root, table));
    let experiment = root.get(&file::EXPERIMENT).filter(|node| node.get_ref().is_table());
    let keep_running = experiment
        .and_then(|_| root.table(&file::EXPERIMENT)?.read(&experiment::KEEP_RUNNING, value::flag))
        .unwrap_or(false);
    let jobs = jobs(root, &machine, is_sound);
    if report.mark() != mark {
        return None;
    }
    check_totals(&jobs, &machine, report);
    let jobs = jobs.into_iter().map(|(job, _)| job).collect();
    let setting = Setting { machine, jobs, coscheduling, keep_running };
    if let Some(of_machine) = &table {
        coscheduling::check(root, of_machine, &setting);
    }
    (report.mark() == mark).then_some(setting)
}

fn machine_keys(table: &Table<'_, '_>) -> MachineKeys {
    table.check_keys(machine::ALL, |_| None);
    let keys = MachineKeys::read(table);
    if [machine::LIKE, machine::CPUS, machine::TOPOLOGY, machine::CELLS].iter().all(|key| table.get(key).is_none()) {
        let diagnostic = Diagnostic::new(table.header.clone(), "the machine has no CPUs");
        let help = "write `cpus = 32`, or `like = \"host\"` for the machine that this runs on";
        table.report.missing(diagnostic.help(help));
    }
    if let (Some(topology), Some(cpus)) = (keys.topology, keys.cpus)
        && topology.cpus() != cpus
    {
        let of_topology = topology.cpus();
        let message = format!("the topology has {of_topology} CPUs ({topology}), and `cpus` is {cpus}");
        let help = format!("write `cpus = {of_topology}`, or leave `cpus` out");
        let diagnostic = Diagnostic::new(table.place(&machine::TOPOLOGY), message).help(help);
        table.report.add(diagnostic.context(table.place(&machine::CPUS), "the other number"));
    }
    if let (Some(mesh), cpus) = (keys.cells, keys.written_cpus().unwrap_or(1))
        && u64::from(mesh.cells()) * u64::from(cpus) > keys::MOST_CPUS_OF_CELLS.into()
    {
        let message = format!("{mesh} cells of {cpus} CPUs have more than {} together", keys::MOST_CPUS_OF_CELLS);
        table.report.add(Diagnostic::new(table.place(&machine::CELLS), message).help("write fewer `cells` or `cpus`"));
    }
    keys
}

const JOBS: NamedTables = NamedTables {
    key: &file::JOB,
    what: "job",
    name: &job::NAME,
    twice: "give each job its own name, or one job `copies`",
};

/// A job and the place of its header.
type PlacedJob = (Job, Range<usize>);

/// Reads the jobs. `is_sound` if the keys of the machine are valid.
fn jobs(root: &Table<'_, '_>, machine: &MachineKeys, is_sound: bool) -> Vec<PlacedJob> {
    if let Some(node) = root.get(&file::JOB)
        && node.get_ref().as_array().is_some_and(|array| array.is_empty())
    {
        let diagnostic = Diagnostic::new(node.span(), "there are no jobs");
        root.report.missing(diagnostic.help(value::example(&file::JOB)));
    }
    let cpus = machine.written_cpus().filter(|_| machine.cells.is_none());
    let jobs = root.named_tables(&JOBS, |table, name| {
        let copies = table.read(&job::COPIES, value::count).unwrap_or(1);
        let attributes = attributes(table, cpus);
        let at = table.read(&job::ARRIVAL, value::span).unwrap_or(Span::ZERO);
        let arrival = Arrival { at, every: table.distribution(&job::EVERY) };
        let kind = kind(table);
        if let (Some(kind), true) = (&kind, is_sound) {
            cells::check(table, kind, machine.cells);
        }
        Some((Job { attributes, arrival, ..Job::new(name?, copies, kind?) }, table.header.clone()))
    });
    jobs.unwrap_or_default()
}

/// Reads the scheduling attributes of a job's threads, on a machine with this many CPUs, if known.
fn attributes(table: &Table<'_, '_>, cpus: Option<u32>) -> Attributes {
    let nice = table.read(&job::NICE, value::nice).unwrap_or(0);
    let set = table.read(&job::CPUS, value::cpus);
    if let (Some(set), Some(cpus)) = (&set, cpus)
        && set.iter().all(|cpu| cpu.0 >= cpus)
    {
        let message = format!("{} cannot run anywhere: there is no CPU {set}", table.what);
        let help = format!("the machine has CPUs 0 to {}: name some of them", cpus - 1);
        table.report.add(Diagnostic::new(table.place(&job::CPUS), message).help(help));
    }
    Attributes { nice, cpus: set, slice: table.read(&job::SLICE, value::span) }
}

fn kind(table: &Table<'_, '_>) -> Option<JobKind> {
    let Some(name) = table.read(&job::KIND, value::one_of) else {
        // Without a kind, any key of any kind may be right.
        let any: Vec<&[Key]> = std::iter::once(job::COMMON).chain(job::OF_KINDS.map(|(_, keys)| keys)).collect();
        table.check_keys(&any, |_| None);
        return None;
    };
    let own = job::OF_KINDS.iter().find(|(kind, _)| *kind == name).map_or(job::COMMON, |(_, keys)| keys);
    table.check_keys(&[job::COMMON, own], |written| {
        let owners = job::OF_KINDS.iter().filter(|(_, keys)| keys.iter().any(|key| key.name == written));
        let owners: Vec<String> = owners.map(|(kind, _)| format!("`{kind}`")).collect();
        let jobs = value::listed(&owners, "and");
        let names: Vec<&str> = job::COMMON.iter().chain(own.iter()).map(|key| key.name).collect();
        let elsewhere = format!("it belongs to jobs of kind {jobs}; this one is of kind `{name}`");
        (!owners.is_empty()).then(|| value::with_nearest(written, &names, &elsewhere))
    });
    match name {
        "barrier" => barrier(table),
        "lock" => lock(table),
        "cpu" => {
            let threads = table.read(&job::THREADS, value::count).unwrap_or(1);
            Some(JobKind::Cpu { threads, work: table.distribution(&job::WORK) })
        }
        "pipeline" => pipeline(table).map(JobKind::Pipeline),
        "fibers" => fibers(table).map(JobKind::Fibers),
        "message" => message(table).map(JobKind::Message),
        _ => {
            let argv = table.read(&job::ARGV, value::words);
            let threads = table.read(&job::SPREAD, value::count).unwrap_or(1);
            let work = table.read(&job::CPU_TIME, value::span);
            Some(JobKind::Command { argv: argv?, threads, work })
        }
    }
}

fn barrier(table: &Table<'_, '_>) -> Option<JobKind> {
    let threads = table.read(&job::PARTIES, value::count);
    let waiting = table.read(&job::WAITING, value::waiting);
    let both = "both say how long the threads compute between two barriers: keep one";
    let compute = require_one(table, &job::COMPUTE, &job::GRANULARITY, both).and_then(|is_drawn| {
        let granularity = value::named(&Granularity::ALL, Granularity::name);
        match is_drawn {
            true => table.distribution(&job::COMPUTE).map(Compute::Drawn),
            false => table.read(&job::GRANULARITY, granularity).map(Compute::Granularity),
        }
    });
    let mean = match &compute {
        Some(Compute::Drawn(times)) => Some(times.mean()),
        // It depends on a cost that may be unknown before the run.
        Some(Compute::Granularity(_)) => None,
        None => Some(1.0),
    };
    let rounds = rounds(table, &job::ROUNDS, mean);
    Some(JobKind::Barrier { threads: threads?, compute: compute?, rounds: rounds?, waiting: waiting? })
}

/// Requires one of two keys. Returns whether it is the first, or `None` after a report that both or
/// none is written; `both` is the help for both.
pub(super) fn require_one(table: &Table<'_, '_>, first: &Key, second: &Key, both: &str) -> Option<bool> {
    match (table.get(first), table.get(second)) {
        (Some(one), Some(other)) => {
            let message = format!("both `{}` and `{}` are given", first.name, second.name);
            let diagnostic = Diagnostic::new(other.span(), message).context(one.span(), "this says the same");
            table.report.add(diagnostic.help(both));
            None
        }
        (None, None) => {
            table.missing(first, format!("{} has neither `{}` nor `{}`", table.what, first.name, second.name));
            None
        }
        (first, _) => Some(first.is_some()),
    }
}

/// The number of rounds, if a thread computes for this many nanoseconds on average in each: as
/// written, or as many as make up the `work` that is written instead.
fn rounds(table: &Table<'_, '_>, key: &Key, mean: Option<f64>) -> Option<u64> {
    let work = &job::IN_PLACE_OF_ROUNDS;
    if require_one(table, key, work, "both state the amount of work: keep one")? {
        return table.read(key, value::count);
    }
    let span = table.read(work, value::span)?;
    let Some(mean) = mean else {
        let help = "write `rounds`, or `compute` in place of `granularity`";
        let message = "how many rounds this makes depends on what a switch costs";
        return table.report.reject(table.place(work), message, help);
    };
    // A draw is at least one step, and so one nanosecond.
    let rounds = (span.as_nanos() as f64 / mean.max(1.0)).ceil().max(1.0);
    if rounds > keys::MOST_ROUNDS as f64 {
        let message = format!("this makes more than {} rounds", keys::MOST_ROUNDS);
        return table.report.reject(table.place(work), message, "write less `work`, or a longer `compute`");
    }
    Some(rounds as u64)
}

fn lock(table: &Table<'_, '_>) -> Option<JobKind> {
    let threads = table.read(&job::CONTENDERS, value::count);
    let waiting = table.read(&job::WAITING, value::waiting);
    let (compute, critical) = (table.distribution(&job::OUTSIDE), table.distribution(&job::CRITICAL));
    let mean = |times: &Option<Distribution>| times.as_ref().map_or(1.0, Distribution::mean);
    let rounds = rounds(table, &job::TURNS, Some(mean(&compute) + mean(&critical)))?;
    Some(JobKind::Lock { threads: threads?, compute: compute?, critical: critical?, rounds, waiting: waiting? })
}

/// Checks the jobs as a whole: that the run ends, and that its sums fit their types and the memory.
fn check_totals(jobs: &[PlacedJob], machine: &MachineKeys, report: &ReadReport) {
    if let Some((_, first)) = jobs.first()
        && jobs.iter().all(|(job, _)| job.copies == 0 || job.kind.is_endless())
    {
        let diagnostic = Diagnostic::new(first.clone(), "no job ever ends");
        report.missing(diagnostic.help("a run ends when its last finite job ends: give one job `work`"));
    }
    // The CPUs of the machine that rowlock runs on are unknown here: assume as many as a pipeline
    // can use.
    let cpus = machine.written_cpus().unwrap_or(u32::MAX);
    let cs = machine.complete(&Machine::with_cpus(1)).context_switch;
    let mut threads = 0_u64;
    let mut work = 0.0;
    for (job, header) in jobs {
        let of_job = u64::from(job.copies) * u64::from(job.kind.threads(cpus));
        threads += of_job;
        if threads > keys::MOST_THREADS {
            let message = format!("the jobs up to here have more than {} threads together", keys::MOST_THREADS);
            report.add(Diagnostic::new(header.clone(), message).help("lower `threads` or `copies`"));
            return;
        }
        let (copies, of_job) = (f64::from(job.copies), of_job as f64);
        work += match &job.kind {
            JobKind::Barrier { rounds, compute, .. } => of_job * *rounds as f64 * compute.mean(cs),
            JobKind::Lock { rounds, compute, critical, .. } => {
                of_job * *rounds as f64 * (compute.mean() + critical.mean())
            }
            JobKind::Cpu { work, .. } => of_job * work.as_ref().map_or(0.0, Distribution::mean),
            JobKind::Command { work, .. } => copies * work.unwrap_or(Span::ZERO).as_nanos() as f64,
            JobKind::Pipeline(pipeline) => copies * pipeline.rounds as f64 * pipeline.mean_of_a_round(),
            JobKind::Fibers(fibers) => copies * fibers.mean(),
            JobKind::Message(message) => {
                of_job * message.rounds as f64 * message.compute.as_ref().map_or(0.0, Distribution::mean)
            }
        };
        if work > keys::MOST_WORK.as_nanos() as f64 {
            let message = "the jobs up to here compute for more than 100 years together";
            let help = "lower `rounds`, `work` or the number of threads";
            report.add(Diagnostic::new(header.clone(), message).help(help));
            return;
        }
    }
}

/// A named job of the file.
#[derive(Debug)]
pub(super) struct NamedJob<'t> {
    pub(super) name: &'t str,
    pub(super) index: usize,
    /// The names of its stages or groups, each with the key of their list and its index; unnamed
    /// ones are left out.
    pub(super) parts: Vec<(&'static Key, &'t str, usize)>,
}

/// The named jobs of the file.
pub(super) fn named_jobs<'t>(root: &'t DeTable<'_>) -> Vec<NamedJob<'t>> {
    let jobs = names(root.get(file::JOB.name), &job::NAME);
    jobs.map(|(node, name, index)| {
        let parts = [STAGES, GROUPS].into_iter().flat_map(|list| {
            let parts = names(node.get_ref().get(list.key.name), list.name);
            parts.map(move |(_, name, index)| (list.key, name, index))
        });
        NamedJob { name, index, parts: parts.collect() }
    })
    .collect()
}

/// The named tables of a list, each with its name and index.
fn names<'t, 'i: 't>(
    list: Option<&'t Node<'i>>,
    key: &Key,
) -> impl Iterator<Item = (&'t Node<'i>, &'t str, usize)> + use<'t, 'i> {
    let name = key.name;
    let tables = list.and_then(|node| node.get_ref().as_array()).into_iter().flat_map(|array| array.iter().enumerate());
    tables.filter_map(move |(index, node)| Some((node, node.get_ref().get(name)?.get_ref().as_str()?, index)))
}
