//! The file of a trace: written under another name beside its place, and put there when it is complete.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use scenario::result::World;
use tempfile::NamedTempFile;

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the trace {}: {source}", .path.display())]
pub struct Error {
    path: PathBuf,
    source: io::Error,
}

/// A trace that is to be. Dropping it leaves nothing behind.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    temporary: NamedTempFile,
}

impl TraceFile {
    /// Makes sure that a trace can be written to `path`, in place of what is there, which stays until the trace is complete.
    ///
    /// # Errors
    ///
    /// [`Error`]: there is no such folder, nothing may be written to it, or what is there is no plain file.
    pub fn create(path: &Path) -> Result<TraceFile, Error> {
        let failed = |source| Error { path: path.to_owned(), source };
        if path.exists() && !path.is_file() {
            return Err(failed(io::Error::other("there is something that is no plain file")));
        }
        let name = path.file_name().ok_or_else(|| failed(io::Error::other("this names no file")))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut temporary = tempfile::Builder::new();
        // Whoever may read other results may read this one: the umask takes away what it takes from them.
        temporary.prefix(".").suffix(name).permissions(Permissions::from_mode(0o666));
        Ok(TraceFile { path: path.to_owned(), temporary: temporary.tempfile_in(folder).map_err(failed)? })
    }

    /// Where the trace will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What to write the trace to, once, from any thread.
    ///
    /// # Errors
    ///
    /// [`Error`]: there are too many open files.
    pub fn writer(&self) -> Result<BufWriter<File>, Error> {
        let file = self.temporary.as_file().try_clone().map_err(|source| self.error(source))?;
        Ok(BufWriter::with_capacity(1 << 16, file))
    }

    /// Puts the complete trace into its place.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn keep(self) -> Result<(), Error> {
        let TraceFile { path, temporary } = self;
        temporary.persist(&path).map(drop).map_err(|error| Error { path, source: error.error })
    }

    /// What went wrong with this trace.
    pub fn error(&self, source: io::Error) -> Error {
        Error { path: self.path.clone(), source }
    }
}

/// Where the trace of a world goes if `path` was asked for: there if it is the only one, else each world has its name before
/// the ending, as in `out.sim.pftrace`.
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
    fn a_trace_is_there_when_it_is_complete_and_not_before() {
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
    fn a_trace_that_comes_to_nothing_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let trace = TraceFile::create(&folder.path().join("out.pftrace")).unwrap();
        let mut writer = trace.writer().unwrap();
        drop(trace);
        // A simulation that nobody waits for may still write.
        writer.write_all(b"more").and_then(|()| writer.flush()).unwrap();
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_place_where_no_file_can_be_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("nowhere/out"), "/dev/null".into(), "/".into()] {
            let error = TraceFile::create(&path).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot write the trace {}: ", path.display())), "{error}");
        }
    }

    #[test]
    fn worlds_share_no_file() {
        let both = [World::Sim, World::Host];
        let path = |path, world, chosen| path_for(Path::new(path), world, chosen).display().to_string();
        assert_eq!(path("a/x.pftrace", World::Sim, &both[..1]), "a/x.pftrace");
        assert_eq!(path("a/x.pftrace", World::Sim, &both), "a/x.sim.pftrace");
        assert_eq!(path("a/x.pftrace", World::Host, &both), "a/x.host.pftrace");
        assert_eq!(path("x", World::Host, &both), "x.host");
    }
}
