//! The account of a user id. A user may take other ids, those of a range in `/etc/subuid`: such ids
//! have the connections and the pace of one user all together.

use std::fs;

/// The ranges of ids that users may take, as `newuidmap` reads them.
const RANGES: &str = "/etc/subuid";

/// The id under which the connections of this user are counted: its own, or the first one of those
/// that the owner of this id may take.
pub fn account(user: u32) -> u32 {
    account_by(&String::from_utf8_lossy(&fs::read(RANGES).unwrap_or_default()), user)
}

fn account_by(ranges: &str, user: u32) -> u32 {
    let ranges: Vec<Range<'_>> = ranges.lines().filter_map(Range::parse).collect();
    let found = ranges.iter().find(|range| user != 0 && range.has(user));
    let all = ranges.iter().filter(|range| found.is_some_and(|found| found.owner == range.owner));
    all.map(|range| range.first).min().and_then(|first| first.try_into().ok()).unwrap_or(user)
}

/// Ids that a user may take.
struct Range<'a> {
    /// The name or the id of the user.
    owner: &'a str,
    first: u64,
    count: u64,
}

impl Range<'_> {
    fn parse(line: &str) -> Option<Range<'_>> {
        let mut parts = line.split(':').map(str::trim);
        let (owner, first, count) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Range { owner, first: first.parse().ok()?, count: count.parse().ok()? })
    }

    fn has(&self, user: u32) -> bool {
        u64::from(user).checked_sub(self.first).is_some_and(|place| place < self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ids_that_a_user_may_take_have_one_account_and_others_have_their_own() {
        let ranges = "# Ids\none:300000:10\n\nother:200000:65536\none:100000:65536\nwrong:x:1\nwrong:1\nhuge:400000:99999999999\n";
        for (users, account) in [
            (&[100_000, 165_535, 300_000, 300_009][..], 100_000),
            (&[200_000, 265_535], 200_000),
            (&[400_000, u32::MAX], 400_000),
            (&[0], 0),
            (&[1000], 1000),
            (&[99_999], 99_999),
            (&[165_536], 165_536),
            (&[300_010], 300_010),
        ] {
            for &user in users {
                assert_eq!(account_by(ranges, user), account, "{user}");
            }
        }
        assert_eq!(account_by("root:0:100", 0), 0, "root answers for itself");
    }
}
