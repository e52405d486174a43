//! Error messages about scenario files: place, problem, and remedy.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// At most this many diagnostics are printed; the rest is only counted.
const MOST_PRINTED: usize = 20;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// The message.
    pub message: String,
    /// The place in the file, in bytes; empty if something is missing.
    pub span: Range<usize>,
    /// The label of that place.
    pub label: String,
    /// Another related place, with its label.
    pub context: Option<(Range<usize>, String)>,
    /// How to fix it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A problem at these bytes, without a label, another place or help.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { message: message.into(), span, label: String::new(), context: None, help: None }
    }

    /// Sets the label of its place.
    pub fn label(self, label: impl Into<String>) -> Diagnostic {
        Diagnostic { label: label.into(), ..self }
    }

    /// Adds another place, with its label.
    pub fn context(self, span: Range<usize>, label: impl Into<String>) -> Diagnostic {
        Diagnostic { context: Some((span, label.into())), ..self }
    }

    /// Adds how to fix it.
    pub fn help(self, help: impl Into<String>) -> Diagnostic {
        Diagnostic { help: Some(help.into()), ..self }
    }
}

/// All problems of one file, in the order of the file; never empty.
///
/// It prints like compiler errors: with file, line, column, the offending text and a hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.render(false))]
pub struct Diagnostics {
    file: String,
    text: String,
    found: Vec<Diagnostic>,
}

impl Diagnostics {
    /// The problems in the file of this name and text.
    pub fn new(file: &str, text: &str, mut found: Vec<Diagnostic>) -> Diagnostics {
        found.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.span.end));
        Diagnostics { file: file.to_owned(), text: text.to_owned(), found }
    }

    /// The number of problems.
    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// All problems.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.found.iter()
    }

    /// The line and the column (in characters) where a diagnostic of this file begins, both counted
    /// from 1.
    pub fn position(&self, diagnostic: &Diagnostic) -> (usize, usize) {
        let before = &self.text[..floor_char_boundary(&self.text, diagnostic.span.start)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// The text for a terminal, without a newline at its end. With `colour` it contains ANSI escape
    /// sequences.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let printed = self.found.iter().take(MOST_PRINTED);
        let mut texts: Vec<String> = printed.map(|diagnostic| renderer.render(&[self.group(diagnostic)])).collect();
        let rest = self.found.len().saturating_sub(MOST_PRINTED);
        if rest > 0 {
            let errors = if rest == 1 { "error" } else { "errors" };
            texts.push(format!("and {rest} more {errors}"));
        }
        texts.join("\n\n")
    }

    fn group<'a>(&'a self, diagnostic: &'a Diagnostic) -> Group<'a> {
        let place = AnnotationKind::Primary.span(self.first_line(&diagnostic.span)).label(&diagnostic.label);
        let mut snippet = Snippet::source(&self.text).path(&self.file).annotation(place);
        if let Some((span, label)) = &diagnostic.context {
            snippet = snippet.annotation(AnnotationKind::Context.span(self.first_line(span)).label(label));
        }
        let mut group = Level::ERROR.primary_title(&diagnostic.message).element(snippet);
        if let Some(help) = &diagnostic.help {
            group = group.element(Level::HELP.message(help));
        }
        group
    }

    /// The part of a span on its first line: markers for a whole list or table would bury its
    /// neighbours.
    fn first_line(&self, span: &Range<usize>) -> Range<usize> {
        let start = floor_char_boundary(&self.text, span.start);
        let end = floor_char_boundary(&self.text, span.end).max(start);
        let length = self.text[start..end].find(['\n', '\r']).unwrap_or(end - start);
        start..start + length
    }
}

/// The last character boundary at or before `index`.
fn floor_char_boundary(text: &str, index: usize) -> usize {
    (0..=index.min(text.len())).rev().find(|&index| text.is_char_boundary(index)).unwrap_or(0)
}

/// Quotes a text from a file for a message: between backticks, on one line, and shortened.
pub fn quoted(text: &str) -> impl fmt::Display {
    const LONGEST: usize = 60;
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let shown: String = text.chars().take(LONGEST).map(escaped).collect();
    let more = if text.chars().nth(LONGEST).is_some() { "..." } else { "" };
    format!("`{shown}{more}`")
}

/// "did you mean" with the nearest candidate, if one is near.
pub fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    /// A text this long is not a typing mistake, and the comparison takes the product of the
    /// lengths.
    const LONGEST: usize = 200;
    if written.len() > LONGEST {
        return None;
    }
    let distance_to = |candidate: &str| strsim::osa_distance(&written.to_lowercase(), &candidate.to_lowercase());
    let (distance, nearest) = candidates
        .into_iter()
        .map(|candidate| (distance_to(candidate), candidate))
        .min_by_key(|&(distance, _)| distance)?;
    (distance <= 1.max(nearest.chars().count() / 3)).then(|| format!("did you mean `{nearest}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_lines_and_characters_from_one() {
        let text = "a\nüü x\n";
        let diagnostic = Diagnostic::new(text.find('x').unwrap()..text.len(), "wrong");
        let all = Diagnostics::new("file.toml", text, vec![diagnostic.clone()]);
        assert_eq!(all.position(&diagnostic), (2, 4));
    }

    #[test]
    fn diagnostics_beyond_the_limit_are_counted() {
        let found = |n| Diagnostics::new("file.toml", "x", vec![Diagnostic::new(0..1, "wrong"); n]);
        assert!(!found(20).to_string().contains("more"));
        assert!(found(21).to_string().ends_with("and 1 more error"));
        let many = found(50).to_string();
        assert!(many.ends_with("and 30 more errors"));
        assert_eq!(many.matches("error: wrong").count(), 20);
    }

    #[test]
    fn only_near_misses_are_suggested() {
        let keys = ["threads", "rounds", "cs"];
        assert_eq!(did_you_mean("thread", keys).as_deref(), Some("did you mean `threads`?"));
        assert_eq!(did_you_mean("Rounds", keys).as_deref(), Some("did you mean `rounds`?"));
        assert_eq!(did_you_mean("colour", keys), None);
        assert_eq!(did_you_mean("", keys), None);
    }

    #[test]
    fn a_quotation_is_short_and_has_no_control_characters() {
        assert_eq!(quoted("a\u{1b}[31m\n").to_string(), "`a\\u{1b}[31m\\n`");
        assert_eq!(quoted(&"x".repeat(61)).to_string(), format!("`{}...`", "x".repeat(60)));
    }

    #[test]
    fn spans_beyond_the_text_do_no_harm() {
        let found = vec![Diagnostic::new(1..900, "wrong").context(800..900, "there")];
        assert!(Diagnostics::new("file.toml", "üb", found).to_string().contains("error: wrong"));
    }
}
