//! The load of a pipeline: the work of its stages.

use std::hint::black_box;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The number of stages of all compared pipelines.
pub(crate) const STAGES: usize = 5;

/// The numbers of items and buffers, and the work for each item: even stages sleep, like at a
/// device, and odd ones compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) items: u64,
    pub(crate) buffers: usize,
    /// Zero if stages do not sleep.
    pub(crate) sleep: Duration,
    /// A number and not a time, so that time off the CPU does not count as work.
    pub(crate) iterations: u64,
}

impl Load {
    /// Does the work of the stage of this number, from 0, for an item.
    pub(crate) fn stage(&self, number: usize) {
        if number % 2 == 1 {
            if self.iterations > 0 {
                black_box(chain(self.iterations, number as u64));
            }
        } else if !self.sleep.is_zero() {
            std::thread::sleep(self.sleep);
        }
    }

    /// As arguments of a command, which the programs in other languages read too.
    pub(crate) fn words(&self) -> [String; 4] {
        [
            self.items.to_string(),
            self.buffers.to_string(),
            self.sleep.as_nanos().to_string(),
            self.iterations.to_string(),
        ]
    }

    /// The inverse of [`words`](Load::words).
    pub(crate) fn read(words: &[String]) -> anyhow::Result<Load> {
        fn number<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
            word: Option<&String>,
        ) -> anyhow::Result<T> {
            Ok(word.map_or("", String::as_str).parse()?)
        }
        Ok(Load {
            items: number(words.first())?,
            buffers: number(words.get(1))?,
            sleep: Duration::from_nanos(number(words.get(2))?),
            iterations: number(words.get(3))?,
        })
    }
}

/// A chain of dependent operations, which can be neither vectorized nor skipped.
#[inline(never)]
fn chain(iterations: u64, seed: u64) -> u64 {
    (0..iterations).fold(seed | 1, |mut x, _| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^ x << 17
    })
}

/// The number of iterations in this time on this machine, from the fastest and so least disturbed
/// of many measurements.
pub(crate) fn iterations(time: Duration) -> u64 {
    const ITERATIONS: u64 = 20_000;
    let nanos = (0..400).map(|seed| {
        let start = Instant::now();
        black_box(chain(black_box(ITERATIONS), seed));
        start.elapsed().as_nanos().max(1)
    });
    (time.as_nanos() * u128::from(ITERATIONS) / nanos.min().unwrap_or(1)) as u64
}
