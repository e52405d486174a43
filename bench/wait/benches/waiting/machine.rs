//! The machine: what it is, whether it is left alone, and how to be disturbed less.

use std::fs;
use std::time::Duration;

/// The CPU time that all programs together have used since the machine was started, to a tick.
pub(crate) fn busy() -> Option<Duration> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    // User, nice, system; not idle and iowait; the two kinds of interrupt. The unit is 10 ms on every Linux.
    let busy: u64 = [0, 1, 2, 5, 6].into_iter().filter_map(|field| ticks.get(field)).sum();
    Some(Duration::from_millis(10 * busy))
}

/// The machine in one line: processor, CPUs that may be used, kernel.
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

/// This session weighs more against others while this lives: the kernel shares CPUs between sessions first, and gives
/// equal shares to a benchmark and to a build next door. Within the session nothing changes.
pub(crate) struct Priority {
    before: Option<i32>,
}

impl Priority {
    /// Raises it where that is allowed: it takes privileges.
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
            // What could be raised can be lowered.
            let _ = fs::write(AUTOGROUP, before.to_string());
        }
    }
}
