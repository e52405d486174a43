//! The network between the cells of a machine.

use std::fmt;
use std::str::FromStr;

use policy::Span;

/// How long messages and the hardware barrier take.
///
/// The defaults are those of the AP1000+ (Suzaki and Walsh, section 2), except the latency, which
/// is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// How long a message travels besides the time of its bytes.
    pub latency: Span,
    /// How fast a cell sends. It sends one message at a time.
    pub bandwidth: Bandwidth,
    /// How long the hardware barrier takes after the last arrival.
    pub barrier: Span,
}

impl Default for Network {
    fn default() -> Network {
        let bandwidth = Bandwidth::from_megabytes(25);
        Network { latency: Span::from_micros(5), bandwidth, barrier: Span::from_micros(1) }
    }
}

/// Bytes per second, above zero. Written as a whole number with its unit, as in `"25 MB/s"`; the
/// units are `kB/s`, `MB/s` and `GB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    kilobytes: u64,
}

/// The units, largest first, in kilobytes per second.
const UNITS: [(&str, u64); 3] = [("GB/s", 1_000_000), ("MB/s", 1_000), ("kB/s", 1)];

impl Bandwidth {
    /// The largest: 1000 GB/s.
    pub const MOST: Bandwidth = Bandwidth { kilobytes: 1_000_000_000 };

    /// `n` megabytes per second, but at least 1 kB/s and at most [`Bandwidth::MOST`].
    pub const fn from_megabytes(n: u64) -> Bandwidth {
        let kilobytes = n.saturating_mul(1_000);
        match kilobytes {
            0 => Bandwidth { kilobytes: 1 },
            _ if kilobytes > Bandwidth::MOST.kilobytes => Bandwidth::MOST,
            _ => Bandwidth { kilobytes },
        }
    }

    /// The bytes per second.
    pub const fn bytes(self) -> u64 {
        self.kilobytes * 1_000
    }

    /// How long this many bytes take, rounded up.
    pub fn time_of(self, bytes: u64) -> Span {
        let nanos = (u128::from(bytes) * 1_000_000).div_ceil(u128::from(self.kilobytes));
        u64::try_from(nanos).map_or(Span::MAX, Span::from_nanos)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS.into_iter().find(|&(_, size)| self.kilobytes.is_multiple_of(size));
        let (unit, size) = exact.unwrap_or(("kB/s", 1));
        f.pad(&format!("{} {unit}", self.kilobytes / size))
    }
}

/// The reason why a text is not a bandwidth.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a bandwidth: write a whole number, 1 kB/s to {most}, as in \"25 MB/s\"", most = Bandwidth::MOST)]
pub struct ParseBandwidthError(String);

impl FromStr for Bandwidth {
    type Err = ParseBandwidthError;

    fn from_str(text: &str) -> Result<Bandwidth, ParseBandwidthError> {
        let parse = || {
            let text = text.trim();
            let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
            let (_, size) = UNITS.into_iter().find(|&(name, _)| name == unit.trim_start())?;
            let kilobytes = number.parse::<u64>().ok()?.checked_mul(size)?;
            (1..=Bandwidth::MOST.kilobytes).contains(&kilobytes).then_some(Bandwidth { kilobytes })
        };
        parse().ok_or_else(|| ParseBandwidthError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_bandwidth_reads_back_as_itself() {
        for text in ["1 kB/s", "1500 kB/s", "25 MB/s", "1000 GB/s"] {
            assert_eq!(text.parse::<Bandwidth>().unwrap().to_string(), text);
        }
        assert_eq!("25000kB/s".parse(), Ok(Bandwidth::from_megabytes(25)));
        for text in ["", "25", "MB/s", "0 MB/s", "-1 MB/s", "2.5 MB/s", "25 MB", "25 mb/s", "1001 GB/s", "1e3 MB/s"] {
            assert!(text.parse::<Bandwidth>().is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_take_their_time_rounded_up() {
        let bandwidth = Bandwidth::from_megabytes(25);
        assert_eq!(bandwidth.bytes(), 25_000_000);
        assert_eq!(bandwidth.time_of(2_000), Span::from_micros(80));
        assert_eq!(Bandwidth::MOST.time_of(1), Span::from_nanos(1));
        assert_eq!(bandwidth.time_of(u64::MAX), Span::MAX);
    }
}
