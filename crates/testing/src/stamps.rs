//! Stamps: steps of the gate that are pure functions of their sources are skipped while these stay
//! the same.
//!
//! A line of the stamp file has the name of a step, the hash of its inputs and the hash of its
//! result. The inputs are all files that git does not ignore in the packages a step depends on, the
//! lock file and other files at the root, the command, the toolchain, and the environment variables
//! that affect builds and tests. The result is the command's standard output without times.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::command;

/// Files outside the packages that every step depends on. The step's own script is another. Tests
/// read the example scenarios, and the runner consists of two packages.
const SHARED: [&str; 7] =
    ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", ".ci/full", "crates/testing", "crates/sys", "scenarios"];

/// Prefixes of the environment variables that count as input.
const VARIABLES: [&str; 14] = [
    "AR",
    "CC",
    "CFLAGS",
    "CXX",
    "RUSTC",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "CARGO_BUILD",
    "CARGO_ENCODED",
    "CARGO_PROFILE",
    "CARGO_TARGET_",
    "LOOM_",
    "PROPTEST_",
    "ROWLOCK_",
];

fn metadata(root: &Path) -> io::Result<Vec<Value>> {
    let metadata = output(root, "cargo", &["metadata", "--offline", "--no-deps", "--format-version", "1"])?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    Ok(metadata["packages"].as_array().cloned().unwrap_or_default())
}

/// The names of the packages of the workspace.
///
/// # Errors
/// If cargo fails.
pub fn packages(root: &Path) -> io::Result<Vec<String>> {
    let packages = metadata(root)?;
    Ok(packages.iter().filter_map(|package| package["name"].as_str().map(str::to_owned)).collect())
}

/// The folders of a package, of all workspace packages that it or its tests depend on, and of those
/// in `package.metadata.reads` of its manifest.
///
/// # Errors
/// If cargo fails, or there is no such package.
pub fn folders(root: &Path, package: &str) -> io::Result<BTreeSet<String>> {
    let packages = metadata(root)?;
    let (mut found, mut next) = (BTreeSet::new(), vec![package.to_owned()]);
    while let Some(name) = next.pop() {
        let Some(package) = packages.iter().find(|package| package["name"] == *name) else {
            return Err(io::Error::other(format!("the workspace has no package {name}")));
        };
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().and_then(|folder| folder.strip_prefix(root).ok());
        let folder = folder.ok_or_else(|| io::Error::other(format!("{name} is not in {}", root.display())))?;
        if found.insert(folder.to_string_lossy().into_owned()) {
            let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
            let ours = dependencies.iter().filter(|dependency| dependency["path"].is_string());
            next.extend(ours.filter_map(|dependency| dependency["name"].as_str().map(str::to_owned)));
            // The build or the tests read files of these packages.
            let read = package["metadata"]["reads"].as_array().into_iter().flatten();
            next.extend(read.filter_map(|name| name.as_str().map(str::to_owned)));
        }
    }
    Ok(found)
}

/// The names of the files and folders at the root, without `crates` and the stamp file.
///
/// # Errors
/// If git fails.
pub fn outside(root: &Path) -> io::Result<BTreeSet<String>> {
    let files = output(root, "git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let names = files.split_terminator('\0').filter_map(|file| file.split('/').next());
    Ok(names.filter(|name| !["crates", "stamps"].contains(name)).map(str::to_owned).collect())
}

/// The hash of everything that can affect the result of a step. Uncommitted files count, too.
///
/// # Errors
/// If git or the compiler fails, or a tracked file cannot be read.
pub fn hash_inputs(root: &Path, folders: &BTreeSet<String>, command: &[String]) -> io::Result<String> {
    let mut text = format!("{command:?}\n{}", output(root, "rustc", &["-vV"])?);
    let variables: BTreeSet<_> = std::env::vars_os().filter(|(name, _)| is_input(&name.to_string_lossy())).collect();
    let _ = writeln!(text, "{variables:?}");
    let others = SHARED.into_iter().chain(command.first().map(String::as_str));
    let folders = folders.iter().map(String::as_str).chain(others.filter(|path| root.join(path).starts_with(root)));
    let mut arguments = vec!["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"];
    arguments.extend(folders);
    let files = output(root, "git", &arguments)?;
    let mut hash = Sha256::new();
    hash.update(&text);
    // A removed file is still listed until its removal is committed.
    let files = files.split_terminator('\0').filter(|file| root.join(file).is_file());
    for file in files.collect::<BTreeSet<_>>() {
        let bytes = fs::read(root.join(file))?;
        hash.update(format!("{file}\0{}\0", bytes.len()));
        hash.update(bytes);
    }
    Ok(hex(hash))
}

/// Variables with such a prefix that do not affect results.
const HARMLESS: [&str; 5] =
    ["CARGO_BUILD_BUILD_DIR", "CARGO_BUILD_JOBS", "CARGO_BUILD_TARGET_DIR", "CARGO_TARGET_DIR", "ROWLOCK_CHROMIUM"];

fn is_input(variable: &str) -> bool {
    !HARMLESS.contains(&variable) && VARIABLES.iter().any(|prefix| variable.starts_with(prefix))
}

/// The hash of a step's output, without the lines with durations.
pub fn hash_result(printed: &str) -> String {
    let mut hash = Sha256::new();
    for line in printed.lines().filter(|line| !line.contains("finished in") && !line.is_empty()) {
        hash.update(line);
        hash.update("\n");
    }
    hex(hash)
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether the work tree has no uncommitted changes except in the stamp file.
///
/// # Errors
/// If git fails.
pub fn is_clean(root: &Path, stamps: &str) -> io::Result<bool> {
    let status = output(root, "git", &["status", "--porcelain"])?;
    Ok(status.lines().all(|line| line.get(3..) == Some(stamps)))
}

/// The standard output of a program. Git works on the repository of the folder, even in a hook.
fn output(root: &Path, program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = command(program).args(arguments).current_dir(root).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program} {}: {}\n{errors}", arguments.join(" "), output.status)))
}

/// A step that has passed: the hashes of its inputs and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The hash of its inputs.
    pub inputs: String,
    /// The hash of its result.
    pub result: String,
}

