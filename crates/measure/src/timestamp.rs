//! The time of day in UTC, for the names of folders and for manifests.

use std::time::{SystemTime, UNIX_EPOCH};

/// A second of the Gregorian calendar in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

impl Timestamp {
    /// The second that contains `time`. A time before 1970 counts as the first second of 1970.
    pub fn of(time: SystemTime) -> Timestamp {
        let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (year, month, day) = civil_from_days(seconds / 86_400);
        Timestamp { year, month, day, second_of_day: seconds % 86_400 }
    }

    fn clock(self) -> (u64, u64, u64) {
        (self.second_of_day / 3600, self.second_of_day / 60 % 60, self.second_of_day % 60)
    }

    /// In the format of RFC 3339: `2026-11-21T05:42:45Z`.
    pub fn rfc3339(self) -> String {
        let (hour, minute, second) = self.clock();
        format!("{:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", self.year, self.month, self.day)
    }

    /// Without separators, for file names: `20261121T054245Z`.
    pub fn compact(self) -> String {
        self.rfc3339().replace(['-', ':'], "")
    }
}

/// The date `days` days after 1970-01-01. Source: Howard Hinnant, "chrono-compatible low-level date
/// algorithms", `civil_from_days`, for days that are not negative.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months counted from March, so that the leap day is the last of the year.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn known_seconds_have_the_expected_timestamps() {
        for (seconds, name) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_795_239_765, "2026-11-21T05:42:45Z"),
        ] {
            let timestamp = Timestamp::of(UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(timestamp.rfc3339(), name);
        }
        assert_eq!(Timestamp::of(UNIX_EPOCH).compact(), "19700101T000000Z");
    }
}
