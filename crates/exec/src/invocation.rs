//! A command with its arguments, and starting it like a shell.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::io::Errno;
use sys::process::execute_only;

use crate::program;

/// A program with its arguments.
#[derive(Clone, Debug)]
pub struct Invocation {
    command: OsString,
    arguments: Vec<OsString>,
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
#[error("cannot execute `{}`: {}", command.display(), reason(why, missing.as_deref()))]
pub struct StartError {
    /// The command.
    pub command: OsString,
    /// A missing file that the command needs: the interpreter of a script, or the loader of a
    /// program.
    pub missing: Option<PathBuf>,
    /// The system's error.
    #[source]
    pub why: io::Error,
}

impl StartError {
    fn new(command: &OsStr, why: io::Error) -> StartError {
        let missing = if why.kind() == io::ErrorKind::NotFound { program::missing(command) } else { None };
        StartError { command: command.to_owned(), missing, why }
    }

    /// The exit code of a shell in this case: 127 if there is no such program, otherwise 126.
    pub fn exit_code(&self) -> u8 {
        if self.why.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

/// The reason in plain words.
fn reason(why: &io::Error, missing: Option<&Path>) -> String {
    match missing {
        Some(missing) => format!("it asks for `{}`, which is not there", missing.display()),
        None if is_exec_format_error(why) => format!("it is not a program for this machine, or it is damaged: {why}"),
        None => why.to_string(),
    }
}

fn is_exec_format_error(why: &io::Error) -> bool {
    why.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
}

impl Invocation {
    /// The arguments.
    pub(crate) fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    /// A command, found like the system finds it, with arguments.
    pub fn new(command: &OsStr, arguments: &[OsString]) -> Invocation {
        Invocation { command: command.to_owned(), arguments: arguments.to_vec() }
    }

    /// The name of the command, as it was given.
    pub(crate) fn name(&self) -> &OsStr {
        &self.command
    }

    /// The command, ready to be configured and started.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.arguments);
        command
    }

    /// Checks that the program exists and may be executed, without starting it.
    ///
    /// # Errors
    /// The one that a start would most likely have.
    pub fn check(&self) -> Result<(), StartError> {
        program::executable(&self.command).map_err(|why| self.not_started(why))?;
        match program::missing(&self.command) {
            Some(_) => Err(self.not_started(Errno::NOENT.into())),
            None => Ok(()),
        }
    }

    /// Executes `command`, made by [`Invocation::command`], in place of this process. Returns only
    /// on failure.
    pub(crate) fn replace(&self, command: &mut Command) -> StartError {
        let why = self.prevent_shell(command).err().unwrap_or_else(|| command.exec());
        self.not_started(why)
    }

    /// Starts `command`, made by [`Invocation::command`] or [`Launch::command`]. Its environment
    /// must not change afterwards.
    ///
    /// [`Launch::command`]: crate::Launch::command
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, StartError> {
        self.prevent_shell(command).and_then(|()| command.spawn()).map_err(|why| self.not_started(why))
    }

    pub(crate) fn not_started(&self, why: io::Error) -> StartError {
        StartError::new(&self.command, why)
    }

    /// Keeps the standard library from running a file by a shell if the kernel cannot execute it.
    fn prevent_shell(&self, command: &mut Command) -> io::Result<()> {
        program::elf(&self.command).map_or(Ok(()), |file| execute_only(command, &file))
    }
}
