//! The available memory of the machine.

use std::fs;

use sys::cgroups::Hierarchy;

/// The number of bytes that this process can use without taking memory from other processes: the
/// available memory of the machine or of the control groups around the process, whichever is less.
/// The page cache counts as available as far as the kernel can drop it.
///
/// Returns 1 GiB if neither is known.
pub fn available_memory() -> u64 {
    let of_groups = Hierarchy::all().iter().filter_map(Hierarchy::memory_left).min();
    let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    of_groups.into_iter().chain(of_machine).min().unwrap_or(1 << 30)
}

/// Parses the available memory from `/proc/meminfo`.
fn available(text: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_parsed() {
        assert_eq!(available("MemTotal:  100 kB\nMemAvailable:   24 kB\n"), Some(24 << 10));
        assert_eq!(available("MemTotal:  100 kB\n"), None);
        assert_eq!(available("MemAvailable: many kB\n"), None);
        assert!(available_memory() > 0);
    }
}
