//! Pressure: how long threads of the machine have been held up for want of a resource, as the kernel counts it.

use std::fs;
use std::time::Duration;

/// What threads may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// A CPU, while they could run.
    Cpu,
    /// A device.
    Io,
    /// Memory, which has to be freed first.
    Memory,
}

/// How long at least one thread of the machine has waited for it since the machine was started. Reads a file below `/proc`.
///
/// Nothing where the kernel was built or started without (`psi=1`), is older than Linux 4.20, or hides it.
pub fn some(resource: Resource) -> Option<Duration> {
    let name = match resource {
        Resource::Cpu => "cpu",
        Resource::Io => "io",
        Resource::Memory => "memory",
    };
    total(&fs::read_to_string(format!("/proc/pressure/{name}")).ok()?)
}

/// The total of the line `some`, which is in microseconds.
fn total(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let micros = line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?;
    micros.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_some_is_taken() {
        let text = "some avg10=1.13 avg60=3.41 avg300=3.03 total=15592878743\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(total(text), Some(Duration::from_micros(15_592_878_743)));
        for text in ["", "full avg10=0.00 total=7\n", "some avg10=0.00\n", "some total=x\n"] {
            assert_eq!(total(text), None, "{text}");
        }
    }

    #[test]
    fn pressure_only_grows_or_is_not_told() {
        for resource in [Resource::Cpu, Resource::Io, Resource::Memory] {
            let before = some(resource);
            assert!(some(resource) >= before);
            assert!(before.is_some() || some(resource).is_none());
        }
    }
}
