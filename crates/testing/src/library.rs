//! Shared libraries for tests. Cargo itself builds only libraries that Rust can link for a test.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::child::{Child, TEST_LIMIT, command};

/// The environment variable with the arguments of the build of a test that the runner starts.
pub(crate) const ARGUMENTS: &str = "ROWLOCK_TEST_BUILD";
/// The environment variable with a folder of the runner. A file in it names a package whose library
/// has been built since the runner started, because even a build without changes takes 0.2 s.
pub(crate) const BUILT: &str = "ROWLOCK_TEST_BUILT";
/// The separator of these arguments.
pub(crate) const SEPARATOR: &str = "\n";

/// Builds the library of a package, with the optimization of the test, and returns its folder.
///
/// If the runner started the test, all packages that its build selected are selected again: with
/// another selection, the features of other crates would differ, and Cargo would compile them
/// again.
///
/// # Panics
/// If Cargo fails.
#[track_caller]
pub fn build(package: &str) -> PathBuf {
    let program = env::current_exe().expect("the path of this program");
    let folder = program.ancestors().nth(2).expect("a folder of builds");
    let built = env::var_os(BUILT).map(|built| PathBuf::from(built).join(package));
    if built.as_ref().is_some_and(|built| built.exists()) {
        return folder.to_owned();
    }
    let profile = if folder.ends_with("release") { "release" } else { "dev" };
    let mut cargo = command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--locked", "--offline", "--lib"]);
    if let Ok(arguments) = env::var(ARGUMENTS) {
        let arguments = arguments.split(SEPARATOR).filter(|argument| *argument != "--locked");
        cargo.args(arguments.clone());
        // Features that only tests need count if tests are selected.
        if !arguments.clone().any(|argument| argument == "--test") {
            cargo.arg("--tests");
        }
    } else {
        cargo.args(["--package", package, "--profile", profile]);
    }
    cargo.arg("--target-dir").arg(folder.parent().expect("a folder of builds"));
    // It may have to build a lot, and to wait for another build.
    Child::start(&mut cargo).with_limit(TEST_LIMIT).wait().expect_success();
    if let Some(built) = built {
        fs::write(built, "").expect("the folder of the runner");
    }
    folder.to_owned()
}

/// Builds the library of a package, and copies files of it to a folder, under these names.
///
/// Tests in other processes may use existing copies, or copy the same files at the same time.
///
/// # Panics
/// If Cargo fails, or a file cannot be copied.
#[track_caller]
pub fn install(package: &str, folder: &Path, files: &[(&str, &str)]) {
    let built = build(package);
    let install = |from: &str, to: &str| {
        fs::create_dir_all(folder)?;
        let new = tempfile::NamedTempFile::new_in(folder)?;
        fs::copy(built.join(from), new.path())?;
        new.persist(folder.join(to)).map_err(|failed| failed.error)
    };
    for (from, to) in files {
        if let Err(why) = install(from, to) {
            panic!("cannot copy {from} to {}: {why}", folder.join(to).display());
        }
    }
}
