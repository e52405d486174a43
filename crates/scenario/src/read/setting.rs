//! Reads the machine and the jobs of one arm.

use std::collections::HashMap;
use std::ops::Range;

use policy::Span;
use policy::wakeup::Scheme;
use toml::de::{DeTable, DeValue};

use super::distribution::distribution;
use super::fibers::fibers;
use super::pipeline::pipeline;
use super::table::{ReadReport, Table};
use super::value::{self, Node};
use crate::arrival::Arrival;
use crate::diagnostics::{Diagnostic, quoted};
use crate::distribution::Distribution;
use crate::keys::{self, Key, experiment, file, group, job, machine, stage};
use crate::model::{
    Accounting, Attributes, Compute, Granularity, Job, JobKind, Machine, MachineKeys, Scheduler, Setting, Tie,
};

/// Reads the setting of one arm from the file with the arm's values in it. Returns `None` if a
/// problem was reported.
pub(super) fn setting(root: &Table<'_, '_>, report: &mut ReadReport) -> Option<Setting> {
    let mark = report.mark();
    let machine = root
        .get(&file::MACHINE, report)
        .and_then(|node| Table::of("`[machine]`", &file::MACHINE, node, report))
        .map(|table| machine_keys(&table, report))
        .unwrap_or_default();
    let keep_running = root
        .get(&file::EXPERIMENT, report)
        .and_then(|node| node.get_ref().as_table().map(|entries| Table::new("`[experiment]`", node.span(), entries)))
        .and_then(|table| table.read(&experiment::KEEP_RUNNING, report, value::flag))
        .unwrap_or(false);
    let jobs = jobs(root, machine.cpus, report);
    if report.mark() != mark {
        return None;
    }
    check_totals(&jobs, &machine, report);
    let jobs = jobs.into_iter().map(|(job, _)| job).collect();
    (report.mark() == mark).then_some(Setting { machine, jobs, keep_running })
}

fn machine_keys(table: &Table<'_, '_>, report: &mut ReadReport) -> MachineKeys {
    table.check_keys(machine::ALL, report, |_| None);
    let like_host = table.read(&machine::LIKE, report, value::one_of).is_some();
    let mut span = |key| table.read(key, report, value::span);
    let keys = MachineKeys {
        like_host,
        step: span(&machine::STEP),
        context_switch: span(&machine::CONTEXT_SWITCH),
        wakeup_cost: span(&machine::WAKEUP_COST),
        yield_cost: span(&machine::YIELD_COST),
        quantum: span(&machine::QUANTUM),
        tick: span(&machine::TICK),
        slice: span(&machine::SLICE),
        latency: span(&machine::LATENCY),
        granularity: span(&machine::GRANULARITY),
        wakeup_granularity: span(&machine::WAKEUP_GRANULARITY),
        migration_cost: span(&machine::MIGRATION_COST),
        running_time: span(&machine::RUNNING_TIME),
        cpus: table.read(&machine::CPUS, report, value::count),
        levels: table.read(&machine::LEVELS, report, value::count),
        boost: table.read(&machine::BOOST, report, value::period),
        spin_margin: table.read(&machine::SPIN_MARGIN, report, value::margin),
        device_depth: table.read(&machine::DEVICE_DEPTH, report, value::count),
        scheduler: table.read_named(&machine::SCHEDULER, report, &Scheduler::ALL, Scheduler::name),
        tie: table.read_named(&machine::TIE, report, &Tie::ALL, Tie::name),
        allocation: table.read(&machine::ALLOCATION, report, value::count),
        penalty: table.read(&machine::PENALTY, report, value::count),
        bonus: table.read(&machine::BONUS, report, value::count),
        threshold: table.read(&machine::THRESHOLD, report, value::count),
        accounting: table.read_named(&machine::ACCOUNTING, report, &Accounting::ALL, Accounting::name),
        groups: table.read(&machine::GROUPS, report, value::flag),
        charge_switch: table.read(&machine::CHARGE_SWITCH, report, value::flag),
        tail: table.read(&machine::TAIL, report, value::flag),
        wakeup: table.read_named(&machine::WAKEUP, report, &Scheme::ALL, Scheme::name),
        timeslice: table.read(&machine::TIMESLICE, report, value::count),
    };
    let says_how_many = [machine::LIKE, machine::CPUS].iter().any(|key| table.get(key, report).is_some());
    if !says_how_many {
        let diagnostic = Diagnostic::new(table.header.clone(), "the machine has no CPUs");
        report.missing(diagnostic.help("write `cpus = 32`, or `like = \"host\"` for the machine that this runs on"));
    }
    keys
}

