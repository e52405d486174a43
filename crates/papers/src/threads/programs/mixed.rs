//! Threads that sleep and respond when their time is due, beside others that compute.

use std::time::{Duration, Instant};

use super::{RepeatableProgram, Work, leak, nanos_since, run_threads};
use crate::threads::library::Library;

const INTERACTIVE: u32 = 16;
const BATCH: u32 = 4;
const ANSWERS: u32 = 50;
const REST: Duration = Duration::from_millis(1);
/// In microseconds.
const ANSWER: f64 = 20.0;
/// The work of a computing thread between two checkpoints, and the number of such pieces: 12 ms per
/// thread.
const PIECE: f64 = 5.0;
const PIECES: u32 = 2400;

/// The program.
pub struct Mixed<L: Library> {
    work: Work,
    samples: &'static L::Lock<Vec<u64>>,
}

impl<L: Library> Mixed<L> {
    /// The program with this unit of work.
    pub fn new(work: Work) -> Mixed<L> {
        Mixed { work, samples: leak(L::lock(Vec::new())) }
    }
}

impl<L: Library> RepeatableProgram for Mixed<L> {
    fn run(&mut self, responses: &mut Vec<u64>) -> Result<(), String> {
        let work = self.work;
        run_threads::<L>(INTERACTIVE + BATCH, self.samples, move |number| {
            if number >= INTERACTIVE {
                for _ in 0..PIECES {
                    work.run(PIECE);
                    L::checkpoint();
                }
                return Vec::new();
            }
            let mut due = Instant::now();
            let answer = |_| {
                L::sleep_until(due);
                work.run(ANSWER);
                let response = nanos_since(due);
                due = Instant::now() + REST;
                response
            };
            (0..ANSWERS).map(answer).collect()
        })?;
        L::with(self.samples, |samples| responses.append(samples));
        Ok(())
    }
}
