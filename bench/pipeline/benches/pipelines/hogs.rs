//! Hogs: processes that always compute, like other programs on the machine.

use std::hint::spin_loop;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sys::process::{RequestsToEnd, end_with_this_thread};

/// The hidden argument that turns this program into a hog.
pub(crate) const HIDDEN: &str = "--hog";

/// How long before a run they start, so that the scheduler has placed them.
const AHEAD: Duration = Duration::from_millis(50);

/// Computes until the process is killed.
pub(crate) fn compute() -> ! {
    loop {
        spin_loop();
    }
}

/// Processes that compute until this is dropped, or until the thread that started them ends in any
/// way.
pub(crate) struct Hogs(Vec<Child>);

impl Hogs {
    /// Starts this many, and lets them run for a moment.
    pub(crate) fn start(count: u32) -> std::io::Result<Hogs> {
        let mut hogs = Hogs(Vec::new());
        for _ in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(HIDDEN).stdout(Stdio::null());
            end_with_this_thread(&mut command, RequestsToEnd::Obey);
            hogs.0.push(command.spawn()?);
        }
        if count > 0 {
            std::thread::sleep(AHEAD);
        }
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            // Fails only if the process has already ended.
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}
