//! The workload: a loop of calibrated length that represents computation.
//!
//! A job requests an amount of computing time. A loop that runs until a certain time would count
//! the time during which its thread was preempted. So the time is first converted to a number of
//! iterations, by a rate that was measured on the undisturbed machine. Then all iterations are
//! executed, however long that takes.

use std::time::Instant;

use policy::Span;
use scenario::draw::{Normal, Stream};
use serde::{Deserialize, Serialize};

/// The number of cells: 2 KiB, so that the cells of several threads fit into one first-level cache.
const CELLS: usize = 256;

/// A rod that conducts heat between two ends of fixed temperature, relaxed by a three-point
/// stencil.
///
/// An iteration relaxes one cell, in place. It needs the result of the previous iteration, so the
/// loop's speed is that of a chain of additions and multiplications. The temperatures stay between
/// those of the ends, so no iteration has operands that slow down the processor.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    temperatures: [f64; CELLS],
    /// The next cell to relax. It is never an end.
    next: usize,
}

impl Workload {
    pub(crate) fn new() -> Workload {
        let mut temperatures = [1.0; CELLS];
        temperatures[CELLS - 1] = 2.0;
        Workload { temperatures, next: 1 }
    }

    /// Runs a number of iterations.
    #[inline(never)]
    pub(crate) fn run(&mut self, iterations: u64) {
        let cells = &mut self.temperatures;
        let mut next = self.next;
        let mut left = cells[next - 1];
        for _ in 0..iterations {
            left = (left + (cells[next] + cells[next + 1])) * (1.0 / 3.0);
            cells[next] = left;
            next += 1;
            if next == CELLS - 1 {
                next = 1;
                left = cells[0];
            }
        }
        self.next = next;
        std::hint::black_box(&self.temperatures);
    }
}

/// The speed of computation on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Picoseconds for one iteration.
    pub iteration_ps: u64,
    /// Picoseconds to draw the length of a computation and start it. They are part of the
    /// computation: otherwise a fine-grained computation would be noticeably too long.
    pub start_ps: u64,
}

impl Rate {
    /// Measures the rate, in about 20 ms. It takes the minimum of many short measurements, because
    /// disturbances only make them longer.
    pub fn measure() -> Rate {
        /// Two lengths of a computation, in iterations: about one quarter and two microseconds.
        const SHORT: u64 = 100;
        const LONG: u64 = 800;
        /// Computations per measurement, which is short compared with a timeslice and long compared
        /// with reading the clock.
        const COMPUTATIONS: u64 = 100;
        const MEASUREMENTS: usize = 40;

        let mut workload = Workload::new();
        let mut stream = Stream::named(0, "rate", 0);
        let mut picoseconds = |iterations: u64| {
            // The number of iterations is drawn, as in a job, but always has the same value.
            let normal = Normal { mean: iterations as f64, sd: 0.0 };
            let start = Instant::now();
            for _ in 0..COMPUTATIONS {
                let length = normal.draw(&mut stream, Span::from_nanos(1));
                workload.run(std::hint::black_box(ONE_TO_ONE).iterations(length));
            }
            start.elapsed().as_nanos() as u64 * 1000 / COMPUTATIONS
        };
        let (mut short, mut long) = (u64::MAX, u64::MAX);
        for _ in 0..MEASUREMENTS {
            short = short.min(picoseconds(SHORT));
            long = long.min(picoseconds(LONG));
        }
        let iteration_ps = (long.saturating_sub(short) / (LONG - SHORT)).max(1);
        Rate { iteration_ps, start_ps: short.saturating_sub(SHORT * iteration_ps) }
    }

    /// The number of iterations of a computation of this length, including its start.
    #[inline]
    pub fn iterations(self, length: Span) -> u64 {
        let picoseconds = (u128::from(length.as_nanos()) * 1000).saturating_sub(u128::from(self.start_ps));
        let iteration = u128::from(self.iteration_ps.max(1));
        match u64::try_from(picoseconds) {
            // A 64-bit division takes a fraction of the time of a 128-bit division.
            Ok(picoseconds) => (picoseconds + self.iteration_ps / 2) / self.iteration_ps.max(1),
            Err(_) => u64::try_from(picoseconds / iteration).unwrap_or(u64::MAX),
        }
    }

    /// The time of so many iterations in so many computations without disturbance.
    pub fn time(self, iterations: u64, computations: u64) -> Span {
        let part = |number: u64, picoseconds: u64| u128::from(number) * u128::from(picoseconds);
        let picoseconds = part(iterations, self.iteration_ps) + part(computations, self.start_ps);
        Span::from_nanos(u64::try_from(picoseconds / 1000).unwrap_or(u64::MAX))
    }
}

/// One nanosecond per iteration and no start: as many iterations as nanoseconds.
const ONE_TO_ONE: Rate = Rate { iteration_ps: 1000, start_ps: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_and_time_are_inverse_functions() {
        let rate = Rate { iteration_ps: 2_345, start_ps: 31_000 };
        for micros in [1, 5, 700, 1_000_000] {
            let length = Span::from_micros(micros);
            let time = rate.time(rate.iterations(length), 1);
            let difference = time.as_nanos().abs_diff(length.as_nanos());
            assert!(difference <= 2, "{length} became {time}");
        }
    }

    #[test]
    fn extreme_lengths_are_saturated() {
        let rate = Rate { iteration_ps: 2_345, start_ps: 31_000 };
        assert_eq!(rate.iterations(Span::from_nanos(30)), 0);
        assert_eq!(rate.iterations(Span::MAX), (u128::from(u64::MAX) * 1000 / 2_345 - 13) as u64);
        assert_eq!(Rate { iteration_ps: 1, start_ps: 0 }.iterations(Span::MAX), u64::MAX);
        assert_eq!(rate.time(u64::MAX, 0), Span::MAX);
    }

    #[test]
    fn every_iteration_relaxes_one_cell() {
        let (mut in_one_go, mut one_by_one) = (Workload::new(), Workload::new());
        in_one_go.run(10_000);
        for _ in 0..10_000 {
            one_by_one.run(1);
        }
        assert_eq!(in_one_go.temperatures, one_by_one.temperatures);
        // Heat has flowed in from the warm end.
        let warm = &in_one_go.temperatures[CELLS - 8..];
        assert!(warm.iter().all(|&cell| cell > 1.0 && cell <= 2.0) && warm.is_sorted(), "{warm:?}");
    }

    #[test]
    fn a_measured_rate_is_plausible() {
        let rate = Rate::measure();
        // Between a tenth of a nanosecond and a microsecond.
        assert!((100..1_000_000).contains(&rate.iteration_ps), "{rate:?}");
    }
}