/// The stamp of a step in the text of a stamp file.
pub fn find(text: &str, step: &str) -> Option<Stamp> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut words = line.split_whitespace();
        let (name, inputs, result) = (words.next()?, words.next()?, words.next()?);
        (name == step).then(|| Stamp { inputs: inputs.to_owned(), result: result.to_owned() })
    })
}

/// The text of a stamp file in which a step has this stamp.
pub fn replace(text: &str, step: &str, stamp: &Stamp) -> String {
    let belongs_to_step = |line: &&str| line.split_whitespace().next() == Some(step);
    let mut lines: Vec<String> = text.lines().filter(|line| !belongs_to_step(line)).map(str::to_owned).collect();
    lines.push(format!("{step} {} {}", stamp.inputs, stamp.result));
    lines.sort();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// A repository with one tracked file and one ignored file.
    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("package")).unwrap();
        fs::write(folder.path().join("package/tracked"), "one byte more or less").unwrap();
        fs::write(folder.path().join("package/ignored"), "anything").unwrap();
        fs::write(folder.path().join(".gitignore"), "ignored").unwrap();
        output(folder.path(), "git", &["init", "--quiet"]).unwrap();
        output(folder.path(), "git", &["add", "package/tracked"]).unwrap();
        folder
    }

    fn hash(folder: &tempfile::TempDir, command: &str) -> String {
        hash_inputs(folder.path(), &BTreeSet::from(["package".to_owned()]), &[command.to_owned()]).unwrap()
    }

    #[test]
    fn one_changed_byte_of_a_tracked_file_changes_the_hash_of_the_inputs() {
        let folder = repository();
        let before = hash(&folder, "true");
        fs::write(folder.path().join("package/ignored"), "something else").unwrap();
        assert_eq!(hash(&folder, "true"), before, "files that git ignores are no inputs");
        assert_ne!(hash(&folder, "false"), before, "the command is an input");
        fs::write(folder.path().join("package/tracked"), "one byte more or lest").unwrap();
        let changed = hash(&folder, "true");
        assert_ne!(changed, before);
        fs::write(folder.path().join("package/new"), "").unwrap();
        assert_ne!(hash(&folder, "true"), changed, "a file that is not committed yet is an input");
    }

    #[test]
    fn the_script_of_a_step_and_the_example_scenarios_are_inputs() {
        let folder = repository();
        fs::create_dir(folder.path().join("scenarios")).unwrap();
        for name in ["script", "scenarios/first.toml"] {
            let file = folder.path().join(name);
            fs::write(&file, "one").unwrap();
            output(folder.path(), "git", &["add", name]).unwrap();
            let before = hash(&folder, "script");
            fs::write(&file, "two").unwrap();
            assert_ne!(hash(&folder, "script"), before, "{name}");
        }
    }

    #[test]
    fn a_variable_that_affects_builds_is_an_input_even_if_it_is_not_text() {
        for name in ["CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "CC", "CFLAGS_x86_64"] {
            assert!(is_input(name), "{name}");
        }
        assert!(!is_input("CARGO_TARGET_DIR"));
        let value = OsStr::from_bytes(b"-O\xff");
        crate::isolated_by(
            |mut test| crate::expect_pass(test.env("CFLAGS", value)),
            || drop(hash(&repository(), "true")),
        );
    }

    #[test]
    fn the_folders_of_a_package_are_its_own_and_those_of_its_dependencies() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let found = folders(&root, "rowlock-testing").unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["crates/sys", "crates/testing"]);
        assert!(folders(&root, "rowlock-nothing").is_err());
    }

    #[test]
    fn the_result_is_the_output_without_times() {
        let result = |time| hash_result(&format!("test a ... ok\n\ntest result: ok. finished in {time}s\n"));
        assert_eq!(result("0.1"), result("0.2"));
        assert_ne!(hash_result("test a ... ok"), hash_result("test b ... ok"));
    }

    #[test]
    fn a_stamp_is_found_as_written_and_replaces_the_earlier_one() {
        let stamp = |text: &str| Stamp { inputs: format!("{text}1"), result: format!("{text}2") };
        let text = replace("# A comment\nother x y\n", "step", &stamp("a"));
        let text = replace(&text, "step", &stamp("b"));
        assert_eq!(text, "# A comment\nother x y\nstep b1 b2\n");
        assert_eq!(find(&text, "step"), Some(stamp("b")));
        assert_eq!(find(&text, "steps"), None);
    }
}
