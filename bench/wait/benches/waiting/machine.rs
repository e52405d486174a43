//! The machine: its description, and the priority of this session.

use std::fs;
use std::path::Path;

use sys::files::write_control;

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
            write_control(Path::new(AUTOGROUP), "-15").ok().map(|()| before)
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
            let _ = write_control(Path::new(AUTOGROUP), &before.to_string());
        }
    }
}
