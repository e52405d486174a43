//! The library that programs in C are linked with, and its headers.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folder of the headers.
pub(crate) fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// The folder of both libraries, which are built if necessary.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libmy_pthread");
        let files = [("so", "so"), ("so", "so.0"), ("a", "a")]
            .map(|(from, to)| [from, to].map(|end| format!("libmy_pthread.{end}")));
        let files = files.each_ref().map(|[from, to]| (from.as_str(), to.as_str()));
        testing::library::install("rowlock-fiber-c", &folder, &files);
        folder
    })
}
