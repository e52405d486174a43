//! Converts a scenario to a file for rt-app.

use std::fmt;

use policy::priority::{self, StageKind};
use policy::waiting::WaitingRule;
use policy::{CpuId, Span};
use scenario::pipeline::{Stage, Structure};
use scenario::{Compute, Distribution, Job, JobKind, Pipeline, Scenario};

use super::task::LARGEST;

/// The features of a scenario that rt-app cannot express; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusals(pub Vec<String>);

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rt-app cannot express this:")?;
        self.0.iter().try_for_each(|refusal| write!(f, "\n  {refusal}"))
    }
}

/// Writes the scenario as a file for rt-app, with notes. [`read`](super::read) converts it back to
/// an equal scenario, except for the table `[experiment]`, which rt-app cannot express.
///
/// # Errors
///
/// Returns [`Refusals`] with everything that rt-app cannot express.
pub fn write(scenario: &Scenario) -> Result<(String, Vec<String>), Refusals> {
    let mut refused = Vec::new();
    let mut notes = Vec::new();
    let mut tasks = Vec::new();
    let [arm] = &scenario.arms[..] else {
        let why = "the sweep: rt-app has none; write a scenario with the values of one arm";
        return Err(Refusals(vec![why.to_owned()]));
    };
    let setting = &arm.setting;
    let machine = scenario::MachineKeys { like_host: true, ..scenario::MachineKeys::default() };
    if setting.machine != machine {
        let why = "the machine: rt-app runs on the machine on which it is started; write only `like = \"host\"`";
        refused.push(why.to_owned());
    }
    if setting.keep_running {
        refused.push("`keep_running`: rt-app's tasks end when they have finished".to_owned());
    }
    if !super::has_plain_experiment(scenario) {
        notes.push("`[experiment]`: rt-app runs once, and has no seeds".to_owned());
    }
    for job in &setting.jobs {
        match task(job) {
            Ok(task) => tasks.push(task),
            Err(why) => refused.push(format!("job `{}`: {why}", job.name)),
        }
        if job.kind.is_endless() {
            notes.push(format!("job `{}` ends with the others; in rt-app it runs until it is stopped", job.name));
        }
    }
    if !refused.is_empty() {
        return Err(Refusals(refused));
    }
    // A comment cannot contain its end, and the reader trims its blanks.
    let title = scenario.title.replace("*/", "* /").trim().trim_start_matches("* ").trim().to_owned();
    if title != scenario.title {
        notes.push("the title is changed slightly to fit into a comment".to_owned());
    }
    let tasks = tasks.join(",\n");
    Ok((format!("{{\n\t/* {title} */\n\t\"tasks\" : {{\n{tasks}\n\t}},\n{GLOBAL}\n}}\n"), notes))
}

/// All tasks run until they have finished.
const GLOBAL: &str = "\t\"global\" : {\n\t\t\"duration\" : -1,\n\t\t\"default_policy\" : \"SCHED_OTHER\",\n\t\t\"pi_enabled\" : false\n\t}";

type Member = (String, String);

fn refuse<T>(why: &str) -> Result<T, String> {
    Err(why.to_owned())
}

fn task(job: &Job) -> Result<String, String> {
    if job.copies == 0 {
        return refuse("it has no copies; leave it out");
    }
    let (instances, events) = match &job.kind {
        JobKind::Cpu { threads, work } => {
            let events = match work {
                Some(work) => vec![number("loop", 1), number("run", constant(work, "work")?)],
                None => vec![number("loop", -1), number("run", 1_000_000)],
            };
            (single_copy(job, *threads)?, events)
        }
        JobKind::Barrier { threads, compute, rounds, waiting } => {
            check_waiting(*waiting)?;
            let Compute::Drawn(compute) = compute else {
                return refuse("its `granularity` is a distribution; write a span as `compute`");
            };
            let compute = constant(compute, "compute")?;
            let events = vec![loop_count(*rounds)?, number("run", compute), text("barrier", &job.name)];
            (single_copy(job, *threads)?, events)
        }
        JobKind::Lock { threads, compute, critical, rounds, waiting } => {
            check_waiting(*waiting)?;
            let events = vec![
                loop_count(*rounds)?,
                number("run0", constant(compute, "compute")?),
                text("lock", &job.name),
                number("run1", constant(critical, "critical")?),
                text("unlock", &job.name),
            ];
            (single_copy(job, *threads)?, events)
        }
        JobKind::Pipeline(pipeline) => (job.copies, stages(pipeline)?),
        JobKind::Command { .. } => return refuse("rt-app starts no programs"),
        JobKind::Fibers(_) => return refuse("rt-app has no fibers"),
        JobKind::Message(_) => return refuse("rt-app sends no messages between ranks"),
    };
    if job.arrival.every.is_some() {
        return refuse("`every` starts its copies one after the other; write separate jobs, each with its `arrival`");
    }
    let instances = if cfg!(rowlock_canary = "an-instance-is-lost") { 1 } else { instances };
    let mut members = vec![number("instance", i64::from(instances))];
    if !job.arrival.at.is_zero() {
        members.push(number("delay", micros(job.arrival.at, "arrival")?));
    }
    members.extend(attributes(job)?);
    members.extend(events);
    let lines: Vec<String> = members.iter().map(|(key, value)| format!("\t\t\t\"{key}\" : {value}")).collect();
    Ok(format!("\t\t\"{}\" : {{\n{}\n\t\t}}", job.name, lines.join(",\n")))
}

