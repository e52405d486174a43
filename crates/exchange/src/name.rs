//! Names that jobs can have.

use std::collections::{HashMap, HashSet};

use scenario::keys::LONGEST_NAME;

/// Names that are taken.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
    /// The last number that was put behind a name.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// The name with `_` for whatever a job's name cannot have, and with a number where it is taken; from now on it is.
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
