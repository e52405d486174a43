//! Runs each test in a process of its own, with a time limit. Tests in a module named `alone` run
//! after the others, one at a time. A test that takes too long is killed with its descendants; the
//! report shows what they were waiting for, and the other tests still run. Of a test that passes,
//! only the lines of standard error that begin with `measured: ` are shown.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic, reason = "a program that reports to people")]

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use testing::child::TEST_LIMIT;
use testing::programs::Program;
use testing::unchanged::Unchanged;
use testing::{Child, Output, TEST, child, processes};

const USAGE: &str = "\
usage: run-tests [OPTIONS] [-- ARGUMENTS]
  --limit=SECONDS  how long a test may take (ROWLOCK_LIMIT or 600), and ROWLOCK_SOAK_SECONDS more
  --grace=SECONDS  how long processes that tests leave behind may take to end (60)
  --jobs=N         how many tests run at a time (one more than there are CPUs)
  --ignored        run only the ignored tests; --include-ignored: run these, too
  --changed        skip packages whose tests passed with the same inputs; not with a filter
  --stable         list passed tests in order, without anything that depends on the machine
  --times          list the CPU time and the duration of each test
  --filter=TEXT    run only tests whose name, `package::binary::module::test`, contains one of these
  ARGUMENTS        passed on to `cargo test --no-run`, for instance `--release -p rowlock-sim`";

#[derive(Default)]
struct Options {
    limit: Option<u32>,
    grace: Option<u32>,
    jobs: Option<NonZeroUsize>,
    ignored: bool,
    include_ignored: bool,
    changed: bool,
    stable: bool,
    times: bool,
    filters: Vec<String>,
    cargo: Vec<String>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
        let mut options = Options::default();
        while let Some(argument) = arguments.next() {
            match argument.split_once('=').unwrap_or((&argument, "")) {
                ("--limit", seconds) => options.limit = Some(seconds.parse().ok()?),
                ("--grace", seconds) => options.grace = Some(seconds.parse().ok()?),
                ("--jobs", number) => options.jobs = Some(number.parse().ok()?),
                ("--filter", text) => options.filters.push(text.to_owned()),
                ("--ignored", "") => options.ignored = true,
                ("--include-ignored", "") => options.include_ignored = true,
                ("--changed", "") => options.changed = true,
                ("--stable", "") => options.stable = true,
                ("--times", "") => options.times = true,
                ("--", "") => options.cargo.extend(arguments.by_ref()),
                _ => return None,
            }
        }
        // A package has passed only if all its tests ran.
        let is_selective = !options.filters.is_empty() || options.ignored;
        (!options.changed || !is_selective).then_some(options)
    }

    /// The packages whose tests passed with the same inputs. `None` outside of a git repository.
    fn unchanged(&self) -> Option<Unchanged> {
        let file = std::env::current_exe().ok()?.with_file_name("passed-tests");
        let root = std::env::current_dir().ok()?;
        self.changed.then(|| Unchanged::read(file, &root, &self.cargo).ok())?
    }

    fn selects(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
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

    /// Its output and its CPU time.
    fn run(&self, limit: Duration) -> (Output, Duration) {
        let mut command = self.program.command();
        command.args([&self.name, "--exact", "--include-ignored", "--nocapture"]);
        child::set_deadline(&mut command, limit);
        // If the runner is killed, its tests must not continue without a limit.
        sys::process::end_with_this_thread(&mut command, sys::process::RequestsToEnd::Obey);
        command.env(TEST, &self.name).env(processes::STARTER, self.full_name());
        Child::start(&mut command).with_limit(limit).finish_with_cpu_time()
    }
}

#[derive(Default)]
struct Report {
    passed: Vec<String>,
    failed: Vec<String>,
    /// The duration, the CPU time and the name of each test.
    times: Vec<(Duration, Duration, String)>,
}

