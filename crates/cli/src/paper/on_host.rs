//! `rowlock paper --world host`: a figure of a paper on this machine.

use anyhow::anyhow;
use papers::Paper;
use papers::figure::on_host::{HOST_FIGURES, HostFigure};

use super::{Figure, judge};
use crate::arguments;
use crate::output::{print, print_notes};
use crate::stop::{OrStop, Stop};

/// Measures a figure, or prints its scenario.
pub(super) fn run(paper: &Paper, arguments: &arguments::paper::Paper) -> Result<(), Stop> {
    let figure = find(paper, arguments)?;
    let cells = host::cells(&host::Machine::current().or_failed()?);
    let text = figure.text(cells);
    if arguments.scenario {
        return print(&text);
    }
    print_notes(&[format!("on this machine, {}", figure.differs)]);
    let (scenario, expected) = (figure.scenario(cells).or_failed()?, figure.expected().or_failed()?);
    judge(
        paper,
        arguments,
        Figure { scenario, expected, name: figure.file, text: &text, is_of_starts: figure.is_of_starts },
    )
}

fn find(paper: &Paper, arguments: &arguments::paper::Paper) -> Result<HostFigure, Stop> {
    let changed = arguments.scheduler.map(|_| "--scheduler").or(arguments.waiting.map(|_| "--waiting"));
    if let Some(option) = changed {
        return Err(Stop::Input(anyhow!("{option} is for the simulated machine, and not for `--world host`")));
    }
    paper.on_host().ok_or_else(|| {
        let others: Vec<&str> = HOST_FIGURES.iter().map(|figure| figure.paper).chain(["barrier/today"]).collect();
        let others = others.join(", ");
        Stop::Input(anyhow!("--world host: {} is only simulated; on this machine, there are {others}", paper.name))
    })
}
