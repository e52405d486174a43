//! Other processes for a test: this program, started anew to play a part.

use std::io::{BufRead, Write};
use std::path::Path;

use testing::Child;

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
pub(crate) struct Player(Child);

impl Player {
    pub(crate) fn start(part: &str, object: &Path, arguments: &[&str]) -> Player {
        let part = [&[part, object.to_str().unwrap()], arguments].concat().join("\n");
        let mut command = testing::command(std::env::current_exe().unwrap());
        Player(Child::start_talking(command.env(PART, part)))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Tells it a word.
    pub(crate) fn tell(&mut self, word: &str) {
        self.0.tell(word);
    }

    /// Expects this as the next word that it says.
    #[track_caller]
    pub(crate) fn expect(&mut self, word: &str) {
        assert_eq!(self.0.hear(), word);
    }

    /// Kills it, with no chance to clean up, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.0.process().kill().unwrap();
        self.0.process().wait().unwrap();
    }

    /// Waits until it has ended by itself.
    #[track_caller]
    pub(crate) fn ends_well(self) {
        self.0.wait().succeeds();
    }
}
