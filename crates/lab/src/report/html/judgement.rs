//! What a paper says, and what came out here.

use super::page::{Section, sentence};
use super::table::{self, Column};
use crate::paper::judgement::{Judged, Judgement};
use crate::paper::text;

pub(super) fn section(judgement: &Judgement<'_>) -> Section {
    let missed = judgement.missed();
    let verdict = match missed {
        0 => format!("All {} bands hold.", judgement.bands.len()),
        _ => format!("{missed} of {} bands are missed.", judgement.bands.len()),
    };
    let told = format!("{}: {}", judgement.source, judgement.shows);
    let bands = || judgement.bands.iter();
    let words = |name: &str, cell: &dyn Fn(&Judged) -> String| Column::words(name, bands().map(cell));
    let columns = vec![
        words("what", &|band| band.what.clone()),
        words("the paper", &|band| band.paper.clone().unwrap_or_default()),
        words("here", &|band| band.ours.map(|ours| text::number(&ours, band.measure)).unwrap_or_default()),
        words("band", &text::ends),
        words("verdict", &|band| if band.inside { "inside" } else { "outside" }.to_owned()),
        words("what the paper says", &|band| band.source.clone()),
    ];
    let table = table::render("bands", "Means over the seeds with their 95 % intervals, and the bands", columns);
    let body = format!("<p>{}</p>\n<p>{}</p>\n{table}", sentence(&told), sentence(&verdict));
    Section { id: "paper", title: "Against the paper", body }
}
