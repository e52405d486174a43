//! The header is what the sources make it.

use std::path::Path;

/// The sources that have something exported, in the order in which C reads of them.
const SOURCES: [&str; 10] =
    ["failure", "statistics", "barrier", "mutex", "condvar", "rwlock", "semaphore", "event", "latch", "word"];

#[test]
fn the_header_is_made_from_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root.join("src").join(source).with_extension("rs"));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let header = root.join("include/rowlock_wait.h");
    if std::env::var_os("ROWLOCK_BLESS").is_some() {
        std::fs::write(&header, &made).unwrap();
    }
    let found = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(found == made, "{} is not what the sources make; ROWLOCK_BLESS=1 writes it anew", header.display());
}
