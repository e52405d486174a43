//! Results as JSON. The fields are a stable interface, which docs/output.md lists.

use std::io;

use serde::{Serialize, Serializer};

/// The version of all JSON that rowlock writes. It changes if a field is removed or changes its
/// meaning, but not if a field is added.
pub const SCHEMA_VERSION: u32 = 1;

/// Renders a result as indented JSON with a final line feed. `schema_version` is the first field.
/// `content` must serialize as a map.
pub fn render(content: &impl Serialize) -> io::Result<String> {
    let text = serde_json::to_string_pretty(&Versioned { schema_version: SCHEMA_VERSION, content })?;
    // `serde_json` escapes the other control characters. They only occur in strings.
    let is_obeyed = |c: &char| *c != '\n' && c.is_control();
    let mut escaped = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match Some(c).filter(is_obeyed) {
            Some(control) => escaped.push_str(&format!("\\u{:04x}", u32::from(control))),
            None => escaped.push(c),
        }
    }
    Ok(escaped + "\n")
}

/// Serializes a result with its own `schema_version` inside another one, for
/// `#[serde(serialize_with)]`.
pub fn versioned<S: Serializer>(content: &impl Serialize, serializer: S) -> Result<S::Ok, S::Error> {
    Versioned { schema_version: SCHEMA_VERSION, content }.serialize(serializer)
}

#[derive(Serialize)]
struct Versioned<'a, T> {
    schema_version: u32,
    #[serde(flatten)]
    content: &'a T,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Figure {
        mean: f64,
    }

    #[derive(Serialize)]
    struct Report<'a> {
        name: &'a str,
        #[serde(serialize_with = "versioned")]
        inner: &'a Figure,
    }

    #[test]
    fn control_characters_are_escaped() {
        let name = "\u{1b}\u{7f}\u{9b}\n";
        let text = render(&Report { name, inner: &Figure { mean: 0.1 } }).unwrap();
        assert!(text.contains(r#""name": "\u001b\u007f\u009b\n","#), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["name"], name);
    }

    #[test]
    fn a_result_begins_with_the_schema_version_even_inside_another_one() {
        let text = render(&Report { name: "a", inner: &Figure { mean: 0.1 } }).unwrap();
        let expected = "{\n  \"schema_version\": 1,\n  \"name\": \"a\",\n  \"inner\": {\n    \"schema_version\": 1,\n    \
                        \"mean\": 0.1\n  }\n}\n";
        assert_eq!(text, expected);
    }
}
