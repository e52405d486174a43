//! What the threads of a run have used of the CPUs.

use sys::process::{Usage, thread_usage};

/// What each thread has used, and at which stations it worked; workers, which go everywhere, name none.
#[derive(Debug, Default)]
pub(crate) struct Usages {
    threads: Vec<(Vec<usize>, Usage)>,
}

/// Runs something and says what the calling thread has used for it.
pub(crate) fn accounts(work: impl FnOnce()) -> Usage {
    let before = thread_usage();
    work();
    thread_usage().since(before)
}

impl Usages {
    pub(crate) fn add(&mut self, stations: Vec<usize>, used: Usage) {
        self.threads.push((stations, used));
    }

    /// All together: outside of the kernel and in it, in nanoseconds.
    pub(crate) fn total(&self) -> (u64, u64) {
        let mut total = Usage::default();
        self.threads.iter().for_each(|&(_, used)| total += used);
        halves(total)
    }

    /// What each of so many stages has used, divided by how long each was busy where a thread ran several. `station` tells of a stage where it is run, and
    /// whether workers do that.
    pub(crate) fn divided(&self, busy: &[u64], station: impl Fn(usize) -> (usize, bool)) -> Vec<(u64, u64)> {
        let mut shares = vec![(0, 0); busy.len()];
        for (stations, used) in &self.threads {
            let (user, system) = halves(*used);
            let is_mine = |stage: &usize| {
                let (at, is_carried) = station(*stage);
                if stations.is_empty() { is_carried } else { stations.contains(&at) }
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

fn halves(used: Usage) -> (u64, u64) {
    // The kernel's division may lag behind the clock that the whole is read from.
    let system = used.system.min(used.cpu);
    ((used.cpu - system).as_nanos() as u64, system.as_nanos() as u64)
}
