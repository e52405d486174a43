//! How much memory there is to be had.

use std::fs;

use sys::cgroups::Hierarchy;

/// How many bytes this process can take without anybody having to give up any: what the machine has, or what the control groups around the process leave
/// it, if that is less. Files that the kernel only keeps because there is room do not count as taken.
///
/// Where nobody says, 1 GiB.
pub fn available_memory() -> u64 {
    let of_groups = Hierarchy::all().iter().filter_map(Hierarchy::memory_left).min();
    let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    of_groups.into_iter().chain(of_machine).min().unwrap_or(1 << 30)
}

/// What `/proc/meminfo` says.
fn available(text: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_says_is_read() {
        assert_eq!(available("MemTotal:  100 kB\nMemAvailable:   24 kB\n"), Some(24 << 10));
        assert_eq!(available("MemTotal:  100 kB\n"), None);
        assert_eq!(available("MemAvailable: many kB\n"), None);
        assert!(available_memory() > 0);
    }
}
