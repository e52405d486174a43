//! The file of a trace: written under a temporary name and renamed when complete.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use scenario::result::World;
use tempfile::NamedTempFile;

/// A trace could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the trace {}: {source}", .path.display())]
pub struct TraceError {
    path: PathBuf,
    source: io::Error,
}

/// A trace file being written. Dropping it removes the temporary file.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    temporary: NamedTempFile,
}

impl TraceFile {
    /// Creates a temporary file for a trace. A file at `path` stays until the trace is complete.
    pub fn create(path: &Path) -> Result<TraceFile, TraceError> {
        let failed = |source| TraceError { path: path.to_owned(), source };
        if path.exists() && !path.is_file() {
            return Err(failed(io::Error::other("there is something that is no plain file")));
        }
        let name = path.file_name().ok_or_else(|| failed(io::Error::other("this names no file")))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut temporary = tempfile::Builder::new();
        // The umask gives the file the usual permissions.
        temporary.prefix(".").suffix(name).permissions(Permissions::from_mode(0o666));
        Ok(TraceFile { path: path.to_owned(), temporary: temporary.tempfile_in(folder).map_err(failed)? })
    }

    /// The path of the trace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The writer for the trace, to be used once, from any thread.
    pub fn writer(&self) -> Result<BufWriter<File>, TraceError> {
        let file = self.temporary.as_file().try_clone().map_err(|source| self.error(source))?;
        Ok(BufWriter::with_capacity(1 << 16, file))
    }

    /// Renames the complete trace to its path.
    pub fn keep(self) -> Result<(), TraceError> {
        let TraceFile { path, temporary } = self;
        temporary.persist(&path).map(drop).map_err(|error| TraceError { path, source: error.error })
    }

    /// An error of this trace.
    pub fn error(&self, source: io::Error) -> TraceError {
        TraceError { path: self.path.clone(), source }
    }
}

/// The path of a world's trace if `path` was requested: that path if the world is the only one,
/// else with the world's name before the extension, as in `out.sim.pftrace`.
pub fn path_for(path: &Path, world: World, chosen: &[World]) -> PathBuf {
    if chosen.len() < 2 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(world.name());
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_trace_appears_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pftrace");
        fs::write(&path, "old").unwrap();
        let trace = TraceFile::create(&path).unwrap();
        trace.writer().unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        trace.keep().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["out.pftrace"]);
    }

    #[test]
    fn an_abandoned_trace_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let trace = TraceFile::create(&folder.path().join("out.pftrace")).unwrap();
        let mut writer = trace.writer().unwrap();
        drop(trace);
        // A simulation that was abandoned may still write.
        writer.write_all(b"more").and_then(|()| writer.flush()).unwrap();
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn an_unusable_path_is_rejected_immediately() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("nowhere/out"), "/dev/null".into(), "/".into()] {
            let error = TraceFile::create(&path).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot write the trace {}: ", path.display())), "{error}");
        }
    }

    #[test]
    fn worlds_use_different_files() {
        let both = [World::Sim, World::Host];
        let path = |path, world, chosen| path_for(Path::new(path), world, chosen).display().to_string();
        assert_eq!(path("a/x.pftrace", World::Sim, &both[..1]), "a/x.pftrace");
        assert_eq!(path("a/x.pftrace", World::Sim, &both), "a/x.sim.pftrace");
        assert_eq!(path("a/x.pftrace", World::Host, &both), "a/x.host.pftrace");
        assert_eq!(path("x", World::Host, &both), "x.host");
    }
}
