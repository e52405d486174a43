//! The processes that a switcher keeps open from one boundary to the next.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicU32;

use policy::Instant;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use sys::identity::Identity;

use super::{Outcome, Process};

/// Open processes by their identities.
///
/// Each takes two descriptors, all together at most half of those that this process may have.
/// If there are more processes, the rest is opened for each use, which takes about 30 us longer.
///
/// # The order
///
/// A parent such as a shell may ask for the stops of its children (WUNTRACED), and must not see
/// ours. So parents are stopped first, and continued last: a process that has been continued does
/// not count as stopped any more, even if it has had no CPU yet. What remains visible is SIGCHLD.
/// A parent that is not stopped with its children, such as a keeper, sees all stops.
#[derive(Debug)]
pub struct Processes {
    open: BTreeMap<(u32, u64), Entry>,
    capacity: usize,
}

#[derive(Debug)]
struct Entry {
    process: Process,
    /// Whether it was used since the last call of `forget_unused`.
    is_used: bool,
}

impl Default for Processes {
    fn default() -> Processes {
        Processes::new()
    }
}

impl Processes {
    /// None are open yet. The limit of descriptors is the current one.
    pub fn new() -> Processes {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let capacity = usize::try_from(limit / 4).unwrap_or(usize::MAX).max(1);
        Processes { open: BTreeMap::new(), capacity }
    }

    /// The process, opened if it is not open. Returns `None` if it has ended, if its id is used by
    /// another, or if it cannot be opened.
    pub fn get(&mut self, identity: Identity) -> Option<&Process> {
        let key = (identity.pid, identity.started);
        if !self.open.contains_key(&key) {
            let process = self.open(identity)?;
            self.open.insert(key, Entry { process, is_used: true });
        }
        let entry = self.open.get_mut(&key)?;
        entry.is_used = true;
        Some(&entry.process)
    }

    fn open(&mut self, identity: Identity) -> Option<Process> {
        while self.open.len() >= self.capacity {
            // Only the last one is replaced, so most others are found when they are needed.
            self.open.pop_last();
        }
        let opened = Process::try_open(identity).or_else(|why| {
            if !is_limit(&why) {
                return Err(why);
            }
            // The rest of this process uses more descriptors than expected.
            self.open.clear();
            Process::try_open(identity)
        });
        opened.ok()
    }

    /// Closes the processes that were not used since the last call.
    pub fn forget_unused(&mut self) {
        self.open.retain(|_, entry| std::mem::take(&mut entry.is_used));
    }

    /// Stops processes in this order, which has parents before their children, only those of this
    /// user if one is named. Reports the outcome of each.
    pub fn stop_all<'a>(
        &mut self,
        processes: impl IntoIterator<Item = (Identity, &'a AtomicU32)>,
        user: Option<u32>,
        mut report: impl FnMut(Identity, Outcome),
    ) {
        for (identity, mark) in processes {
            report(identity, self.get(identity).map_or(Outcome::Ended, |process| process.stop_as(user, mark)));
        }
    }

    /// Continues processes in the reverse of this order, which has parents before their children.
    /// Reports the outcome of each. Returns when it has begun to send signals, `None` if it has
    /// sent none.
    ///
    /// It looks at all of them before it continues the first, so that they start within a few
    /// microseconds, unless one takes the CPU of the caller. The one that was stopped there should
    /// come first in the order, to be continued last.
    pub fn resume_all<'a>(
        &mut self,
        processes: impl IntoIterator<Item = (Identity, &'a AtomicU32), IntoIter: DoubleEndedIterator>,
        mut report: impl FnMut(Identity, Outcome),
    ) -> Option<Instant> {
        let mut looks = Vec::new();
        for (identity, mark) in processes.into_iter().rev() {
            match self.get(identity).ok_or(Outcome::Ended).and_then(|process| process.look(mark)) {
                Ok(look) => looks.push((identity, mark, look)),
                Err(outcome) => report(identity, outcome),
            }
        }
        let begun = (!looks.is_empty()).then(wait::now);
        for (identity, mark, look) in looks {
            let resume = |process: &Process| match process.resume_after(&look, mark) {
                Ok(None) => process.resume(mark),
                Ok(Some(outcome)) | Err(outcome) => outcome,
            };
            report(identity, self.get(identity).map_or(Outcome::Ended, resume));
        }
        begun
    }
}

/// Whether there are no more descriptors.
fn is_limit(why: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|limit| why.raw_os_error() == Some(limit.raw_os_error()))
}
