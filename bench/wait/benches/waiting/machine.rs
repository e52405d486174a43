//! The machine: its description, its load from other programs, and the priority of this session.

use std::fs;
use std::time::Duration;

/// The CPU time of all programs since the machine was started, in units of a tick.
pub(crate) fn busy() -> Option<Duration> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    // User, nice, system, without idle and iowait, and both kinds of interrupt. The unit is 10 ms
    // on every Linux.
    let busy: u64 = [0, 1, 2, 5, 6].into_iter().filter_map(|field| ticks.get(field)).sum();
    Some(Duration::from_millis(10 * busy))
}

/// The machine in one line: processor, usable CPUs, kernel.
pub(crate) fn describe() -> String {
    let model = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = model.as_deref().unwrap_or("unknown processor");
    format!("{model}, {} CPUs, Linux {}", sys::cpus::usable(), kernel.trim())
}

const AUTOGROUP: &str = "/proc/self/autogroup";

/// Raises the weight of this session against others while it lives. The kernel first divides CPUs
/// between sessions, and would give equal shares to a benchmark and to a compiler in another
/// session. Nothing changes within the session.
pub(crate) struct Priority {
    before: Option<i32>,
}

impl Priority {
    /// Raises the weight if this process has the privilege.
    pub(crate) fn raise() -> Priority {
        let nice = || {
            let text = fs::read_to_string(AUTOGROUP).ok()?;
            let before = text.trim().rsplit(' ').next()?.parse().ok()?;
            fs::write(AUTOGROUP, "-15").ok().map(|()| before)
        };
        Priority { before: nice() }
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Lowering needs no privilege.
            let _ = fs::write(AUTOGROUP, before.to_string());
        }
    }
}
