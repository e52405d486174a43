//! The report as a page that needs nothing but itself: no network, no fonts, and no script to read it. What it says in
//! sentences is what [`super::text`] says; what it draws comes from the same figures.
//!
//! The page is also well-formed XML, so that a test can read it back.

mod figures;
mod judgement;
mod measured;
mod page;
mod plots;
pub mod study;
mod table;
mod tables;
mod timeline;
mod utilisation;

use std::collections::BTreeSet;

use scenario::result::World;

use super::{Report, text};
use crate::factor::{self, Factors};
use crate::manifest::Manifest;
use crate::paper::judgement::Judgement;
use crate::plot::svg::escape;
use crate::states::History;
use crate::today::{self, answer::Answer};
use crate::words;

/// The whole page. The same report, manifest and histories give the same bytes.
pub fn render(report: &Report, manifest: &Manifest, histories: &[History]) -> String {
    with_first(None, report, manifest, histories)
}

/// The page of a paper: what it says and what came out here stand before all else.
pub fn render_judged(judgement: &Judgement<'_>, manifest: &Manifest, histories: &[History]) -> String {
    with_first(Some(judgement::section(judgement)), judgement.report, manifest, histories)
}

/// The page of [`crate::today`]: the answer's drawing stands before all else.
pub fn render_today(answer: &Answer<'_>, manifest: &Manifest, histories: &[History]) -> String {
    let charts =
        today::plot::charts(&answer.speeds).into_iter().map(|(caption, chart)| plots::figure(&caption, &chart));
    let body = format!(
        "<p>{}</p>\n{}",
        page::sentence(
            "How fast each rule is over blocking at once: the geometric mean over machines and mixes of jobs."
        ),
        plots::grid(&charts.collect::<Vec<_>>())
    );
    with_first(Some(page::Section { id: "answer", title: "Whether to spin", body }), answer.report, manifest, histories)
}

fn with_first(first: Option<page::Section>, report: &Report, manifest: &Manifest, histories: &[History]) -> String {
    let title = if report.title.is_empty() { &manifest.scenario.file } else { &report.title };
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

fn list(sentences: &[String]) -> String {
    let item = |sentence: &String| format!("<li>{}</li>\n", page::sentence(sentence));
    format!("<ul class=\"sentences\">\n{}</ul>\n", sentences.iter().map(item).collect::<String>())
}

/// Factors in words and in the order of the file, without those that are told in another way.
fn heading(report: &Report, factors: &Factors, without: &[Option<&str>]) -> String {
    text::in_order(report, factors, |path| !without.contains(&Some(path)))
}

/// The value of a factor in an arm; empty without it.
fn value(factors: &Factors, path: Option<&str>) -> String {
    path.and_then(|path| factor::value(factors, path)).map(words::value).unwrap_or_default()
}

/// Each item once, in the order in which they come first; two items are the same if their keys are.
fn distinct<T, K: Ord>(items: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut known = BTreeSet::new();
    items.filter(|item| known.insert(key(item))).collect()
}

/// What is shown when somebody asks for it.
fn folded(summary: &str, body: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{body}</details>\n", escape(summary))
}
