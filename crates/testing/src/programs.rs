//! The test programs that cargo builds.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{command, library, run};

/// A test program.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    /// The folder of its package, which is the working folder of its tests.
    folder: PathBuf,
    /// The arguments of the build.
    arguments: String,
    /// The folder with the names of the libraries that tests have built.
    built: PathBuf,
    /// Its package.
    pub package: String,
    /// Its target.
    pub target: String,
}

impl Program {
    /// All programs that `cargo test` builds with these arguments. `None` if the build fails.
    /// The tests keep in an empty folder which libraries they have built.
    ///
    /// # Panics
    /// If cargo cannot be started.
    pub fn build(arguments: &[String], built: &Path) -> Option<Vec<Program>> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]).args(arguments);
        let output = command.stderr(Stdio::inherit()).output().expect("cargo");
        let messages = String::from_utf8_lossy(&output.stdout);
        let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let programs = messages.filter_map(|message| {
            let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
            let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
            let package = message["package_id"].as_str()?.rsplit('#').next()?.split('@').next()?.to_owned();
            let target = message["target"]["name"].as_str()?.to_owned();
            let arguments = arguments.join(library::SEPARATOR);
            Some(Program { path: path.into(), folder, arguments, built: built.to_owned(), package, target })
        });
        output.status.success().then(|| programs.collect())
    }

    /// A command that runs it as `cargo test` does.
    pub fn command(&self) -> Command {
        let mut command = command(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO_PKG_NAME", &self.package);
        // Variables that control random tests are passed on; see `testing::for_each_seed`.
        for (name, value) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROWLOCK_")) {
            command.env(name, value);
        }
        command.env(library::ARGUMENTS, &self.arguments).env(library::BUILT, &self.built);
        command
    }

    /// The names of its tests, selected by these arguments of the harness.
    ///
    /// # Panics
    /// If it does not list them.
    pub fn list(&self, arguments: &[&str]) -> Vec<String> {
        let list = run(self.command().args(["--list", "--format", "terse"]).args(arguments)).expect_success().stdout;
        list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
    }
}
