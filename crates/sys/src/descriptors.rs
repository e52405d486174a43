//! The descriptors of this process and of programs that it starts: how many there may be
//! (`ulimit -n`), and which ones a program gets.
//!
//! The soft limit is often 1024, so that programs that use `select` do not fail. This process does
//! not, so it may use all that the hard limit allows. Programs that it starts get the limit that it
//! got.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
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

/// Lets the program of `command` have no descriptors but its standard streams.
pub fn keep_only_streams_in(command: &mut Command) {
    let close_others = || {
        // They are closed by exec: one of them tells this process if that fails.
        // SAFETY: these calls take numbers, and this is the child of a fork, which executes a
        // program: no value uses a descriptor after that.
        unsafe {
            let (first, flags) = (libc::STDERR_FILENO + 1, libc::CLOSE_RANGE_CLOEXEC);
            if libc::syscall(libc::SYS_close_range, first, libc::c_int::MAX, flags) < 0 {
                // Linux before 5.11.
                let most = libc::sysconf(libc::_SC_OPEN_MAX) as libc::c_int;
                (first..most).for_each(|number| {
                    libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
                });
            }
        }
        Ok(())
    };
    // SAFETY: it makes only system calls, which are async-signal-safe, as required between fork and
    // exec.
    unsafe { command.pre_exec(close_others) };
}

/// Lets the program of `command` inherit a descriptor, under the number that it has here. The
/// command holds it until it is dropped.
pub fn inherit_in(command: &mut Command, descriptor: OwnedFd) {
    let inherit = move || fcntl_setfd(&descriptor, FdFlags::empty()).map_err(io::Error::from);
    // SAFETY: it makes one system call, which is async-signal-safe, as required between fork and
    // exec.
    unsafe { command.pre_exec(inherit) };
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};
    use std::os::fd::AsRawFd;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    #[test]
    fn a_program_with_only_its_streams_does_not_keep_a_pipe_open() {
        testing::isolated(|| {
            let (mut reader, inherited) = pipe().unwrap();
            fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
            let start = |keeps: bool| {
                let mut command = testing::command("sh");
                command.args(["-c", "echo ready; read line"]);
                if !keeps {
                    keep_only_streams_in(&mut command);
                }
                let mut child = testing::Child::start_piped(&mut command);
                assert_eq!(child.read_line(), "ready");
                child
            };
            let (keeping, _other) = (start(true), start(false));
            drop(inherited);
            fcntl_setfl(&reader, OFlags::NONBLOCK).unwrap();
            assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            drop(keeping);
            assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        });
    }

    #[test]
    fn a_program_inherits_a_descriptor_under_its_number_and_others_do_not() {
        let (mut reader, inherited) = pipe().unwrap();
        let number = inherited.as_raw_fd();
        let write = |command: &mut Command| {
            command.arg("-c").arg(format!("echo here >&{number}"));
            testing::run(command)
        };
        let other = write(&mut testing::command("bash"));
        assert!(!other.status.success());
        let mut command = testing::command("bash");
        inherit_in(&mut command, inherited.into());
        write(&mut command).expect_success();
        drop(command);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "here\n");
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
