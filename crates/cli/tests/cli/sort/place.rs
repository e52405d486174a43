//! A temporary folder in which sorts run, with another one for temporary files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testing::{Child, Output};

use crate::prun::Table;

/// A folder in which sorts run, one for their temporary files, and a table of jobs for their ranks.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    temporary: tempfile::TempDir,
    pub(crate) table: Table,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap(), temporary: tempfile::tempdir().unwrap(), table: Table::new() }
    }

    /// On a disk, or at least in the build folder: `/tmp` is often in memory.
    pub(crate) fn on_disk() -> Place {
        let folder = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Place { folder: folder(), temporary: folder(), table: Table::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// `rowlock sort` with an empty standard input.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.any_command(&[&["sort"], arguments].concat())
    }

    /// `rowlock` with these arguments and an empty standard input.
    pub(crate) fn any_command(&self, arguments: &[&str]) -> Command {
        let mut command = crate::rowlock(arguments);
        self.set_up(&mut command);
        command
    }

    fn set_up(&self, command: &mut Command) {
        command.env("TMPDIR", self.temporary()).env("ROWLOCK_TABLE", self.table.place());
        command.current_dir(self.folder.path());
    }

    /// Runs `rowlock sort` with these arguments.
    pub(crate) fn rowlock(&self, arguments: &[&str]) -> Output {
        self.done(&mut self.command(arguments))
    }

    /// Runs a command to its end.
    pub(crate) fn done(&self, command: &mut Command) -> Output {
        ended(Child::start(command))
    }

    /// Runs `rowlock sort` with this standard input.
    pub(crate) fn fed(&self, bytes: &[u8], arguments: &[&str]) -> Output {
        let mut child = Child::start(self.command(arguments).stdin(Stdio::piped()));
        let mut stdin = child.process().stdin.take().unwrap();
        // It may end before it has read everything.
        let _ = stdin.write_all(bytes);
        drop(stdin);
        ended(child)
    }

    /// Runs a shell command in which `rowlock` is the tested program.
    pub(crate) fn shell(&self, line: &str) -> Output {
        let mut command = testing::command("bash");
        let program = Path::new(env!("CARGO_BIN_EXE_rowlock"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(program.parent().unwrap().to_owned()).chain(std::env::split_paths(&path));
        command.args(["-c", line]);
        self.set_up(&mut command);
        self.done(command.env("PATH", std::env::join_paths(folders).unwrap()).env("LC_ALL", "C"))
    }

    /// The names of all files, including hidden ones. There must be no temporary files.
    #[track_caller]
    pub(crate) fn left(&self) -> Vec<String> {
        assert!(names(self.temporary()).is_empty(), "temporary files: {:?}", names(self.temporary()));
        names(self.folder.path())
    }
}

/// The names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
    names.sort_unstable();
    names
}

/// Waits for a sort, which must not panic.
#[track_caller]
pub(crate) fn ended(child: Child) -> Output {
    let output = child.wait();
    let is_orderly = !output.stderr.contains("panicked");
    output.expect(is_orderly, "no panic")
}

/// Records of 20 bytes: a key of four bytes with few different values, and the record's number in
/// digits.
pub(crate) fn records(count: u32, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut bytes = Vec::with_capacity(count as usize * 20);
    for index in 0..count {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bytes.extend((state % 5_000).to_be_bytes());
        write!(bytes, "{index:016}").unwrap();
    }
    bytes
}
