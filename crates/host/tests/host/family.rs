//! Processes that can be recognised by a mark in their environment, which all of their children
//! inherit.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

const VARIABLE: &str = "ROWLOCK_TEST_FAMILY";

/// A mark that is unique to a test.
pub(crate) struct Family(String);

impl Family {
    pub(crate) fn new(name: &str) -> Family {
        Family(format!("{VARIABLE}={name}-{}", std::process::id()))
    }

    /// The mark as an argument of `env`: the program that it starts is a member, with all of its
    /// children.
    pub(crate) fn variable(&self) -> String {
        self.0.clone()
    }

    /// Makes `command` and all of its children members.
    pub(crate) fn adopt(&self, command: &mut Command) {
        if let Some((name, value)) = self.0.split_once('=') {
            command.env(name, value);
        }
    }

    /// The ids of the live members.
    pub(crate) fn members(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // A process that has ended has no environment.
        let marked = |id: &u32| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == self.0.as_bytes())
        };
        ids.filter(marked).collect()
    }
}

/// Waits until a condition holds, and panics after a long time. The limit only ends a failed test.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let (started, limit) = (Instant::now(), testing::child::limit());
    while !is_so() {
        assert!(started.elapsed() < limit, "{what}: not yet after {limit:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
