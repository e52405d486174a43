//! Tests that run in a process of their own: one that is killed, has no rights, or sees a small
//! disk.

use std::env;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;
use testing::{Child, passes, through, try_run};

/// The user and group of those who have nothing.
pub(crate) const NOBODY: u32 = 65_534;

/// Where such a process finds its folder.
const FOLDER: &str = "FOLDER_OF_THE_TEST";

/// The folder of such a process.
pub(crate) fn folder() -> PathBuf {
    env::var_os(FOLDER).unwrap().into()
}

/// Runs a test as a user without rights, or as the present user if that is not root.
pub(crate) fn as_nobody(mut test: Command) {
    let folder = tempdir().unwrap();
    let place = folder.path().join("place");
    std::fs::create_dir(&place).unwrap();
    test.env(FOLDER, &place).current_dir("/");
    if chown(&place, Some(NOBODY), Some(NOBODY)).is_ok() {
        // The folder above is root's alone.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut list = testing::command(test.get_program());
        if let Err(why) = try_run(list.arg("--list").uid(NOBODY).gid(NOBODY).current_dir("/")) {
            eprintln!("left out: nobody may not run this program ({why})");
            return;
        }
        test.uid(NOBODY).gid(NOBODY);
    }
    passes(&mut test);
}

/// Runs a test where its folder is a file system in memory, mounted with these options, that only
/// its process sees.
///
/// Says so if that is not allowed here.
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
            eprintln!("left out: no file system can be mounted here");
            return;
        }
        passes(through(unshare(), &test).env(FOLDER, folder.path()));
    }
}

/// The line by which a process says that it can be killed.
const READY: &str = "ready to be killed";

/// Waits for the end: the process is killed, or its parent is gone.
pub(crate) fn wait_to_be_killed() -> ! {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "\n{READY}").unwrap();
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(1);
}

/// Runs a test in this folder until it waits to be killed, and kills it.
pub(crate) fn kill_when_ready(mut test: Command, folder: &Path) {
    let mut child = Child::start_talking(test.env(FOLDER, folder));
    while child.hear() != READY {}
    child.process().kill().unwrap();
    child.wait().dies_of(9);
}
