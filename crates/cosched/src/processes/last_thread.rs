//! The thread of a job that continues last, whose CPU the switcher should use.
//!
//! SIGCONT wakes the threads of a process one after another, in the order in which they were
//! created. Each goes to the CPU on which it ran before if that is idle. If the switcher runs
//! there, it goes to another idle CPU, where another thread belongs. So two threads can share a CPU
//! while one is idle, until the kernel balances the load: one or two ticks, of a turn of five. If
//! the switcher runs where the last thread belongs, all other threads are on their CPUs already
//! when that one is woken, and it follows the switcher.
//!
//! The threads of a frozen group are woken in the order in which they were created, likewise.
//!
//! Threads that are bound to a CPU each are not affected, such as those of ranks with one core.

use std::collections::BTreeMap;
use std::fs::File;

use policy::JobId;
use sys::identity::{Identity, Stat};

use super::observer::threads;

/// Only the last processes to continue are asked for their threads.
const MOST_ASKED: usize = 64;

/// The process and the thread that continue last, among those that may share a CPU with another
/// thread. The process that continues last comes first.
pub fn last_thread<'a>(processes: impl IntoIterator<Item = &'a Identity>) -> Option<(u32, u32)> {
    processes.into_iter().take(MOST_ASKED).find_map(|&process| match threads(process)?[..] {
        [_, .., last] => Some((process.pid, last)),
        _ => None,
    })
}

/// The last threads of jobs, with open descriptors: to open a file takes ten times as long as to
/// read it.
#[derive(Debug, Default)]
pub struct LastThreads(BTreeMap<JobId, ((u32, u32), File)>);

impl LastThreads {
    /// The CPU on which the last thread of a job ran last. `None` if it has ended.
    pub fn cpu(&mut self, job: JobId, thread: (u32, u32)) -> Option<u32> {
        if self.0.get(&job).is_none_or(|(open, _)| *open != thread) {
            let (process, id) = thread;
            self.0.insert(job, (thread, File::open(format!("/proc/{process}/task/{id}/stat")).ok()?));
        }
        Stat::of_file(&self.0.get(&job)?.1).ok()??.cpu
    }

    /// Closes the descriptors of other jobs than these.
    pub fn retain(&mut self, is_there: impl Fn(JobId) -> bool) {
        self.0.retain(|&job, _| is_there(job));
    }
}
