//! The Open POSIX Test Suite, which `.ci/setup-posix` downloads on Debian.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::child::{Child, command, run};
use crate::family::Family;
use crate::processes;

/// Where the suite is.
const SUITE: &str = "/usr/local/src/posixtestsuite";

/// How long a case may take.
const LIMIT: Duration = Duration::from_secs(90);

/// The sources of all cases for functions with such names.
///
/// # Panics
/// If the suite is not there.
pub fn cases(is_tested: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        let entries = std::fs::read_dir(folder);
        let entries = entries.unwrap_or_else(|why| panic!("{}: {why}: run .ci/setup-posix", folder.display()));
        entries.map(|entry| entry.expect("an entry").path())
    };
    let is_function = |folder: &PathBuf| folder.is_dir() && is_tested(&file_name(folder));
    let folders = entries(&Path::new(SUITE).join("conformance/interfaces")).filter(is_function);
    // A name is the number of an assertion and the number of a case.
    let is_case = |file: &PathBuf| {
        let name = file_name(file);
        name.ends_with(".c") && name.starts_with(|first: char| first.is_ascii_digit()) && !sets_the_clock(file)
    };
    let mut cases: Vec<PathBuf> = folders.flat_map(|folder| entries(&folder).filter(is_case)).collect();
    cases.sort();
    cases
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a case, run by root, would set the clock of this machine: two set it a week ahead.
fn sets_the_clock(case: &Path) -> bool {
    String::from_utf8_lossy(&std::fs::read(case).expect("a source")).contains("clock_settime")
}

/// The name of a case: the function, the assertion and the number.
pub fn name(case: &Path) -> String {
    let function = case.parent().and_then(Path::file_name).unwrap_or_default();
    format!("{}-{}", function.display(), case.file_stem().unwrap_or_default().display())
}

/// Builds a case with these arguments, in its own folder. `None` if it is not for this system.
///
/// # Panics
/// If the folder cannot be created.
pub fn build(case: &Path, folder: &Path, arguments: &[&OsStr]) -> Option<PathBuf> {
    let program = folder.join(name(case)).join("case");
    std::fs::create_dir_all(program.parent()?).expect("a folder");
    let mut compiler = command("cc");
    compiler.args(["-w", "-D_GNU_SOURCE", "-pthread", "-I"]).arg(Path::new(SUITE).join("include"));
    compiler.arg(case).arg("-o").arg(&program).args(arguments).args(["-lrt", "-lm"]);
    run(&mut compiler).status.success().then_some(program)
}

/// How a run of a case ends.
pub fn outcome(program: &Path, change: impl FnOnce(&mut Command)) -> String {
    let mut command = command(program);
    command.current_dir(program.parent().unwrap_or(program));
    change(&mut command);
    let family = Family::new(&program.to_string_lossy());
    family.adopt(&mut command);
    let output = Child::start(&mut command).with_limit(LIMIT).finish();
    // Some cases leave children that wait forever.
    family.members().into_iter().for_each(processes::kill_tree);
    if output.killed.is_some() { "does not end".to_owned() } else { output.status.to_string() }
}
