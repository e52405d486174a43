//! Parts of a page for people. The page needs nothing but itself: no network, no fonts, and no
//! script to read it. It is also well-formed XML, so that a test can read it back.

pub mod page;
pub mod table;

use std::collections::BTreeSet;

use crate::plot::svg::escape;

/// Sentences as a list of points.
pub fn list(sentences: &[String]) -> String {
    let item = |sentence: &String| format!("<li>{}</li>\n", page::sentence(sentence));
    format!("<ul class=\"sentences\">\n{}</ul>\n", sentences.iter().map(item).collect::<String>())
}

/// Each item once, in the order in which they come first; two items are the same if their keys are.
pub fn distinct<T, K: Ord>(items: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut known = BTreeSet::new();
    items.filter(|item| known.insert(key(item))).collect()
}

/// Markup that the reader unfolds by a click on the summary.
pub fn folded(summary: &str, body: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{body}</details>\n", escape(summary))
}

/// Charts side by side.
pub fn grid(charts: &[String]) -> String {
    format!("<div class=\"charts\">\n{}</div>\n", charts.concat())
}

/// A chart under a caption, which is plain text.
pub fn figure(caption: &str, drawing: &str) -> String {
    format!("<figure>\n<figcaption>{}</figcaption>\n{drawing}</figure>\n", escape(caption))
}
