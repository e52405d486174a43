//! Where the library under test is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The library, built anew if need be, as optimised as the test: Cargo itself builds for a test only what Rust can link.
pub(crate) fn preload() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let (profile, folder) = if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--locked", "--offline", "--package", "rowlock-preload", "--profile", profile])
            .arg("--target-dir")
            .arg(built)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success(), "cargo build: {status}");
        // Who builds it anew makes a new file, and leaves this one to those that have it open.
        built.join(folder).join("librowlock_preload.so")
    })
}
