//! Stamps: steps of the gate that are pure functions of their sources are skipped while these stay
//! the same.
//!
//! A line of the stamp file has the name of a step, the hash of its inputs and the hash of its
//! result. The inputs are files that git does not ignore (those of the packages that a step depends
//! on, its script, the lock file and other files at the root), the command, the toolchain, and the
//! environment variables that affect builds and tests. The result is the command's standard output
//! without times.
//!
//! A package whose tests run is an input as a whole. Others are inputs without their tests,
//! examples and benchmarks, which cargo does not compile for a dependency, and without the
//! packages that only these need. The manifest of a package adds what cargo does not know, in
//! `package.metadata`: `builds` are packages that its build script builds, and `reads` are paths
//! that its tests read. A test compares these with the sources (`crates/cli/tests/cli/house.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::command;

/// Paths that every step depends on: what cargo reads, and the runner. The step's own script is
/// another. What the runner uses of `sys` ends processes, and cannot turn a failure into a success.
const SHARED: [&str; 4] = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", "crates/testing/src"];

/// Folders of a package that are not compiled for the packages that depend on it.
const TESTS: [&str; 3] = ["tests", "examples", "benches"];

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

/// The part of a package that a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// It is compiled, but the packages that it depends on do not affect the result.
    Alone,
    /// It is compiled.
    Program,
    /// Its tests run.
    Tests,
}

/// The packages of a workspace, and all files that git does not ignore.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    /// The packages as cargo describes them, by name.
    packages: BTreeMap<String, Value>,
    files: BTreeSet<String>,
    /// The compiler as it describes itself.
    toolchain: String,
}

impl Workspace {
    /// The workspace in a folder.
    ///
    /// # Errors
    /// If cargo, git or the compiler fails.
    pub fn read(root: &Path) -> io::Result<Workspace> {
        let metadata = output(root, "cargo", &["metadata", "--offline", "--no-deps", "--format-version", "1"])?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let packages = packages.filter_map(|package| Some((package["name"].as_str()?.to_owned(), package.clone())));
        let files = output(root, "git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        // A removed file is still listed until its removal is committed.
        let files = files.split_terminator('\0').filter(|file| root.join(file).is_file());
        let files = files.map(str::to_owned).collect();
        let toolchain = output(root, "rustc", &["-vV"])?;
        Ok(Workspace { root: root.to_owned(), packages: packages.collect(), files, toolchain })
    }

    /// The names of the packages.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        self.packages.keys().map(String::as_str)
    }

    /// The files of a package that a step needs, and those of all packages that it depends on,
    /// unless it is needed alone.
    ///
    /// # Errors
    /// If there is no such package.
    pub fn inputs(&self, package: &str, need: Need) -> io::Result<BTreeSet<String>> {
        let (mut found, mut next) = (BTreeSet::new(), vec![(package, need)]);
        let mut inputs = BTreeSet::new();
        while let Some((name, need)) = next.pop() {
            if !found.insert((name, need)) {
                continue;
            }
            let package = self.packages.get(name);
            let package = package.ok_or_else(|| io::Error::other(format!("the workspace has no package {name}")))?;
            let folder = self.folder(package)?;
            let without: &[&str] = if need == Need::Tests { &[] } else { &TESTS };
            let is_without = |file: &str| without.iter().any(|tests| is_in(file, &format!("{folder}/{tests}")));
            inputs.extend(self.files.iter().filter(|file| is_in(file, &folder) && !is_without(file)).cloned());
            if need == Need::Tests {
                inputs.extend(self.below(listed(package, "reads")));
            }
            if need == Need::Alone {
                continue;
            }
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let ours = dependencies.filter(|dependency| dependency["path"].is_string());
            let ours = ours.filter(|dependency| need == Need::Tests || dependency["kind"] != "dev");
            let ours = ours.filter_map(|dependency| dependency["name"].as_str());
            next.extend(ours.chain(listed(package, "builds")).map(|name| (name, Need::Program)));
        }
        Ok(inputs)
    }

    /// The folder of a package, from the root.
    fn folder(&self, package: &Value) -> io::Result<String> {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().and_then(|folder| folder.strip_prefix(&self.root).ok());
        let outside = || io::Error::other(format!("{} is not in {}", manifest.display(), self.root.display()));
        Ok(folder.ok_or_else(outside)?.to_string_lossy().into_owned())
    }

    /// The files at these paths and below.
    fn below<'a>(&self, paths: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
        let paths: Vec<&str> = paths.collect();
        let is_below = |file: &&String| paths.iter().any(|path| *path == "." || is_in(file, path));
        self.files.iter().filter(is_below).cloned().collect()
    }

    /// The files that are not in `crates`, without the stamp file.
    pub fn outside(&self) -> BTreeSet<String> {
        self.files.iter().filter(|file| !is_in(file, "crates") && *file != "stamps").cloned().collect()
    }

    /// The hash of everything that can affect the result of a step with these inputs. Uncommitted
    /// files count, too.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn hash(&self, inputs: &BTreeSet<String>, command: &[String]) -> io::Result<String> {
        let mut text = format!("{command:?}\n{}", self.toolchain);
        let variables: BTreeSet<_> =
            std::env::vars_os().filter(|(name, _)| is_input(&name.to_string_lossy())).collect();
        let _ = writeln!(text, "{variables:?}");
        // Cargo unifies the features that all packages of the workspace demand.
        let manifests = self.files.iter().map(String::as_str).filter(|file| file.ends_with("/Cargo.toml"));
        let manifests = manifests.filter(|file| !is_in(file, "bench"));
        let shared = self.below(SHARED.into_iter().chain(command.first().map(String::as_str)).chain(manifests));
        let mut hash = Sha256::new();
        hash.update(&text);
        for file in inputs.union(&shared) {
            let bytes = fs::read(self.root.join(file))?;
            hash.update(format!("{file}\0{}\0", bytes.len()));
            hash.update(bytes);
        }
        Ok(hex(hash))
    }
}

