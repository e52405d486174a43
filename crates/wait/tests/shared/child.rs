//! Child processes of a test: this program, started again in another role.

use std::io::{BufRead, Write};
use std::path::Path;

use testing::Child;

const ROLE: &str = "ROWLOCK_TEST_PART";

/// The role of this process and its arguments. `None` in the test itself.
pub(crate) fn role() -> Option<Vec<String>> {
    std::env::var(ROLE).ok().map(|role| role.split('\n').map(str::to_owned).collect())
}

/// Sends a line to the test.
pub(crate) fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}").unwrap();
    out.flush().unwrap();
}

/// Receives a line from the test. Exits if the test has ended.
pub(crate) fn listen() -> String {
    let mut word = String::new();
    if std::io::stdin().lock().read_line(&mut word).unwrap() == 0 {
        std::process::exit(0);
    }
    word.trim_end().to_owned()
}

/// A child process, which is killed when dropped.
pub(crate) struct ChildProcess(Child);

impl ChildProcess {
    pub(crate) fn start(role: &str, object: &Path, arguments: &[&str]) -> ChildProcess {
        let role = [&[role, object.to_str().unwrap()], arguments].concat().join("\n");
        let mut command = testing::command(std::env::current_exe().unwrap());
        ChildProcess(Child::start_piped(command.env(ROLE, role)))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a line.
    pub(crate) fn write_line(&mut self, word: &str) {
        self.0.write_line(word);
    }

    /// Expects this as its next line.
    #[track_caller]
    pub(crate) fn expect(&mut self, word: &str) {
        assert_eq!(self.0.read_line(), word);
    }

    /// Sends it a signal.
    pub(crate) fn send(&self, signal: i32) {
        self.0.send(signal);
    }

    /// Kills it without a chance to clean up, and waits until it has ended.
    pub(crate) fn kill(&mut self) {
        self.0.process().kill().unwrap();
        self.0.process().wait().unwrap();
    }

    /// Waits until it has ended successfully by itself.
    #[track_caller]
    pub(crate) fn assert_success(self) {
        self.0.wait().expect_success();
    }
}
