//! Text, tables, charts and HTML pages for reports.
#![forbid(unsafe_code)]

pub mod html;
pub mod json;
pub mod plot;
pub mod table;
pub mod words;

use std::collections::BTreeSet;

/// The maximum length of a line of text, unless a single word is longer.
pub const WIDTH: usize = 100;

/// Removes items with repeated keys, and keeps the order of the first ones.
pub fn distinct<T, K: Ord>(items: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut known = BTreeSet::new();
    items.filter(|item| known.insert(key(item))).collect()
}
