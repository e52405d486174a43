//! The measuring process.

use std::time::Instant;

use super::arms::System;
use super::library::{Fibers, Library, Pthreads};
use super::order::{Answer, Order, Responses};
use super::programs::prepare;

/// Carries out an order, on the CPUs that this process may use.
///
/// # Errors
/// In words: there can be no more threads, or the result of a run is wrong.
pub fn serve(order: &Order) -> Result<Answer, String> {
    let started = Instant::now();
    match order.arm.system {
        System::Pthreads | System::PthreadsOnOneCpu => measure::<Pthreads>(order, started),
        System::Fibers | System::PreemptibleFibers => {
            let preemptible = order.arm.system == System::PreemptibleFibers;
            let mut config = fiber::Config { preemptible, ..fiber::Config::default() };
            if let Some(configuration) = order.arm.configuration {
                config.rules = configuration.rules();
            }
            let measured = fiber::Runtime::new(config).run(|| {
                let answer = measure::<Fibers>(order, started)?;
                Ok(Answer { demotions: Some(fiber::demotions()), ..answer })
            });
            measured.map_err(|why| why.to_string())?
        }
    }
}

fn measure<L: Library>(order: &Order, started: Instant) -> Result<Answer, String> {
    let mut program = prepare::<L>(order);
    let mut responses = Vec::new();
    program.run(&mut responses)?;
    let cold_us = micros_since(started);
    let mut warm_us = Vec::with_capacity(order.warm as usize);
    for _ in 0..order.warm {
        if warm_us.is_empty() {
            responses.clear();
        }
        let started = Instant::now();
        program.run(&mut responses)?;
        warm_us.push(micros_since(started));
    }
    Ok(Answer { cold_us, warm_us, demotions: None, responses: Responses::of(responses) })
}

fn micros_since(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::arms::{Arm, Configuration};
    use crate::threads::order::Program;

    #[test]
    fn every_program_works_with_every_kind_of_threads() {
        for program in [Program::Study, Program::Yields, Program::Locks, Program::Mixed] {
            let default = Some(Configuration::DEFAULT);
            for (system, configuration) in
                [(System::Pthreads, None), (System::Fibers, default), (System::PreemptibleFibers, default)]
            {
                let order =
                    Order { program, arm: Arm { system, configuration }, threads: 40, warm: 1, rounds_per_us: 1.0 };
                let answer = serve(&order).unwrap();
                assert_eq!(
                    (answer.warm_us.len(), answer.responses.is_some()),
                    (1, program != Program::Study),
                    "{order:?}"
                );
                assert!(answer.cold_us > 0.0);
            }
        }
    }
}
