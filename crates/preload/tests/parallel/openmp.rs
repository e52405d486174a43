//! OpenMP programs of gcc and clang: they print the same with the library and without it.
//!
//! Without compilers nothing is tested, and a note says so; with `ROWLOCK_REQUIRE_CC` in the environment that is a failure.
#![allow(unsafe_code, reason = "signals are sent")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use account::{Book, Environment, Reason, Subject, Waits};
use tempfile::TempDir;

/// A run that takes as long hangs.
const PATIENCE: Duration = Duration::from_secs(900);

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
    fn subject(self) -> Subject {
        if self == Made::Clang { Subject::Libomp } else { Subject::Gomp }
    }

    /// Makes a program or library; nothing where the compiler is missing.
    fn make(self, folder: &TempDir, source: &str, options: &[&str]) -> Option<PathBuf> {
        let made = folder.path().join(format!("{source}-{self:?}{}", options.concat()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/openmp/{source}.c"));
        let compile = |compiler: &str, arguments: &[&str]| {
            let mut command = Command::new(compiler);
            command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]).args(arguments).args(options);
            command.arg(&source).arg("-o").arg(&made).stderr(Stdio::null());
            command
        };
        let mut command = match self {
            Made::Gcc => compile("gcc", &["-fopenmp"]),
            Made::Clang => compile("clang", &["-fopenmp", "-DLIBOMP"]),
            Made::GccForClang => {
                let object = made.with_extension("o");
                let status = compile("gcc", &["-fopenmp", "-DLIBOMP", "-c"]).arg("-o").arg(&object).status();
                if !status.is_ok_and(|status| status.success()) {
                    return missing(self);
                }
                let mut link = Command::new("clang");
                link.args(["-fopenmp"]).args(options).arg(&object).arg("-o").arg(&made);
                link
            }
        };
        match command.status() {
            Ok(status) if status.success() => Some(made),
            _ => missing(self),
        }
    }
}

fn missing(made: Made) -> Option<PathBuf> {
    let why = "`.ci/setup-compilers` installs what is needed on Debian";
    assert!(std::env::var_os("ROWLOCK_REQUIRE_CC").is_none(), "cannot compile OpenMP ({made:?}): {why}");
    eprintln!("cannot compile OpenMP ({made:?}): not tested");
    None
}

/// Runs to the end, and returns what it printed.
fn run(command: &mut Command) -> String {
    run_and(command, |_| std::thread::sleep(Duration::from_millis(5)))
}

/// As [`run`], and sends signals meanwhile, which the program counts as soon as it is ready to.
fn run_under_signals(command: &mut Command) -> String {
    let mut nth = 0_u64;
    // Until then it ignores them, as this process does.
    // SAFETY: nothing is called.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    run_and(command, |child| {
        nth += 1;
        std::thread::sleep(Duration::from_micros(nth * 7_919 % 1_500));
        // SAFETY: the child has not been waited for, so the number is its own.
        unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
    })
}

/// Runs to the end, doing something again and again meanwhile, and returns what it printed.
fn run_and(command: &mut Command, mut meanwhile: impl FnMut(&Child)) -> String {
    let mut child = command.env("OMP_CANCELLATION", "true").stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begin.elapsed() > PATIENCE => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("{command:?} hangs");
            }
            None => meanwhile(&child),
        }
    };
    let printed = reader.join().unwrap().unwrap();
    assert!(status.success(), "{command:?}: {status}\n{printed}");
    printed
}

/// Runs it with the library and without, by these rules, and returns what was written of barriers the last time.
fn same(program: &Path, arguments: &[&str], rules: &[&str], subject: Subject) -> Waits {
    let command = || {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    let expected = run(&mut command());
    let mut waits = Waits { subject, statistics: Default::default(), left: vec![] };
    for rule in rules {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book");
        let book = Book::create(&path).unwrap();
        let environment = Environment { rule: rule.parse().unwrap(), costs: None, book: Some(path) };
        let printed = run(command().env("LD_PRELOAD", crate::library::preload()).envs(environment.variables()));
        assert_eq!(printed, expected, "{program:?} {arguments:?} by {rule}");
        let entries = book.entries();
        waits = entries[0].waits.iter().find(|waits| waits.subject == subject).cloned().unwrap_or(waits);
    }
    waits
}

const RULES: [&str; 4] = ["always-block", "always-yield", "2cs+", "adaptive"];

fn reasons(waits: &Waits) -> Vec<Reason> {
    waits.left.iter().map(|(reason, _)| *reason).collect()
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
fn programs_start_and_end_500_times_under_signals_with_hogs_coming_and_going() {
    let folder = tempfile::tempdir().unwrap();
    let programs: Vec<PathBuf> = Made::ALL.iter().filter_map(|made| made.make(&folder, "teams", &[])).collect();
    let expected: Vec<String> = programs.iter().map(|program| run(Command::new(program).arg("20"))).collect();
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
                let mut command = Command::new(program);
                command.arg("20").env("LD_PRELOAD", crate::library::preload()).env(Environment::RULE, RULES[time % 4]);
                // As `rowlock exec` does; otherwise each region takes a timeslice where the hogs are.
                command.env("GOMP_SPINCOUNT", "850").env("KMP_BLOCKTIME", "0");
                assert_eq!(run_under_signals(&mut command), *expected, "{program:?}, the {time}th time");
            }
        }
    });
}

/// How often each program starts: `ROWLOCK_STARTS` says something else.
fn starts() -> usize {
    std::env::var("ROWLOCK_STARTS").ok().and_then(|starts| starts.parse().ok()).unwrap_or(500)
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
        assert!(Command::new("gcc").arg(source).arg("-o").arg(&program).status().unwrap().success());
        let arguments = [&["before"], &order[..]].concat();
        assert!(same(&program, &arguments, &["adaptive"], Subject::Gomp).statistics.waits > 100);
    }
}
