//! Converts the history of threads to the jobs of a scenario.

use std::collections::HashSet;

use ::scenario::diagnostics::quoted;
use policy::{Instant, Span};

use super::history::{History, Thread};
use crate::name::Names;
use crate::{quoted_toml, write_job};

/// The maximum number of different lengths in a distribution.
pub const MOST_VALUES: usize = 256;

/// The names of kernel threads, used if nothing else identifies them.
const KERNEL: [&str; 16] = [
    "kthreadd",
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "rcu_",
    "rcuop/",
    "rcuos/",
    "cpuhp/",
    "idle_inject/",
    "kcompactd",
    "kswapd",
    "khugepaged",
    "irq/",
    "jbd2/",
    "swapper",
    "watchdog",
];

/// The properties of a job except its lengths. Threads with equal keys are merged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct JobKey {
    name: String,
    arrival: Span,
    nice: i32,
    shape: JobShape,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum JobShape {
    /// A number of threads that only compute.
    Compute(usize),
    /// A thread that computes and pauses, and the number of rounds.
    Pause(usize),
}

/// A job under construction.
#[derive(Debug)]
struct Job {
    key: JobKey,
    /// Distinguishes its process from others.
    process: (bool, u32),
    /// The id of one of its threads.
    thread: u32,
    copies: usize,
    bursts: Vec<Span>,
    pauses: Vec<Span>,
}

/// Writes the scenario. Returns `None` if there are no jobs. Adds omissions to `notes`.
pub(super) fn write(name: &str, history: &History, cpus: Option<u32>, notes: &mut Vec<String>) -> Option<String> {
    let (start, _) = history.extent?;
    let threads = choose(&history.threads, notes);
    let mut jobs: Vec<Job> = threads.iter().filter_map(|thread| job(thread, start)).collect();
    // Sorts by age as far as ids indicate it; a trace contains threads in any order.
    jobs.sort_by_key(|job| job.thread);
    let jobs = merge_jobs(jobs);
    if jobs.is_empty() {
        return None;
    }
    let cpus = cpus.unwrap_or(0).max(history.last_cpu.saturating_add(1));
    let mut out = format!("title = {}\n\n[machine]\ncpus = {cpus}\n", quoted_toml(&format!("From {name}")));
    let mut names = Names::default();
    let mut taken = HashSet::new();
    let mut thinned = false;
    for job in &jobs {
        let Job { key: JobKey { name, arrival, nice, shape }, thread, copies, bursts, pauses, .. } = job;
        let own = if taken.insert(name.clone()) { name.clone() } else { format!("{name}-{thread}") };
        let mut keys = vec![
            ("copies", (*copies > 1).then(|| copies.to_string())),
            ("arrival", (!arrival.is_zero()).then(|| format!("\"{arrival}\""))),
            ("nice", (*nice != 0).then(|| nice.to_string())),
        ];
        let mut lengths = |lengths: &[Span]| distribution(lengths, &mut thinned);
        let kind = match shape {
            JobShape::Compute(threads) => {
                keys.extend([("threads", Some(threads.to_string())), ("work", Some(lengths(bursts)))]);
                "cpu"
            }
            JobShape::Pause(rounds) => {
                let (compute, device) = (lengths(bursts), lengths(pauses));
                let stage = format!("name = \"run\", kind = \"communicate\", compute = {compute}, device = {device}");
                keys.extend([("buffers", Some("1".to_owned())), ("rounds", Some(rounds.to_string()))]);
                keys.push(("stages", Some(format!("[{{ {stage} }}]"))));
                "pipeline"
            }
        };
        write_job(&mut out, &names.take(&own), kind, &keys);
    }
    if thinned {
        notes.push(format!("distributions of more than {MOST_VALUES} lengths are reduced to {MOST_VALUES} quantiles"));
    }
    Some(out)
}

/// Chooses the threads for the scenario, and notes why others are omitted.
fn choose<'t>(threads: &'t [Thread], notes: &mut Vec<String>) -> Vec<&'t Thread> {
    let is_kernel_thread =
        |thread: &&Thread| thread.is_kernel_thread || KERNEL.iter().any(|name| thread.name.starts_with(name));
    let (kernel, others): (Vec<_>, Vec<_>) = threads.iter().partition(is_kernel_thread);
    let (real_time, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|thread| thread.priority < 100);
    let (unseen, chosen): (Vec<_>, Vec<_>) = others.into_iter().partition(|thread| shape(thread).is_none());
    for (left_out, what, why) in [
        (kernel, "thread", "of the kernel"),
        (real_time, "real-time thread", "not supported by any simulated kernel"),
        (unseen, "thread", "not recorded from one sleep to the next"),
    ] {
        if !left_out.is_empty() {
            let ran: Span = left_out.iter().map(|thread| thread.ran).sum();
            let (count, names) = (count_of(left_out.len(), what), names(&left_out));
            notes.push(format!("left out: {count} {why}, with {ran} of running time: {names}"));
        }
    }
    let partial: Span = chosen.iter().map(|thread| thread.partial).sum();
    if !partial.is_zero() {
        notes.push(format!("left out: {partial} of running time whose beginning or end was not recorded"));
    }
    let missing: u32 = chosen.iter().map(|thread| thread.missing_wakes).sum();
    if missing > 0 {
        let missing = count_of(missing as usize, "missing wakeup");
        notes.push(format!("{missing}: a pause without one is assumed to end when the thread ran again"));
    }
    chosen
}

