//! OpenMP programs of gcc and clang: they print the same with the library and without it.
//!
//! Without compilers nothing is tested, and a note says so; with `ROWLOCK_REQUIRE_CC` in the environment that is a failure.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use counters::{Environment, Reason, Region, WaitKind, Waits};
use tempfile::TempDir;
use testing::{Child, command, through, try_run};

/// Compilers, and the run-time libraries of their programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Gcc,
    Clang,
    /// By gcc, with clang's library, which has what gcc's has.
    GccForClang,
}

impl Made {
    const ALL: [Made; 3] = [Made::Gcc, Made::Clang, Made::GccForClang];

    /// Where its barriers are counted.
    fn subject(self) -> WaitKind {
        if self == Made::Clang { WaitKind::Libomp } else { WaitKind::Gomp }
    }

    /// Makes a program or library; nothing where the compiler is missing.
    fn make(self, folder: &TempDir, source: &str, options: &[&str]) -> Option<PathBuf> {
        let made = folder.path().join(format!("{source}-{self:?}{}", options.concat()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/openmp/{source}.c"));
        let compile = |compiler: &str, arguments: &[&str]| {
            let mut command = command(compiler);
            command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]).args(arguments).args(options);
            command.arg(&source).arg("-o").arg(&made);
            command
        };
        let mut make = match self {
            Made::Gcc => compile("gcc", &["-fopenmp"]),
            Made::Clang => compile("clang", &["-fopenmp", "-DLIBOMP"]),
            Made::GccForClang => {
                let object = made.with_extension("o");
                build(compile("gcc", &["-fopenmp", "-DLIBOMP", "-c"]).arg("-o").arg(&object))?;
                let mut link = command("clang");
                link.args(["-fopenmp"]).args(options).arg(&object).arg("-o").arg(&made);
                link
            }
        };
        build(&mut make).map(|()| made)
    }
}

/// Runs a compiler. `None` if it cannot compile OpenMP.
fn build(compiler: &mut Command) -> Option<()> {
    match try_run(compiler) {
        Ok(output) if output.status.success() => return Some(()),
        Ok(output) => testing::missing(&output),
        Err(why) => testing::missing(&format!("{compiler:?}: {why}")),
    }
    None
}

fn start(command: &mut Command) -> Child {
    Child::start(command.env("OMP_CANCELLATION", "true"))
}

/// Runs to the end, and returns what it printed.
#[track_caller]
fn run(command: &mut Command) -> String {
    start(command).wait().succeeds().stdout
}

/// As [`run`], and sends signals meanwhile, which the program counts as soon as it is ready to.
#[track_caller]
fn run_under_signals(command: &Command) -> String {
    // Until then it ignores them, as what starts it does.
    let mut starter = testing::command("env");
    starter.arg("--ignore-signal=USR1");
    let mut child = start(&mut through(starter, command));
    let end = Instant::now() + testing::child::limit();
    let mut nth = 0_u64;
    while Instant::now() < end && child.process().try_wait().unwrap().is_none() {
        if nth > 0 || survives(child.id(), libc::SIGUSR1) {
            nth += 1;
            std::thread::sleep(Duration::from_micros(nth * 7_919 % 1_500));
            child.send(libc::SIGUSR1);
        }
    }
    child.with_limit(end.saturating_duration_since(Instant::now())).wait().succeeds().stdout
}

/// Whether a process ignores or handles a signal.
fn survives(process: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mut masks = status.lines().filter_map(|line| line.strip_prefix("SigIgn:").or(line.strip_prefix("SigCgt:")));
    masks.any(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 != 0)
}

/// Runs it with the library and without, by these rules, and returns what was written of barriers the last time.
fn same(program: &Path, arguments: &[&str], rules: &[&str], subject: WaitKind) -> Waits {
    let program_again = || {
        let mut command = command(program);
        command.args(arguments);
        command
    };
    let expected = run(&mut program_again());
    let mut waits = Waits { kind: subject, statistics: Default::default(), passed_through: vec![] };
    for rule in rules {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book");
        let book = Region::create(&path).unwrap();
        let environment = Environment { rule: rule.parse().unwrap(), costs: None, region: Some(path) };
        let printed = run(program_again().env("LD_PRELOAD", crate::library::preload()).envs(environment.variables()));
        assert_eq!(printed, expected, "{program:?} {arguments:?} by {rule}");
        let entries = book.processes();
        waits = entries[0].waits.iter().find(|waits| waits.kind == subject).cloned().unwrap_or(waits);
    }
    waits
}

const RULES: [&str; 4] = ["always-block", "always-yield", "2cs+", "adaptive"];

