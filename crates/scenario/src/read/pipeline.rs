//! Reads a pipeline job: its stages, the threads that they share, and the rest.

use std::collections::HashMap;
use std::ops::Range;

use policy::priority::{PriorityRule, StageKind};
use policy::waiting::WaitingRule;
use toml::de::DeValue;

use super::table::{NamedTables, ReadReport, Table};
use super::value::{self, Node};
use crate::diagnostics::{Diagnostic, quoted};
use crate::keys::{self, job, stage};
use crate::pipeline::{Pipeline, Stage, StageTurn, Structure};

pub(super) fn pipeline(table: &Table<'_, '_>) -> Option<Pipeline> {
    let stages = table.parts(&STAGES, stage);
    let buffers = table.read(&job::BUFFERS, value::count);
    let rounds = table.read(&job::PASSES, value::count);
    let structure = table.read(&job::STRUCTURE, value::named(&Structure::ALL, Structure::name)).unwrap_or_default();
    let priority = table.read(&job::PRIORITY, value::priority).unwrap_or(PriorityRule::Default);
    let waiting = table.read(&job::QUEUEING, value::waiting).unwrap_or(WaitingRule::Adaptive);
    let threads = table.get(&job::THREAD);
    let stages = stages?;
    let shared = threads.map_or(Some(Vec::new()), |node| shared(node, &stages, buffers, table.report));
    let (shared, buffers, rounds) = (shared?, buffers?, rounds?);
    let pipeline = Pipeline { stages, buffers, rounds, structure, shared, priority, waiting };
    if let Some(node) = threads.filter(|_| pipeline.can_deadlock()) {
        let help = "give them more buffers, or turns of the same length";
        return table.report.reject(node.span(), "these threads would deadlock", help);
    }
    Some(pipeline)
}

pub(super) const STAGES: NamedTables = NamedTables {
    key: &job::STAGES,
    what: "stage",
    name: &stage::NAME,
    twice: "give each stage its own name, or `fork` one of them",
};

fn stage(table: &Table<'_, '_>, name: Option<String>) -> Option<Stage> {
    table.check_keys(&[stage::ALL], |_| None);
    let kind = table.read(&stage::KIND, value::named(&StageKind::ALL, StageKind::name));
    let fork = table.read(&stage::FORK, value::count).unwrap_or(1);
    let nice = table.read(&stage::NICE, value::nice).unwrap_or(0);
    let mark = table.report.mark();
    let (compute, device) = (table.distribution(&stage::COMPUTE), table.distribution(&stage::DEVICE));
    let kind = kind?;
    let required = if kind == StageKind::Compute { &stage::COMPUTE } else { &stage::DEVICE };
    if table.get(required).is_none() {
        table.missing(required, format!("{} is of kind `{kind}` and has no `{}`", table.what, required.name));
    }
    if let (StageKind::Compute, Some(node)) = (kind, table.get(&stage::DEVICE)) {
        let message = format!("{} is of kind `{kind}` and has a `{}`", table.what, stage::DEVICE.name);
        let help = "a computation uses no device: leave it out, or make the stage `io` or `communicate`";
        table.report.add(Diagnostic::new(node.span(), message).help(help));
    }
    (table.report.mark() == mark).then_some(Stage { name: name?, kind, compute, device, fork, nice })
}

/// Reads the shared threads.
fn shared(node: &Node<'_>, stages: &[Stage], buffers: Option<u32>, report: &ReadReport) -> Option<Vec<Vec<StageTurn>>> {
    let mark = report.mark();
    let mut threads = Vec::new();
    let mut seen: HashMap<usize, Range<usize>> = HashMap::new();
    let DeValue::Array(lists) = node.get_ref() else {
        return report.accept(Err(value::mismatch(&job::THREAD, node)));
    };
    for node in lists.iter() {
        let DeValue::Array(turns) = node.get_ref() else {
            report.add(*value::mismatch(&job::THREAD, node));
            continue;
        };
        if turns.is_empty() {
            let diagnostic = Diagnostic::new(node.span(), "a thread without a stage has nothing to do");
            report.add(diagnostic.help("leave it out"));
        }
        let mut thread: Vec<StageTurn> = Vec::new();
        for node in turns.iter() {
            let Some(turn) = report.accept(turn(node, stages, buffers)) else { continue };
            let wrong = |message, help| report.add(Diagnostic::new(node.span(), message).help(help));
            if let Some(first) = seen.insert(turn.stage, node.span()) {
                let diagnostic = Diagnostic::new(node.span(), "this stage is on two threads, or twice on one");
                report.add(diagnostic.context(first, "here already").help("leave one of them out"));
            } else if thread.last().is_some_and(|before| before.stage > turn.stage) {
                let help = "write the stages of a thread in the order of the pipeline";
                wrong("this stage comes too late on its thread", help);
            } else if thread.last().is_some_and(|before| before.times != turn.times) {
                let help = "a thread takes as many rounds of each of its stages";
                wrong("this turn is not as long as the one before it", help);
            } else {
                thread.push(turn);
            }
        }
        threads.push(thread);
    }
    (report.mark() == mark).then_some(threads)
}

/// Reads `STAGE` or `STAGE*N`.
fn turn(node: &Node<'_>, stages: &[Stage], buffers: Option<u32>) -> Result<StageTurn, Box<Diagnostic>> {
    let wrong = |message: String, help: String| Err(Box::new(Diagnostic::new(node.span(), message).help(help)));
    let text = value::any_text(&job::THREAD, node)?;
    let (name, times) = match text.split_once('*') {
        Some((name, times)) => (name, times.parse().ok()),
        None => (text, Some(1)),
    };
    let Some(number) = stages.iter().position(|stage| stage.name == name) else {
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        let all = format!("the stages are {}", value::listed(&names, "and"));
        return wrong(format!("there is no stage {}", quoted(name)), value::with_nearest(name, &names, &all));
    };
    let Some(times) = times.filter(|times| (1..=keys::MOST_BUFFERS).contains(&u64::from(*times))) else {
        let help = format!("write how many times in a row, 1 to {}, as in `{name}*2`", keys::MOST_BUFFERS);
        return wrong(format!("{} does not say how often", quoted(text)), help);
    };
    if let Some(buffers) = buffers.filter(|buffers| times > *buffers) {
        let help = format!("write at most `{name}*{buffers}`, or more `{}`", job::BUFFERS.name);
        return wrong(format!("`{name}` takes {times} buffers in a row, but there are only {buffers}"), help);
    }
    if stages.get(number).is_some_and(|stage| stage.fork > 1) {
        let help = "a thread carries out one copy: leave `fork` out, or the stage off this thread";
        return wrong(format!("stage `{name}` is forked and cannot share a thread"), help.to_owned());
    }
    Ok(StageTurn { stage: number, times })
}
