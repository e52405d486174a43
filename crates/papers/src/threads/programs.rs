//! The programs. Each is generic over the thread library.
//!
//! The data that a program's threads share is leaked: it may outlive any stack, and the process
//! ends with the measurement.

pub mod locks;
pub mod mixed;
pub mod study;
pub mod yields;

use std::time::Instant;

use super::library::Library;
use super::order::{Order, Program};
use super::work::compute;

/// A program that can be run repeatedly.
pub trait RepeatableProgram {
    /// Runs it once, and adds the response times in nanoseconds.
    ///
    /// # Errors
    /// In words: there can be no more threads, or the result of the run is wrong.
    fn run(&mut self, responses: &mut Vec<u64>) -> Result<(), String>;
}

/// The program of an order.
pub fn prepare<L: Library>(order: &Order) -> Box<dyn RepeatableProgram> {
    let work = Work { rounds_per_us: order.rounds_per_us };
    match order.program {
        Program::Study => Box::new(study::Study::<L>::new(order.threads)),
        Program::Yields => Box::new(yields::Yields::<L>::new(work)),
        Program::Locks => Box::new(locks::Locks::<L>::new(work)),
        Program::Mixed => Box::new(mixed::Mixed::<L>::new(work)),
    }
}

/// A unit of work.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    rounds_per_us: f64,
}

impl Work {
    /// Computes for this many microseconds, if undisturbed.
    fn run(self, us: f64) {
        compute((us * self.rounds_per_us) as u64);
    }
}

/// Leaks a value, which then lives as long as the process.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn nanos_since(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Spawns numbered threads and joins them. Each adds its response times to `samples`.
fn run_threads<L: Library>(
    threads: u32,
    samples: &'static L::Lock<Vec<u64>>,
    run: impl Fn(u32) -> Vec<u64> + Copy + Send + 'static,
) -> Result<(), String> {
    let thread = |number| {
        L::spawn(move || {
            let of_thread = run(number);
            L::with(samples, |samples| samples.extend(of_thread));
        })
    };
    let spawned = (0..threads).map(thread).collect::<Result<Vec<_>, String>>()?;
    spawned.into_iter().try_for_each(L::join)
}
