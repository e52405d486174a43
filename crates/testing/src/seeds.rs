//! Random tests: a fixed work in the gate, an endless search in `./soak`.

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The variable with the one seed to run: the replay of a failure.
const SEED: &str = "ROWLOCK_SEED";

/// The variables of `./soak`: the first seed, and for how many seconds to go on.
const FIRST_SEED: &str = "ROWLOCK_FIRST_SEED";
const SECONDS: &str = "ROWLOCK_SOAK_SECONDS";

/// Runs the body of a random test with one seed after the other.
///
/// - In the gate: with seeds 1 to `count`, and with those that `tests/seeds/NAME` of the package
///   lists, one a line, found by earlier searches. Text after the number is a comment.
/// - With `ROWLOCK_SEED`: with this seed alone.
/// - With `ROWLOCK_FIRST_SEED` and `ROWLOCK_SOAK_SECONDS`: from that seed on, until the time is up.
///
/// NAME is the last part of the test's name. To be called directly in a test function, with a
/// closure.
///
/// # Panics
/// If the body panics. The command that replays it is printed first.
pub fn for_each_seed<Body: FnMut(u64)>(count: u64, mut body: Body) {
    let name = crate::test_name_of(&body);
    let mut run = |seed: u64| {
        if number(FIRST_SEED).is_some() {
            // A crash ends the process without a panic: the last line names its seed.
            eprintln!("{}", replay(name, seed));
        }
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| body(seed))) {
            eprintln!("replay: {}", replay(name, seed));
            resume_unwind(why);
        }
    };
    if let Some(seed) = number(SEED) {
        run(seed);
    } else if let Some(first) = number(FIRST_SEED) {
        let end = Instant::now() + Duration::from_secs(number(SECONDS).unwrap_or(10));
        (first..).take_while(|_| Instant::now() < end).for_each(run);
    } else {
        (1..=count).chain(found(name)).for_each(run);
    }
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value}: a number is expected")))
}

/// The seeds that searches have found for this test.
fn found(name: &str) -> Vec<u64> {
    let file = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let file = file.join("tests/seeds").join(name.rsplit("::").next().unwrap_or(name));
    let text = fs::read_to_string(&file).unwrap_or_default();
    let numbers = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_whitespace().next());
    let parse = |text: &str| text.parse().unwrap_or_else(|_| panic!("{}: {text} is no seed", file.display()));
    numbers.map(parse).collect()
}

fn replay(name: &str, seed: u64) -> String {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    format!("{SEED}={seed} cargo test -p {package} -- --include-ignored --exact {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_runs_fixed_seeds_and_those_that_were_found() {
        let mut seen = Vec::new();
        if number(SEED).is_none() && number(FIRST_SEED).is_none() {
            for_each_seed(3, |seed| seen.push(seed));
            assert_eq!(seen, [1, 2, 3, 77, 99]);
        }
    }
}
