//! Remembers the inputs with which the tests of each package passed. While these stay the same, the
//! tests need not run again.
//!
//! The inputs are those of a [stamp](crate::stamps) and all files outside `crates/`, for instance
//! documents and example scenarios.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::stamps::{Need, Workspace};

/// The hashes of the inputs of each package: when its tests passed, and now.
#[derive(Debug)]
pub struct Unchanged {
    file: PathBuf,
    remembered: BTreeMap<String, String>,
    now: BTreeMap<String, String>,
}

impl Unchanged {
    /// Reads the hashes in `file` and computes the present ones, for all packages of the workspace.
    /// The command that runs the tests is one of their inputs.
    ///
    /// Call it before the tests are built, so that a file that changes later counts as changed.
    ///
    /// # Errors
    /// If cargo, git or the compiler fails, or a source file cannot be read.
    pub fn read(file: PathBuf, root: &Path, command: &[String]) -> io::Result<Unchanged> {
        let workspace = Workspace::read(root)?;
        let outside = workspace.outside();
        let mut now = BTreeMap::new();
        for package in workspace.packages() {
            let mut inputs = workspace.inputs(package, Need::Tests)?;
            inputs.extend(outside.iter().cloned());
            now.insert(package.to_owned(), workspace.hash(&inputs, command)?);
        }
        Ok(Unchanged::compare(file, now))
    }

    fn compare(file: PathBuf, now: BTreeMap<String, String>) -> Unchanged {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let remembered = lines.map(|(package, hash)| (package.to_owned(), hash.to_owned())).collect();
        Unchanged { file, remembered, now }
    }

    /// Whether the tests of this package passed with its present inputs.
    pub fn contains(&self, package: &str) -> bool {
        self.now.get(package).is_some_and(|hash| self.remembered.get(package) == Some(hash))
    }

    /// Remembers the inputs of the packages without failed tests.
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
    fn a_failure_replaces_an_earlier_success() {
        let folder = tempfile::tempdir().unwrap();
        unchanged(folder.path()).remember(|_| false).unwrap();
        unchanged(folder.path()).remember(|package| package == "a").unwrap();
        let after = unchanged(folder.path());
        assert!(!after.contains("a") && after.contains("b"));
    }
}