/// `1 thread`, `2 threads`.
pub(super) fn count_of(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Lists some names, each once.
fn names(threads: &[&Thread]) -> String {
    const MOST: usize = 8;
    let mut seen = HashSet::new();
    let names: Vec<&str> =
        threads.iter().map(|thread| thread.name.as_str()).filter(|name| seen.insert(*name)).collect();
    let shown: Vec<String> = names.iter().take(MOST).map(|name| quoted(name).to_string()).collect();
    let more = if names.len() > MOST { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// The shape of a thread's job: all its work if it never slept, otherwise its bursts. `None` if too
/// little was recorded.
fn shape(thread: &Thread) -> Option<JobShape> {
    match (thread.bursts.len(), thread.pauses.len()) {
        (0, 0) if !thread.has_slept && !thread.ran.is_zero() => Some(JobShape::Compute(1)),
        (1, 0) => Some(JobShape::Compute(1)),
        (0, _) | (_, 0) => None,
        (bursts, _) => Some(JobShape::Pause(bursts)),
    }
}

fn job(thread: &Thread, start: Instant) -> Option<Job> {
    let shape = shape(thread)?;
    let bursts = if thread.has_slept { thread.bursts.clone() } else { vec![thread.ran] };
    let arrival = thread.begins.map_or(Span::ZERO, |begins| begins.since(start));
    let key = JobKey { name: base(&thread.name).to_owned(), arrival, nice: thread.priority - 120, shape };
    let process = thread.process.map_or((false, thread.id), |process| (true, process));
    Some(Job { key, process, thread: thread.id, copies: 1, bursts, pauses: thread.pauses.clone() })
}

/// The name without the number of a copy, as in `crew.0`.
fn base(name: &str) -> &str {
    let is_number = |number: &str| number.parse::<u32>().is_ok_and(|parsed| parsed.to_string() == number);
    name.rsplit_once('.').filter(|(base, number)| !base.is_empty() && is_number(number)).map_or(name, |(base, _)| base)
}

/// Merges related jobs: first the computing threads of each process, then jobs with equal keys.
fn merge_jobs(jobs: Vec<Job>) -> Vec<Job> {
    let mut teams = merge_by_key(jobs, |job| match job.key.shape {
        JobShape::Compute(_) => Some((job.process, job.key.arrival, job.key.nice)),
        JobShape::Pause(_) => None,
    });
    for team in &mut teams {
        if let JobShape::Compute(threads) = &mut team.key.shape {
            *threads = std::mem::replace(&mut team.copies, 1);
        }
    }
    merge_by_key(teams, |job| Some(job.key.clone()))
}

/// Merges jobs with the same key, in the order of the first job with each key.
fn merge_by_key<K: Eq + std::hash::Hash>(jobs: Vec<Job>, key: impl Fn(&Job) -> Option<K>) -> Vec<Job> {
    let mut places = std::collections::HashMap::new();
    let mut merged: Vec<Job> = Vec::new();
    for job in jobs {
        let place = key(&job).map_or(merged.len(), |key| *places.entry(key).or_insert(merged.len()));
        match merged.get_mut(place) {
            Some(first) => {
                first.copies += job.copies;
                first.bursts.extend(job.bursts);
                first.pauses.extend(job.pauses);
            }
            None => merged.push(job),
        }
    }
    merged
}

/// Formats lengths as a TOML value; a single span if all are equal.
fn distribution(lengths: &[Span], thinned: &mut bool) -> String {
    // Lengths below the resolution of the trace's clock become the shortest possible time.
    let mut sorted: Vec<Span> = lengths.iter().map(|length| (*length).max(Span::from_nanos(1))).collect();
    sorted.sort_unstable();
    let mut values = counted(&sorted);
    if values.len() > MOST_VALUES {
        *thinned = true;
        // The middles of equal parts.
        let quantile = |part: usize| sorted.get((2 * part + 1) * sorted.len() / (2 * MOST_VALUES)).copied();
        values = counted(&(0..MOST_VALUES).filter_map(quantile).collect::<Vec<_>>());
    }
    if let [(only, _)] = &values[..] {
        return format!("\"{only}\"");
    }
    let spans: Vec<String> = values.iter().map(|(value, _)| format!("\"{value}\"")).collect();
    let mut text = format!("{{ distribution = \"empirical\", values = [{}]", spans.join(", "));
    if values.iter().any(|(_, count)| *count > 1) {
        let counts: Vec<String> = values.iter().map(|(_, count)| count.to_string()).collect();
        text += &format!(", weights = [{}]", counts.join(", "));
    }
    text + " }"
}

/// Each value with its number of occurrences.
fn counted(sorted: &[Span]) -> Vec<(Span, usize)> {
    sorted.chunk_by(|a, b| a == b).filter_map(|equal| Some((*equal.first()?, equal.len()))).collect()
}
