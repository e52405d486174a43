//! How the results were measured, so that others can repeat and judge the experiment.

use super::text;
use crate::manifest::{Ending, Manifest, ScenarioFile};
use crate::results::ExperimentReport;
use report::html::folded;
use report::html::page::Section;
use report::plot::svg::escape;
use scenario::result::World;

const ORDER: &str = "Every repetition is a block of all arms and worlds in random order; all runs of a repetition have \
                     the same seed.";

pub(super) fn section(report: &ExperimentReport, manifest: &Manifest) -> Section {
    let Manifest { rowlock_version, arguments, started, scenario, machine, .. } = manifest;
    let ending = match manifest.ending {
        Ending::Unfinished => "not yet",
        Ending::Complete => "all runs were made",
        Ending::Interrupted => "interrupted",
        Ending::Failed => "a run failed",
    };
    let error = manifest.error.as_ref().map_or(String::new(), |error| format!(": {error}"));
    let item = |name: &str, what: &str| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(what));
    let world = |world| item(&format!("{} world", World::name(world)), &text::machines(report, world));
    let of_scenario = |of: &ScenarioFile| item("Scenario", &format!("{}, SHA-256 {}", of.file, of.sha256));
    let of_machine = |of: &host::Machine| {
        let host::Machine { cpu_model, kernel, cpus_online, cpus, .. } = of;
        item("Made on", &format!("{cpu_model}, {cpus} of {cpus_online} CPUs, Linux {kernel}"))
    };
    let items = [
        text::worlds(report).into_iter().map(world).collect(),
        item("Runs", &text::method(report)),
        item("Order", ORDER),
        item("Ended", &format!("{ending}{error}")),
        item("Started", started),
        item("Version", &format!("rowlock {rowlock_version}")),
        item("Command", &arguments.join(" ")),
        scenario.as_ref().map(of_scenario).unwrap_or_default(),
        machine.as_ref().map(of_machine).unwrap_or_default(),
    ]
    .concat();
    let scenario = scenario.as_ref().map_or(String::new(), |scenario| {
        let text = escape(&scenario.text);
        let open = "<pre class=\"scroll\" role=\"region\" aria-label=\"The scenario\" tabindex=\"0\">";
        folded("The scenario", &format!("{open}{text}</pre>\n"))
    });
    let body = format!("<dl>\n{items}</dl>\n{scenario}");
    Section { id: "measured", title: "How it was measured", body }
}
