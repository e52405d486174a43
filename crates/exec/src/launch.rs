//! A program to start with the preloaded library.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use counters::Environment;
use policy::waiting::{Costs, WaitingRule};

use crate::environment;
use crate::execution::{Execution, Interruption, RunLimits};
use crate::invocation::{Invocation, StartError};
use crate::library::{self, LibraryError};
use crate::mpi::MpiLibrary;
use crate::obstacle::Obstacle;
use crate::program::{self, Program};
use crate::run::RunError;

/// A wrapper names its program among so many arguments.
const MOST_WORDS: usize = 16;

/// The loader's list of libraries to preload.
const PRELOAD: &str = "LD_PRELOAD";

/// A program with its arguments, and its waiting rule.
#[derive(Clone, Debug)]
pub struct Launch {
    pub(crate) invocation: Invocation,
    rule: WaitingRule,
    costs: Costs,
    program: Option<Program>,
    library: PathBuf,
}

impl Launch {
    /// Prepares to start a command, found like the system finds it, whose threads wait by this rule
    /// on a machine with these costs. Inspects the program, and unpacks the library if necessary.
    ///
    /// # Errors
    /// If there is no folder for the library.
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

    /// The obstacle that keeps the library out of the program itself, with the program's file. It
    /// differs from the command if that is a script. Programs that it starts may have other
    /// obstacles.
    pub fn obstacle(&self) -> Option<(&Path, &Obstacle)> {
        let Program { path, obstacle } = self.program.as_ref()?;
        Some((path, obstacle.as_ref()?))
    }

    /// The library of MPI that the program uses, as far as its file tells. Unknown also if an
    /// argument is a program that may use one, as in `nice PROGRAM`.
    pub fn mpi(&self) -> MpiLibrary {
        match self.program.as_ref().map(|program| program::mpi(&program.path)) {
            Some(MpiLibrary::None) if self.mpi_of_arguments().any(|library| library != MpiLibrary::None) => {
                MpiLibrary::Unknown
            }
            library => library.unwrap_or(MpiLibrary::None),
        }
    }

    /// Whether an argument is a program that is linked to Open MPI.
    pub fn names_open_mpi(&self) -> bool {
        self.mpi_of_arguments().any(|library| library == MpiLibrary::OpenMpi)
    }

    /// The libraries of MPI of the programs among the first arguments.
    fn mpi_of_arguments(&self) -> impl Iterator<Item = MpiLibrary> {
        self.invocation.arguments().iter().take(MOST_WORDS).filter_map(|word| program::mpi_of_command(word))
    }

    /// The command as the user has named it.
    pub fn name(&self) -> &OsStr {
        self.invocation.name()
    }

    /// Executes the program in place of this process. Returns only on failure.
    pub fn replace(&self) -> StartError {
        let mut command = self.preloading_command(None);
        self.invocation.replace(&mut command)
    }

    /// The command, with the environment that preloads and configures the library or without it,
    /// ready to be configured further and then [started](Launch::spawn).
    pub fn command(&self, preload: bool) -> Command {
        if preload { self.preloading_command(None) } else { self.invocation.command() }
    }

    /// Starts a command that [`Launch::command`] has made. No shell interprets a program that the
    /// kernel cannot execute. Call it last: the environment must be complete.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, StartError> {
        self.invocation.spawn(command)
    }

    /// The error that the program was not started for this reason.
    pub fn not_started(&self, why: io::Error) -> StartError {
        self.invocation.not_started(why)
    }

    /// Checks that the program exists and may be executed, without starting it.
    ///
    /// # Errors
    /// The one that a start would most likely have.
    pub fn check(&self) -> Result<(), StartError> {
        self.invocation.check()
    }

    /// Runs the program to its end, with the preloaded library or without it. Blocks as
    /// [`Invocation::execute`] does.
    ///
    /// # Errors
    /// Those of [`Invocation::execute`].
    pub fn execute(&self, preload: bool, limits: RunLimits<'_>) -> Result<Result<Execution, Interruption>, RunError> {
        self.invocation.execute(&mut self.command(preload), limits)
    }

    /// The command with the environment that preloads and configures the library, and with the
    /// statistics region if there is one.
    pub(crate) fn preloading_command(&self, region: Option<&Path>) -> Command {
        let mut command = self.invocation.command();
        let may_preload = self.obstacle().is_none_or(|(_, obstacle)| obstacle.may_preload());
        let environment = Environment { rule: self.rule, costs: Some(self.costs), region: region.map(Path::to_owned) };
        if !may_preload {
            // The settings of run-time systems belong to the library, which neither this program
            // nor its children will load.
            return command;
        }
        // Without a region of its own, the program writes to the region of its caller, if there is
        // one.
        command.envs(environment.variables());
        command.envs(environment::variables(self.rule, self.costs, |name| env::var_os(name).is_some()));
        command.env(PRELOAD, preload_list(env::var_os(PRELOAD).as_deref(), &self.library));
        command
    }
}

