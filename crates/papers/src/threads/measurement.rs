//! A measurement, made by a process of its own. Its request and its result are a line of JSON each.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::arms::System;
use super::library::{Fibers, Library, Pthreads};
use super::programs::Work;
use super::runs::Cell;

/// A request for a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasurementRequest {
    /// The program and its threads.
    pub cell: Cell,
    /// The number of runs after the first one, in the same process.
    pub warm: u32,
    /// The number of iterations of the work loop in a microsecond.
    pub rounds_per_us: f64,
}

/// Response times, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Responses {
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub worst: f64,
}

impl Responses {
    /// The percentiles of times in nanoseconds. `None` if there are no times.
    pub fn of(mut nanoseconds: Vec<u64>) -> Option<Responses> {
        nanoseconds.sort_unstable();
        let last = nanoseconds.len().checked_sub(1)?;
        // The smallest time that this percentage of the times does not exceed.
        let at =
            |percent: usize| nanoseconds[(nanoseconds.len() * percent).div_ceil(100).saturating_sub(1)] as f64 / 1e3;
        Some(Responses { p50: at(50), p95: at(95), p99: at(99), worst: nanoseconds[last] as f64 / 1e3 })
    }

    /// All times, the shortest first.
    pub fn all(&self) -> [f64; 4] {
        [self.p50, self.p95, self.p99, self.worst]
    }
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasurementResult {
    /// The duration of the first run in microseconds, from before the runtime starts (if there is
    /// one) to the last join.
    pub cold_us: f64,
    /// The duration of each further run.
    pub warm_us: Vec<f64>,
    /// How often a fiber used up its running time, in all runs.
    pub demotions: Option<u64>,
    /// Response times of all runs except the first, if there are others. `None` if the program does
    /// not respond.
    pub responses: Option<Responses>,
}

/// Makes a measurement, on the CPUs that this process may use.
///
/// # Errors
/// In words: there can be no more threads, or the result of a run is wrong.
pub fn measure(request: &MeasurementRequest) -> Result<MeasurementResult, String> {
    let started = Instant::now();
    let arm = request.cell.arm;
    match arm.system {
        System::Pthreads | System::PthreadsOnOneCpu => measure_with::<Pthreads>(request, started),
        System::Fibers | System::PreemptibleFibers => {
            let preemptible = arm.system == System::PreemptibleFibers;
            let mut config = fiber::Config { preemptible, ..fiber::Config::default() };
            if let Some(configuration) = arm.configuration {
                config.rules = configuration.rules();
            }
            let measured = fiber::Runtime::new(config).run(|| {
                let result = measure_with::<Fibers>(request, started)?;
                Ok(MeasurementResult { demotions: Some(fiber::demotions()), ..result })
            });
            measured.map_err(|why| why.to_string())?
        }
    }
}

fn measure_with<L: Library>(request: &MeasurementRequest, started: Instant) -> Result<MeasurementResult, String> {
    let Cell { program, threads, .. } = request.cell;
    let mut run = program.prepare::<L>(threads, Work { rounds_per_us: request.rounds_per_us });
    let mut responses = Vec::new();
    run(&mut responses)?;
    let cold_us = micros_since(started);
    let mut warm_us = Vec::with_capacity(request.warm as usize);
    for _ in 0..request.warm {
        if warm_us.is_empty() {
            responses.clear();
        }
        let started = Instant::now();
        run(&mut responses)?;
        warm_us.push(micros_since(started));
    }
    Ok(MeasurementResult { cold_us, warm_us, demotions: None, responses: Responses::of(responses) })
}

fn micros_since(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::arms::{Arm, Configuration};
    use crate::threads::programs::Program;

    #[test]
    fn a_percentile_is_the_smallest_measured_time_that_the_percentage_does_not_exceed() {
        let responses = Responses::of((1..=200).rev().map(|us| us * 1000).collect()).unwrap();
        assert_eq!(responses, Responses { p50: 100.0, p95: 190.0, p99: 198.0, worst: 200.0 });
        assert_eq!(Responses::of(vec![7000]).unwrap().p50, 7.0);
        assert_eq!(Responses::of(Vec::new()), None);
    }

    #[test]
    fn every_program_works_with_every_kind_of_threads() {
        let default = Some(Configuration::DEFAULT);
        let arms = [(System::Pthreads, None), (System::Fibers, default), (System::PreemptibleFibers, default)];
        for program in [Program::Study, Program::Yields, Program::Locks, Program::Mixed] {
            for (system, configuration) in arms {
                let cell = Cell { program, threads: 40, arm: Arm { system, configuration } };
                let result = measure(&MeasurementRequest { cell, warm: 1, rounds_per_us: 1.0 }).unwrap();
                let responds = program != Program::Study;
                assert_eq!((result.warm_us.len(), result.responses.is_some()), (1, responds), "{cell:?}");
                assert!(result.cold_us > 0.0);
            }
        }
    }
}
