//! Tests that need a separate process: to be killed, to run without privileges, or on a small disk.

use std::env;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;
use testing::{Child, NOBODY, expect_pass, through, try_run};

/// The environment variable with the folder of such a process.
const FOLDER: &str = "FOLDER_OF_THE_TEST";

/// The folder of this process.
pub(crate) fn folder() -> PathBuf {
    env::var_os(FOLDER).unwrap().into()
}

/// Runs a test as a user without privileges, or as the current user if that is not root.
pub(crate) fn as_nobody(mut test: Command) {
    let folder = tempdir().unwrap();
    let place = folder.path().join("place");
    std::fs::create_dir(&place).unwrap();
    test.env(FOLDER, &place).current_dir("/");
    if chown(&place, Some(NOBODY), Some(NOBODY)).is_ok() {
        // The parent folder is accessible only to root.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut list = testing::command(test.get_program());
        if let Err(why) = try_run(list.arg("--list").uid(NOBODY).gid(NOBODY).current_dir("/")) {
            eprintln!("skipped: an unprivileged user may not run this program ({why})");
            return;
        }
        test.uid(NOBODY).gid(NOBODY);
    }
    expect_pass(&mut test);
}

/// Runs a test whose folder is a file system in memory, mounted with these options and visible only
/// to its process.
///
/// Prints a note and skips the test if mounting is not allowed.
pub(crate) fn on_a_small_disk(options: &'static str) -> impl FnOnce(Command) {
    move |test| {
        let folder = tempdir().unwrap();
        let mount = format!("mount -t tmpfs -o {options} tmpfs \"$1\" && shift && exec \"$@\"");
        let root = rustix::process::geteuid().is_root();
        let user: &[&str] = if root { &[] } else { &["--map-root-user"] };
        let unshare = || {
            let mut command = testing::command("unshare");
            command.args(user).args(["--mount", "--propagation", "private", "sh", "-c", &mount, "sh"]);
            command.arg(folder.path());
            command
        };
        if !try_run(unshare().arg("true")).is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no file system can be mounted here");
            return;
        }
        expect_pass(through(unshare(), &test).env(FOLDER, folder.path()));
    }
}

/// The line by which a process reports that it can be killed.
const READY: &str = "ready to be killed";

/// Blocks until the process is killed or its parent has ended.
pub(crate) fn wait_to_be_killed() -> ! {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "\n{READY}").unwrap();
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(1);
}

/// Runs a test in this folder until it is ready to be killed, and kills it.
pub(crate) fn kill_when_ready(mut test: Command, folder: &Path) {
    let mut child = Child::start_piped(test.env(FOLDER, folder));
    while child.read_line() != READY {}
    child.process().kill().unwrap();
    child.wait().expect_signal(9);
}
