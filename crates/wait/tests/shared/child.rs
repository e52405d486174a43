//! Other processes for a test: this program, started anew to play a part.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PART: &str = "ROWLOCK_TEST_PART";

/// The part that this process is to play, and its arguments; nothing where it is the test itself.
pub(crate) fn part() -> Option<Vec<String>> {
    std::env::var(PART).ok().map(|part| part.split('\n').map(str::to_owned).collect())
}

/// Says a word to the test.
pub(crate) fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}").unwrap();
    out.flush().unwrap();
}

/// Waits for a word of the test. The test's end is the end of this process.
pub(crate) fn listen() -> String {
    let mut word = String::new();
    if std::io::stdin().lock().read_line(&mut word).unwrap() == 0 {
        std::process::exit(0);
    }
    word.trim_end().to_owned()
}

/// A process that plays a part; killed when it is dropped.
pub(crate) struct Player {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Player {
    pub(crate) fn start(part: &str, object: &Path, arguments: &[&str]) -> Player {
        let part = [&[part, object.to_str().unwrap()], arguments].concat().join("\n");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(PART, part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Player { child, to, from }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it a word.
    pub(crate) fn tell(&mut self, word: &str) {
        writeln!(self.to, "{word}").unwrap();
    }

    /// The next word that it says.
    pub(crate) fn hear(&mut self) -> String {
        let mut word = String::new();
        assert_ne!(self.from.read_line(&mut word).unwrap(), 0, "the other process has ended");
        word.trim_end().to_owned()
    }

    pub(crate) fn expect(&mut self, word: &str) {
        assert_eq!(self.hear(), word);
    }

    /// Kills it, with no chance to clean up, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ends_well(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
