//! The descriptors of this process: how many it may have open (`ulimit -n`), and those that it has
//! inherited.
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

/// Closes the descriptors that this process has inherited, except its standard streams. Programs
/// that it executes do not get them any more. Without `/proc`, it closes none.
pub fn close_inherited() {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<libc::c_int>().ok());
    for number in numbers.collect::<Vec<_>>().into_iter().filter(|&number| number > libc::STDERR_FILENO) {
        // SAFETY: both calls take a number. All descriptors that rowlock opens are closed when it
        // executes a program, so those that would stay open are inherited, and no value owns them.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) == 0 {
                libc::close(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};
    use std::os::fd::IntoRawFd;

    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::io::{FdFlags, fcntl_setfd};

    use super::*;

    #[test]
    fn inherited_descriptors_are_closed_and_own_ones_are_not() {
        testing::isolated(|| {
            let ((mut reader, inherited), (mut own_reader, mut own)) = (pipe().unwrap(), pipe().unwrap());
            fcntl_setfl(&reader, OFlags::NONBLOCK).unwrap();
            fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
            // As one that this program knows nothing of.
            let _ = inherited.into_raw_fd();
            close_inherited();
            assert_eq!(reader.read(&mut [0]).unwrap(), 0);
            own.write_all(b"1").unwrap();
            assert_eq!(own_reader.read(&mut [0]).unwrap(), 1);
        });
    }

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
