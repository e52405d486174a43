//! The memory that jobs have claimed: a stopped job keeps its memory, so one that says how much it
//! needs starts when that is left.

use std::fs;

use crate::process_list::ProcessList;

/// How much of the available memory, in bytes, is left for another job: all but what others have
/// claimed and do not use yet. `claims` has what each has claimed and what it uses.
pub(crate) fn left(claims: impl IntoIterator<Item = (u64, u64)>, available: impl FnOnce() -> u64) -> u64 {
    let unused = claims.into_iter().map(|(claimed, used)| claimed.saturating_sub(used)).fold(0, u64::saturating_add);
    // It is read last: memory that a job takes in between counts twice, instead of not at all.
    available().saturating_sub(unused)
}

/// The memory that the processes of a job use, in bytes, without the page cache, which is
/// available.
pub(crate) fn used(processes: &ProcessList) -> u64 {
    let read = |pid| fs::read_to_string(format!("/proc/{pid}/status")).ok();
    used_by(processes.iter().filter_map(|(process, _)| read(process.pid)))
}

/// The same by `/proc/PID/status` of each process. Processes of a job mostly share the same memory,
/// so the most that one of them shares counts, once. If that is too little, the job seems to need
/// more than it does, and another one waits longer. Pages that are shared after a fork count for
/// each.
fn used_by(statuses: impl Iterator<Item = String>) -> u64 {
    let (mut own, mut shared) = (0_u64, 0);
    for status in statuses {
        own = own.saturating_add(size(&status, "RssAnon:"));
        shared = size(&status, "RssShmem:").max(shared);
    }
    own.saturating_add(shared)
}

/// A size in `/proc/PID/status`, in bytes. Zero if it is not there.
fn size(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB"));
    let kibibytes: Option<u64> = value.and_then(|value| value.trim_end().parse().ok());
    kibibytes.unwrap_or(0).saturating_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use sys::identity::Identity;

    use super::*;
    use crate::process_list::PLACES;
    use crate::process_list::tests::list;

    #[test]
    fn memory_that_others_have_claimed_and_do_not_use_yet_is_not_left() {
        assert_eq!(left([], || 100), 100);
        assert_eq!(left([(30, 10), (20, 20)], || 100), 80);
        assert_eq!(left([(30, 90)], || 100), 100, "what is used beyond a claim is not available anyway");
        assert_eq!(left([(u64::MAX, 0), (u64::MAX, 0)], || 100), 0);
        assert_eq!(left([(1, 0)], || 0), 0);
    }

    #[test]
    fn memory_that_a_job_takes_meanwhile_is_not_left() {
        // The job takes all that it has claimed after the first reading, whichever that is.
        let (claimed, is_taken) = (30, Cell::new(false));
        let used = || if is_taken.replace(true) { claimed } else { 0 };
        let claims = std::iter::once_with(|| (claimed, used()));
        let left = left(claims, || 100 - used());
        assert!(left <= 70, "{left}");
    }

    #[test]
    fn shared_memory_of_a_job_counts_once() {
        let status = |own: u32, shared: u32| {
            format!(
                "Name:\tRssAnon:\nVmRSS:\t 900 kB\nRssAnon:\t {own} kB\nRssFile:\t 70 kB\nRssShmem:\t {shared} kB\n"
            )
        };
        let job = [status(10, 500), status(20, 400), String::new()];
        assert_eq!(used_by(job.into_iter()), (30 + 500) << 10);
        assert_eq!(size("RssAnon:\t many kB\n", "RssAnon:"), 0);
        assert_eq!(size("RssAnon:\t 18446744073709551615 kB\n", "RssAnon:"), u64::MAX);
    }

    #[test]
    fn a_process_uses_memory() {
        let list = list();
        list.set(&[Identity::own()], PLACES);
        assert!(used(&list) > 0);
    }
}
