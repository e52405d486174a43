//! The files that are named on the command line, and those below named folders.

use std::path::PathBuf;

use walkdir::WalkDir;

/// All files, with the files of a folder in the order of their names; or messages about errors.
/// Named paths may be of any type. Below folders, only regular files are included, but no links or
/// devices.
pub(crate) fn below(paths: &[PathBuf]) -> impl Iterator<Item = Result<PathBuf, String>> {
    let entries = paths.iter().flat_map(|path| WalkDir::new(path).sort_by_file_name());
    entries.filter_map(|entry| match entry {
        Ok(entry) => {
            let kind = entry.file_type();
            // A named link is followed, even to a folder.
            let is_named = || entry.depth() == 0 && !entry.path().is_dir();
            (kind.is_file() || is_named()).then(|| Ok(entry.into_path()))
        }
        Err(error) => Some(Err(match (error.path(), error.io_error()) {
            (Some(path), Some(why)) => format!("{}: {why}", path.display()),
            _ => error.to_string(),
        })),
    })
}
