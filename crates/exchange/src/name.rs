//! Unique names for jobs.

use std::collections::{HashMap, HashSet};

use scenario::keys::LONGEST_NAME;

/// The names in use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
    /// The last number appended to each name.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// Reserves a name. Replaces invalid characters with `_`, and appends a number if the name is
    /// in use.
    pub(crate) fn take(&mut self, written: &str) -> String {
        let allowed = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
        let mut plain: String = written.chars().map(allowed).take(LONGEST_NAME).collect();
        if plain.is_empty() {
            plain.push('_');
        }
        let mut name = plain.clone();
        while !self.taken.insert(name.clone()) {
            let number = self.numbers.entry(plain.clone()).or_default();
            *number += 1;
            let number = number.to_string();
            name = plain.chars().take(LONGEST_NAME - number.len()).collect::<String>() + &number;
        }
        name
    }
}
