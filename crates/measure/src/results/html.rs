//! The report as a self-contained page without network, fonts or required scripts. Its sentences
//! are those of [`super::text`], and its drawings come from the same figures.
//!
//! The page is well-formed XML, so that a test can parse it.

mod course;
mod figures;
mod measured;
mod plots;
mod strips;
mod tables;
mod timeline;
mod utilization;

use scenario::result::World;

use super::{ExperimentReport, text};
use crate::factor::{self, Factors};
use crate::manifest::Manifest;
use crate::sample::History;
use report::html::{folded, list, page};
use report::plot::svg::escape;
use report::words;

/// The whole page; `first` is a section of a study. The same arguments give the same bytes.
pub fn render(
    first: Option<page::Section>,
    report: &ExperimentReport,
    manifest: &Manifest,
    histories: &[History],
) -> String {
    let file = manifest.scenario.as_ref().map_or(&manifest.study, |scenario| &scenario.file);
    let title = if report.title.is_empty() { file } else { &report.title };
    let sections = [
        verdict(report),
        plots::section(report),
        timeline::section(report, histories),
        utilization::section(report),
        tables::section(report),
        measured::section(report, manifest),
    ];
    let sections: Vec<page::Section> = first.into_iter().chain(sections).collect();
    page::page(title, &lede(report), &sections)
}

/// A summary of the runs in a line or two.
fn lede(report: &ExperimentReport) -> String {
    let machine = |world: &World| format!("{}: {}. ", world.name(), text::machines(report, *world));
    text::worlds(report).iter().map(machine).collect::<String>() + &text::method(report)
}

/// The most verdicts that are not folded.
const VERDICTS: usize = 12;

fn verdict(report: &ExperimentReport) -> page::Section {
    let sentences = text::sentences(report);
    let (shown, rest) = sentences.split_at(sentences.len().min(VERDICTS));
    let verdict = match shown {
        [] => "<p>Nothing was compared, so there is no verdict.</p>\n".to_owned(),
        shown => list(shown),
    };
    let rest = if rest.is_empty() { String::new() } else { folded(&format!("{} more", rest.len()), &list(rest)) };
    let notes = match report.notes.as_slice() {
        [] => String::new(),
        notes => format!("<h3>Caveats</h3>\n{}", list(notes)),
    };
    page::Section { id: "verdict", title: "Verdict", body: verdict + &rest + &notes }
}

/// The value of a factor in an arm. Empty if the arm does not have it.
fn value(factors: &Factors, path: Option<&str>) -> String {
    path.and_then(|path| factor::value(factors, path)).map(words::value).unwrap_or_default()
}

/// A drawing as wide as the page, with a caption.
fn wide_figure(caption: &str, drawing: &str) -> String {
    format!("<figure class=\"wide\">\n<figcaption>{}</figcaption>\n{drawing}</figure>\n", escape(caption))
}
