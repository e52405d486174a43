//! Hogs: processes that always compute, like other programs on the machine.

use std::process::Child;
use std::time::Duration;

use crate::order::Order;
use crate::start;

/// How long before a run they start, so that the scheduler has placed them.
const AHEAD: Duration = Duration::from_millis(50);

/// Processes that compute until this is dropped, or until the thread that started them ends in any
/// way.
pub(crate) struct Hogs(Vec<Child>);

impl Hogs {
    /// Starts this many, and lets them run for a moment.
    pub(crate) fn start(count: u32) -> Result<Hogs, start::Error> {
        let mut hogs = Hogs(Vec::new());
        for _ in 0..count {
            hogs.0.push(start::child(&Order::Hog)?.stdout(std::process::Stdio::null()).spawn()?);
        }
        if count > 0 {
            std::thread::sleep(AHEAD);
        }
        Ok(hogs)
    }

    /// The CPU time that they have used so far.
    pub(crate) fn cpu_time(&self) -> Duration {
        let nanos = self.0.iter().filter_map(|hog| {
            let text = std::fs::read_to_string(format!("/proc/{}/schedstat", hog.id())).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
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
