//! From an rt-app task to a job.
//!
//! | the events of a task, again and again | its job |
//! |---|---|
//! | only `run` | `cpu`, with the sum of them as work |
//! | `run` and `sleep` | `pipeline` of one thread and one buffer; a `run` and the `sleep` after it are a stage that communicates |
//! | `run` and one `barrier` at the end | `barrier`, with the task's instances as threads |
//! | `run`, `lock`, `run`, `unlock` | `lock`, with the task's instances as threads |
//!
//! rt-app blocks at its barriers (a condition variable) and at its locks (a mutex that does not spin), so both wait by
//! `always-block`.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use policy::Span;
use scenario::Diagnostic;
use scenario::diagnostics::quoted;

use super::task::{Event, EventKind, Loops, Task};
use crate::name::Names;

/// A task's phases are written out to so many stages at the most.
const MOST_STAGES: u64 = 100;

/// Appends the jobs. What cannot be said is added to `found`.
pub(super) fn jobs(tasks: &[Task], out: &mut String, found: &mut Vec<Diagnostic>) {
    let mut users: HashMap<&EventKind, usize> = HashMap::new();
    for (number, task) in tasks.iter().enumerate() {
        for event in task.phases.iter().flat_map(|phase| &phase.events) {
            let shared = matches!(event.kind, EventKind::Barrier(_) | EventKind::Lock(_));
            if shared && *users.entry(&event.kind).or_insert(number) != number {
                let message = "another task has this, too: a scenario's threads meet, or take turns, within their job";
                let help = "write one task with as many instances, or another name here";
                found.push(Diagnostic::new(event.place.clone(), message).help(help));
            }
        }
        if let Err(diagnostic) = job(task, out) {
            found.push(*diagnostic);
        }
    }
}

type Refused<T> = Result<T, Box<Diagnostic>>;

fn refuse<T>(place: &Range<usize>, message: impl Into<String>, help: &str) -> Refused<T> {
    Err(Box::new(Diagnostic::new(place.clone(), message).help(help)))
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

fn head(task: &Task, kind: &str, copies: u32, out: &mut String) {
    // Writing into a String cannot fail.
    let _ = writeln!(out, "\n[[job]]\nname = \"{}\"\nkind = \"{kind}\"", task.name);
    for (key, value) in [
        ("copies", (copies > 1).then(|| copies.to_string())),
        ("arrival", (!task.delay.is_zero()).then(|| format!("\"{}\"", task.delay))),
        ("nice", (task.nice != 0).then(|| task.nice.to_string())),
        ("cpus", task.cpus.as_ref().map(|cpus| format!("\"{cpus}\""))),
        ("slice", task.slice.map(|slice| format!("\"{slice}\""))),
    ] {
        if let Some(value) = value {
            let _ = writeln!(out, "{key} = {value}");
        }
    }
}

/// How often: both loops together. Nothing where one of them is for ever.
fn times(inner: &Loops, outer: &Loops) -> Refused<u64> {
    let unbounded = if inner.times.is_none() { inner } else { outer };
    let Some((inner, outer)) = inner.times.zip(outer.times) else {
        let help = "write how often, as in \"loop\" : 1000";
        return refuse(
            &unbounded.place,
            "a scenario's threads sleep, meet and lock so and so often, and not for ever",
            help,
        );
    };
    // Each of them fits into an `int`.
    Ok(inner.saturating_mul(outer))
}

/// The only phase of a task whose threads meet or lock, and how often it is done.
fn only_phase(task: &Task) -> Refused<(&[Event], u64)> {
    match &task.phases[..] {
        [phase] => Ok((&phase.events, times(&phase.loops, &task.loops)?)),
        [_, second, ..] => {
            let help = "make a task of each phase";
            refuse(&second.loops.place, "a scenario's threads meet, or take turns, in one way only", help)
        }
        [] => refuse(&task.place, "this task has no phases", "write its events"),
    }
}

/// Runs up to the first other event: their sum, and the rest.
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
                return refuse(&phase.loops.place, "the phases after this one never come", "write how often");
            }
            None => None,
            Some((inner, outer)) => {
                work.map(|work| work + Span::from_nanos(sum.as_nanos().saturating_mul(inner.saturating_mul(outer))))
            }
        };
    }
    head(task, "cpu", 1, out);
    let _ = writeln!(out, "threads = {}", task.instances);
    if let Some(work) = work {
        let _ = writeln!(out, "work = \"{work}\"");
    }
    Ok(())
}

