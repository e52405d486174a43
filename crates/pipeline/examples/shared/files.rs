//! The files that somebody names, and those in the folders that they name.

use std::path::PathBuf;

use walkdir::WalkDir;

/// All of them, a folder's in the order of their names; or in words what keeps us from some. What is named is there whatever it is, and of what is
/// found only files are: no links, no devices.
pub(crate) fn below(paths: &[PathBuf]) -> impl Iterator<Item = Result<PathBuf, String>> {
    let entries = paths.iter().flat_map(|path| WalkDir::new(path).sort_by_file_name());
    entries.filter_map(|entry| match entry {
        Ok(entry) => {
            let kind = entry.file_type();
            // A link that is named is followed, also to a folder.
            let is_named = || entry.depth() == 0 && !entry.path().is_dir();
            (kind.is_file() || is_named()).then(|| Ok(entry.into_path()))
        }
        Err(error) => Some(Err(match (error.path(), error.io_error()) {
            (Some(path), Some(why)) => format!("{}: {why}", path.display()),
            _ => error.to_string(),
        })),
    })
}
