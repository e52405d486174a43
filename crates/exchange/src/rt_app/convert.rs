//! Converts rt-app tasks to jobs.
//!
//! The repeated events of a task determine its job:
//!
//! * only `run`: `cpu`, with the sum as work;
//! * `run` and `sleep`: `pipeline` with one thread and one buffer; a `run` and the `sleep` after it
//!   are a stage of kind `communicate`;
//! * `run` and one `barrier` at the end: `barrier`, with the task's instances as threads;
//! * `run`, `lock`, `run`, `unlock`: `lock`, with the task's instances as threads.
//!
//! rt-app blocks at its barriers (a condition variable) and locks (a mutex that does not spin), so
//! both use the waiting rule `always-block`.

use std::collections::HashMap;
use std::fmt::Display;

use policy::Span;
use scenario::Diagnostic;
use scenario::diagnostics::quoted;

use super::task::{Event, EventKind, Loops, Task};
use crate::name::Names;
use crate::{Refused, refuse};

/// The maximum number of stages to which the phases of a task are unrolled.
const MOST_STAGES: u64 = 100;

/// Appends the jobs. Adds everything that a scenario cannot express to `found`.
pub(super) fn jobs(tasks: &[Task], out: &mut String, found: &mut Vec<Diagnostic>) {
    let mut users: HashMap<&EventKind, usize> = HashMap::new();
    for (number, task) in tasks.iter().enumerate() {
        for event in task.phases.iter().flat_map(|phase| &phase.events) {
            let shared = matches!(event.kind, EventKind::Barrier(_) | EventKind::Lock(_));
            if shared && *users.entry(&event.kind).or_insert(number) != number {
                let message = "another task uses this too, but a scenario's barriers and locks belong to one job";
                let help = "write one task with as many instances, or another name here";
                found.push(Diagnostic::new(event.place.clone(), message).help(help));
            }
        }
        if let Err(diagnostic) = job(task, out) {
            found.push(*diagnostic);
        }
    }
}

fn job(task: &Task, out: &mut String) -> Refused<()> {
    let mut events = task.phases.iter().flat_map(|phase| &phase.events);
    let is_sleep = |event: &Event| matches!(event.kind, EventKind::Sleep(_));
    let is_barrier = |event: &Event| matches!(event.kind, EventKind::Barrier(_));
    if events.clone().any(|event| matches!(event.kind, EventKind::Lock(_) | EventKind::Unlock(_))) {
        lock_job(task, out)
    } else if events.clone().any(is_barrier) {
        barrier_job(task, out)
    } else if events.any(is_sleep) {
        pipeline_job(task, out)
    } else {
        cpu_job(task, out)
    }
}

fn write_task(task: &Task, kind: &str, copies: u32, keys: &[(&str, Option<String>)], out: &mut String) {
    let attributes = [
        ("copies", (copies > 1).then(|| copies.to_string())),
        ("arrival", (!task.delay.is_zero()).then(|| text(task.delay))),
        ("nice", (task.nice != 0).then(|| task.nice.to_string())),
        ("cpus", task.cpus.as_ref().map(text)),
        ("slice", task.slice.map(text)),
    ];
    crate::write_job(out, &task.name, kind, &[&attributes[..], keys].concat());
}

fn text(value: impl Display) -> String {
    format!("\"{value}\"")
}

/// The number of rounds of both loops together. An error if one of them is endless.
fn times(inner: &Loops, outer: &Loops) -> Refused<u64> {
    let unbounded = if inner.times.is_none() { inner } else { outer };
    let Some((inner, outer)) = inner.times.zip(outer.times) else {
        let help = "write a number, as in \"loop\" : 1000";
        return refuse(&unbounded.place, "a scenario's threads cannot sleep, meet or lock forever", help);
    };
    // Each factor fits into an `int`.
    Ok(inner.saturating_mul(outer))
}

