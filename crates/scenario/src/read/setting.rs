//! The machine and the jobs of one arm.

use std::collections::HashMap;
use std::ops::Range;

use policy::Span;
use policy::wakeup::Scheme;
use toml::de::{DeTable, DeValue};

use super::table::{Report, Table};
use super::value::{self, Node};
use crate::diagnostics::{Diagnostic, quoted};
use crate::keys::{self, Key, compute, experiment, file, job, machine};
use crate::model::{
    Accounting, Compute, Granularity, Job, Kind, Lengths, Machine, MachineKeys, Scheduler, Setting, Tie,
};

/// Reads the setting of one arm: of the file with the arm's values in it. `None` where something was reported.
pub(super) fn setting(root: &Table<'_, '_>, report: &mut Report) -> Option<Setting> {
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
    let jobs = jobs(root, report);
    if report.mark() != mark {
        return None;
    }
    check_totals(&jobs, &machine, report);
    let jobs = jobs.into_iter().map(|(job, _)| job).collect();
    (report.mark() == mark).then_some(Setting { machine, jobs, keep_running })
}

fn machine_keys(table: &Table<'_, '_>, report: &mut Report) -> MachineKeys {
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
        cpus: table.read(&machine::CPUS, report, value::count),
        spin_margin: table.read(&machine::SPIN_MARGIN, report, value::margin),
        scheduler: named(table, &machine::SCHEDULER, report, &Scheduler::ALL, Scheduler::name),
        tie: named(table, &machine::TIE, report, &Tie::ALL, Tie::name),
        allocation: table.read(&machine::ALLOCATION, report, value::count),
        penalty: table.read(&machine::PENALTY, report, value::count),
        bonus: table.read(&machine::BONUS, report, value::count),
        threshold: table.read(&machine::THRESHOLD, report, value::count),
        accounting: named(table, &machine::ACCOUNTING, report, &Accounting::ALL, Accounting::name),
        charge_switch: table.read(&machine::CHARGE_SWITCH, report, value::flag),
        tail: table.read(&machine::TAIL, report, value::flag),
        wakeup: named(table, &machine::WAKEUP, report, &Scheme::ALL, Scheme::name),
    };
    let says_how_many = [machine::LIKE, machine::CPUS].iter().any(|key| table.get(key, report).is_some());
    if !says_how_many {
        let diagnostic = Diagnostic::new(table.header.clone(), "the machine has no CPUs");
        report.missing(diagnostic.help("write `cpus = 32`, or `like = \"host\"` for the machine that this runs on"));
    }
    keys
}

/// A value that is written by its name.
fn named<T: Copy>(
    table: &Table<'_, '_>,
    key: &Key,
    report: &mut Report,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Option<T> {
    let written = table.read(key, report, value::one_of)?;
    all.iter().copied().find(|value| name(*value) == written)
}

/// A job and the place of its header.
type Placed = (Job, Range<usize>);

fn jobs(root: &Table<'_, '_>, report: &mut Report) -> Vec<Placed> {
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
        let kind = kind(&table, report);
        if let (Some(name), Some(kind)) = (name, kind) {
            jobs.push((Job { name, copies, kind }, node.span()));
        }
    }
    jobs
}

fn kind(table: &Table<'_, '_>, report: &mut Report) -> Option<Kind> {
    let Some(name) = table.read(&job::KIND, report, value::one_of) else {
        // Without a kind every key of every kind may be right.
        let any = [job::COMMON, job::BARRIER, job::LOCK, job::CPU, job::COMMAND];
        table.check_keys(&any, report, |_| None);
        return None;
    };
    let own = job::OF_KINDS.iter().find(|(kind, _)| *kind == name).map_or(job::COMMON, |(_, keys)| keys);
    table.check_keys(&[job::COMMON, own], report, |written| {
        let owners = job::OF_KINDS.iter().filter(|(_, keys)| keys.iter().any(|key| key.name == written));
        let owners: Vec<String> = owners.map(|(kind, _)| format!("`{kind}`")).collect();
        let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
        let jobs = value::listed(&owners, "and");
        (!owners.is_empty()).then(|| format!("it belongs to jobs of kind {jobs}; this one is of kind `{name}`"))
    });
    if name == Kind::NAMES[0] {
        barrier(table, report)
    } else if name == Kind::NAMES[1] {
        lock(table, report)
    } else if name == Kind::NAMES[2] {
        Some(Kind::Cpu {
            threads: table.read(&job::THREADS, report, value::count).unwrap_or(1),
            work: table.read(&job::WORK, report, value::span),
        })
    } else {
        let argv = table.read(&job::ARGV, report, value::words);
        let threads = table.read(&job::SPREAD, report, value::count).unwrap_or(1);
        let work = table.read(&job::CPU_TIME, report, value::span);
        argv.map(|argv| Kind::Command { argv, threads, work })
    }
}