fn attributes(job: &Job) -> Result<Vec<Member>, String> {
    let attributes = &job.attributes;
    let mut members = Vec::new();
    if attributes.nice != 0 {
        members.push(number("priority", i64::from(attributes.nice)));
    }
    if let Some(cpus) = &attributes.cpus {
        let cpus: Vec<String> = cpus.iter().map(|CpuId(cpu)| cpu.to_string()).collect();
        members.push(("cpus".to_owned(), format!("[{}]", cpus.join(", "))));
    }
    if let Some(slice) = attributes.slice {
        members.push(number("dl-runtime", micros(slice, "slice")?));
    }
    Ok(members)
}

/// The threads of a job without copies.
fn single_copy(job: &Job, threads: u32) -> Result<u32, String> {
    match job.copies {
        1 => Ok(threads),
        _ => refuse("its `copies` would become one job in rt-app, with all threads; write separate jobs"),
    }
}

fn check_waiting(waiting: WaitingRule) -> Result<(), String> {
    match waiting {
        WaitingRule::AlwaysBlock => Ok(()),
        rule => Err(format!("it waits by `{rule}`, but rt-app blocks immediately; write `waiting = \"always-block\"`")),
    }
}

/// Writes the events of the stages if one thread runs them in turn.
fn stages(pipeline: &Pipeline) -> Result<Vec<Member>, String> {
    let Pipeline { stages, buffers, rounds, structure, shared, priority, waiting } = pipeline;
    let in_turn = match (&shared[..], &stages[..]) {
        ([], [stage]) => stage.kind != StageKind::Compute,
        ([turns], _) => turns.iter().map(|turn| turn.stage).eq(0..stages.len()) && turns.len() > 1,
        _ => false,
    };
    if !in_turn || *buffers != 1 || stages.iter().any(|stage| stage.fork != 1) {
        return refuse(
            "rt-app has no queues; it can only express pipelines with one buffer and one thread that runs all \
             stages in turn",
        );
    }
    let is_plain = *structure == Structure::default()
        && *priority == priority::PriorityRule::Default
        && *waiting == WaitingRule::Adaptive;
    if !is_plain || stages.iter().any(|stage| stage.nice != 0) {
        return refuse(
            "its `structure`, `priority`, `waiting` and its stages' `nice` have no meaning for rt-app; leave them out",
        );
    }
    let mut members = vec![loop_count(*rounds)?];
    for (position, Stage { name, kind, compute, device, .. }) in stages.iter().enumerate() {
        if *kind == StageKind::Io {
            return Err(format!("rt-app has no device for its stage `{name}`; a sleep is of kind `communicate`"));
        }
        // The reader would combine two consecutive computations.
        if device.is_none() && position + 1 < stages.len() {
            return Err(format!("rt-app would combine its stage `{name}` with the next one; write one stage"));
        }
        if compute.is_none() && position > 0 {
            return Err(format!("rt-app would combine its stage `{name}` with the previous one; write one stage"));
        }
        if let Some(compute) = compute {
            members.push(number(&format!("run_{name}"), constant(compute, "compute")?));
        }
        if let Some(device) = device {
            members.push(number(&format!("sleep_{name}"), constant(device, "device")?));
        }
    }
    Ok(members)
}

fn number(key: &str, value: i64) -> Member {
    (key.to_owned(), value.to_string())
}

fn text(key: &str, value: &str) -> Member {
    (key.to_owned(), format!("\"{value}\""))
}

fn loop_count(rounds: u64) -> Result<Member, String> {
    match i64::try_from(rounds) {
        Ok(rounds) if rounds <= LARGEST => Ok(number("loop", rounds)),
        _ => Err(format!("rt-app allows at most {LARGEST} rounds")),
    }
}

fn constant(times: &Distribution, key: &str) -> Result<i64, String> {
    match times.constant() {
        Some(span) => micros(span, key),
        None => Err(format!("its `{key}` is a distribution, but rt-app has none; write a span")),
    }
}

fn micros(span: Span, key: &str) -> Result<i64, String> {
    let nanos = span.as_nanos();
    match i64::try_from(nanos / 1000) {
        Ok(micros) if nanos.is_multiple_of(1000) && (1..=LARGEST).contains(&micros) => Ok(micros),
        _ => Err(format!("its `{key}` is {span}, but rt-app counts whole microseconds, 1 to {LARGEST}")),
    }
}
