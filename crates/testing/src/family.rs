//! Processes that can be recognized by a mark in their environment, which all of their children
//! inherit.

use std::fs;
use std::process::Command;

const VARIABLE: &str = "ROWLOCK_TEST_FAMILY";

/// A mark that is unique to a test.
#[derive(Clone, Debug)]
pub struct Family(String);

impl Family {
    /// A mark with this name, for this process.
    pub fn new(name: &str) -> Family {
        Family(format!("{VARIABLE}={name}-{}", std::process::id()))
    }

    /// The mark as an argument of `env`: the program that it starts is a member, with all of its
    /// children.
    pub fn variable(&self) -> String {
        self.0.clone()
    }

    /// Makes `command` and all of its children members.
    pub fn adopt(&self, command: &mut Command) {
        if let Some((name, value)) = self.0.split_once('=') {
            command.env(name, value);
        }
    }

    /// The ids of the live members.
    pub fn members(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // A process that has ended has no environment.
        let marked = |id: &u32| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == self.0.as_bytes())
        };
        ids.filter(marked).collect()
    }
}
