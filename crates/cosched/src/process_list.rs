//! The processes of a job, as its agent has found them, for the agent that switches all jobs.
//!
//! Only the job's agent writes processes, and only to free places. A process keeps its place until
//! it has ended, so its mark never becomes that of another one. A reader that finds a place between
//! two uses opens a process whose start time does not match, and leaves it alone.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use sys::identity::Identity;
use sys::shared_memory::{Mapping, View};

use crate::processes::mark;

/// The most processes of a job. Others are not stopped.
pub(crate) const PLACES: usize = 4096;
/// The length of the file with the list, in bytes.
pub(crate) const LENGTH: NonZeroUsize =
    NonZeroUsize::new(PLACES * (size_of::<u64>() + 2 * size_of::<u32>()) + 3 * size_of::<u64>()).unwrap();

/// The processes of a job, in shared memory.
#[derive(Debug)]
pub(crate) struct ProcessList {
    /// All places from this one on are free.
    end: View<AtomicU64>,
    /// The process and the thread that continue last, in the halves of the word. Zero if that does
    /// not matter.
    last_thread: View<AtomicU64>,
    /// How the control group of the job was stopped and continued, if it has one.
    group_mark: View<AtomicU32>,
    /// One more than the share of the CPU time of its last turns that the job has used, in
    /// thousandths. Zero if it is unknown.
    share: View<AtomicU32>,
    started: View<[AtomicU64]>,
    /// Zero in a free place.
    pids: View<[AtomicU32]>,
    /// How each process was stopped and continued, see `processes::mark`. At first zero.
    marks: View<[AtomicU32]>,
}

impl ProcessList {
    /// The list in a file of [`LENGTH`] bytes. `None` if it is shorter.
    pub(crate) fn new(mapping: &Arc<Mapping>) -> Option<ProcessList> {
        const GROUP_MARK: usize = 2 * size_of::<u64>();
        const SHARE: usize = GROUP_MARK + size_of::<u32>();
        const STARTED: usize = 3 * size_of::<u64>();
        const PIDS: usize = STARTED + PLACES * size_of::<u64>();
        const MARKS: usize = PIDS + PLACES * size_of::<u32>();
        Some(ProcessList {
            end: mapping.get(0)?,
            last_thread: mapping.get(size_of::<u64>())?,
            group_mark: mapping.get(GROUP_MARK)?,
            share: mapping.get(SHARE)?,
            started: mapping.slice(STARTED, PLACES)?,
            pids: mapping.slice(PIDS, PLACES)?,
            marks: mapping.slice(MARKS, PLACES)?,
        })
    }

