//! The frame of an HTML page.

use crate::plot::svg::escape;

const STYLE: &str = include_str!("style.css");

/// Makes tables sortable. The page is readable without it.
const SCRIPT: &str = include_str!("sort.js");

/// The page may not load anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// A section of the page.
#[derive(Clone, Debug)]
pub struct Section {
    /// An id that is unique on the page.
    pub id: &'static str,
    /// The heading as plain text.
    pub title: &'static str,
    /// The content as markup. A section without content is omitted.
    pub body: String,
}

/// Renders a page with these sections. `title` and `lede` are plain text.
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

/// Renders a sentence as markup; text in back-quotes becomes code.
pub fn sentence(sentence: &str) -> String {
    let pieces: Vec<&str> = sentence.split('`').collect();
    // An unclosed back-quote is an ordinary character.
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
    fn text_in_back_quotes_is_code_and_all_text_is_escaped() {
        assert_eq!(sentence("`cs` beats `<b>`."), "<code>cs</code> beats <code>&lt;b&gt;</code>.");
        assert_eq!(sentence("an odd ` & alone"), "an odd ` &amp; alone");
    }

    #[test]
    fn style_and_script_need_no_escaping_and_load_nothing() {
        for text in [STYLE, SCRIPT] {
            for forbidden in ["<", "&", "url(", "@import", "://", "fetch", "XMLHttpRequest"] {
                assert!(!text.contains(forbidden), "{forbidden}");
            }
        }
    }
}