/// Runs tests, at most `jobs` at a time.
fn run_all(tests: Vec<Test>, jobs: usize, limit: Duration, report: &Mutex<Report>) {
    let tests = Mutex::new(tests.into_iter());
    let next = || tests.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(test) = next() {
            let started = Instant::now();
            let (output, cpu_time) = test.run(limit);
            let (time, name) = (started.elapsed(), test.full_name());
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            if output.status.success() && output.stdout.contains("1 passed") {
                output.stderr.lines().filter(|line| line.starts_with("measured: ")).for_each(|line| println!("{line}"));
                report.passed.push(name.clone());
            } else {
                println!("FAILED {name} after {time:.1?}\n{output}");
                report.failed.push(name.clone());
            }
            report.times.push((time, cpu_time, name));
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
}

fn main() -> ExitCode {
    let Some(options) = Options::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let unchanged = options.unchanged();
    let built = tempfile::tempdir().expect("a folder for temporary files");
    let Some(programs) = Program::build(&options.cargo, built.path()) else { return ExitCode::FAILURE };
    // Processes that a test leaves behind become children of this one; those of the build do not.
    sys::process::adopt_orphans().expect("a kernel that lets a process adopt orphans");
    let is_unchanged = |package: &str| unchanged.as_ref().is_some_and(|unchanged| unchanged.contains(package));
    let (mut together, mut alone, mut skipped) = (Vec::new(), Vec::new(), 0);
    for program in &programs {
        let ignored = program.list(&["--ignored"]);
        for name in program.list(&[]) {
            let test = Test { program, name };
            let is_wanted = options.include_ignored || ignored.contains(&test.name) == options.ignored;
            match is_wanted && options.selects(&test.full_name()) && !is_unchanged(&program.package) {
                false => skipped += 1,
                true if test.name.split("::").any(|module| module == "alone") => alone.push(test),
                true => together.push(test),
            }
        }
    }
    // One test more than there are CPUs, because some tests wait.
    let jobs = options.jobs.map_or_else(|| available_parallelism().map_or(1, usize::from) + 1, usize::from);
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let limit = options.limit.or_else(|| std::env::var("ROWLOCK_LIMIT").ok()?.parse().ok());
    let limit = limit.map_or(TEST_LIMIT, seconds) + testing::search().unwrap_or_default();
    let grace = seconds(options.grace.unwrap_or(60));
    let count = together.len() + alone.len();
    if !options.stable {
        println!("{count} tests of {} programs, {jobs} at a time", programs.len());
    }
    if programs.iter().any(|program| is_unchanged(&program.package)) {
        println!("the tests of the other packages passed before with the same inputs");
    }
    let (report, before) = (Mutex::default(), processes::cpu_time(std::process::id()));
    run_all(together, jobs, limit, &report);
    run_all(alone, 1, limit, &report);
    let left = processes::wait_for_orphans(grace);
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.times.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
    if options.stable {
        report.passed.sort();
        report.passed.iter().for_each(|name| println!("passed {name}"));
    } else {
        println!("slowest:");
        for (time, _, name) in report.times.iter().take(5) {
            let remark = if time.as_secs() >= 30 { "  (over 30 s: a defect on a quiet machine)" } else { "" };
            println!("  {time:6.1?} {name}{remark}");
        }
        if options.times {
            println!("CPU time and duration in s:");
            report.times.sort_by_key(|(_, cpu_time, _)| std::cmp::Reverse(*cpu_time));
            for (time, cpu_time, name) in &report.times {
                println!("  {:7.2} {:7.2} {name}", cpu_time.as_secs_f64(), time.as_secs_f64());
            }
            let all = processes::cpu_time(std::process::id()) - before;
            println!("  {:7.2} all, with processes that tests left to the runner", all.as_secs_f64());
        }
    }
    report.failed.iter().for_each(|name| println!("FAILED {name}"));
    if !left.is_empty() {
        println!("left behind by tests:\n{left}");
    }
    if !options.stable {
        println!("\n{} passed, {} failed, {skipped} skipped", report.passed.len(), report.failed.len());
    }
    if let Some(unchanged) = unchanged {
        let is_of = |name: &str, package: &str| name.split("::").next() == Some(package);
        let has_failed = |package: &str| report.failed.iter().any(|name| is_of(name, package));
        // Without the file, the tests run again.
        let _ = unchanged.remember(|package| !left.is_empty() || has_failed(package));
    }
    // Otherwise a filter that selects nothing would always pass.
    if (count > 0 || options.changed) && report.failed.is_empty() && left.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