fn reasons(waits: &Waits) -> Vec<Reason> {
    waits.passed_through.iter().map(|(reason, _)| *reason).collect()
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn whatever_lets_threads_meet_does_as_without() {
    let folder = tempfile::tempdir().unwrap();
    for made in Made::ALL {
        let Some(program) = made.make(&folder, "constructs", &[]) else { continue };
        let waits = same(&program, &[], &RULES, made.subject());
        assert!(waits.statistics.waits > 1_000, "{made:?}: {waits:?}");
        assert_eq!(reasons(&waits), [], "{made:?}");
    }
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn programs_with_tasks_wait_at_the_original() {
    let folder = tempfile::tempdir().unwrap();
    for made in Made::ALL {
        let Some(program) = made.make(&folder, "tasks", &[]) else { continue };
        let waits = same(&program, &[], &RULES, made.subject());
        assert_eq!(waits.statistics.waits, 0, "{made:?}: {waits:?}");
        assert_eq!(reasons(&waits), [Reason::Cancellation], "{made:?}");
    }
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn short_teams_under_signals_end() {
    let folder = tempfile::tempdir().unwrap();
    for made in Made::ALL {
        let Some(program) = made.make(&folder, "teams", &[]) else { continue };
        let waits = same(&program, &["500"], &RULES, made.subject());
        assert!(waits.statistics.waits > 1_000, "{made:?}: {waits:?}");
    }
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn programs_start_and_end_many_times_under_signals_with_hogs_coming_and_going() {
    let folder = tempfile::tempdir().unwrap();
    let programs: Vec<PathBuf> = Made::ALL.iter().filter_map(|made| made.make(&folder, "teams", &[])).collect();
    let expected: Vec<String> = programs.iter().map(|program| run(command(program).arg("20"))).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for burst in [700, 1_100] {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    (0..burst * 10_000).for_each(|turn| {
                        std::hint::black_box(turn);
                    });
                    std::thread::sleep(Duration::from_micros(burst * 9));
                }
            });
        }
        let _ends = Ends(&over);
        for time in 0..starts() {
            for (program, expected) in programs.iter().zip(&expected) {
                let mut command = command(program);
                command.arg("20").env("LD_PRELOAD", crate::library::preload()).env(Environment::RULE, RULES[time % 4]);
                // As `rowlock exec` does; otherwise each region takes a timeslice where the hogs are.
                command.env("GOMP_SPINCOUNT", "850").env("KMP_BLOCKTIME", "0");
                assert_eq!(run_under_signals(&command), *expected, "{program:?}, the {time}th time");
            }
        }
    });
}

/// How often each program starts: `ROWLOCK_STARTS`, or 25 times by each rule.
fn starts() -> usize {
    std::env::var("ROWLOCK_STARTS").ok().and_then(|starts| starts.parse().ok()).unwrap_or(25 * RULES.len())
}

/// Says so when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn a_library_that_is_loaded_within_a_region_may_make_tasks_there() {
    let folder = tempfile::tempdir().unwrap();
    for made in [Made::Gcc, Made::Clang] {
        let Some(program) = made.make(&folder, "loader", &[]) else { continue };
        for options in [&["-DORPHANED"][..], &["-DORPHANED", "-DTASKS"], &[]] {
            let Some(library) = made.make(&folder, "library", &[&["-shared", "-fPIC"], options].concat()) else {
                continue;
            };
            let waits = same(&program, &["within", library.to_str().unwrap()], &RULES, made.subject());
            assert!(waits.statistics.waits > 100, "{made:?}: {waits:?}");
            assert_eq!(reasons(&waits).contains(&Reason::Tasks), options.contains(&"-DTASKS"), "{made:?}");
        }
    }
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn each_library_has_the_runtime_that_it_would_have_without() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-shared", "-fPIC"];
    let [gcc, clang] = [Made::Gcc, Made::Clang].map(|made| made.make(&folder, "library", &options));
    let (Some(gcc), Some(clang)) = (gcc, clang) else { return };
    let [gcc, clang] = [&gcc, &clang].map(|library| library.to_str().unwrap());
    for order in [[gcc, clang], [clang, gcc]] {
        for made in [Made::Gcc, Made::Clang] {
            let Some(program) = made.make(&folder, "loader", &[]) else { continue };
            let arguments = [&["within"], &order[..]].concat();
            assert!(same(&program, &arguments, &["adaptive"], made.subject()).statistics.waits > 100);
        }
        // A program that knows nothing of OpenMP.
        let program = folder.path().join("none");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/openmp/loader.c");
        testing::run(command("gcc").arg(source).arg("-o").arg(&program)).succeeds();
        let arguments = [&["before"], &order[..]].concat();
        assert!(same(&program, &arguments, &["adaptive"], WaitKind::Gomp).statistics.waits > 100);
    }
}
