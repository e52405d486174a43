//! Explores the schedules of a program.

use crate::config::Config;
use crate::runtime::{RunError, Runtime};
use crate::schedule_fuzzer::{Candidates, RandomSchedule};

/// Runs a function many times as the first fiber of a runtime, each time with a schedule that is
/// drawn from another seed. For tests of programs with fibers: finds defects that show only if
/// fibers run in an unusual order.
///
/// A deadlock is a failure, and so is a panic of the function; so join the fibers that may panic.
///
/// # Panics
/// With the first seed that fails, and the failure.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// rowlock_fiber::explore(0..100, || {
///     let count = AtomicU32::new(0);
///     rowlock_fiber::scope(|scope| {
///         for _ in 0..2 {
///             scope.spawn(|| {
///                 rowlock_fiber::checkpoint();
///                 count.fetch_add(1, Relaxed);
///             });
///         }
///     });
///     assert_eq!(count.into_inner(), 2);
/// });
/// ```
#[track_caller]
pub fn explore(seeds: impl IntoIterator<Item = u64>, function: impl FnMut()) {
    explore_with(Config::default(), seeds, function);
}

/// The same for runtimes with another [`Config`], whose [`Config::deterministic`] is replaced.
///
/// # Panics
/// As for [`explore`].
#[track_caller]
#[allow(clippy::panic, reason = "documented")]
pub fn explore_with(config: Config, seeds: impl IntoIterator<Item = u64>, mut function: impl FnMut()) {
    for seed in seeds {
        let deterministic = Some(RandomSchedule { seed, candidates: Candidates::All });
        let runtime = Runtime::new(Config { deterministic, ..config.clone() });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.run(&mut function)));
        let failure = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(error @ (RunError::Inside | RunError::Workers { .. }))) => panic!("{error}"),
            Ok(Err(error)) => error.to_string(),
            Err(payload) => crate::error::message(payload.as_ref()).to_owned(),
        };
        panic!("failed with seed {seed}: {failure} (to see this one alone, explore [{seed}])");
    }
}