/// A job and the place of its header.
type PlacedJob = (Job, Range<usize>);

fn jobs(root: &Table<'_, '_>, cpus: Option<u32>, report: &mut ReadReport) -> Vec<PlacedJob> {
    let Some(node) = root.get(&file::JOB, report) else { return Vec::new() };
    let DeValue::Array(array) = node.get_ref() else {
        report.add(*value::mismatch(&file::JOB, node));
        return Vec::new();
    };
    if array.is_empty() {
        report.missing(Diagnostic::new(node.span(), "there are no jobs").help(value::example(&file::JOB)));
    }
    let mut names: HashMap<String, Range<usize>> = HashMap::new();
    let mut jobs = Vec::new();
    for (index, node) in array.iter().enumerate() {
        let Some(entries) = node.get_ref().as_table() else {
            report.add(*value::mismatch(&file::JOB, node));
            continue;
        };
        let what = match entries.get(job::NAME.name).and_then(|name| name.get_ref().as_str()) {
            Some(name) => format!("job {}", quoted(name)),
            None => format!("job number {}", index + 1),
        };
        let table = Table::new(what, node.span(), entries);
        let name = table.read(&job::NAME, report, value::name);
        if let (Some(name), Some(place)) = (&name, table.get(&job::NAME, report)) {
            if let Some(first) = names.get(name) {
                let diagnostic = Diagnostic::new(place.span(), format!("two jobs are called `{name}`"));
                let diagnostic = diagnostic.context(first.clone(), "the first of them");
                report.add(diagnostic.help("give each job its own name, or one job `copies`"));
            } else {
                names.insert(name.clone(), place.span());
            }
        }
        let copies = table.read(&job::COPIES, report, value::count).unwrap_or(1);
        let attributes = attributes(&table, cpus, report);
        let arrival = Arrival {
            at: table.read(&job::ARRIVAL, report, value::span).unwrap_or(Span::ZERO),
            every: table.get(&job::EVERY, report).and_then(|node| distribution(&job::EVERY, node, report)),
        };
        let kind = kind(&table, report);
        if let (Some(name), Some(kind)) = (name, kind) {
            jobs.push((Job { attributes, arrival, ..Job::new(name, copies, kind) }, node.span()));
        }
    }
    jobs
}

/// Reads the scheduling attributes of a job's threads, on a machine with this many CPUs, if known.
fn attributes(table: &Table<'_, '_>, cpus: Option<u32>, report: &mut ReadReport) -> Attributes {
    let nice = table.read(&job::NICE, report, value::nice).unwrap_or(0);
    let set = table.read(&job::CPUS, report, value::cpus);
    if let (Some(set), Some(cpus), Some(node)) = (&set, cpus, table.get(&job::CPUS, report))
        && set.iter().all(|cpu| cpu.0 >= cpus)
    {
        let message = format!("{} cannot run anywhere: there is no CPU {set}", table.what);
        let last = cpus - 1;
        report.add(
            Diagnostic::new(node.span(), message).help(format!("the machine has CPUs 0 to {last}: name some of them")),
        );
    }
    Attributes { nice, cpus: set, slice: table.read(&job::SLICE, report, value::span) }
}

