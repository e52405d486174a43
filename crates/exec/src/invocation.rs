//! A command with its arguments, and starting it as shells do.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::io::Errno;
use sys::process::execute_only;

use crate::program;

/// A program with its arguments, as it is.
#[derive(Clone, Debug)]
pub struct Invocation {
    command: OsString,
    arguments: Vec<OsString>,
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
#[error("cannot execute `{}`: {}", command.display(), reason(why, missing.as_deref()))]
pub struct StartError {
    /// What was to be started.
    pub command: OsString,
    /// What it takes to start that, and is not there: the interpreter of a script, or the loader of a program.
    pub missing: Option<PathBuf>,
    /// What the system says.
    #[source]
    pub why: io::Error,
}

impl StartError {
    fn new(command: &OsStr, why: io::Error) -> StartError {
        let missing = if why.kind() == io::ErrorKind::NotFound { program::missing(command) } else { None };
        StartError { command: command.to_owned(), missing, why }
    }

    /// What shells exit with then: 127 if there is no such program, 126 if it is there.
    pub fn exit_code(&self) -> u8 {
        if self.why.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

/// What is wrong, in words that help.
fn reason(why: &io::Error, missing: Option<&Path>) -> String {
    match missing {
        // It may end with a carriage return, which nobody would see.
        Some(missing) => format!("it asks for {missing:?}, which is not there"),
        None if is_no_program(why) => format!("it is no program for this machine, or a broken one: {why}"),
        None => why.to_string(),
    }
}

fn is_no_program(why: &io::Error) -> bool {
    why.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
}

impl Invocation {
    /// This command, found as the system finds it, with these arguments.
    pub fn new(command: &OsStr, arguments: &[OsString]) -> Invocation {
        Invocation { command: command.to_owned(), arguments: arguments.to_vec() }
    }

    /// It as something to be started.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.arguments);
        command
    }

    /// Executes `command`, which was made of this, in the place of this process. Returns only if that fails.
    pub(crate) fn replace(&self, command: &mut Command) -> StartError {
        let why = self.no_shell(command).err().unwrap_or_else(|| command.exec());
        StartError::new(&self.command, why)
    }

    /// Starts `command`, which was made of this, and everything is done to it.
    pub(crate) fn spawn(&self, command: &mut Command) -> Result<Child, StartError> {
        self.no_shell(command).and_then(|()| command.spawn()).map_err(|why| StartError::new(&self.command, why))
    }

    /// Keeps the standard library from asking a shell to read a program that the kernel cannot execute.
    fn no_shell(&self, command: &mut Command) -> io::Result<()> {
        program::elf(&self.command).map_or(Ok(()), |file| execute_only(command, &file))
    }
}
