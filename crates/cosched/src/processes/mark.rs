//! The word beside a process in shared memory that says whether it is stopped by us, and how often
//! it has been.
//!
//! It counts the stops, so a switcher that was delayed between its decision and its change finds
//! that another one has been there meanwhile, and changes nothing. Zero is the mark of a process
//! that was never stopped. Its entry begins with it. A job that is frozen as a whole has one such
//! word for all of its processes.

/// It is stopped by us, or about to be.
const OURS: u32 = 1;
/// More than one SIGSTOP may have been sent for this stop.
const REPEATED: u32 = 2;
/// It is about to be continued.
const RESUMING: u32 = 4;
/// One stop that is over.
const STOP: u32 = 8;

/// Whether the process is stopped by us.
pub const fn is_ours(mark: u32) -> bool {
    mark & OURS != 0
}

/// How often the process was stopped by us; it wraps.
pub const fn stops(mark: u32) -> u32 {
    (mark / STOP).wrapping_add(mark & OURS)
}

pub(crate) const fn stopped(mark: u32) -> u32 {
    mark | OURS
}

pub(super) const fn repeated(mark: u32) -> u32 {
    mark | REPEATED
}

pub(super) const fn is_repeated(mark: u32) -> bool {
    mark & REPEATED != 0
}

pub(super) const fn resuming(mark: u32) -> u32 {
    mark | RESUMING
}

/// Whether it is stopped by us, and no switcher is about to continue it.
pub(super) const fn stays(mark: u32) -> bool {
    mark & (OURS | RESUMING) == OURS
}

/// The mark after the stop was undone, or has become the stop of another.
pub(crate) const fn over(mark: u32) -> u32 {
    (mark & !(OURS | REPEATED | RESUMING)).wrapping_add(STOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_counts_stops_and_wraps() {
        let mut mark = 0;
        for count in 1..4 {
            mark = stopped(mark);
            assert!(is_ours(mark) && !is_repeated(mark));
            assert_eq!(stops(mark), count);
            let changed = resuming(repeated(mark));
            assert!(is_ours(changed) && is_repeated(changed));
            assert!(stays(mark) && !stays(changed) && !stays(over(mark)));
            assert_eq!((over(changed), stops(changed)), (over(mark), count));
            mark = over(mark);
            assert!(!is_ours(mark));
            assert_eq!(stops(mark), count);
        }
        assert_eq!(over(stopped(u32::MAX - 7)), 0);
    }
}
