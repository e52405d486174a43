//! Random tests and models: a fixed amount of work in the gate, an endless search in `./soak`.

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The variable with the only seed to run, which replays a failure.
const SEED: &str = "ROWLOCK_SEED";

/// The variables of `./soak`: the first seed, and how many seconds a test runs.
const FIRST_SEED: &str = "ROWLOCK_FIRST_SEED";
const SECONDS: &str = "ROWLOCK_SOAK_SECONDS";

/// Runs the body of a random test with a sequence of seeds.
///
/// - In the gate: seeds 1 to `count`, and those in `tests/seeds/NAME` of the package, one per line,
///   which earlier searches found. Text after the number is a comment.
/// - With `ROWLOCK_SEED`: only this seed.
/// - With `ROWLOCK_FIRST_SEED` and `ROWLOCK_SOAK_SECONDS`: from that seed on, until the time is up.
///
/// NAME is the last part of the test's name. Call it directly in a test function of an integration
/// test, with a closure.
///
/// # Panics
/// If the body panics. The command that replays it is printed first.
pub fn for_each_seed<Body: FnMut(u64)>(count: u64, mut body: Body) {
    let (program, name) = crate::test_name_of(&body);
    let mut run = |seed: u64| {
        if number(FIRST_SEED).is_some() {
            // A crash ends the process without a panic, so the last line must name its seed.
            eprintln!("{}", replay(program, name, seed));
        }
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| body(seed))) {
            eprintln!("replay: {}", replay(program, name, seed));
            resume_unwind(why);
        }
    };
    if let Some(seed) = number(SEED) {
        run(seed);
    } else if let Some(first) = number(FIRST_SEED) {
        let end = Instant::now() + search().unwrap_or(Duration::from_secs(10));
        (first..).take_while(|_| Instant::now() < end).for_each(run);
    } else {
        (1..=count).chain(kept_seeds(name)).for_each(run);
    }
}

/// The limits of a loom model: `preemption_bound` and `max_duration` of its builder. In the gate,
/// the bound is `preemptions`. In `./soak` it is one preemption more, with a limited time. A test
/// that checks several models divides the time among them.
pub fn depth(preemptions: usize) -> (Option<usize>, Option<Duration>) {
    static END: OnceLock<Option<Instant>> = OnceLock::new();
    let end = END.get_or_init(|| search().map(|time| Instant::now() + time));
    match end {
        None => (Some(preemptions), None),
        Some(end) => (Some(preemptions + 1), Some(end.saturating_duration_since(Instant::now()) / 2)),
    }
}

/// How long `./soak` runs a test. `None` in the gate.
pub fn search() -> Option<Duration> {
    number(SECONDS).map(Duration::from_secs)
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value}: a number is expected")))
}

/// The seeds that searches have found for a test, from `tests/seeds/NAME` of its package.
///
/// # Panics
/// If a line of the file does not begin with a number.
pub fn kept_seeds(name: &str) -> Vec<u64> {
    let file = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let file = file.join("tests/seeds").join(name.rsplit("::").next().unwrap_or(name));
    let text = fs::read_to_string(&file).unwrap_or_default();
    let numbers = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_whitespace().next());
    let parse = |text: &str| text.parse().unwrap_or_else(|_| panic!("{}: {text} is no seed", file.display()));
    numbers.map(parse).collect()
}

/// The command that runs a test with this seed, in the profile of this build. It does not select
/// packages, because features would differ and everything would be compiled again.
fn replay(program: &str, name: &str, seed: u64) -> String {
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    format!(
        "{SEED}={seed} cargo test --locked{profile} --workspace --test {program} -- --include-ignored --exact {name}"
    )
}