fn kind(table: &Table<'_, '_>, report: &mut ReadReport) -> Option<JobKind> {
    let Some(name) = table.read(&job::KIND, report, value::one_of) else {
        // Without a kind, any key of any kind may be right.
        let any = [job::COMMON, job::BARRIER, job::LOCK, job::CPU, job::COMMAND, job::PIPELINE, job::FIBERS];
        table.check_keys(&any, report, |_| None);
        return None;
    };
    let own = job::OF_KINDS.iter().find(|(kind, _)| *kind == name).map_or(job::COMMON, |(_, keys)| keys);
    table.check_keys(&[job::COMMON, own], report, |written| {
        let owners = job::OF_KINDS.iter().filter(|(_, keys)| keys.iter().any(|key| key.name == written));
        let owners: Vec<String> = owners.map(|(kind, _)| format!("`{kind}`")).collect();
        let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
        let jobs = value::listed(&owners, "and");
        let names: Vec<&str> = job::COMMON.iter().chain(own.iter()).map(|key| key.name).collect();
        let elsewhere = format!("it belongs to jobs of kind {jobs}; this one is of kind `{name}`");
        (!owners.is_empty()).then(|| value::with_nearest(written, &names, &elsewhere))
    });
    if name == JobKind::NAMES[0] {
        barrier(table, report)
    } else if name == JobKind::NAMES[1] {
        lock(table, report)
    } else if name == JobKind::NAMES[2] {
        let threads = table.read(&job::THREADS, report, value::count).unwrap_or(1);
        let work = table.get(&job::WORK, report).and_then(|node| distribution(&job::WORK, node, report));
        Some(JobKind::Cpu { threads, work })
    } else if name == JobKind::NAMES[4] {
        pipeline(table, report).map(JobKind::Pipeline)
    } else if name == JobKind::NAMES[5] {
        fibers(table, report).map(JobKind::Fibers)
    } else {
        let argv = table.read(&job::ARGV, report, value::words);
        let threads = table.read(&job::SPREAD, report, value::count).unwrap_or(1);
        let work = table.read(&job::CPU_TIME, report, value::span);
        argv.map(|argv| JobKind::Command { argv, threads, work })
    }
}

fn barrier(table: &Table<'_, '_>, report: &mut ReadReport) -> Option<JobKind> {
    let threads = table.read(&job::PARTIES, report, value::count);
    let waiting = table.read(&job::WAITING, report, value::waiting);
    let written = (table.get(&job::COMPUTE, report), table.get(&job::GRANULARITY, report));
    let compute = match written {
        (Some(node), None) => distribution(&job::COMPUTE, node, report).map(Compute::Drawn),
        (None, Some(_)) => table.read(&job::GRANULARITY, report, value::one_of).and_then(|name| {
            let granularity = Granularity::ALL.into_iter().find(|granularity| granularity.name() == name);
            granularity.map(Compute::Granularity)
        }),
        (Some(compute), Some(granularity)) => {
            let diagnostic = Diagnostic::new(granularity.span(), "both `compute` and `granularity` are given");
            let diagnostic = diagnostic.context(compute.span(), "this says the same");
            report.add(diagnostic.help("both say how long the threads compute between two barriers: keep one"));
            None
        }
        (None, None) => {
            let message = format!("{} has neither `compute` nor `granularity`", table.what);
            report.missing(Diagnostic::new(table.header.clone(), message).help(value::example(&job::COMPUTE)));
            None
        }
    };
    let mean = match &compute {
        Some(Compute::Drawn(times)) => Some(times.mean()),
        // It depends on a cost that may be unknown before the run.
        Some(Compute::Granularity(_)) => None,
        None => Some(1.0),
    };
    let rounds = rounds(table, &job::ROUNDS, mean, report);
    Some(JobKind::Barrier { threads: threads?, compute: compute?, rounds: rounds?, waiting: waiting? })
}

/// The number of rounds, if a thread computes for this many nanoseconds on average in each: as
/// written, or as many as make up the `work` that is written instead.
fn rounds(table: &Table<'_, '_>, key: &Key, mean: Option<f64>, report: &mut ReadReport) -> Option<u64> {
    let work = &job::IN_PLACE_OF_ROUNDS;
    match (table.get(key, report), table.get(work, report)) {
        (Some(_), None) => table.read(key, report, value::count),
        (None, Some(node)) => {
            let span = table.read(work, report, value::span)?;
            let Some(mean) = mean else {
                let diagnostic =
                    Diagnostic::new(node.span(), "how many rounds this makes depends on what a switch costs");
                report.add(diagnostic.help("write `rounds`, or `compute` in place of `granularity`"));
                return None;
            };
            // A draw is at least one step, and so one nanosecond.
            let rounds = (span.as_nanos() as f64 / mean.max(1.0)).ceil().max(1.0);
            if rounds > keys::MOST_ROUNDS as f64 {
                let diagnostic =
                    Diagnostic::new(node.span(), format!("this makes more than {} rounds", keys::MOST_ROUNDS));
                report.add(diagnostic.help("write less `work`, or a longer `compute`"));
                return None;
            }
            Some(rounds as u64)
        }
        (Some(rounds), Some(work)) => {
            let diagnostic = Diagnostic::new(work.span(), "both `rounds` and `work` are given");
            let diagnostic = diagnostic.context(rounds.span(), "this says the same");
            report.add(diagnostic.help("both state the amount of work: keep one"));
            None
        }
        (None, None) => {
            let message = format!("{} has neither `rounds` nor `work`", table.what);
            report.missing(Diagnostic::new(table.header.clone(), message).help(value::example(key)));
            None
        }
    }
}

