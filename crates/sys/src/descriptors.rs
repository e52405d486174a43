//! The number of descriptors that this process may have open (`ulimit -n`).
//!
//! The soft limit is often 1024, so that programs that use `select` do not fail. This process does
//! not, so it may use all that the hard limit allows. Programs that it starts get the limit that it
//! got.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit of this process before it was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    soft: Option<u64>,
    hard: Option<u64>,
}

impl Limit {
    /// Raises the soft limit of this process to the hard one. Returns the limit before.
    pub fn raise() -> Limit {
        let Rlimit { current: soft, maximum: hard } = getrlimit(Resource::Nofile);
        // It is allowed to every process.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
        Limit { soft, hard }
    }

    /// The most descriptors that this process may have open now. `None` if there is no limit.
    pub fn highest(self) -> Option<u64> {
        self.hard
    }

    /// Restores the limit in the child of `command`.
    pub fn restore_in(self, command: &mut Command) {
        let limit = Rlimit { current: self.soft, maximum: self.hard };
        let restore = move || setrlimit(Resource::Nofile, limit).map_err(io::Error::from);
        // SAFETY: it makes one system call, which is async-signal-safe, as required between fork
        // and exec.
        unsafe { command.pre_exec(restore) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_gets_the_limit_that_was_raised_here() {
        testing::isolated(|| {
            let hard = getrlimit(Resource::Nofile).maximum;
            setrlimit(Resource::Nofile, Rlimit { current: Some(40), maximum: hard }).unwrap();
            let before = Limit::raise();
            assert_eq!((getrlimit(Resource::Nofile).current, before.highest()), (hard, hard));
            let mut command = testing::command("sh");
            command.args(["-c", "ulimit -n"]);
            before.restore_in(&mut command);
            assert_eq!(testing::run(&mut command).expect_success().stdout, "40\n");
            // It can be raised twice.
            assert_eq!(Limit::raise().highest(), hard);
        });
    }
}
