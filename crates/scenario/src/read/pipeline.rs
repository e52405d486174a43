//! Reads a pipeline job: its stages, the threads that they share, and the rest.

use std::collections::HashMap;
use std::ops::Range;

use policy::priority::{PriorityRule, StageKind};
use policy::waiting::WaitingRule;
use toml::de::DeValue;

use super::distribution::distribution;
use super::parts::parts;
use super::table::{ReadReport, Table};
use super::value::{self, Node};
use crate::diagnostics::{Diagnostic, quoted};
use crate::keys::{self, job, stage};
use crate::pipeline::{Pipeline, Stage, StageTurn, Structure};

pub(super) fn pipeline(table: &Table<'_, '_>, report: &mut ReadReport) -> Option<Pipeline> {
    let stages = table.get(&job::STAGES, report);
    let stages = stages.and_then(|node| parts(&job::STAGES, "stage", &stage::NAME, TWICE, node, report, one));
    let buffers = table.read(&job::BUFFERS, report, value::count);
    let rounds = table.read(&job::PASSES, report, value::count);
    let structure = table.read_named(&job::STRUCTURE, report, &Structure::ALL, Structure::name).unwrap_or_default();
    let priority = table.read(&job::PRIORITY, report, value::priority).unwrap_or(PriorityRule::Default);
    let waiting = table.read(&job::QUEUEING, report, value::waiting).unwrap_or(WaitingRule::Adaptive);
    let threads = table.get(&job::THREAD, report);
    let stages = stages?;
    let shared = threads.map_or(Some(Vec::new()), |node| shared(node, &stages, buffers, report));
    let (shared, buffers, rounds) = (shared?, buffers?, rounds?);
    let pipeline = Pipeline { stages, buffers, rounds, structure, shared, priority, waiting };
    if let Some(node) = threads.filter(|_| pipeline.can_deadlock()) {
        let diagnostic = Diagnostic::new(node.span(), "these threads would deadlock");
        report.add(diagnostic.help("give them more buffers, or turns of the same length"));
        return None;
    }
    Some(pipeline)
}

const TWICE: &str = "give each stage its own name, or `fork` one of them";

fn one(table: &Table<'_, '_>, name: Option<String>, report: &mut ReadReport) -> Option<Stage> {
    table.check_keys(&[stage::ALL], report, |_| None);
    let kind = table.read_named(&stage::KIND, report, &StageKind::ALL, StageKind::name);
    let fork = table.read(&stage::FORK, report, value::count).unwrap_or(1);
    let nice = table.read(&stage::NICE, report, value::nice).unwrap_or(0);
    let mark = report.mark();
    let mut time = |key| table.get(key, report).and_then(|node| distribution(key, node, report));
    let (compute, device) = (time(&stage::COMPUTE), time(&stage::DEVICE));
    let kind = kind?;
    let written = table.get(&stage::DEVICE, report);
    let (missing, what) = match kind {
        StageKind::Compute => (table.get(&stage::COMPUTE, report).is_none(), &stage::COMPUTE),
        StageKind::Io | StageKind::Communicate => (written.is_none(), &stage::DEVICE),
    };
    if missing {
        let message = format!("{} is of kind `{kind}` and has no `{}`", table.what, what.name);
        report.missing(Diagnostic::new(table.header.clone(), message).help(value::example(what)));
    }
    if let (StageKind::Compute, Some(node)) = (kind, written) {
        let message = format!("{} is of kind `{kind}` and has a `{}`", table.what, stage::DEVICE.name);
        let help = "a computation uses no device: leave it out, or make the stage `io` or `communicate`";
        report.add(Diagnostic::new(node.span(), message).help(help));
    }
    (report.mark() == mark).then_some(Stage { name: name?, kind, compute, device, fork, nice })
}

/// Reads the shared threads.
fn shared(
    node: &Node<'_>,
    stages: &[Stage],
    buffers: Option<u32>,
    report: &mut ReadReport,
) -> Option<Vec<Vec<StageTurn>>> {
    let mark = report.mark();
    let mut threads = Vec::new();
    let mut seen: HashMap<usize, Range<usize>> = HashMap::new();
    let lists = match node.get_ref() {
        DeValue::Array(array) => array,
        _ => {
            report.add(*value::mismatch(&job::THREAD, node));
            return None;
        }
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
            let turn = match turn(node, stages, buffers) {
                Ok(turn) => turn,
                Err(diagnostic) => {
                    report.add(*diagnostic);
                    continue;
                }
            };
            if let Some(first) = seen.insert(turn.stage, node.span()) {
                let diagnostic = Diagnostic::new(node.span(), "this stage is on two threads, or twice on one");
                report.add(diagnostic.context(first, "here already").help("leave one of them out"));
            } else if thread.last().is_some_and(|before| before.stage > turn.stage) {
                let diagnostic = Diagnostic::new(node.span(), "this stage comes too late on its thread");
                report.add(diagnostic.help("write the stages of a thread in the order of the pipeline"));
            } else if thread.last().is_some_and(|before| before.times != turn.times) {
                let diagnostic = Diagnostic::new(node.span(), "this turn is not as long as the one before it");
                report.add(diagnostic.help("a thread takes as many rounds of each of its stages"));
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
