//! Threads that contend for a few locks, and may lose the CPU while they hold one.

use std::time::Instant;

use super::{RepeatableProgram, Work, leak, nanos_since, run_threads};
use crate::threads::library::Library;

const THREADS: u32 = 32;
const TURNS: usize = 300;
/// In microseconds.
const OUTSIDE: f64 = 2.0;
const INSIDE: f64 = 3.0;

/// The program.
pub struct Locks<L: Library> {
    work: Work,
    locks: &'static [L::Lock<u64>; 4],
    samples: &'static L::Lock<Vec<u64>>,
    runs: u64,
}

impl<L: Library> Locks<L> {
    /// The program with this unit of work.
    pub fn new(work: Work) -> Locks<L> {
        let locks = leak([(); 4].map(|()| L::lock(0)));
        Locks { work, locks, samples: leak(L::lock(Vec::new())), runs: 0 }
    }
}

impl<L: Library> RepeatableProgram for Locks<L> {
    fn run(&mut self, responses: &mut Vec<u64>) -> Result<(), String> {
        let (work, locks) = (self.work, self.locks);
        run_threads::<L>(THREADS, self.samples, move |number| {
            let mut samples = Vec::with_capacity(TURNS);
            let mut ready = Instant::now();
            for _ in 0..TURNS {
                work.run(OUTSIDE);
                L::with(&locks[number as usize % locks.len()], |count| {
                    work.run(INSIDE / 2.0);
                    L::checkpoint();
                    work.run(INSIDE / 2.0);
                    *count += 1;
                });
                samples.push(nanos_since(ready));
                ready = Instant::now();
                L::yield_now();
            }
            samples
        })?;
        self.runs += 1;
        let each = self.runs * u64::from(THREADS) * TURNS as u64 / self.locks.len() as u64;
        if !self.locks.iter().all(|lock| L::with(lock, |count| *count == each)) {
            return Err("the counts are wrong: two threads have held a lock at once".to_owned());
        }
        L::with(self.samples, |samples| responses.append(samples));
        Ok(())
    }
}
