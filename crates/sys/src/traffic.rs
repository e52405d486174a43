//! The bytes that this process has read from and written to devices, without cached ones.

use std::fs;

/// Bytes transferred between this process and devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read from devices.
    pub read: u64,
    /// Bytes that will be written to devices sooner or later, without those discarded before.
    pub written: u64,
}

impl Traffic {
    /// The traffic of this process and of its children that have been waited for. Reads a file
    /// below `/proc`. Returns `None` if the kernel does not count it or hides it.
    pub fn own() -> Option<Traffic> {
        Traffic::parse(&fs::read_to_string("/proc/self/io").ok()?)
    }

    /// The traffic since `earlier`.
    pub fn since(self, earlier: Traffic) -> Traffic {
        Traffic { read: self.read.saturating_sub(earlier.read), written: self.written.saturating_sub(earlier.written) }
    }

    /// Parses `/proc/self/io`.
    pub fn parse(text: &str) -> Option<Traffic> {
        let bytes = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        let written = bytes("write_bytes:")?.saturating_sub(bytes("cancelled_write_bytes:").unwrap_or(0));
        Some(Traffic { read: bytes("read_bytes:")?, written })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarded_bytes_are_not_written() {
        let text = "rchar: 6976\nwchar: 9\nsyscr: 10\nsyscw: 0\nread_bytes: 4096\nwrite_bytes: 12288\n";
        assert_eq!(Traffic::parse(text), Some(Traffic { read: 4096, written: 12288 }));
        let text = format!("{text}cancelled_write_bytes: 8192\n");
        assert_eq!(Traffic::parse(&text), Some(Traffic { read: 4096, written: 4096 }));
        for text in ["", "read_bytes: 1\n", "write_bytes: 1\n", "read_bytes: x\nwrite_bytes: 1\n"] {
            assert_eq!(Traffic::parse(text), None, "{text}");
        }
    }

    #[test]
    fn own_traffic_is_consistently_available() {
        let before = Traffic::own();
        assert_eq!(before.is_some(), Traffic::own().is_some());
        assert_eq!(
            Traffic { read: 1, written: 9 }.since(Traffic { read: 3, written: 2 }),
            Traffic { read: 0, written: 7 }
        );
    }
}