fn barrier(table: &Table<'_, '_>, report: &mut Report) -> Option<Kind> {
    let threads = table.read(&job::PARTIES, report, value::count);
    let rounds = table.read(&job::ROUNDS, report, value::count);
    let waiting = table.read(&job::WAITING, report, value::waiting);
    let written = (table.get(&job::COMPUTE, report), table.get(&job::GRANULARITY, report));
    let compute = match written {
        (Some(node), None) => {
            lengths(&job::COMPUTE, node, report).map(|Lengths { mean, sd }| Compute::Normal { mean, sd })
        }
        (None, Some(_)) => table.read(&job::GRANULARITY, report, value::one_of).and_then(|name| {
            let granularity = Granularity::ALL.into_iter().find(|granularity| granularity.name() == name);
            granularity.map(Compute::Granularity)
        }),
        (Some(compute), Some(granularity)) => {
            let diagnostic = Diagnostic::new(granularity.span(), "both `compute` and `granularity` are given");
            let diagnostic = diagnostic.context(compute.span(), "this says it as well");
            report.add(diagnostic.help("both say how long the threads compute between two barriers: keep one"));
            None
        }
        (None, None) => {
            let message = format!("{} has neither `compute` nor `granularity`", table.what);
            report.missing(Diagnostic::new(table.header.clone(), message).help(value::example(&job::COMPUTE)));
            None
        }
    };
    Some(Kind::Barrier { threads: threads?, compute: compute?, rounds: rounds?, waiting: waiting? })
}

fn lock(table: &Table<'_, '_>, report: &mut Report) -> Option<Kind> {
    let threads = table.read(&job::CONTENDERS, report, value::count);
    let rounds = table.read(&job::TURNS, report, value::count);
    let waiting = table.read(&job::WAITING, report, value::waiting);
    let mut lengths = |key| table.get(key, report).and_then(|node| lengths(key, node, report));
    let (compute, critical) = (lengths(&job::OUTSIDE), lengths(&job::CRITICAL));
    Some(Kind::Lock { threads: threads?, compute: compute?, critical: critical?, rounds: rounds?, waiting: waiting? })
}

/// Lengths as the `key` has them: a span, or a table of mean and deviation.
fn lengths(key: &Key, node: &Node<'_>, report: &mut Report) -> Option<Lengths> {
    let Some(entries) = node.get_ref().as_table() else {
        let mean = value::span(key, node).map_err(|diagnostic| report.add(*diagnostic)).ok()?;
        return Some(Lengths { mean, sd: Span::ZERO });
    };
    let table = Table::new(format!("`{}`", key.name), node.span(), entries);
    table.check_keys(&[compute::ALL], report, |_| None);
    let mean = table.read(&compute::MEAN, report, value::span);
    let sd = match table.get(&compute::SD, report) {
        Some(_) => table.read(&compute::SD, report, value::span)?,
        None => Span::ZERO,
    };
    let mean = mean?;
    if sd > mean {
        let place = table.get(&compute::SD, report).map_or(node.span(), toml::Spanned::span);
        let diagnostic = Diagnostic::new(place, format!("`sd` ({sd}) is above `mean` ({mean})"));
        report.add(diagnostic.label("more than one draw in six would be negative").help("write a smaller `sd`"));
        return None;
    }
    Some(Lengths { mean, sd })
}

/// Checks what no single job can be blamed for: that the run ends, and that its sums fit their types and the memory.
fn check_totals(jobs: &[Placed], machine: &MachineKeys, report: &mut Report) {
    if let Some((_, first)) = jobs.first()
        && jobs.iter().all(|(job, _)| job.kind.is_endless())
    {
        let diagnostic = Diagnostic::new(first.clone(), "no job ever ends");
        report.missing(diagnostic.help("a run ends with its last job that ends: give one of them `work`"));
    }
    let cs = machine.complete(&Machine::with_cpus(1)).context_switch;
    let mut threads = 0_u64;
    let mut work = 0.0;
    for (job, header) in jobs {
        let of_job = u64::from(job.copies) * u64::from(job.kind.threads());
        threads += of_job;
        if threads > keys::MOST_THREADS {
            let message = format!("the jobs up to here have more than {} threads together", keys::MOST_THREADS);
            report.add(Diagnostic::new(header.clone(), message).help("lower `threads` or `copies`"));
            return;
        }
        work += match &job.kind {
            Kind::Barrier { rounds, compute, .. } => of_job as f64 * *rounds as f64 * compute.on(cs).mean,
            Kind::Lock { rounds, compute, critical, .. } => {
                of_job as f64 * *rounds as f64 * (compute.normal().mean + critical.normal().mean)
            }
            Kind::Cpu { work, .. } => of_job as f64 * work.unwrap_or(Span::ZERO).as_nanos() as f64,
            Kind::Command { work, .. } => f64::from(job.copies) * work.unwrap_or(Span::ZERO).as_nanos() as f64,
        };
        if work > keys::MOST_WORK.as_nanos() as f64 {
            let message = "the jobs up to here compute for more than 100 years together";
            report
                .add(Diagnostic::new(header.clone(), message).help("lower `rounds`, `work` or the number of threads"));
            return;
        }
    }
}

/// The name that each job of the file was given, with its number; jobs without one are left out.
pub(super) fn job_names<'t>(root: &'t DeTable<'_>) -> Vec<(&'t str, usize)> {
    let jobs = root.get(file::JOB.name).and_then(|node| node.get_ref().as_array());
    let names = jobs.into_iter().flat_map(|array| array.iter().enumerate());
    names.filter_map(|(index, node)| Some((node.get_ref().get(job::NAME.name)?.get_ref().as_str()?, index))).collect()
}
