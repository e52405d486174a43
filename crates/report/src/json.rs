//! Results as JSON. Their fields are a contract: docs/output.md lists them.

use std::io;

use serde::{Serialize, Serializer};

/// The version of everything that rowlock prints or writes as JSON. It changes if a field changes its meaning or goes
/// away, and stays if a field is added.
pub const SCHEMA_VERSION: u32 = 1;

/// Renders a result as JSON for people and programs: `schema_version` first, indented, ended by a line feed.
/// `content` must serialize as a map.
///
/// # Errors
///
/// `content` cannot be JSON. No type of rowlock's is like that.
pub fn render(content: &impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(&Versioned { schema_version: SCHEMA_VERSION, content })? + "\n")
}

/// Serializes a result inside of another one with a `schema_version` of its own, for `#[serde(serialize_with)]`.
///
/// # Errors
///
/// Those of the serializer.
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
    fn a_result_begins_with_the_version_of_the_schema_inside_of_another_too() {
        let text = render(&Report { name: "a", inner: &Figure { mean: 0.1 } }).unwrap();
        let expected = "{\n  \"schema_version\": 1,\n  \"name\": \"a\",\n  \"inner\": {\n    \"schema_version\": 1,\n    \
                        \"mean\": 0.1\n  }\n}\n";
        assert_eq!(text, expected);
    }
}