/// The only phase of a task with a barrier or lock, and its number of rounds.
fn only_phase(task: &Task) -> Refused<(&[Event], u64)> {
    match &task.phases[..] {
        [phase] => Ok((&phase.events, times(&phase.loops, &task.loops)?)),
        [_, second, ..] => {
            let help = "write a task for each phase";
            refuse(&second.loops.place, "a task with a barrier or a lock must have a single phase", help)
        }
        [] => refuse(&task.place, "this task has no phases", "write its events"),
    }
}

/// The sum of the `run` events before the first other event, and the remaining events.
fn sum_runs(events: &[Event]) -> (Span, &[Event]) {
    let mut sum = Span::ZERO;
    for (number, event) in events.iter().enumerate() {
        let EventKind::Run(span) = event.kind else { return (sum, &events[number..]) };
        sum += span;
    }
    (sum, &[])
}

fn cpu_job(task: &Task, out: &mut String) -> Refused<()> {
    let mut work = Some(Span::ZERO);
    let last = task.phases.len().saturating_sub(1);
    for (number, phase) in task.phases.iter().enumerate() {
        let (sum, _) = sum_runs(&phase.events);
        if sum.is_zero() {
            return refuse(&task.place, "there is nothing to compute", "write a `run` of at least 1");
        }
        work = match phase.loops.times.zip(task.loops.times) {
            None if phase.loops.times.is_none() && number < last => {
                let message = "the phases after this one are never reached";
                return refuse(&phase.loops.place, message, "write a number of rounds");
            }
            None => None,
            Some((inner, outer)) => {
                work.map(|work| work + Span::from_nanos(sum.as_nanos().saturating_mul(inner.saturating_mul(outer))))
            }
        };
    }
    let keys = [("threads", Some(task.instances.to_string())), ("work", work.map(text))];
    write_task(task, "cpu", 1, &keys, out);
    Ok(())
}

fn barrier_job(task: &Task, out: &mut String) -> Refused<()> {
    let (events, rounds) = only_phase(task)?;
    let (compute, rest) = sum_runs(events);
    let [Event { kind: EventKind::Barrier(_), .. }] = rest else {
        let place = rest.iter().find(|event| !matches!(event.kind, EventKind::Barrier(_))).or(rest.last());
        let place = place.map_or(&task.place, |event| &event.place);
        let message = "a scenario's threads can only repeat this: compute, then meet";
        return refuse(place, message, "write `run`, then one `barrier`");
    };
    if compute.is_zero() {
        let help = "write a `run` of at least 1 before it";
        return refuse(&rest[0].place, "there is nothing to compute before this", help);
    }
    write_rounds(task, "barrier", compute, None, rounds, out);
    Ok(())
}

fn lock_job(task: &Task, out: &mut String) -> Refused<()> {
    let (events, rounds) = only_phase(task)?;
    let (compute, rest) = sum_runs(events);
    let (acquired, (critical, rest)) = match rest {
        [first @ Event { kind: EventKind::Lock(_), .. }, rest @ ..] => (Some(first), sum_runs(rest)),
        rest => (None, (Span::ZERO, rest)),
    };
    let fits = match (acquired.map(|event| &event.kind), rest) {
        (Some(EventKind::Lock(acquired)), [Event { kind: EventKind::Unlock(released), .. }]) => acquired == released,
        _ => false,
    };
    if !fits {
        let place = rest.iter().find(|event| !matches!(event.kind, EventKind::Unlock(_))).or(rest.last());
        let place = place.map_or(&task.place, |event| &event.place);
        let message = "a scenario's threads can only repeat this: compute, lock, compute, unlock";
        return refuse(place, message, "write `run`, `lock`, `run`, `unlock`, with one name");
    }
    if compute.is_zero() || critical.is_zero() {
        let place = acquired.map_or(&task.place, |event| &event.place);
        let message = "a scenario's threads must compute both without the lock and with it";
        return refuse(place, message, "write a `run` of at least 1 before the `lock` and after it");
    }
    write_rounds(task, "lock", compute, Some(critical), rounds, out);
    Ok(())
}

