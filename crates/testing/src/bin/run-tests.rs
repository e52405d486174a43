//! Runs each test in a process of its own, with a time limit. Tests in a module named `alone` run
//! after the others, one at a time. A test that takes too long is killed with its descendants; the
//! report shows what they were waiting for, and the other tests still run.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic, reason = "a program that reports to people")]

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use serde_json::Value;
use testing::{Child, Output, TEST, command, processes};

const USAGE: &str = "\
usage: run-tests [OPTIONS] [-- ARGUMENTS]
  --limit=SECONDS  how long a test may take (600)
  --jobs=N         how many tests run at a time (as many as there are CPUs)
  --ignored        run the ignored tests only; --include-ignored: these, too
  --stable         list what passed, in order and without times
  --filter=TEXT    run only tests whose name, `package::binary::module::test`, contains one of these
  ARGUMENTS        passed on to `cargo test --no-run`, for instance `--release -p rowlock-sim`";

#[derive(Default)]
struct Options {
    limit: Option<u32>,
    jobs: Option<NonZeroUsize>,
    ignored: bool,
    include_ignored: bool,
    stable: bool,
    filters: Vec<String>,
    cargo: Vec<String>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
        let mut options = Options::default();
        while let Some(argument) = arguments.next() {
            match argument.split_once('=').unwrap_or((&argument, "")) {
                ("--limit", seconds) => options.limit = Some(seconds.parse().ok()?),
                ("--jobs", number) => options.jobs = Some(number.parse().ok()?),
                ("--filter", text) => options.filters.push(text.to_owned()),
                ("--ignored", "") => options.ignored = true,
                ("--include-ignored", "") => options.include_ignored = true,
                ("--stable", "") => options.stable = true,
                ("--", "") => options.cargo.extend(arguments.by_ref()),
                _ => return None,
            }
        }
        Some(options)
    }

    fn selects(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }
}

/// A program with tests.
struct Program {
    path: PathBuf,
    /// The folder of its package, in which tests run.
    folder: PathBuf,
    package: String,
    target: String,
}

impl Program {
    /// All that cargo builds with these arguments.
    fn build(arguments: &[String]) -> Option<Vec<Program>> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]).args(arguments);
        let output = command.stderr(Stdio::inherit()).output().expect("cargo");
        let messages = String::from_utf8_lossy(&output.stdout);
        let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let programs = messages.filter_map(|message| {
            let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
            let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
            let package = message["package_id"].as_str()?.rsplit('#').next()?.split('@').next()?.to_owned();
            let target = message["target"]["name"].as_str()?.to_owned();
            Some(Program { path: path.into(), folder, package, target })
        });
        output.status.success().then(|| programs.collect())
    }

    /// A command that runs it as `cargo test` does.
    fn command(&self) -> Command {
        let mut command = command(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO_PKG_NAME", &self.package);
        // What steers random tests goes on to them; see `testing::for_each_seed`.
        for (name, value) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROWLOCK_")) {
            command.env(name, value);
        }
        command
    }

    fn list(&self, arguments: &[&str]) -> Vec<String> {
        let list = testing::run(self.command().args(["--list", "--format", "terse"]).args(arguments)).succeeds().stdout;
        list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
    }
}

struct Test<'a> {
    program: &'a Program,
    name: String,
}

impl Test<'_> {
    fn full_name(&self) -> String {
        format!("{}::{}::{}", self.program.package, self.program.target, self.name)
    }

    fn run(&self, limit: Duration) -> Output {
        let mut command = self.program.command();
        command.args([&self.name, "--exact", "--include-ignored", "--nocapture"]);
        Child::start(command.env(TEST, &self.name)).with_limit(limit).finish()
    }
}

#[derive(Default)]
struct Report {
    passed: Vec<String>,
    failed: Vec<String>,
    slow: Vec<(Duration, String)>,
}

/// Runs tests, so many at a time.
fn run_all(tests: Vec<Test>, jobs: usize, limit: Duration, report: &Mutex<Report>) {
    let tests = Mutex::new(tests.into_iter());
    let next = || tests.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(test) = next() {
            let began = Instant::now();
            let (output, time, name) = (test.run(limit), began.elapsed(), test.full_name());
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            if output.status.success() && output.stdout.contains("1 passed") {
                report.passed.push(name.clone());
            } else {
                println!("FAILED {name} after {time:.1?}\n{output}");
                report.failed.push(name.clone());
            }
            report.slow.push((time, name));
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
}

fn main() -> ExitCode {
    let Some(options) = Options::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Processes that a test leaves behind become children of this one.
    sys::process::adopt_orphans().expect("a kernel that lets a process adopt orphans");
    let Some(programs) = Program::build(&options.cargo) else { return ExitCode::FAILURE };
    let (mut together, mut alone, mut skipped) = (Vec::new(), Vec::new(), 0);
    for program in &programs {
        let ignored = program.list(&["--ignored"]);
        for name in program.list(&[]) {
            let test = Test { program, name };
            let is_wanted = options.include_ignored || ignored.contains(&test.name) == options.ignored;
            match is_wanted && options.selects(&test.full_name()) {
                false => skipped += 1,
                true if test.name.split("::").any(|module| module == "alone") => alone.push(test),
                true => together.push(test),
            }
        }
    }
    let jobs = options.jobs.or_else(|| available_parallelism().ok()).map_or(1, usize::from);
    let limit = Duration::from_secs(options.limit.unwrap_or(600).into());
    let count = together.len() + alone.len();
    println!("{count} tests of {} programs, {jobs} at a time", programs.len());
    let report = Mutex::default();
    run_all(together, jobs, limit, &report);
    run_all(alone, 1, limit, &report);
    let left = processes::wait_for_orphans(limit.min(Duration::from_secs(60)));
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.slow.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    if options.stable {
        report.passed.sort();
        report.passed.iter().for_each(|name| println!("passed {name}"));
    } else {
        println!("slowest:");
        for (time, name) in report.slow.iter().take(5) {
            let remark = if time.as_secs() >= 30 { "  (over 30 s: a defect on a quiet machine)" } else { "" };
            println!("  {time:6.1?} {name}{remark}");
        }
    }
    report.failed.iter().for_each(|name| println!("FAILED {name}"));
    if !left.is_empty() {
        println!("left behind by tests:\n{left}");
    }
    println!("\n{} passed, {} failed, {skipped} skipped", report.passed.len(), report.failed.len());
    // A filter that selects nothing would pass for ever.
    if count > 0 && report.failed.is_empty() && left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
