//! How the results were measured, so that others can repeat and judge the experiment.

use super::text;
use crate::manifest::{Ending, Manifest};
use crate::results::ExperimentReport;
use report::html::folded;
use report::html::page::Section;
use report::plot::svg::escape;

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
    let mut items: Vec<(String, String)> = Vec::new();
    for world in text::worlds(report) {
        items.push((format!("{} world", world.name()), text::machines(report, world)));
    }
    items.extend([
        ("Runs".to_owned(), text::method(report)),
        ("Order".to_owned(), ORDER.to_owned()),
        ("Ended".to_owned(), format!("{ending}{error}")),
        ("Started".to_owned(), started.clone()),
        ("Version".to_owned(), format!("rowlock {rowlock_version}")),
        ("Command".to_owned(), arguments.join(" ")),
    ]);
    if let Some(scenario) = scenario {
        items.push(("Scenario".to_owned(), format!("{}, SHA-256 {}", scenario.file, scenario.sha256)));
    }
    if let Some(host::Machine { cpu_model, kernel, cpus_online, cpus, .. }) = machine {
        items.push(("Made on".to_owned(), format!("{cpu_model}, {cpus} of {cpus_online} CPUs, Linux {kernel}")));
    }
    let items: String =
        items.iter().map(|(name, what)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(what))).collect();
    let scenario = scenario.as_ref().map_or(String::new(), |scenario| {
        let text = escape(&scenario.text);
        let open = "<pre class=\"scroll\" role=\"region\" aria-label=\"The scenario\" tabindex=\"0\">";
        folded("The scenario", &format!("{open}{text}</pre>\n"))
    });
    let body = format!("<dl>\n{items}</dl>\n{scenario}");
    Section { id: "measured", title: "How it was measured", body }
}
