//! OpenMP programs compiled by gcc and clang print the same with the library and without.
//!
//! Without a compiler the tests pass with a note, unless `ROWLOCK_REQUIRE_CC` is set.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use counters::{Environment, Reason, Region, WaitKind, Waits};
use tempfile::TempDir;
use testing::{Child, command, through, try_run};

/// A compiler and the run-time library of its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Toolchain {
    Gcc,
    Clang,
    /// Compiled by gcc, and linked with clang's library, which is compatible with gcc's.
    GccForClang,
}

impl Toolchain {
    const ALL: [Toolchain; 3] = [Toolchain::Gcc, Toolchain::Clang, Toolchain::GccForClang];

    /// The wait kind under which its barriers are counted.
    fn kind(self) -> WaitKind {
        if self == Toolchain::Clang { WaitKind::Libomp } else { WaitKind::Gomp }
    }

    /// Builds a program or library. `None` without the compiler.
    fn build(self, folder: &TempDir, source: &str, options: &[&str]) -> Option<PathBuf> {
        let toolchain = folder.path().join(format!("{source}-{self:?}{}", options.concat()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/openmp/{source}.c"));
        let compile = |compiler: &str, arguments: &[&str]| {
            let mut command = command(compiler);
            command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]).args(arguments).args(options);
            command.arg(&source).arg("-o").arg(&toolchain);
            command
        };
        let mut make = match self {
            Toolchain::Gcc => compile("gcc", &["-fopenmp"]),
            Toolchain::Clang => compile("clang", &["-fopenmp", "-DLIBOMP"]),
            Toolchain::GccForClang => {
                let object = toolchain.with_extension("o");
                build(compile("gcc", &["-fopenmp", "-DLIBOMP", "-c"]).arg("-o").arg(&object))?;
                let mut link = command("clang");
                link.args(["-fopenmp"]).args(options).arg(&object).arg("-o").arg(&toolchain);
                link
            }
        };
        build(&mut make).map(|()| toolchain)
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

/// Runs a command until it ends, and returns its output.
#[track_caller]
fn run(command: &mut Command) -> String {
    start(command).wait().expect_success().stdout
}

/// Like [`run`], and sends signals meanwhile, which the program counts as soon as it is ready.
#[track_caller]
fn run_under_signals(command: &Command) -> String {
    // Until then it ignores them, like the process that starts it.
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
    child.with_limit(end.saturating_duration_since(Instant::now())).wait().expect_success().stdout
}

/// Whether a process ignores or handles a signal.
fn survives(process: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mut masks = status.lines().filter_map(|line| line.strip_prefix("SigIgn:").or(line.strip_prefix("SigCgt:")));
    masks.any(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 != 0)
}

/// Runs a program without the library, and with it by these rules, and compares the outputs.
/// Returns the counts of barriers of the last run.
fn compare_runs(program: &Path, arguments: &[&str], rules: &[&str], kind: WaitKind) -> Waits {
    let program_again = || {
        let mut command = command(program);
        command.args(arguments);
        command
    };
    let expected = run(&mut program_again());
    let mut waits = Waits { kind, statistics: Default::default(), passed_through: vec![] };
    for rule in rules {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("region");
        let region = Region::create(&path).unwrap();
        let environment = Environment { rule: rule.parse().unwrap(), costs: None, region: Some(path) };
        let printed = run(program_again().env("LD_PRELOAD", crate::library::preload()).envs(environment.variables()));
        assert_eq!(printed, expected, "{program:?} {arguments:?} by {rule}");
        let entries = region.processes();
        waits = entries[0].waits.iter().find(|waits| waits.kind == kind).cloned().unwrap_or(waits);
    }
    waits
}

const RULES: [&str; 4] = ["always-block", "always-yield", "2cs+", "adaptive"];

fn reasons(waits: &Waits) -> Vec<Reason> {
    waits.passed_through.iter().map(|(reason, _)| *reason).collect()
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn all_constructs_behave_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for toolchain in Toolchain::ALL {
        let Some(program) = toolchain.build(&folder, "constructs", &[]) else { continue };
        let waits = compare_runs(&program, &[], &RULES, toolchain.kind());
        assert!(waits.statistics.waits > 1_000, "{toolchain:?}: {waits:?}");
        assert_eq!(reasons(&waits), [], "{toolchain:?}");
    }
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn programs_with_tasks_wait_at_the_real_barrier() {
    let folder = tempfile::tempdir().unwrap();
    for toolchain in Toolchain::ALL {
        let Some(program) = toolchain.build(&folder, "tasks", &[]) else { continue };
        let waits = compare_runs(&program, &[], &RULES, toolchain.kind());
        assert_eq!(waits.statistics.waits, 0, "{toolchain:?}: {waits:?}");
        assert_eq!(reasons(&waits), [Reason::Cancellation], "{toolchain:?}");
    }
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn short_teams_under_signals_end() {
    let folder = tempfile::tempdir().unwrap();
    for toolchain in Toolchain::ALL {
        let Some(program) = toolchain.build(&folder, "teams", &[]) else { continue };
        let waits = compare_runs(&program, &["500"], &RULES, toolchain.kind());
        assert!(waits.statistics.waits > 1_000, "{toolchain:?}: {waits:?}");
    }
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn programs_start_and_end_many_times_under_signals_and_changing_load() {
    let folder = tempfile::tempdir().unwrap();
    let programs: Vec<PathBuf> =
        Toolchain::ALL.iter().filter_map(|toolchain| toolchain.build(&folder, "teams", &[])).collect();
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
        let _end = SetOnDrop(&over);
        for time in 0..starts() {
            for (program, expected) in programs.iter().zip(&expected) {
                let mut command = command(program);
                command.arg("20").env("LD_PRELOAD", crate::library::preload()).env(Environment::RULE, RULES[time % 4]);
                // Like `rowlock exec`. Otherwise each region would take a timeslice while busy
                // loops run.
                command.env("GOMP_SPINCOUNT", "850").env("KMP_BLOCKTIME", "0");
                assert_eq!(run_under_signals(&command), *expected, "{program:?}, the {time}th time");
            }
        }
    });
}

/// The number of starts of each program: `ROWLOCK_STARTS`, or 25 by each rule.
fn starts() -> usize {
    std::env::var("ROWLOCK_STARTS").ok().and_then(|starts| starts.parse().ok()).unwrap_or(25 * RULES.len())
}

/// Sets the flag when dropped.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn a_library_loaded_within_a_region_may_create_tasks_there() {
    let folder = tempfile::tempdir().unwrap();
    for toolchain in [Toolchain::Gcc, Toolchain::Clang] {
        let Some(program) = toolchain.build(&folder, "loader", &[]) else { continue };
        for options in [&["-DORPHANED"][..], &["-DORPHANED", "-DTASKS"], &[]] {
            let Some(library) = toolchain.build(&folder, "library", &[&["-shared", "-fPIC"], options].concat()) else {
                continue;
            };
            let waits = compare_runs(&program, &["within", library.to_str().unwrap()], &RULES, toolchain.kind());
            assert!(waits.statistics.waits > 100, "{toolchain:?}: {waits:?}");
            assert_eq!(reasons(&waits).contains(&Reason::Tasks), options.contains(&"-DTASKS"), "{toolchain:?}");
        }
    }
}

#[test]
#[ignore = "needs gcc and clang with OpenMP; `./check --full` runs it"]
fn each_library_uses_the_same_runtime_as_without_the_preloaded_one() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-shared", "-fPIC"];
    let [gcc, clang] =
        [Toolchain::Gcc, Toolchain::Clang].map(|toolchain| toolchain.build(&folder, "library", &options));
    let (Some(gcc), Some(clang)) = (gcc, clang) else { return };
    let [gcc, clang] = [&gcc, &clang].map(|library| library.to_str().unwrap());
    for order in [[gcc, clang], [clang, gcc]] {
        for toolchain in [Toolchain::Gcc, Toolchain::Clang] {
            let Some(program) = toolchain.build(&folder, "loader", &[]) else { continue };
            let arguments = [&["within"], &order[..]].concat();
            assert!(compare_runs(&program, &arguments, &["adaptive"], toolchain.kind()).statistics.waits > 100);
        }
        // A program without OpenMP.
        let program = folder.path().join("none");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/openmp/loader.c");
        testing::run(command("gcc").arg(source).arg("-o").arg(&program)).expect_success();
        let arguments = [&["before"], &order[..]].concat();
        assert!(compare_runs(&program, &arguments, &["adaptive"], WaitKind::Gomp).statistics.waits > 100);
    }
}
