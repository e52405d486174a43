//! The CPU time of the threads of a run.

use sys::process::{Usage, thread_usage};

/// The CPU time of each thread, with its stage groups. A worker has none.
#[derive(Debug, Default)]
pub(crate) struct Usages {
    threads: Vec<(Vec<usize>, Usage)>,
}

/// Runs `work` and returns the CPU time that the calling thread spent in it.
pub(crate) fn measure_usage(work: impl FnOnce()) -> Usage {
    let before = thread_usage();
    work();
    thread_usage().since(before)
}

impl Usages {
    pub(crate) fn add(&mut self, groups: Vec<usize>, used: Usage) {
        self.threads.push((groups, used));
    }

    /// The total user and system time, in nanoseconds.
    pub(crate) fn total(&self) -> (u64, u64) {
        let mut total = Usage::default();
        self.threads.iter().for_each(|&(_, used)| total += used);
        user_and_system(total)
    }

    /// The user and system time of each stage. The time of a thread that runs several stages is
    /// divided in proportion to their busy times. `group` returns the group of a stage, and whether
    /// workers run it.
    pub(crate) fn divide(&self, busy: &[u64], group: impl Fn(usize) -> (usize, bool)) -> Vec<(u64, u64)> {
        let mut shares = vec![(0, 0); busy.len()];
        for (groups, used) in &self.threads {
            let (user, system) = user_and_system(*used);
            let is_mine = |stage: &usize| {
                let (at, is_run_by_workers) = group(*stage);
                if groups.is_empty() { is_run_by_workers } else { groups.contains(&at) }
            };
            let mine: Vec<usize> = (0..busy.len()).filter(is_mine).collect();
            let all: u128 = mine.iter().map(|&stage| u128::from(busy[stage])).sum();
            for &stage in &mine {
                let part = |time: u64| match all {
                    0 => time / mine.len() as u64,
                    _ => (u128::from(time) * u128::from(busy[stage]) / all) as u64,
                };
                shares[stage].0 += part(user);
                shares[stage].1 += part(system);
            }
        }
        shares
    }
}

fn user_and_system(used: Usage) -> (u64, u64) {
    // The kernel may update the system time later than the total.
    let system = used.system.min(used.cpu);
    ((used.cpu - system).as_nanos() as u64, system.as_nanos() as u64)
}
