//! `rowlock pds` as a service of systemd, with the files in `systemd/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;
use testing::processes::state;
use testing::{Child, Output};

use crate::json;
use crate::prun::{SPIN, until};
use crate::prun_pds::ONE;

/// A systemd that is the first process of a PID namespace.
struct Systemd {
    /// The group of version 2 that it has for its services.
    group: PathBuf,
    starter: Option<Child>,
}

impl Systemd {
    /// Starts it. `None` if this user may not do that, or it is not there.
    fn start() -> Option<Systemd> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let second = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        let mount = second.and_then(|line| line.split(' ').nth(4)).filter(|_| geteuid().is_root());
        let started = mount.and_then(Systemd::start_in);
        if started.is_none() {
            let how = "install systemd, and run the test as root, with control groups of version 2";
            testing::skip_part("ROWLOCK_REQUIRE_ENVIRONMENTS", "pds as a service of systemd", how);
        }
        started
    }

    /// Starts it with a group below this one.
    fn start_in(mount: &str) -> Option<Systemd> {
        let group = Path::new(mount).join(format!("test-systemd-{}", std::process::id()));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/systemd.sh");
        let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let mut command = testing::command(script);
        command.arg(&group).args([repository, env!("CARGO_BIN_EXE_rowlock")]);
        let systemd = Systemd { group, starter: Some(Child::start(&mut command)) };
        // Before, these are files of the host.
        let ready = "test -e /run/rowlock-command -a -S /run/rowlock/pds.socket";
        let is_ready = || systemd.run(&["sh", "-c", ready]).is_some_and(|output| output.status.success());
        let is_alive = || systemd.starter.iter().any(|child| state(child.id()).is_some_and(|state| state != 'Z'));
        until(|| is_ready() || !is_alive());
        is_alive().then_some(systemd)
    }

    /// A command in its namespaces. `None` if they are not there.
    fn command(&self, words: &[&str]) -> Option<Command> {
        let first = *testing::processes::children(self.starter.as_ref()?.id()).first()?;
        let mut command = testing::command("nsenter");
        command.args(["--target", &first.to_string(), "--mount", "--pid", "--"]).args(words);
        Some(command)
    }

    fn run(&self, words: &[&str]) -> Option<Output> {
        Some(testing::run(&mut self.command(words)?))
    }

    fn expect(&self, words: &[&str]) -> Output {
        self.run(words).unwrap().expect_success()
    }

    /// The states of all jobs.
    fn states(&self) -> Vec<String> {
        let list = self.expect(&["/run/rowlock-command", "jobs", "--format", "json"]);
        let jobs = json(&list)["jobs"].as_array().unwrap().clone();
        jobs.iter().map(|job| job["state"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // Its namespace is killed with it.
        drop(self.starter.take());
        fn remove(group: &Path) {
            let inner = fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
            inner.filter(|path| path.is_dir()).for_each(|path| remove(&path));
            until(|| fs::remove_dir(group).is_ok() || !group.exists());
        }
        remove(&self.group);
    }
}

#[test]
fn the_service_of_systemd_serves_users_and_may_be_restarted_beside_their_jobs() {
    let Some(systemd) = Systemd::start() else { return };
    let rights = ["setpriv", "--clear-groups", "--regid=65534"];
    let job = |user: u32| {
        let user = format!("--reuid={user}");
        let prun =
            ["/run/rowlock-command", "prun", "--wait", "none", "--how", "strict", "-n", "2", "--", "sh", "-c", SPIN];
        Child::start(&mut systemd.command(&[&rights[..], &[&user], &prun].concat()).unwrap())
    };
    let jobs = [ONE, ONE + 10].map(job);
    let take_turns = || {
        for state in [["runs", "waits"], ["waits", "runs"]] {
            until(|| systemd.states() == state);
        }
    };
    take_turns();
    systemd.expect(&["systemctl", "restart", "rowlock-pds.service"]);
    take_turns();
    for number in ["1", "2"] {
        systemd.expect(&["/run/rowlock-command", "kill", number]);
    }
    jobs.into_iter().for_each(|job| drop(job.wait()));
    until(|| systemd.states().is_empty());
    let log = systemd.expect(&["cat", "/run/log"]);
    assert_eq!(log.stdout.matches("serves all users").count(), 2, "{log}");
    assert_eq!(log.stdout.matches("has ended").count(), 2, "{log}");
}
