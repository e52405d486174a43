//! Runs measured programs in their own processes, and compiles those in other languages.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use sys::process::{RequestsToEnd, end_with_this_thread};

/// The results of a program, by name.
pub(crate) type Measured = Vec<(String, f64)>;

/// Runs a compiler.
///
/// # Errors
/// If it is missing or fails.
pub(crate) fn compile(mut compiler: Command) -> Result<(), String> {
    let name = compiler.get_program().to_string_lossy().into_owned();
    let output = compiler.output().map_err(|why| format!("there is no {name}: {why}"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = || text.lines().find(|line| line.contains("error")).or(text.lines().last());
    if output.status.success() { Ok(()) } else { Err(line().unwrap_or("the compiler failed").trim().to_owned()) }
}

/// Runs a program that prints its results, one name and number per line, on one CPU or on all, with
/// a time limit.
///
/// # Errors
/// If it fails.
pub(crate) fn run(mut command: Command, on_all: bool, time_limit: Duration) -> anyhow::Result<Measured> {
    command.stdin(Stdio::null());
    run_beside(command, on_all, time_limit, |_| Ok(Measured::new()))
}

/// The same with a function that gets the id of the process and adds its results.
pub(crate) fn run_beside(
    mut command: Command,
    on_all: bool,
    time_limit: Duration,
    beside: impl FnOnce(u32) -> anyhow::Result<Measured> + Send + 'static,
) -> anyhow::Result<Measured> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    end_with_this_thread(&mut command, RequestsToEnd::Obey);
    // Child processes inherit this.
    let pinned = if on_all { None } else { Some(sys::cpus::pin(sys::cpus::allowed()?[0])?) };
    let mut child = command.spawn().context("it cannot be started")?;
    drop((pinned, command));
    let process = child.id();
    let beside = std::thread::spawn(move || beside(process));
    // Read concurrently, since the output may exceed the capacity of the pipe.
    let mut output = child.stdout.take().context("it has no output")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > time_limit {
            child.kill()?;
            child.wait()?;
            bail!("took more than {} s", time_limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut said = String::new();
    child.stderr.take().context("it has no output")?.read_to_string(&mut said)?;
    ensure!(status.success(), "{status}, {}", said.lines().next().unwrap_or("without a message"));
    let text = reader.join().map_err(|_| anyhow::anyhow!("the thread that reads its output panicked"))??;
    let line = |line: &str| {
        let (name, value) = line.rsplit_once(' ').with_context(|| format!("it printed `{line}`"))?;
        Ok((name.to_owned(), value.parse()?))
    };
    let results: anyhow::Result<Measured> = text.lines().map(line).collect();
    let mut results = results?;
    results.extend(beside.join().map_err(|_| anyhow::anyhow!("the thread beside it panicked"))??);
    Ok(results)
}

/// Unwraps a result that cannot be an error here.
pub(crate) fn or_stop<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(why) => stop(&why.to_string()),
    }
}

#[cold]
fn stop(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1)
}
