//! The memory that jobs have claimed: a stopped job keeps its memory, so one that says how much it
//! needs starts when that is left.

use std::fs;

use rustix::param::page_size;

use crate::process_list::ProcessList;

/// How much of the available memory, in bytes, is left for another job: all but what others have
/// claimed and do not use yet. `claims` has what each has claimed and what it uses.
pub fn left(available: u64, claims: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    let unused = claims.into_iter().map(|(claimed, used)| claimed.saturating_sub(used));
    available.saturating_sub(unused.fold(0, u64::saturating_add))
}

/// The memory that processes use, in bytes. What several of them share counts for each.
pub(crate) fn used(processes: &ProcessList) -> u64 {
    let pages = processes
        .iter()
        .filter_map(|(process, _)| resident(&fs::read_to_string(format!("/proc/{}/statm", process.pid)).ok()?));
    pages.fold(0, u64::saturating_add).saturating_mul(page_size() as u64)
}

/// The resident pages in `/proc/PID/statm`.
fn resident(statm: &str) -> Option<u64> {
    statm.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_claimed_and_do_not_use_yet_is_not_left() {
        assert_eq!(left(100, []), 100);
        assert_eq!(left(100, [(30, 10), (20, 20)]), 80);
        assert_eq!(left(100, [(30, 90)]), 100, "what is used beyond a claim is not available anyway");
        assert_eq!(left(100, [(u64::MAX, 0), (u64::MAX, 0)]), 0);
        assert_eq!(left(0, [(1, 0)]), 0);
    }

    #[test]
    fn resident_pages_are_the_second_number() {
        assert_eq!(resident("700 25 3 1 0 9 0\n"), Some(25));
        assert_eq!(["", "700", "700 x 1"].map(resident), [None; 3]);
    }
}
