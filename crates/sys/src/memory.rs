//! The memory that this process may use, and what is left of it.

use std::fs;

use crate::cgroups::Hierarchy;

/// The number of bytes that this process can use without taking memory from other processes: the
/// available memory of the machine or of the control groups around the process, whichever is less.
/// The page cache counts as available as far as the kernel can drop it.
///
/// Returns 1 GiB if neither is known.
pub fn available() -> u64 {
    let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_available(&text));
    left_by_groups().into_iter().chain(of_machine).min().unwrap_or(1 << 30)
}

/// The most memory that a process here could ever use, in bytes: that of the machine, or the limit
/// of the control groups around this process, whichever is less. Returns `None` if it is unknown.
pub fn most() -> Option<u64> {
    let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemTotal:"));
    let of_groups = Hierarchy::all().iter().filter_map(Hierarchy::memory_limit).min();
    of_groups.into_iter().chain(of_machine).min()
}

/// The bytes of memory that the control groups around the process leave. Returns `None` without
/// limits.
pub fn left_by_groups() -> Option<u64> {
    Hierarchy::all().iter().filter_map(Hierarchy::memory_left).min()
}

/// Parses the available memory from `/proc/meminfo`, in bytes.
pub fn parse_available(text: &str) -> Option<u64> {
    field(text, "MemAvailable:")
}

/// Parses one size in `/proc/meminfo`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_parsed() {
        assert_eq!(parse_available("MemTotal:  100 kB\nMemAvailable:   24 kB\n"), Some(24 << 10));
        assert_eq!(parse_available("MemTotal:  100 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: many kB\n"), None);
        assert!(available() > 0);
        assert_eq!(field("MemTotal:  100 kB\nMemAvailable:   24 kB\n", "MemTotal:"), Some(100 << 10));
        assert!(most().is_some_and(|most| most >= available()));
    }
}
