//! Tests that run themselves once more, in a process of their own: one that is killed, has no rights, or sees a small disk.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::tempdir;

/// The user and group of those who have nothing.
pub(crate) const NOBODY: u32 = 65_534;

/// Where such a process finds its folder.
const FOLDER: &str = "ROWLOCK_TEST_FOLDER";

/// The arguments by which the program of tests runs one of them only.
fn alone(test: &str) -> [&str; 3] {
    ["--exact", test, "--nocapture"]
}

/// That this is the process which was started for the test, and the folder for it.
pub(crate) struct Inside(pub(crate) PathBuf);

/// Whether this is such a process.
pub(crate) fn inside() -> Option<Inside> {
    env::var_os(FOLDER).map(|folder| Inside(folder.into()))
}

/// Runs the test as somebody who has no rights, or as who we are if that is not root.
pub(crate) fn as_nobody(test: &str) {
    let folder = tempdir().unwrap();
    let place = folder.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(alone(test)).env(FOLDER, &place).current_dir("/");
    if chown(&place, Some(NOBODY), Some(NOBODY)).is_ok() {
        // The folder above is root's alone.
        let opened = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), opened).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    match command.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(why) => eprintln!("left out: nobody may not run this program ({why})"),
    }
}

/// Runs the test where its folder is a file system in memory that is mounted with these options, and that only this process sees. Where that is not allowed,
/// says so.
pub(crate) fn on_a_small_disk(test: &str, options: &str) {
    let folder = tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o {options} tmpfs \"$1\" && shift && exec \"$@\"");
    let root = rustix::process::geteuid().is_root();
    let user: &[&str] = if root { &[] } else { &["--map-root-user"] };
    let command = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(user).args(["--mount", "--propagation", "private", "sh", "-c", &mount, "sh"]);
        command.arg(folder.path()).arg(program).args(arguments).env(FOLDER, folder.path());
        command.output()
    };
    if !command(Path::new("true"), &[]).is_ok_and(|output| output.status.success()) {
        eprintln!("left out: no file system can be mounted here");
        return;
    }
    let output = command(&env::current_exe().unwrap(), &alone(test)).unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// What the killed process says when it is where it is to be killed.
const READY: &str = "ready to be killed";

/// Waits for the end, which comes by being killed or because the parent is gone.
pub(crate) fn wait_to_be_killed() -> ! {
    eprintln!("\n{READY}");
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(1);
}

/// Runs the test in this folder until it waits to be killed, and kills it.
pub(crate) fn kill_when_ready(test: &str, folder: &Path) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(alone(test)).env(FOLDER, folder).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines().find(|line| line.as_ref().unwrap() == READY);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.is_some(), "it ended before it was killed");
}
