//! Each target accepts its corpus: seeds for the search, and inputs that once found a defect.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn folder(path: impl AsRef<Path>) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(&path).unwrap_or_else(|why| panic!("{}: {why}", path.as_ref().display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora")
}

#[test]
fn every_target_has_a_corpus() {
    let found: BTreeSet<_> = folder(corpora()).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(found, fuzz::TARGETS.iter().map(|target| target.name.into()).collect());
}

#[test]
fn no_input_of_a_corpus_finds_a_defect() {
    for target in fuzz::TARGETS {
        let inputs = folder(corpora().join(target.name));
        assert!(!inputs.is_empty(), "{}", target.name);
        for input in inputs {
            // The last line names the input of a failure.
            println!("{}", input.display());
            (target.read)(&fs::read(input).unwrap());
        }
    }
}
