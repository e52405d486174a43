//! Parts of an HTML page. The page is self-contained, needs no network, fonts or scripts, and is
//! well-formed XML, so that tests can parse it.

pub mod page;
pub mod table;

use crate::plot::svg::escape;

/// Renders sentences as a list.
pub fn list(sentences: &[String]) -> String {
    let item = |sentence: &String| format!("<li>{}</li>\n", page::sentence(sentence));
    format!("<ul class=\"sentences\">\n{}</ul>\n", sentences.iter().map(item).collect::<String>())
}

/// Renders markup that is folded until the reader clicks on the summary.
pub fn folded(summary: &str, body: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{body}</details>\n", escape(summary))
}

/// Renders charts side by side.
pub fn grid(charts: &[String]) -> String {
    format!("<div class=\"charts\">\n{}</div>\n", charts.concat())
}

/// Renders a chart with a caption, which is plain text.
pub fn figure(caption: &str, drawing: &str) -> String {
    format!("<figure>\n<figcaption>{}</figcaption>\n{drawing}</figure>\n", escape(caption))
}