    /// The processes with their marks, in the order of their places.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Identity, &AtomicU32)> {
        let end = usize::try_from(self.end.load(SeqCst)).unwrap_or(PLACES).min(PLACES);
        (0..end).filter_map(|place| {
            let pid = self.pids[place].load(SeqCst);
            let identity = Identity { pid, started: self.started[place].load(SeqCst) };
            (pid != 0).then_some((identity, &self.marks[place]))
        })
    }

    /// Whether some of its processes were stopped because it was not their turn.
    pub(crate) fn is_stopped(&self) -> bool {
        mark::is_ours(self.group_mark.load(SeqCst)) || self.iter().any(|(_, word)| mark::is_ours(word.load(SeqCst)))
    }

    /// The mark of the job's control group. At first zero.
    pub(crate) fn group_mark(&self) -> &AtomicU32 {
        &self.group_mark
    }

    /// The share of the CPU time of its last turns that the job has used, in thousandths. `None` if
    /// it is unknown.
    pub(crate) fn share(&self) -> Option<u32> {
        self.share.load(Relaxed).checked_sub(1).map(|share| share.min(1000))
    }

    /// Says how much of the CPU time of its last turns the job has used.
    pub(crate) fn set_share(&self, share: Option<u32>) {
        self.share.store(share.map_or(0, |share| share.saturating_add(1)), Relaxed);
    }

    /// Says that the processes give way by themselves from now on. As in a stop, their threads
    /// block for that.
    pub(crate) fn begin_giving_way(&self) {
        self.group_mark.fetch_or(mark::stopped(0), SeqCst);
    }

    /// Says that they do no longer.
    pub(crate) fn end_giving_way(&self) {
        let before = self.group_mark.load(SeqCst);
        if mark::is_ours(before) {
            // If it fails, another switcher was here.
            let _ = self.group_mark.compare_exchange(before, mark::over(before), SeqCst, SeqCst);
        }
    }

    /// The process and the thread that continue last. `None` if that does not matter.
    pub(crate) fn last_thread(&self) -> Option<(u32, u32)> {
        let word = self.last_thread.load(SeqCst);
        (word != 0).then_some(((word >> 32) as u32, word as u32))
    }

    /// Says which thread continues last.
    pub(crate) fn set_last_thread(&self, thread: Option<(u32, u32)>) {
        let word = thread.map_or(0, |(process, thread)| u64::from(process) << 32 | u64::from(thread));
        self.last_thread.store(word, SeqCst);
    }

    /// Makes these the processes of the job, as far as there are places: at most so many. Returns
    /// whether some of them are new.
    pub(crate) fn set(&self, processes: &[Identity], most: usize) -> bool {
        let mut new: BTreeSet<_> = processes.iter().map(|process| (process.pid, process.started)).collect();
        let end = usize::try_from(self.end.load(SeqCst)).unwrap_or(PLACES).min(PLACES);
        for place in 0..end {
            let pid = self.pids[place].load(SeqCst);
            let identity = Identity { pid, started: self.started[place].load(SeqCst) };
            // A live process may be overlooked while its parent changes.
            if pid != 0 && !new.remove(&(pid, identity.started)) && !identity.is_alive() {
                self.pids[place].store(0, SeqCst);
            }
        }
        let free = (0..most.min(PLACES)).filter(|&place| self.pids[place].load(SeqCst) == 0);
        let (mut last, mut is_new) = (end, false);
        for (place, (pid, started)) in free.zip(&new) {
            self.started[place].store(*started, SeqCst);
            self.marks[place].store(0, SeqCst);
            self.pids[place].store(*pid, SeqCst);
            (last, is_new) = (last.max(place + 1), true);
        }
        self.end.store(last as u64, SeqCst);
        is_new
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn list() -> ProcessList {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LENGTH.get() as u64).unwrap();
        ProcessList::new(&Mapping::new(&file, LENGTH).unwrap()).unwrap()
    }

    /// A process that does not exist, whatever has this id.
    fn process(pid: u32) -> Identity {
        Identity { pid, started: u64::MAX - u64::from(pid) }
    }

    fn pids(list: &ProcessList) -> Vec<u32> {
        list.iter().map(|(identity, _)| identity.pid).collect()
    }

    #[test]
    fn a_process_keeps_its_place_and_its_mark_until_it_ends() {
        let list = list();
        assert!(list.set(&[1, 2, 3].map(process), PLACES));
        list.iter().for_each(|(identity, mark)| mark.store(identity.pid, SeqCst));
        assert!(!list.set(&[3, 1].map(process), PLACES));
        assert!(list.set(&[1, 3, 4, 5].map(process), PLACES));
        let found: Vec<_> = list.iter().map(|(identity, mark)| (identity.pid, mark.load(SeqCst))).collect();
        assert_eq!(found, [(1, 1), (4, 0), (3, 3), (5, 0)]);
        assert!(list.iter().all(|(identity, _)| identity == process(identity.pid)));
        let again = Identity { pid: 1, started: 7 };
        assert!(list.set(&[again], PLACES));
        assert_eq!(list.iter().map(|(identity, _)| identity).collect::<Vec<_>>(), [again]);
    }

    #[test]
    fn a_live_process_that_was_overlooked_keeps_its_mark() {
        let list = list();
        let own = Identity::own();
        list.set(&[own], PLACES);
        list.iter().for_each(|(_, mark)| mark.store(7, SeqCst));
        list.set(&[], PLACES);
        assert_eq!(list.iter().map(|(process, mark)| (process, mark.load(SeqCst))).collect::<Vec<_>>(), [(own, 7)]);
    }

    #[test]
    fn a_share_is_unknown_until_it_is_told_and_never_more_than_all() {
        let list = list();
        assert_eq!(list.share(), None);
        for (told, read) in [(Some(0), Some(0)), (Some(990), Some(990)), (Some(u32::MAX), Some(1000)), (None, None)] {
            list.set_share(told);
            assert_eq!(list.share(), read);
        }
    }

    #[test]
    fn more_processes_than_places_are_ignored() {
        let list = list();
        let many: Vec<_> = (1..=PLACES as u32 + 10).map(process).collect();
        assert!(list.set(&many, PLACES));
        assert_eq!(pids(&list).len(), PLACES);
        assert!(!list.set(&many, PLACES), "a switch is not repeated for those without a place");
        list.set(&[process(9)], PLACES);
        assert_eq!(pids(&list), [9]);
    }

    #[test]
    fn a_job_has_no_more_processes_than_it_may_have() {
        let list = list();
        assert!(list.set(&[1, 2, 3, 4].map(process), 3));
        assert!(!list.set(&[1, 2, 3, 4].map(process), 3));
        assert_eq!(pids(&list), [1, 2, 3]);
    }

    #[test]
    fn a_list_with_an_impossible_end_is_read_as_far_as_it_goes() {
        let list = list();
        list.end.store(u64::MAX, SeqCst);
        assert!(pids(&list).is_empty());
    }
}
