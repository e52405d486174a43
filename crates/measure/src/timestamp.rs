//! The time of day in UTC, for the names of folders and for manifests.

use std::time::{SystemTime, UNIX_EPOCH};

/// A second in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The second that contains `time`. A time before 1970 counts as the first second of 1970.
    pub fn of(time: SystemTime) -> Timestamp {
        let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let second = i64::try_from(seconds).ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
        Timestamp(second.unwrap_or(jiff::Timestamp::MAX))
    }

    /// In the format of RFC 3339: `2026-11-21T05:42:45Z`.
    pub fn rfc3339(self) -> String {
        self.0.to_string()
    }

    /// Without separators, for file names: `20261121T054245Z`.
    pub fn compact(self) -> String {
        self.rfc3339().replace(['-', ':'], "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn known_seconds_have_the_expected_timestamps() {
        for (seconds, name) in [(0, "1970-01-01T00:00:00Z"), (1_795_239_765, "2026-11-21T05:42:45Z")] {
            let timestamp = Timestamp::of(UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(timestamp.rfc3339(), name);
        }
        assert_eq!(Timestamp::of(UNIX_EPOCH).compact(), "19700101T000000Z");
    }
}
