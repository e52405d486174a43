//! Reads the parts of a job that are a list of named tables: the stages of a pipeline, the groups
//! of fibers.

use std::collections::HashMap;
use std::ops::Range;

use toml::de::DeValue;

use super::table::{ReadReport, Table};
use super::value::{self, Node};
use crate::diagnostics::{Diagnostic, quoted};
use crate::keys::Key;

/// Reads the parts in the list `key`, each by `one`, which receives its name if that is valid.
/// `what` is the word for a part, `name` is the key of its name, and `twice` is the help for a
/// duplicate name. Returns `None` if any of them is invalid.
pub(super) fn parts<T>(
    key: &Key,
    what: &str,
    name: &Key,
    twice: &str,
    node: &Node<'_>,
    report: &mut ReadReport,
    mut one: impl FnMut(&Table<'_, '_>, Option<String>, &mut ReadReport) -> Option<T>,
) -> Option<Vec<T>> {
    let DeValue::Array(array) = node.get_ref() else {
        report.add(*value::mismatch(key, node));
        return None;
    };
    if array.is_empty() {
        let diagnostic = Diagnostic::new(node.span(), format!("there must be at least one {what}"));
        report.add(diagnostic.help(value::example(key)));
        return None;
    }
    let mut names: HashMap<String, Range<usize>> = HashMap::new();
    let mut parts = Vec::new();
    for (index, node) in array.iter().enumerate() {
        let Some(entries) = node.get_ref().as_table() else {
            report.add(*value::mismatch(key, node));
            continue;
        };
        let called = match entries.get(name.name).and_then(|name| name.get_ref().as_str()) {
            Some(name) => format!("{what} {}", quoted(name)),
            None => format!("{what} number {}", index + 1),
        };
        let table = Table::new(called, node.span(), entries);
        let own = table.read(name, report, value::name);
        if let (Some(own), Some(place)) = (&own, table.get(name, report)) {
            match names.get(own) {
                Some(first) => {
                    let diagnostic = Diagnostic::new(place.span(), format!("two {what}s are called `{own}`"));
                    report.add(diagnostic.context(first.clone(), "the first of them").help(twice));
                }
                None => drop(names.insert(own.clone(), place.span())),
            }
        }
        parts.extend(one(&table, own, report));
    }
    (parts.len() == array.len()).then_some(parts)
}
