//! A stack for the command, if a limit leaves the main thread too little.

use std::process::ExitCode;
use std::thread;

use rustix::process::{Resource, getrlimit};

use crate::output::print_message;

/// The size of the stack, in bytes. An unoptimized command needs 300 KiB to read its arguments.
const SIZE: usize = 2 << 20;

/// Runs the command: on the main thread if its stack may become large enough, or else on a thread,
/// whose stack has no limit.
pub(crate) fn with_room(command: fn() -> ExitCode) -> ExitCode {
    if getrlimit(Resource::Stack).current.is_none_or(|limit| limit >= SIZE as u64) {
        return command();
    }
    match thread::Builder::new().stack_size(SIZE).spawn(command) {
        Ok(thread) => {
            // The command may wait for signals. Those that this thread gets would be lost.
            sys::signals::leave_to_other_threads();
            // The exit code of a panic.
            thread.join().unwrap_or(ExitCode::from(101))
        }
        Err(error) => {
            print_message(format_args!(
                "error: the limit of the stack is too small, and no thread can be started: {error}; see `ulimit -s`"
            ));
            ExitCode::FAILURE
        }
    }
}
