//! Runs a step of the gate unless its stamp says that its inputs have not changed since it passed.
//!
//! `stamped NAME (--tests | --program | --alone PACKAGE)... [--all] [--repeat NAME] -- COMMAND...`
//!
//! - `--tests PACKAGE` says that the step runs tests of this package.
//! - `--program PACKAGE` says that it uses this package, but none of its tests.
//! - `--alone PACKAGE` says that the packages that this one depends on do not affect the result.
//! - `--all` runs the step regardless of its stamp.
//! - `--repeat NAME` does so for the step of this name.
//!
//! A step that passes on a clean work tree writes its stamp. A step whose result differs from that
//! of its stamp although its inputs are the same fails.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that reports to people")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Error, Result};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use testing::stamps::{self, Need, Stamp, Workspace};

const USAGE: &str =
    "usage: stamped NAME (--tests | --program | --alone PACKAGE)... [--all] [--repeat NAME] -- COMMAND...";
const FILE: &str = "stamps";

#[derive(Default)]
struct Step {
    name: String,
    packages: Vec<(String, Need)>,
    regardless: bool,
    command: Vec<String>,
}

impl Step {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Step> {
        let mut step = Step { name: arguments.next()?, ..Step::default() };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--tests" => step.packages.push((arguments.next()?, Need::Tests)),
                "--program" => step.packages.push((arguments.next()?, Need::Program)),
                "--alone" => step.packages.push((arguments.next()?, Need::Alone)),
                "--all" => step.regardless = true,
                "--repeat" => step.regardless |= arguments.next()? == step.name,
                "--" => step.command.extend(arguments.by_ref()),
                _ => return None,
            }
        }
        (!step.packages.is_empty() && !step.command.is_empty()).then_some(step)
    }

    /// Runs the command and shows its output. Returns the output if the command succeeds.
    fn run(&self) -> Result<Option<String>> {
        let mut child = Command::new(&self.command[0]).args(&self.command[1..]).stdout(Stdio::piped()).spawn()?;
        let mut printed = String::new();
        for line in child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
            let line = line?;
            println!("{line}");
            printed.push_str(&line);
            printed.push('\n');
        }
        Ok(child.wait()?.success().then_some(printed))
    }

    fn check(&self, root: &Path) -> Result<ExitCode> {
        let (workspace, mut inputs) = (Workspace::read(root)?, BTreeSet::new());
        for (package, need) in &self.packages {
            inputs.extend(workspace.inputs(package, *need)?);
        }
        let inputs = workspace.hash(&inputs, &self.command)?;
        let file = root.join(FILE);
        let stamp = stamps::find(&std::fs::read_to_string(&file).unwrap_or_default(), &self.name);
        let stamp = stamp.filter(|stamp| stamp.inputs == inputs);
        if stamp.is_some() && !self.regardless {
            println!("skipped: its inputs have not changed since it passed ({FILE})");
            return Ok(ExitCode::SUCCESS);
        }
        let Some(printed) = self.run()? else { return Ok(ExitCode::FAILURE) };
        let result = stamps::hash_result(&printed);
        if let Some(stamp) = stamp {
            if stamp.result != result {
                println!(
                    "{}: the result differs from that of its stamp, and no input does: {FILE} is wrong",
                    self.name
                );
                return Ok(ExitCode::FAILURE);
            }
        } else if stamps::is_clean(root, FILE)? {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            std::fs::write(&file, stamps::replace(&text, &self.name, &Stamp { inputs, result }))?;
            println!("{}: passed, and stamped in {FILE}", self.name);
        } else {
            println!("{}: passed; no stamp is written, because the work tree has uncommitted changes", self.name);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn main() -> ExitCode {
    let Some(step) = Step::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let root = std::env::current_dir().and_then(|folder| folder.canonicalize());
    root.and_then(|root| step.check(&root)).unwrap_or_else(|why: Error| {
        eprintln!("stamped: {}: {why}", step.name);
        ExitCode::FAILURE
    })
}
