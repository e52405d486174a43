//! The header matches the sources.

use std::path::Path;

/// The sources with exported items, in the order of the header.
const SOURCES: [&str; 10] =
    ["failure", "statistics", "barrier", "mutex", "condvar", "rwlock", "semaphore", "event", "latch", "word"];

/// The header without the sections that say what a caller in Rust guarantees. For callers in C, its
/// beginning and the other text say so. Each section is the last of a comment.
fn without_safety_sections(header: &str) -> String {
    let mut kept = Vec::new();
    let mut is_within = false;
    for line in header.lines() {
        if line == "// # Safety" {
            is_within = true;
            kept.pop_if(|line| *line == "//");
        }
        is_within &= line.starts_with("//");
        if !is_within {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

#[test]
fn the_header_is_generated_from_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root.join("src").join(source).with_extension("rs"));
    }
    let mut generated = Vec::new();
    builder.generate().unwrap().write(&mut generated);
    let generated = without_safety_sections(&String::from_utf8(generated).unwrap());
    let header = root.join("include/rowlock_wait.h");
    if std::env::var_os("ROWLOCK_BLESS").is_some() {
        std::fs::write(&header, &generated).unwrap();
    }
    let found = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(found == generated, "{} does not match the sources; ROWLOCK_BLESS=1 generates it", header.display());
}
