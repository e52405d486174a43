//! The HTML page of a paper: its claims and the results here.

use crate::figure::judgement::{BandResult, Judgement};
use crate::figure::text;
use measure::manifest::Manifest;
use measure::results::html;
use measure::sample::History;
use report::html::page::{Section, sentence};
use report::html::table::{self, Column};
use report::html::{figure, grid};

/// The page: the claims of the paper, the figures here, then the report of the experiment.
pub fn render(judgement: &Judgement<'_>, manifest: &Manifest, histories: &[History]) -> String {
    html::render(Some(section(judgement)), judgement.report, manifest, histories)
}

fn section(judgement: &Judgement<'_>) -> Section {
    let verdict = if judgement.holds.is_none() { text::unjudged(judgement) } else { text::verdict(judgement) };
    let bands = || judgement.bands.iter();
    let words = |name: &str, cell: &dyn Fn(&BandResult) -> String| Column::words(name, bands().map(cell));
    let columns = vec![
        words("what", &|band| band.what.clone()),
        words("the paper", &|band| band.paper.clone().unwrap_or_default()),
        words("here", &|band| band.in_words().unwrap_or_default()),
        words("band", &|band| text::ends(band).unwrap_or_default()),
        words("verdict", &|band| match (band.verdict(), &band.known_miss) {
            (Some(verdict), Some(why)) => format!("{verdict}: {why}"),
            (verdict, _) => verdict.unwrap_or_default().to_owned(),
        }),
        words("what the paper says", &|band| band.source.clone()),
    ];
    let table = table::render("bands", "Means over the seeds with their 95 % intervals, and the bands", columns);
    let body = format!(
        "<p>{}</p>\n{}<p>{}</p>\n{table}",
        sentence(&judgement.statement()),
        figure_of_the_paper(judgement),
        sentence(&verdict)
    );
    Section { id: "paper", title: "Against the paper", body }
}

/// The figure as the paper draws it.
fn figure_of_the_paper(judgement: &Judgement<'_>) -> String {
    let Some(drawing) = &judgement.figure else { return String::new() };
    let name = |name: &str| if name.is_empty() { drawing.what.clone() } else { format!("{}, {name}", drawing.what) };
    let charts = drawing.panels.iter().zip(drawing.charts());
    grid(&charts.map(|(panel, chart)| figure(&name(&panel.name), &chart)).collect::<Vec<_>>())
}
