//! The report as a page that needs nothing but itself: no network, no fonts, and no script to read it. What it says in
//! sentences is what [`super::text`] says; what it draws comes from the same figures.
//!
//! The page is also well-formed XML, so that a test can read it back.

mod course;
mod figures;
mod measured;
mod plots;
mod strips;
mod tables;
mod timeline;
mod utilisation;

use scenario::result::World;

use super::{Report, text};
use crate::factor::{self, Factors};
use crate::manifest::Manifest;
use crate::sample::History;
use report::html::{folded, list, page};
use report::words;

/// The whole page. The same report, manifest and histories give the same bytes.
pub fn render(report: &Report, manifest: &Manifest, histories: &[History]) -> String {
    render_with(None, report, manifest, histories)
}

/// The same with a section of a study before all else.
pub fn render_with(
    first: Option<page::Section>,
    report: &Report,
    manifest: &Manifest,
    histories: &[History],
) -> String {
    let file = manifest.scenario.as_ref().map_or(&manifest.study, |scenario| &scenario.file);
    let title = if report.title.is_empty() { file } else { &report.title };
    let sections = [
        verdict(report),
        plots::section(report),
        timeline::section(report, histories),
        utilisation::section(report),
        tables::section(report),
        measured::section(report, manifest),
    ];
    let sections: Vec<page::Section> = first.into_iter().chain(sections).collect();
    page::page(title, &lede(report), &sections)
}

/// What was run, in a line or two.
fn lede(report: &Report) -> String {
    let machine = |world: &World| format!("{}: {}. ", world.name(), text::machines(report, *world));
    text::worlds(report).iter().map(machine).collect::<String>() + &text::method(report)
}

/// So many verdicts are shown unfolded.
const VERDICTS: usize = 12;

fn verdict(report: &Report) -> page::Section {
    let sentences = text::sentences(report);
    let (shown, rest) = sentences.split_at(sentences.len().min(VERDICTS));
    let verdict = match shown {
        [] => "<p>Nothing was compared, so there is no verdict.</p>\n".to_owned(),
        shown => list(shown),
    };
    let rest = if rest.is_empty() { String::new() } else { folded(&format!("{} more", rest.len()), &list(rest)) };
    let notes = match report.notes.as_slice() {
        [] => String::new(),
        notes => format!("<h3>Before you believe it</h3>\n{}", list(notes)),
    };
    page::Section { id: "verdict", title: "Verdict", body: verdict + &rest + &notes }
}

/// Factors in words and in the order of the file, without those that are told in another way.
fn heading(report: &Report, factors: &Factors, without: &[Option<&str>]) -> String {
    text::in_order(report, factors, |path| !without.contains(&Some(path)))
}

/// The value of a factor in an arm; empty without it.
fn value(factors: &Factors, path: Option<&str>) -> String {
    path.and_then(|path| factor::value(factors, path)).map(words::value).unwrap_or_default()
}
