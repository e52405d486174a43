//! The use of the machine's time by arm: a bar of work, spinning, switching and idle time.

use std::collections::BTreeMap;

use scenario::result::{MachineOutcome, World};

use super::tables::factor_columns;
use crate::factor::Factors;
use crate::results::{ExperimentReport, text};
use crate::summary::Summary;
use report::html::page::Section;
use report::html::table::{self, Column};
use report::plot::svg::number;
use report::words;

type Share = fn(&MachineOutcome) -> Option<f64>;

/// The parts of a machine's time, with the colours of the threads' states. Idle time is empty.
const PARTS: [(&str, &str, Share); 5] = [
    ("work", "computing", |machine| machine.work_percent),
    ("spin", "spinning", |machine| machine.spin_percent),
    ("switch", "switching", |machine| machine.switch_percent),
    ("other", "other", other),
    ("idle", "blocked", |machine| machine.idle_percent),
];

/// The rest, if the time of switches is unknown: switches, and all that kept CPUs from the jobs.
fn other(machine: &MachineOutcome) -> Option<f64> {
    let known = [machine.work_percent?, machine.spin_percent?, machine.idle_percent?];
    machine.switch_percent.is_none().then(|| (100.0 - known.iter().sum::<f64>()).max(0.0))
}

struct Arm<'a> {
    factors: &'a Factors,
    world: World,
    /// Means over the repetitions, in the order of [`PARTS`].
    percent: [Option<f64>; 5],
}

pub(super) fn section(report: &ExperimentReport) -> Section {
    let arms = arms(report);
    let mut columns = factor_columns(report, arms.iter().map(|arm| arm.factors));
    columns.push(Column::words("world", arms.iter().map(|arm| arm.world.name().to_owned())));
    columns.push(Column::unsortable("share of all CPU time", arms.iter().map(bar)));
    for (part, (name, ..)) in PARTS.iter().enumerate() {
        let one_decimal = |percent: f64| table::Cell::number(&format!("{percent:.1}"), percent);
        let cells = arms.iter().map(|arm| arm.percent[part].map(one_decimal).unwrap_or_default());
        columns.push(Column::cells(&format!("{name}, %"), cells));
    }
    let table = table::render("use-of-time", "The machine's time, mean of the repetitions", columns);
    if table.is_empty() {
        return Section { id: "machine", title: "The machine", body: table };
    }
    let is_shown = |part: &usize| arms.iter().any(|arm| arm.percent[*part].is_some());
    let legend: String =
        (0..PARTS.len()).filter(is_shown).map(|part| super::timeline::key(PARTS[part].1, PARTS[part].0)).collect();
    let host = if text::worlds(report).contains(&World::Host) {
        " Linux does not report the time of switches on the host. They are part of the other time, as is the work of other \
         programs on this machine."
    } else {
        ""
    };
    let body =
        format!("<p>The time of all CPUs during a run.{host}</p>\n<ul class=\"legend\">\n{legend}</ul>\n{table}");
    Section { id: "machine", title: "The machine", body }
}

fn arms(report: &ExperimentReport) -> Vec<Arm<'_>> {
    let mut runs: BTreeMap<(String, World), Vec<&MachineOutcome>> = BTreeMap::new();
    for run in &report.runs {
        runs.entry((words::factors(&run.factors), run.world)).or_default().push(&run.outcome.machine);
    }
    let arm = |summary: &Summary| (words::factors(&summary.factors), summary.world);
    let mut known = Vec::new();
    for summary in report::distinct(report.summaries.iter(), |summary| arm(summary)) {
        let machines = runs.get(&arm(summary)).map(Vec::as_slice).unwrap_or_default();
        let mean =
            |share: Share| stats::average(&machines.iter().filter_map(|machine| share(machine)).collect::<Vec<f64>>());
        let percent = PARTS.map(|(_, _, share)| mean(share));
        if percent.iter().any(Option::is_some) {
            known.push(Arm { factors: &summary.factors, world: summary.world, percent });
        }
    }
    known
}

/// The bar is hidden from screen readers, because the numbers are beside it.
fn bar(arm: &Arm<'_>) -> String {
    let mut from = 0.0;
    let mut bar =
        "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">".to_owned();
    for ((_, class, _), percent) in PARTS.iter().zip(arm.percent) {
        let percent = percent.unwrap_or(0.0).clamp(0.0, 100.0 - from);
        if percent > 0.0 && *class != "blocked" {
            let (x, width) = (number(from), number(percent));
            bar += &format!("<rect class=\"area {class}\" x=\"{x}\" y=\"0\" width=\"{width}\" height=\"10\"/>");
        }
        from += percent;
    }
    bar + "</svg>"
}