fn write_rounds(task: &Task, kind: &str, compute: Span, critical: Option<Span>, rounds: u64, out: &mut String) {
    let keys = [
        ("threads", Some(task.instances.to_string())),
        ("compute", Some(text(compute))),
        ("critical", critical.map(text)),
        ("rounds", Some(rounds.to_string())),
        ("waiting", Some(text("always-block"))),
    ];
    write_task(task, kind, 1, &keys, out);
}

/// A time of computing and a time of sleeping after it.
struct Stage {
    name: String,
    compute: Span,
    pause: Span,
}

fn pipeline_job(task: &Task, out: &mut String) -> Refused<()> {
    let (rounds, repeats) = match &task.phases[..] {
        [phase] => (times(&phase.loops, &task.loops)?, vec![1]),
        phases => {
            let once = Loops { times: Some(1), place: task.place.clone() };
            let repeats: Refused<Vec<u64>> = phases.iter().map(|phase| times(&phase.loops, &once)).collect();
            (times(&task.loops, &once)?, repeats?)
        }
    };
    let length = |(phase, times): (&super::task::Phase, &u64)| times.saturating_mul(phase.events.len() as u64);
    let total = task.phases.iter().zip(&repeats).map(length).fold(0, u64::saturating_add);
    if total > 2 * MOST_STAGES {
        let message = format!("unrolled, the phases of {} have too many events: {total}", quoted(&task.name));
        return refuse(&task.place, message, "let its phases loop less often, and the task more often");
    }
    let mut names = Names::default();
    let mut stages: Vec<Stage> = Vec::new();
    for (phase, times) in task.phases.iter().zip(repeats) {
        for event in (0..times).flat_map(|_| &phase.events) {
            let (compute, pause) = match event.kind {
                EventKind::Run(span) => (span, Span::ZERO),
                EventKind::Sleep(span) => (Span::ZERO, span),
                _ => return refuse(&event.place, "this cannot be combined with `sleep`", "split it into two tasks"),
            };
            match stages.last_mut() {
                // Sleeps and runs after a run belong to its stage; a run after a sleep begins a new
                // stage.
                Some(last) if last.pause.is_zero() || compute.is_zero() => {
                    last.compute += compute;
                    last.pause += pause;
                }
                _ => stages.push(Stage { name: names.take(stage_name(&event.key)), compute, pause }),
            }
        }
    }
    if stages.iter().any(|stage| stage.compute.is_zero() && stage.pause.is_zero()) {
        return refuse(&task.place, "there is a `run` or `sleep` of 0", "leave it out");
    }
    let line = |Stage { name, compute, pause }: &Stage| {
        let kind = if pause.is_zero() { "compute" } else { "communicate" };
        let times = [("compute", compute), ("device", pause)].into_iter().filter(|(_, span)| !span.is_zero());
        let times: String = times.map(|(key, span)| format!(", {key} = \"{span}\"")).collect();
        format!("    {{ name = \"{name}\", kind = \"{kind}\"{times} }},\n")
    };
    let names: Vec<String> = stages.iter().map(|stage| text(&stage.name)).collect();
    let keys = [
        ("buffers", Some("1".to_owned())),
        ("rounds", Some(rounds.to_string())),
        ("stages", Some(format!("[\n{}]", stages.iter().map(line).collect::<String>()))),
        ("thread", (names.len() > 1).then(|| format!("[[{}]]", names.join(", ")))),
    ];
    write_task(task, "pipeline", task.instances, &keys, out);
    Ok(())
}

/// `read` for `run_read`; the whole key if nothing follows the prefix.
fn stage_name(key: &str) -> &str {
    let own = ["run_", "sleep_"].iter().find_map(|prefix| key.strip_prefix(prefix));
    own.filter(|own| !own.is_empty()).unwrap_or(key)
}
