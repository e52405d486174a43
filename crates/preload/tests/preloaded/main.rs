//! A program with the preloaded library. Each test runs in its own process, this program again,
//! which calls the C library like any program. Then the statistics region is compared with its
//! actions.
#![allow(unsafe_code, reason = "calls the C library")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod barriers;
mod conditions;
#[path = "../common/library.rs"]
mod library;
mod mutexes;
mod processes;
mod semaphores;

use counters::{Environment, ProcessReport, Region, WaitKind, Waits};
use libtest_mimic::{Arguments, Failed, Trial};

const TEST_VARIABLE: &str = "ROWLOCK_TEST_PART";

/// A test: its name, the action of the preloaded process, and a check of its report.
type Test = (&'static str, fn(), fn(&[ProcessReport]));

fn main() {
    let tests: Vec<Test> =
        [barriers::TESTS, mutexes::TESTS, conditions::TESTS, semaphores::TESTS, processes::TESTS].concat();
    if let Ok(test) = std::env::var(TEST_VARIABLE) {
        let (_, act, _) = tests.into_iter().find(|(name, ..)| *name == test).unwrap();
        return act();
    }
    let trials = tests.into_iter().flat_map(|(name, _, check)| {
        // A program behaves the same by every rule.
        ["adaptive", "always-block", "always-yield", "2cs+"]
            .map(|rule| Trial::test(format!("{name} ({rule})"), move || run_in_process(name, rule, check)))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

/// Runs a test in its own process.
fn run_in_process(name: &str, rule: &str, check: fn(&[ProcessReport])) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("region");
    let region = Region::create(&path)?;
    let environment = Environment { rule: rule.parse()?, costs: None, region: Some(path) };
    let mut command = testing::command(std::env::current_exe()?);
    command.env(TEST_VARIABLE, name).env("LD_PRELOAD", library::preload()).envs(environment.variables());
    testing::run(&mut command).expect_success();
    check(&region.processes());
    Ok(())
}

/// The counts of the first process for a wait kind.
fn waits(entries: &[ProcessReport], kind: WaitKind) -> Waits {
    let found = entries[0].waits.iter().find(|waits| waits.kind == kind).cloned();
    found.unwrap_or(Waits { kind, statistics: Default::default(), passed_through: vec![] })
}

/// Waits until the counts of this process for a wait kind satisfy a condition.
fn await_counts(kind: WaitKind, condition: impl Fn(&Waits) -> bool) {
    let path = Environment::read(|name| std::env::var_os(name)).region.unwrap();
    let region = Region::open(&path).unwrap();
    while !condition(&waits(&region.processes(), kind)) {
        std::thread::yield_now();
    }
}

/// A C object that several threads use.
struct Shared<T>(std::cell::UnsafeCell<T>);

// SAFETY: C objects are designed for that.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}

impl<T> Shared<T> {
    const fn new(value: T) -> Shared<T> {
        Shared(std::cell::UnsafeCell::new(value))
    }

    const fn zeroed() -> Shared<T> {
        // SAFETY: a C object, which may have any bytes before its initialization.
        Shared::new(unsafe { std::mem::zeroed() })
    }

    const fn get(&self) -> *mut T {
        self.0.get()
    }
}