/// Whether a file is in a folder or below it.
fn is_in(file: &str, folder: &str) -> bool {
    Path::new(file).starts_with(folder)
}

/// The entries of a list in `package.metadata` of a manifest.
fn listed<'a>(package: &'a Value, list: &str) -> impl Iterator<Item = &'a str> {
    package["metadata"][list].as_array().into_iter().flatten().filter_map(Value::as_str)
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

    /// A workspace in a git repository. The package `tested` depends on `used`, its tests on
    /// `helper` and the file `read`, and the tests of `used` on `unused`.
    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let packages = [
            (
                "tested",
                "metadata.reads = ['read']\n[dependencies]\nused.path = '../used'\n[dev-dependencies]\nhelper.path = '../helper'",
            ),
            ("used", "metadata.builds = ['built']\n[dev-dependencies]\nunused.path = '../unused'"),
            ("built", ""),
            ("helper", ""),
            ("unused", ""),
            ("testing", ""),
        ];
        for (name, rest) in packages {
            write(
                &format!("crates/{name}/Cargo.toml"),
                &format!("[package]\nname = '{name}'\nedition = '2024'\n{rest}\n"),
            );
            for source in ["src/lib.rs", "tests/main.rs", "build.rs"] {
                write(&format!("crates/{name}/{source}"), "");
            }
        }
        write("Cargo.toml", "[workspace]\nresolver = '3'\nmembers = ['crates/*']\n");
        for name in ["Cargo.lock", "script", "other", "read", "crates/tested/ignored"] {
            write(name, "");
        }
        write(".gitignore", "ignored");
        output(folder.path(), "git", &["init", "--quiet"]).unwrap();
        output(folder.path(), "git", &["add", "crates/tested/src"]).unwrap();
        folder
    }

    fn workspace(folder: &Path) -> Workspace {
        Workspace::read(&folder.canonicalize().unwrap()).unwrap()
    }

    /// The hash of the inputs of a step that needs the package `tested`.
    fn hash(folder: &Path, need: Need, command: &str) -> String {
        let workspace = workspace(folder);
        workspace.hash(&workspace.inputs("tested", need).unwrap(), &[command.to_owned()]).unwrap()
    }

    /// Expects whether a change of these files is a changed input: if the package is only compiled,
    /// and if its tests run.
    #[track_caller]
    fn expect_inputs(files: &[&str], expected: [bool; 2]) {
        let folder = repository();
        let hashes = || [Need::Program, Need::Tests].map(|need| hash(folder.path(), need, "script"));
        let before = hashes();
        for file in files {
            let path = folder.path().join(file);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{text}# changed")).unwrap();
            let after = hashes();
            assert_eq!([before[0] != after[0], before[1] != after[1]], expected, "{file}");
            fs::write(&path, text).unwrap();
        }
    }

    #[test]
    fn a_changed_source_of_a_package_or_its_dependencies_is_a_changed_input() {
        let sources = ["tested/src/lib.rs", "tested/build.rs", "used/src/lib.rs", "used/build.rs", "built/src/lib.rs"];
        expect_inputs(&sources.map(|file| format!("crates/{file}")).each_ref().map(String::as_str), [true; 2]);
        let others = ["Cargo.toml", "Cargo.lock", "script", "crates/unused/Cargo.toml", "crates/testing/src/lib.rs"];
        expect_inputs(&others, [true; 2]);
    }

    #[test]
    fn tests_and_what_only_they_need_are_inputs_of_a_step_that_runs_them() {
        expect_inputs(&["crates/tested/tests/main.rs", "crates/helper/src/lib.rs", "read"], [false, true]);
        let needless =
            ["crates/used/tests/main.rs", "crates/helper/tests/main.rs", "crates/unused/src/lib.rs", "other"];
        expect_inputs(&needless, [false; 2]);
        expect_inputs(&["crates/tested/ignored"], [false; 2]);
    }

    #[test]
    fn the_sources_of_a_package_that_is_needed_alone_are_inputs_and_those_of_others_are_not() {
        let folder = repository();
        let mut before = hash(folder.path(), Need::Alone, "script");
        for (file, is_input) in [("crates/tested/src/lib.rs", true), ("crates/used/src/lib.rs", false)] {
            fs::write(folder.path().join(file), "# changed").unwrap();
            let after = hash(folder.path(), Need::Alone, "script");
            assert_eq!(after != before, is_input, "{file}");
            before = after;
        }
    }

    #[test]
    fn a_new_file_and_another_command_change_the_hash_of_the_inputs() {
        let folder = repository();
        let before = hash(folder.path(), Need::Program, "script");
        assert_eq!(hash(folder.path(), Need::Program, "script"), before);
        assert_ne!(hash(folder.path(), Need::Program, "other"), before);
        fs::write(folder.path().join("crates/used/src/new.rs"), "").unwrap();
        assert_ne!(hash(folder.path(), Need::Program, "script"), before);
    }

    #[test]
    fn there_are_no_inputs_of_a_package_that_does_not_exist() {
        let folder = repository();
        let workspace = workspace(folder.path());
        assert!(workspace.inputs("rowlock-nothing", Need::Tests).is_err());
        assert_eq!(workspace.packages().count(), 6);
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
            || drop(hash(repository().path(), Need::Program, "script")),
        );
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
