//! The frame of the page: what stands around its sections.

use crate::plot::svg::escape;

const STYLE: &str = include_str!("style.css");

/// Lets tables be sorted. The page reads the same without it.
const SCRIPT: &str = include_str!("sort.js");

/// Nothing may be loaded from anywhere, whatever a browser finds on the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// A part of the page.
#[derive(Clone, Debug)]
pub struct Section {
    /// Unique on the page.
    pub id: &'static str,
    /// Its heading, as plain text.
    pub title: &'static str,
    /// Markup; a section without any is left out.
    pub body: String,
}

/// The page of these sections; title and lede are plain text.
pub fn page(title: &str, lede: &str, sections: &[Section]) -> String {
    let (title, lede) = (escape(title), escape(lede));
    let sections = || sections.iter().filter(|section| !section.body.is_empty());
    let links: String =
        sections().map(|Section { id, title, .. }| format!("<li><a href=\"#{id}\">{title}</a></li>\n")).collect();
    let body: String = sections()
        .map(|Section { id, title, body }| {
            format!(
                "<section id=\"{id}\" aria-labelledby=\"{id}-heading\">\n<h2 id=\"{id}-heading\">{title}</h2>\n{body}</section>\n"
            )
        })
        .collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<p class=\"brand\">rowlock report</p>\n<h1>{title}</h1>\n<p class=\"lede\">{lede}</p>\n</header>\n\
         <nav aria-label=\"Sections\">\n<ul>\n{links}</ul>\n</nav>\n<main>\n{body}</main>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// A sentence as markup; what stands in back-quotes is code.
pub fn sentence(sentence: &str) -> String {
    let pieces: Vec<&str> = sentence.split('`').collect();
    // A back-quote that is never closed is just a character.
    if pieces.len().is_multiple_of(2) {
        return escape(sentence).into_owned();
    }
    let piece = |(number, piece): (usize, &&str)| match number % 2 {
        0 => escape(piece).into_owned(),
        _ => format!("<code>{}</code>", escape(piece)),
    };
    pieces.iter().enumerate().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_back_quotes_is_code_and_nothing_becomes_markup() {
        assert_eq!(sentence("`cs` beats `<b>`."), "<code>cs</code> beats <code>&lt;b&gt;</code>.");
        assert_eq!(sentence("an odd ` & alone"), "an odd ` &amp; alone");
    }

    #[test]
    fn style_and_script_can_stand_in_markup_as_they_are_and_refer_to_nothing() {
        for text in [STYLE, SCRIPT] {
            for forbidden in ["<", "&", "url(", "@import", "://", "fetch", "XMLHttpRequest"] {
                assert!(!text.contains(forbidden), "{forbidden}");
            }
        }
    }
}
