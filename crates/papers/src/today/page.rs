//! The page: the answer's drawing stands before the report of the experiment.

use measure::manifest::Manifest;
use measure::results::html;
use measure::sample::History;
use report::html::page::{Section, sentence};
use report::html::{figure, grid};

use super::answer::Answer;
use super::plot;

/// The whole page.
pub fn render(answer: &Answer<'_>, manifest: &Manifest, histories: &[History]) -> String {
    let charts: Vec<String> =
        plot::charts(&answer.speeds).into_iter().map(|(caption, chart)| figure(&caption, &chart)).collect();
    let sentence =
        sentence("How fast each rule is over blocking at once: the geometric mean over machines and mixes of jobs.");
    let body = format!("<p>{sentence}</p>\n{}", grid(&charts));
    html::render(Some(Section { id: "answer", title: "Whether to spin", body }), answer.report, manifest, histories)
}
