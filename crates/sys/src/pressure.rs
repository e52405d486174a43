//! Pressure stall information: how long threads of the machine were delayed by lack of a resource.

use std::fs;
use std::time::Duration;

/// A resource that threads may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// A CPU, while the thread is ready.
    Cpu,
    /// A device.
    Io,
    /// Memory that must be reclaimed first.
    Memory,
}

/// The time since boot during which a thread waited for the resource. Reads a file below `/proc`.
///
/// Returns `None` if the kernel lacks it (before Linux 4.20, or without `psi=1`) or hides it.
pub fn some(resource: Resource) -> Option<Duration> {
    let name = match resource {
        Resource::Cpu => "cpu",
        Resource::Io => "io",
        Resource::Memory => "memory",
    };
    total(&fs::read_to_string(format!("/proc/pressure/{name}")).ok()?)
}

/// The total of the line `some`, in microseconds, of a file below `/proc/pressure`.
pub fn total(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let micros = line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?;
    micros.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_some_is_parsed() {
        let text = "some avg10=1.13 avg60=3.41 avg300=3.03 total=15592878743\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(total(text), Some(Duration::from_micros(15_592_878_743)));
        for text in ["", "full avg10=0.00 total=7\n", "some avg10=0.00\n", "some total=x\n"] {
            assert_eq!(total(text), None, "{text}");
        }
    }

    #[test]
    fn pressure_only_grows_or_is_unavailable() {
        for resource in [Resource::Cpu, Resource::Io, Resource::Memory] {
            let before = some(resource);
            assert!(some(resource) >= before);
            assert!(before.is_some() || some(resource).is_none());
        }
    }
}
