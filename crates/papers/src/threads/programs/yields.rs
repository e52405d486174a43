//! Threads that yield all the time.
//!
//! Half of them compute briefly between two yields, half for four times as long, so that these use
//! up their running time sooner. The responses are those of the former.

use std::time::Instant;

use super::{RepeatableProgram, Work, leak, nanos_since, run_threads};
use crate::threads::library::Library;

const THREADS: u32 = 64;
const TURNS: usize = 200;
/// In microseconds.
const SHORT: f64 = 2.0;
const LONG: f64 = 8.0;

/// The program.
pub struct Yields<L: Library> {
    work: Work,
    samples: &'static L::Lock<Vec<u64>>,
}

impl<L: Library> Yields<L> {
    /// The program with this unit of work.
    pub fn new(work: Work) -> Yields<L> {
        Yields { work, samples: leak(L::lock(Vec::new())) }
    }
}

impl<L: Library> RepeatableProgram for Yields<L> {
    fn run(&mut self, responses: &mut Vec<u64>) -> Result<(), String> {
        let work = self.work;
        run_threads::<L>(THREADS, self.samples, move |number| {
            let (us, is_short) = if number < THREADS / 2 { (SHORT, true) } else { (LONG, false) };
            let mut samples = Vec::with_capacity(if is_short { TURNS } else { 0 });
            let mut ready = Instant::now();
            for _ in 0..TURNS {
                work.run(us);
                if is_short {
                    samples.push(nanos_since(ready));
                    ready = Instant::now();
                }
                L::yield_now();
            }
            samples
        })?;
        L::with(self.samples, |samples| responses.append(samples));
        Ok(())
    }
}
