//! Hogs: processes that compute all the time, as other programs on the machine would.

use std::hint::spin_loop;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sys::process::{RequestsToEnd, end_with_this_thread};

/// The argument by which this program is told to be one.
pub(crate) const HIDDEN: &str = "--hog";

/// How long before a run they start, so that the scheduler has placed them.
const AHEAD: Duration = Duration::from_millis(50);

/// Is one, until somebody ends it.
pub(crate) fn compute() -> ! {
    loop {
        spin_loop();
    }
}

/// Processes that compute until this is dropped, or until the thread that started them ends by whatever death.
pub(crate) struct Hogs(Vec<Child>);

impl Hogs {
    /// Starts so many, and lets them run for a moment.
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
            // It fails only for one that has ended and been waited for.
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}
