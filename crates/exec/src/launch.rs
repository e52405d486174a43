//! A program that is about to be started, and what it is told.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use counters::Environment;
use policy::waiting::{Costs, WaitingRule};

use crate::environment;
use crate::invocation::{Invocation, StartError};
use crate::library::{self, LibraryError};
use crate::obstacle::Obstacle;
use crate::program::{self, Program};

/// What the loader is told to load before all else.
const PRELOAD: &str = "LD_PRELOAD";

/// A program with its arguments, and how it is to wait.
#[derive(Clone, Debug)]
pub struct Launch {
    pub(crate) invocation: Invocation,
    rule: WaitingRule,
    costs: Costs,
    program: Option<Program>,
    library: PathBuf,
}

impl Launch {
    /// Prepares to start a command, found as the system finds it, whose threads shall wait by this rule on a machine with these costs. Looks
    /// at the program, and unpacks the library if need be.
    ///
    /// # Errors
    /// When there is no place for the library.
    pub fn new(
        command: &OsStr,
        arguments: &[OsString],
        rule: WaitingRule,
        costs: Costs,
    ) -> Result<Launch, LibraryError> {
        Ok(Launch {
            invocation: Invocation::new(command, arguments),
            rule,
            costs,
            program: program::inspect(command),
            library: library::find()?,
        })
    }

    /// What keeps the library out of the program itself, whatever is with those that it starts; and the program's file, which is
    /// another than the command where that is a script.
    pub fn obstacle(&self) -> Option<(&Path, &Obstacle)> {
        let Program { path, obstacle } = self.program.as_ref()?;
        Some((path, obstacle.as_ref()?))
    }

    /// Executes the program in the place of this one. Returns only if that fails.
    pub fn replace(&self) -> StartError {
        let mut command = self.helped(None);
        self.invocation.replace(&mut command)
    }

    /// The command with all that helps it, and with a book of accounts if there is one.
    pub(crate) fn helped(&self, book: Option<&Path>) -> Command {
        let mut command = self.invocation.command();
        let may_be_asked = self.obstacle().is_none_or(|(_, obstacle)| obstacle.may_be_asked());
        let environment = Environment { rule: self.rule, costs: Some(self.costs), region: book.map(Path::to_owned) };
        if !may_be_asked {
            // What run-time systems are told goes with the library, which neither this program will have nor those that it starts.
            return command;
        }
        // Without one of its own the program writes into that of whoever has started us, if there is one.
        command.envs(environment.variables());
        command.envs(environment::variables(self.rule, self.costs, |name| env::var_os(name).is_some()));
        command.env(PRELOAD, preloads(env::var_os(PRELOAD).as_deref(), &self.library));
        command
    }
}

#[cfg(test)]
impl Launch {
    /// With the library as it was built, so that tests leave nothing in the user's cache.
    pub(crate) fn for_test(command: &str, arguments: &[&str], rule: WaitingRule) -> Launch {
        Launch {
            invocation: Invocation::new(command.as_ref(), &arguments.iter().map(OsString::from).collect::<Vec<_>>()),
            rule,
            costs: Costs::default(),
            program: program::inspect(command.as_ref()),
            library: env!("ROWLOCK_BUILT_PRELOAD").into(),
        }
    }
}

/// What is to be loaded: what the user wants first, and then this library.
fn preloads(users: Option<&OsStr>, library: &Path) -> OsString {
    let mut list = users.unwrap_or_default().to_owned();
    let is_there = env::split_paths(&list).any(|path| path == library);
    if !is_there {
        if !list.is_empty() {
            list.push(":");
        }
        list.push(library);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(command: &str) -> Launch {
        Launch::for_test(command, &["-x"], WaitingRule::AlwaysBlock)
    }

    fn variable(command: &Command, name: &str) -> Option<OsString> {
        command.get_envs().find(|(found, _)| *found == name)?.1.map(OsStr::to_owned)
    }

    #[test]
    fn a_program_is_told_by_its_environment() {
        let launch = launch("true");
        let command = launch.helped(Some(Path::new("/book")));
        assert_eq!(variable(&command, Environment::RULE), Some("always-block".into()));
        assert_eq!(variable(&command, Environment::REGION), Some("/book".into()));
        assert_eq!(variable(&command, Environment::COSTS), Some("0,0,0,0".into()));
        assert!(variable(&command, PRELOAD).unwrap().into_string().unwrap().ends_with(".so"));
        assert_eq!(variable(&launch.helped(None), Environment::REGION), None);
        assert_eq!(launch.invocation.command().get_envs().count(), 0);
        assert!(command.get_args().eq(["-x"]));
    }

    #[test]
    fn a_program_that_cannot_load_the_library_is_not_asked_to() {
        let with = |obstacle| Launch { program: Some(Program { path: "/x".into(), obstacle }), ..launch("true") };
        let is_asked = |obstacle| variable(&with(obstacle).helped(None), PRELOAD).is_some();
        assert!(is_asked(None) && is_asked(Some(Obstacle::Static)));
        let musl = Some(Obstacle::OtherLibrary("musl".into()));
        assert!(!is_asked(musl.clone()));
        assert_eq!(with(musl).helped(None).get_envs().count(), 0);
    }

    #[test]
    fn what_the_user_loads_comes_first() {
        let ours = Path::new("/ours.so");
        assert_eq!(preloads(None, ours), "/ours.so");
        assert_eq!(preloads(Some("".as_ref()), ours), "/ours.so");
        assert_eq!(preloads(Some("/a.so /b.so".as_ref()), ours), "/a.so /b.so:/ours.so");
        assert_eq!(preloads(Some("/ours.so:/a.so".as_ref()), ours), "/ours.so:/a.so");
    }

    #[test]
    fn what_cannot_be_executed_is_told_as_shells_do() {
        let failed = launch("rowlock-has-no-such-program").replace();
        assert_eq!(failed.exit_code(), 127);
        assert!(failed.to_string().starts_with("cannot execute `rowlock-has-no-such-program`: "), "{failed}");
        assert_eq!(launch("/dev/null").replace().exit_code(), 126);
    }
}
