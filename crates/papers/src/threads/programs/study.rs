//! The study's test program.
//!
//! "This test function will spawn N number of threads. Half of these threads will attempt to claim
//! a lock to edit global memory while the other half do likewise using another lock and different
//! memory. These threads unlock and exit when they are complete. A few threads join on others in
//! this process. Lastly, the main thread joins all N threads." The study does not say how large the
//! memory is and how many threads are a few. Here these are 16 words, and every 16th thread.

use std::hint::black_box;

use super::{RepeatableProgram, leak};
use crate::threads::library::Library;

/// The number of words that each half edits.
const WORDS: usize = 16;

/// Every 16th thread joins the one before it.
const JOINS: u32 = 16;

type Memory<L> = <L as Library>::Lock<[u64; WORDS]>;

/// The program.
pub struct Study<L: Library> {
    threads: u32,
    halves: &'static [Memory<L>; 2],
    /// The number of completed runs.
    runs: u64,
}

impl<L: Library> Study<L> {
    /// The program with this number of threads.
    pub fn new(threads: u32) -> Study<L> {
        Study { threads, halves: leak([L::lock([0; WORDS]), L::lock([0; WORDS])]), runs: 0 }
    }

    fn threads(&self) -> Result<(), String> {
        let halves = self.halves;
        let mut handles: Vec<Option<L::Handle>> = Vec::with_capacity(self.threads as usize);
        for number in 0..self.threads {
            let before = if number % JOINS == JOINS - 1 { handles.last_mut().and_then(Option::take) } else { None };
            let thread = move || {
                L::with(&halves[(number % 2) as usize], |words| {
                    words.iter_mut().for_each(|word| *word += u64::from(number));
                    black_box(words);
                });
                if let Some(before) = before {
                    // A panic would make the sums wrong.
                    let _ = L::join(before);
                }
            };
            handles.push(Some(L::spawn(thread)?));
        }
        handles.into_iter().flatten().try_for_each(L::join)
    }
}

impl<L: Library> RepeatableProgram for Study<L> {
    fn run(&mut self, _: &mut Vec<u64>) -> Result<(), String> {
        self.threads()?;
        self.runs += 1;
        for (half, memory) in (0..2_u32).zip(self.halves) {
            let sum = self.runs * sum(half, self.threads);
            if !L::with(memory, |words| words.iter().all(|word| *word == sum)) {
                return Err("the sums are wrong: two threads have held a lock at once".to_owned());
            }
        }
        Ok(())
    }
}

/// The sum of every other number below `threads`, beginning with `first`.
fn sum(first: u32, threads: u32) -> u64 {
    let count = u64::from(threads.saturating_sub(first).div_ceil(2));
    u64::from(first) * count + count * count.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_explicit_addition() {
        for threads in 0..40 {
            for first in 0..2 {
                assert_eq!(sum(first, threads), (first..threads).step_by(2).map(u64::from).sum::<u64>());
            }
        }
    }
}
