//! SVG elements.

use std::borrow::Cow;

use crate::words::shortened;

/// Escapes text for use between HTML or XML tags and in attributes. Replaces characters that XML
/// does not allow with a replacement character.
pub fn escape(text: &str) -> Cow<'_, str> {
    let is_control =
        |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t') || matches!(c, '\u{fffe}' | '\u{ffff}');
    if !text.contains(|c: char| matches!(c, '&' | '<' | '>' | '"' | '\'') || is_control(c)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ if is_control(c) => escaped.push('\u{fffd}'),
            _ => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// A coordinate rounded to a tenth, without trailing zeros.
pub fn number(coordinate: f64) -> String {
    let rounded = (coordinate * 10.0).round() / 10.0;
    // Avoids a negative zero.
    if rounded == 0.0 { "0".to_owned() } else { rounded.to_string() }
}

/// The approximate width of a text.
pub fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// The average width of a letter.
const LETTER: f64 = 6.2;

/// Shortens a text to a width of `room` units.
pub fn fit(text: &str, room: f64) -> String {
    shortened(text, (room / LETTER).max(2.0) as usize)
}

/// The horizontal alignment of a text at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins at the point.
    Start,
    /// The text is centred on the point.
    Middle,
    /// The text ends at the point.
    End,
}

impl Anchor {
    /// The name in SVG.
    pub const fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// The title and description of a drawing, for readers who cannot see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// An id that is unique on the page.
    pub id: String,
    /// The title.
    pub title: String,
    /// The description.
    pub description: String,
}

/// A drawing under construction.
#[derive(Clone, Debug)]
pub struct Drawing {
    body: String,
}

impl Drawing {
    /// Creates an empty drawing. `attributes` of its root must be markup.
    pub fn new(attributes: &str, words: &Words) -> Drawing {
        let Words { id, title, description } = words;
        let (id, title, description) = (escape(id), escape(title), escape(description));
        let body = format!(
            "<svg {attributes} role=\"img\" aria-labelledby=\"{id}-title {id}-words\">\n\
             <title id=\"{id}-title\">{title}</title>\n<desc id=\"{id}-words\">{description}</desc>\n"
        );
        Drawing { body }
    }

    /// Creates a drawing whose content is also described in words next to it.
    pub fn bare(attributes: &str) -> Drawing {
        Drawing { body: format!("<svg {attributes}>\n") }
    }

    /// Draws a straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(number);
        self.raw(format_args!("<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>\n"));
    }

    /// Draws lines from point to point, or nothing if there are fewer than two points.
    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() > 1 {
            let points: Vec<String> = points.iter().map(|&(x, y)| format!("{},{}", number(x), number(y))).collect();
            self.raw(format_args!("<polyline class=\"{class}\" points=\"{}\"/>\n", points.join(" ")));
        }
    }

    /// Draws a rectangle from its top left corner.
    pub fn rectangle(&mut self, class: &str, corner: (f64, f64), size: (f64, f64)) {
        let [x, y, width, height] = [corner.0, corner.1, size.0, size.1].map(number);
        self.raw(format_args!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>\n"));
    }

    /// Draws a small dot.
    pub fn dot(&mut self, class: &str, at: (f64, f64)) {
        self.raw(format_args!(
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"1.3\"/>\n",
            number(at.0),
            number(at.1)
        ));
    }

    /// Draws the marker of this series.
    pub fn marker(&mut self, class: &str, series: usize, at: (f64, f64)) {
        let (x, y) = (number(at.0), number(at.1));
        let path = match series % 7 {
            0 => "M-3.2,0a3.2,3.2 0 1 0 6.4,0a3.2,3.2 0 1 0 -6.4,0z",
            1 => "M-3,-3H3V3H-3z",
            2 => "M0,-4L3.8,2.8H-3.8z",
            3 => "M0,-4.2L4.2,0L0,4.2L-4.2,0z",
            4 => "M0,4L3.8,-2.8H-3.8z",
            5 => "M-3.6,-1.2H-1.2V-3.6H1.2V-1.2H3.6V1.2H1.2V3.6H-1.2V1.2H-3.6z",
            _ => "M-4.4,0L0,-2.4L4.4,0L0,2.4z",
        };
        self.raw(format_args!("<path class=\"{class}\" transform=\"translate({x} {y})\" d=\"{path}\"/>\n"));
    }

    /// Draws a text.
    pub fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let (x, y) = (number(at.0), number(at.1));
        let (anchor, text) = (anchor.name(), escape(text));
        self.raw(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>\n"));
    }

    /// Appends markup.
    pub fn raw(&mut self, markup: std::fmt::Arguments<'_>) {
        self.body += &markup.to_string();
    }

    /// Returns the drawing as SVG.
    pub fn finish(self) -> String {
        self.body + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn escaped_text_contains_no_markup_and_is_parsed_back(text in "[ -~äß\n\t\u{1}]{0,40}") {
            let escaped = escape(&text);
            assert!(!escaped.contains(['<', '>', '"', '\'']));
            let document = format!("<a b=\"{escaped}\">{escaped}</a>");
            let document = roxmltree::Document::parse(&document).unwrap();
            assert_eq!(document.root_element().text().unwrap_or(""), text.replace('\u{1}', "\u{fffd}"));
        }
    }

    #[test]
    fn carriage_returns_before_line_feeds_are_kept() {
        assert_eq!(escape("cpus = 2\r\nstep"), "cpus = 2\r\nstep");
    }

    #[test]
    fn coordinates_are_short() {
        for (coordinate, written) in [(-0.04, "0"), (12.0, "12"), (3.12345, "3.1"), (-2.25, "-2.3")] {
            assert_eq!(number(coordinate), written);
        }
    }

    #[test]
    fn a_text_that_does_not_fit_ends_with_an_ellipsis() {
        assert_eq!(fit("always-block", 100.0), "always-block");
        assert_eq!(fit("always-block", 35.0), "alwa…");
    }
}