#[cfg(test)]
impl Launch {
    /// A launch with the library from the build, so that tests do not write to the user's cache.
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

/// The list of libraries to preload: the user's, then this library.
fn preload_list(user_list: Option<&OsStr>, library: &Path) -> OsString {
    let mut list = user_list.unwrap_or_default().to_owned();
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
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::execution::STDERR_TAIL;

    fn launch(command: &str) -> Launch {
        Launch::for_test(command, &["-x"], WaitingRule::AlwaysBlock)
    }

    fn variable(command: &Command, name: &str) -> Option<OsString> {
        command.get_envs().find(|(found, _)| *found == name)?.1.map(OsStr::to_owned)
    }

    #[test]
    fn the_environment_configures_the_library() {
        let launch = launch("true");
        let command = launch.preloading_command(Some(Path::new("/region")));
        assert_eq!(variable(&command, Environment::RULE), Some("always-block".into()));
        assert_eq!(variable(&command, Environment::REGION), Some("/region".into()));
        assert_eq!(variable(&command, Environment::COSTS), Some("0,0,0,0".into()));
        assert!(variable(&command, PRELOAD).unwrap().into_string().unwrap().ends_with(".so"));
        assert_eq!(variable(&launch.preloading_command(None), Environment::REGION), None);
        assert_eq!(launch.invocation.command().get_envs().count(), 0);
        assert!(command.get_args().eq(["-x"]));
    }

    fn execute(launch: &Launch, preload: bool, cancel: bool) -> Result<Result<Execution, Interruption>, RunError> {
        launch.execute(preload, RunLimits { cancel: &AtomicBool::new(cancel), limit: None })
    }

    fn shell(script: &str) -> Launch {
        Launch::for_test("sh", &["-c", script], WaitingRule::default())
    }

    #[test]
    fn a_program_runs_with_the_library_or_without_it() {
        let launch = shell("echo ${LD_PRELOAD:+with}; echo err >&2; exit 3");
        let [with, without] = [true, false].map(|preload| execute(&launch, preload, false).unwrap().unwrap());
        assert_eq!((with.stdout_bytes, without.stdout_bytes), (5, 1));
        // The hash of "with\n".
        assert!(with.stdout_sha256.starts_with("29ba51b1"), "{}", with.stdout_sha256);
        for of in [with, without] {
            assert_eq!((of.status.code(), of.stderr.as_str()), (Some(3), "err\n"));
            assert_eq!(of.ending(), "exit status: 3, and last said: err");
        }
    }

    #[test]
    fn a_program_that_says_nothing_has_no_last_words() {
        let killed = execute(&shell("echo >&2; kill -KILL $$"), false, false).unwrap().unwrap();
        assert_eq!(killed.ending(), "signal: 9 (SIGKILL)");
    }

    #[test]
    fn a_cancelled_program_is_ended_with_its_children() {
        // The second program does not obey, and neither does its child.
        for script in ["exec sleep 600", "trap '' TERM; sleep 600; sleep 600"] {
            assert_eq!(execute(&shell(script), true, true).unwrap(), Err(Interruption::Cancelled));
        }
    }

    #[test]
    fn a_program_that_uses_the_terminal_is_an_error() {
        let found = execute(&shell("kill -TTOU $$"), false, false);
        assert!(matches!(found, Err(RunError::Terminal)), "{found:?}");
    }

    #[test]
    fn a_program_that_cannot_be_started_is_an_error() {
        let found = execute(&Launch::for_test("/dev/null", &[], WaitingRule::default()), true, false);
        assert!(matches!(found, Err(RunError::Start(_))));
    }

    #[test]
    fn only_the_end_of_standard_error_is_kept() {
        let script = "i=0; while [ $i -lt 1000 ]; do echo 123456789 >&2; i=$((i+1)); done";
        let found = execute(&shell(script), false, false).unwrap().unwrap();
        assert_eq!(found.stderr.len() as u64, STDERR_TAIL);
    }

    #[test]
    fn a_program_that_cannot_load_the_library_has_no_preload() {
        let with = |obstacle| Launch { program: Some(Program { path: "/x".into(), obstacle }), ..launch("true") };
        let preloads_library = |obstacle| variable(&with(obstacle).preloading_command(None), PRELOAD).is_some();
        assert!(preloads_library(None) && preloads_library(Some(Obstacle::Static)));
        let musl = Some(Obstacle::OtherLibrary("musl".into()));
        assert!(!preloads_library(musl.clone()));
        assert_eq!(with(musl).preloading_command(None).get_envs().count(), 0);
    }

    #[test]
    fn the_user_s_libraries_are_loaded_first() {
        let ours = Path::new("/ours.so");
        assert_eq!(preload_list(None, ours), "/ours.so");
        assert_eq!(preload_list(Some("".as_ref()), ours), "/ours.so");
        assert_eq!(preload_list(Some("/a.so /b.so".as_ref()), ours), "/a.so /b.so:/ours.so");
        assert_eq!(preload_list(Some("/ours.so:/a.so".as_ref()), ours), "/ours.so:/a.so");
    }

    #[test]
    fn failures_have_the_exit_codes_of_shells() {
        let failed = launch("rowlock-has-no-such-program").replace();
        assert_eq!(failed.exit_code(), 127);
        assert!(failed.to_string().starts_with("cannot execute `rowlock-has-no-such-program`: "), "{failed}");
        assert_eq!(launch("/dev/null").replace().exit_code(), 126);
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("script");
        std::fs::write(&script, "#!/nowhere/sh\n").unwrap();
        for (mode, exit_code, said) in [(0o644, 126, "denied"), (0o755, 127, "asks for `/nowhere/sh`")] {
            std::fs::set_permissions(&script, std::fs::Permissions::from_mode(mode)).unwrap();
            let launch = launch(script.to_str().unwrap());
            for failed in [launch.check().unwrap_err(), launch.spawn(&mut launch.command(true)).unwrap_err()] {
                assert_eq!(failed.exit_code(), exit_code, "{failed}");
                assert!(failed.to_string().contains(said), "{failed}");
            }
        }
        for (command, exit_code) in [("rowlock-has-no-such-program", 127), ("", 127), ("/dev/null", 126)] {
            assert_eq!(launch(command).check().unwrap_err().exit_code(), exit_code, "{command}");
        }
        launch("true").check().unwrap();
        launch("true").spawn(&mut launch("true").command(false)).unwrap().wait().unwrap();
    }
}
