//! The file of a trace, which appears when it is complete.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use scenario::result::World;
use sys::files::Replacement;

/// A trace could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the trace {}: {source}", .path.display())]
pub struct TraceError {
    path: PathBuf,
    source: io::Error,
}

/// A trace file being written. Dropping it leaves no file behind.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    replacement: Replacement,
}

impl TraceFile {
    /// Creates a file for a trace. A file at `path` stays until the trace is complete.
    pub fn create(path: &Path) -> Result<TraceFile, TraceError> {
        match Replacement::create(path) {
            Ok(replacement) => Ok(TraceFile { path: path.to_owned(), replacement }),
            Err(source) => Err(TraceError { path: path.to_owned(), source }),
        }
    }

    /// The path of the trace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The writer for the trace, to be used once, from any thread.
    pub fn writer(&self) -> Result<BufWriter<File>, TraceError> {
        let file = self.replacement.file().try_clone().map_err(|source| self.error(source))?;
        Ok(BufWriter::with_capacity(1 << 16, file))
    }

    /// Gives the complete trace its path.
    pub fn keep(self) -> Result<(), TraceError> {
        let TraceFile { path, replacement } = self;
        replacement.finish().map_err(|source| TraceError { path, source })
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
