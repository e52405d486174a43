//! What a program sees that is run with the library preloaded. Each test is a process of its own, this program again, which calls the C
//! library as any program does, and then the statistics region is compared with its actions.
#![allow(unsafe_code, reason = "the C library is called")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod barriers;
mod conditions;
#[path = "../common/library.rs"]
mod library;
mod mutexes;
mod processes;
mod semaphores;

use counters::{Environment, ProcessReport, Region, WaitKind, Waits};
use libtest_mimic::{Arguments, Failed, Trial};

const PART: &str = "ROWLOCK_TEST_PART";

/// A test: what it is called, what the preloaded process does, and what it is to have written down.
type Test = (&'static str, fn(), fn(&[ProcessReport]));

fn main() {
    let tests: Vec<Test> =
        [barriers::TESTS, mutexes::TESTS, conditions::TESTS, semaphores::TESTS, processes::TESTS].concat();
    if let Ok(part) = std::env::var(PART) {
        let (_, act, _) = tests.into_iter().find(|(name, ..)| *name == part).unwrap();
        return act();
    }
    let trials = tests.into_iter().flat_map(|(name, _, check)| {
        // Whatever the rule, a program does the same.
        ["adaptive", "always-block", "always-yield", "2cs+"]
            .map(|rule| Trial::test(format!("{name} ({rule})"), move || in_a_process(name, rule, check)))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

/// Runs a test in a process of its own.
fn in_a_process(name: &str, rule: &str, check: fn(&[ProcessReport])) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("book");
    let book = Region::create(&path)?;
    let environment = Environment { rule: rule.parse()?, costs: None, region: Some(path) };
    let mut command = testing::command(std::env::current_exe()?);
    command.env(PART, name).env("LD_PRELOAD", library::preload()).envs(environment.variables());
    testing::run(&mut command).succeeds();
    check(&book.processes());
    Ok(())
}

/// What the first process wrote of a subject.
fn waits(entries: &[ProcessReport], subject: WaitKind) -> Waits {
    let found = entries[0].waits.iter().find(|waits| waits.kind == subject).cloned();
    found.unwrap_or(Waits { kind: subject, statistics: Default::default(), passed_through: vec![] })
}

/// Waits until this process has written what it is to write of a subject.
fn await_written(subject: WaitKind, what: impl Fn(&Waits) -> bool) {
    let path = Environment::read(|name| std::env::var_os(name)).region.unwrap();
    let book = Region::open(&path).unwrap();
    while !what(&waits(&book.processes(), subject)) {
        std::thread::yield_now();
    }
}

/// Something of C's that several threads use.
struct Shared<T>(std::cell::UnsafeCell<T>);

// SAFETY: C's objects are made for it.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}

impl<T> Shared<T> {
    const fn new(value: T) -> Shared<T> {
        Shared(std::cell::UnsafeCell::new(value))
    }

    const fn zeroed() -> Shared<T> {
        // SAFETY: an object of C's, which may be any bytes until it is initialised.
        Shared::new(unsafe { std::mem::zeroed() })
    }

    const fn get(&self) -> *mut T {
        self.0.get()
    }
}