fn barrier_job(task: &Task, out: &mut String) -> Refused<()> {
    let (events, rounds) = only_phase(task)?;
    let (compute, rest) = sum_runs(events);
    let [Event { kind: EventKind::Barrier(_), .. }] = rest else {
        let place = rest.iter().find(|event| !matches!(event.kind, EventKind::Barrier(_))).or(rest.last());
        let place = place.map_or(&task.place, |event| &event.place);
        let message = "a scenario's threads compute, then meet, again and again, and nothing else";
        return refuse(place, message, "write `run`, then one `barrier`");
    };
    if compute.is_zero() {
        return refuse(
            &rest[0].place,
            "there is nothing to compute before this",
            "write a `run` of at least 1 before it",
        );
    }
    head(task, "barrier", 1, out);
    let _ = writeln!(
        out,
        "threads = {}\ncompute = \"{compute}\"\nrounds = {rounds}\nwaiting = \"always-block\"",
        task.instances
    );
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
        let message = "a scenario's threads compute, lock, compute and unlock, again and again, and nothing else";
        return refuse(place, message, "write `run`, `lock`, `run`, `unlock`, with one name");
    }
    if compute.is_zero() || critical.is_zero() {
        let place = acquired.map_or(&task.place, |event| &event.place);
        let message = "a scenario's threads compute both without the lock and with it";
        return refuse(place, message, "write a `run` of at least 1 before the `lock` and after it");
    }
    head(task, "lock", 1, out);
    let _ = writeln!(
        out,
        "threads = {}\ncompute = \"{compute}\"\ncritical = \"{critical}\"\nrounds = {rounds}\nwaiting = \"always-block\"",
        task.instances
    );
    Ok(())
}

/// A time of computing and the time of sleeping after it.
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
        let message = format!("written out, the phases of {} have too many events: {total}", quoted(&task.name));
        return refuse(&task.place, message, "let its phases loop less often, and the task more often");
    }
    let mut names = Names::default();
    let mut stages: Vec<Stage> = Vec::new();
    for (phase, times) in task.phases.iter().zip(repeats) {
        for event in (0..times).flat_map(|_| &phase.events) {
            let (compute, pause) = match event.kind {
                EventKind::Run(span) => (span, Span::ZERO),
                EventKind::Sleep(span) => (Span::ZERO, span),
                _ => return refuse(&event.place, "this does not go together with `sleep`", "make two tasks of it"),
            };
            match stages.last_mut() {
                // What follows a run belongs to it; only a run after a sleep is something new.
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
    head(task, "pipeline", task.instances, out);
    let _ = writeln!(out, "buffers = 1\nrounds = {rounds}\nstages = [");
    for Stage { name, compute, pause } in &stages {
        let kind = if pause.is_zero() { "compute" } else { "communicate" };
        let _ = write!(out, "    {{ name = \"{name}\", kind = \"{kind}\"");
        for (key, span) in [("compute", compute), ("device", pause)] {
            if !span.is_zero() {
                let _ = write!(out, ", {key} = \"{span}\"");
            }
        }
        let _ = writeln!(out, " }},");
    }
    let _ = writeln!(out, "]");
    if stages.len() > 1 {
        let names: Vec<String> = stages.iter().map(|stage| format!("\"{}\"", stage.name)).collect();
        let _ = writeln!(out, "thread = [[{}]]", names.join(", "));
    }
    Ok(())
}

/// `read` for `run_read`; without such an ending the whole key.
fn stage_name(key: &str) -> &str {
    let own = ["run_", "sleep_"].iter().find_map(|prefix| key.strip_prefix(prefix));
    own.filter(|own| !own.is_empty()).unwrap_or(key)
}
