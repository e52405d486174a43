//! Processes that can be recognised wherever they have gone: a mark in their environment is inherited by all that they
//! start.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

const VARIABLE: &str = "ROWLOCK_TEST_FAMILY";

/// A mark that no other test has.
pub(crate) struct Family(String);

impl Family {
    pub(crate) fn new(name: &str) -> Family {
        Family(format!("{VARIABLE}={name}-{}", std::process::id()))
    }

    /// The mark, as `env` takes it: what it starts is a member, and all that this will start.
    pub(crate) fn variable(&self) -> String {
        self.0.clone()
    }

    /// Makes `command` and all that it will start members.
    pub(crate) fn adopt(&self, command: &mut Command) {
        if let Some((name, value)) = self.0.split_once('=') {
            command.env(name, value);
        }
    }

    /// The members that are alive.
    pub(crate) fn members(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // A process that has ended has no environment any more.
        let marked = |id: &u32| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == self.0.as_bytes())
        };
        ids.filter(marked).collect()
    }
}

/// Waits until something is so, and panics when it takes too long: that bounds a failure, and is no
/// part of any proof.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let (started, limit) = (Instant::now(), testing::child::limit());
    while !is_so() {
        assert!(started.elapsed() < limit, "{what}: still not so after {limit:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