fn lock(table: &Table<'_, '_>, report: &mut ReadReport) -> Option<JobKind> {
    let threads = table.read(&job::CONTENDERS, report, value::count);
    let waiting = table.read(&job::WAITING, report, value::waiting);
    let mut time = |key| table.get(key, report).and_then(|node| distribution(key, node, report));
    let (compute, critical) = (time(&job::OUTSIDE), time(&job::CRITICAL));
    let mean = |times: &Option<Distribution>| times.as_ref().map_or(1.0, Distribution::mean);
    let rounds = rounds(table, &job::TURNS, Some(mean(&compute) + mean(&critical)), report);
    Some(JobKind::Lock {
        threads: threads?,
        compute: compute?,
        critical: critical?,
        rounds: rounds?,
        waiting: waiting?,
    })
}

/// Checks the jobs as a whole: that the run ends, and that its sums fit their types and the memory.
fn check_totals(jobs: &[PlacedJob], machine: &MachineKeys, report: &mut ReadReport) {
    if let Some((_, first)) = jobs.first()
        && jobs.iter().all(|(job, _)| job.copies == 0 || job.kind.is_endless())
    {
        let diagnostic = Diagnostic::new(first.clone(), "no job ever ends");
        report.missing(diagnostic.help("a run ends when its last finite job ends: give one job `work`"));
    }
    // The CPUs of the machine that rowlock runs on are unknown here: assume as many as a pipeline
    // can use.
    let cpus = machine.cpus.unwrap_or(u32::MAX);
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
        work += match &job.kind {
            JobKind::Barrier { rounds, compute, .. } => of_job as f64 * *rounds as f64 * compute.mean(cs),
            JobKind::Lock { rounds, compute, critical, .. } => {
                of_job as f64 * *rounds as f64 * (compute.mean() + critical.mean())
            }
            JobKind::Cpu { work, .. } => of_job as f64 * work.as_ref().map_or(0.0, Distribution::mean),
            JobKind::Command { work, .. } => f64::from(job.copies) * work.unwrap_or(Span::ZERO).as_nanos() as f64,
            JobKind::Pipeline(pipeline) => f64::from(job.copies) * pipeline.rounds as f64 * pipeline.mean_of_a_round(),
            JobKind::Fibers(fibers) => f64::from(job.copies) * fibers.mean(),
        };
        if work > keys::MOST_WORK.as_nanos() as f64 {
            let message = "the jobs up to here compute for more than 100 years together";
            report
                .add(Diagnostic::new(header.clone(), message).help("lower `rounds`, `work` or the number of threads"));
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
        let parts = PARTS.iter().flat_map(|(list, own)| {
            let parts = names(node.get_ref().get(list.name), own);
            parts.map(|(_, name, index)| (*list, name, index))
        });
        NamedJob { name, index, parts: parts.collect() }
    })
    .collect()
}

/// The lists of named tables in jobs, and the keys of their names.
const PARTS: [(&Key, &Key); 2] = [(&job::STAGES, &stage::NAME), (&job::GROUPS, &group::NAME)];

/// The named tables of a list, each with its name and index.
fn names<'t, 'i: 't>(
    list: Option<&'t Node<'i>>,
    key: &Key,
) -> impl Iterator<Item = (&'t Node<'i>, &'t str, usize)> + use<'t, 'i> {
    let name = key.name;
    let tables = list.and_then(|node| node.get_ref().as_array()).into_iter().flat_map(|array| array.iter().enumerate());
    tables.filter_map(move |(index, node)| Some((node, node.get_ref().get(name)?.get_ref().as_str()?, index)))
}
