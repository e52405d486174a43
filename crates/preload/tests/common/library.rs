//! The library under test.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Its path. Builds it if necessary.
pub(crate) fn preload() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| testing::library::build("rowlock-preload").join("librowlock_preload.so"))
}
