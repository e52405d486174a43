//! Remembers with which inputs the tests of a package passed, so that they need not run again while
//! these stay the same.
//!
//! The inputs of a package's tests are those of a [stamp](crate::stamps) and all files outside
//! `crates/`: documents and example scenarios among them. Files that are not committed count, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::stamps;

/// What is remembered, and the inputs as they are now.
#[derive(Debug, Default)]
pub struct Unchanged {
    file: PathBuf,
    /// The hash of the inputs for each package.
    remembered: BTreeMap<String, String>,
    now: BTreeMap<String, String>,
}

impl Unchanged {
    /// Compares what `file` remembers with the inputs of these packages. Tests that are run by
    /// another `command` are other tests.
    ///
    /// # Errors
    /// If cargo, git or the compiler fails, or a file cannot be read.
    pub fn read(file: PathBuf, root: &Path, packages: &BTreeSet<&str>, command: &[String]) -> io::Result<Unchanged> {
        let outside = stamps::outside(root)?;
        let mut now = BTreeMap::new();
        for package in packages {
            let mut paths = stamps::folders(root, package)?;
            paths.extend(outside.iter().cloned());
            now.insert((*package).to_owned(), stamps::hash_inputs(root, &paths, command)?);
        }
        Ok(Unchanged::compare(file, now))
    }

    fn compare(file: PathBuf, now: BTreeMap<String, String>) -> Unchanged {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let remembered = lines.map(|(package, hash)| (package.to_owned(), hash.to_owned())).collect();
        Unchanged { file, remembered, now }
    }

    /// Whether the tests of this package passed with the inputs of now.
    pub fn contains(&self, package: &str) -> bool {
        self.now.get(package).is_some_and(|hash| self.remembered.get(package) == Some(hash))
    }

    /// Remembers the packages of which no test has failed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn remember(mut self, has_failed: impl Fn(&str) -> bool) -> io::Result<()> {
        let (failed, passed): (BTreeMap<_, _>, _) = self.now.into_iter().partition(|(package, _)| has_failed(package));
        self.remembered.retain(|package, _| !failed.contains_key(package));
        self.remembered.extend(passed);
        let lines = self.remembered.iter().map(|(package, hash)| format!("{package} {hash}\n"));
        fs::write(self.file, lines.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unchanged(folder: &Path) -> Unchanged {
        let now = [("a", "1"), ("b", "2")].map(|(name, hash)| (name.to_owned(), hash.to_owned()));
        Unchanged::compare(folder.join("passed"), now.into())
    }

    #[test]
    fn a_package_is_unchanged_if_it_passed_with_the_same_inputs() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!unchanged(folder.path()).contains("a"));
        unchanged(folder.path()).remember(|package| package == "b").unwrap();
        let mut after = unchanged(folder.path());
        assert!(after.contains("a") && !after.contains("b") && !after.contains("c"));
        after.now.insert("a".to_owned(), "other".to_owned());
        assert!(!after.contains("a"));
    }

    #[test]
    fn a_failure_is_not_forgotten_for_an_earlier_success() {
        let folder = tempfile::tempdir().unwrap();
        unchanged(folder.path()).remember(|_| false).unwrap();
        unchanged(folder.path()).remember(|package| package == "a").unwrap();
        let after = unchanged(folder.path());
        assert!(!after.contains("a") && after.contains("b"));
    }
}
