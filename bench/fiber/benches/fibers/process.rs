//! Programs that are measured in processes of their own, and compiled where they are not written in Rust.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use sys::process::{RequestsToEnd, end_with_this_thread};

/// What a program measures, by name.
pub(crate) type Measured = Vec<(String, f64)>;

/// Runs a compiler.
///
/// # Errors
/// In words, where there is none or it fails.
pub(crate) fn compile(mut compiler: Command) -> Result<(), String> {
    let name = compiler.get_program().to_string_lossy().into_owned();
    let output = compiler.output().map_err(|why| format!("there is no {name}: {why}"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = || text.lines().find(|line| line.contains("error")).or(text.lines().last());
    if output.status.success() { Ok(()) } else { Err(line().unwrap_or("its compiler failed").trim().to_owned()) }
}

/// Runs a program that prints what it has measured, a name and a number a line; on one CPU or on all, for so long at most.
///
/// # Errors
/// If it fails.
pub(crate) fn run(mut command: Command, on_all: bool, patience: Duration) -> anyhow::Result<Measured> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    end_with_this_thread(&mut command, RequestsToEnd::Obey);
    // What is started inherits it.
    let pinned = if on_all { None } else { Some(sys::cpus::pin(sys::cpus::allowed()?[0])?) };
    let mut child = command.spawn().context("it cannot be started")?;
    drop(pinned);
    // Read meanwhile: it may print more than a pipe holds.
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
        if began.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            bail!("took more than {} s", patience.as_secs());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut said = String::new();
    child.stderr.take().context("it has no output")?.read_to_string(&mut said)?;
    ensure!(status.success(), "{status}, {}", said.lines().next().unwrap_or("without a word"));
    let text = reader.join().map_err(|_| anyhow::anyhow!("nobody reads what it prints"))??;
    let line = |line: &str| {
        let (name, value) = line.rsplit_once(' ').with_context(|| format!("it printed `{line}`"))?;
        Ok((name.to_owned(), value.parse()?))
    };
    text.lines().map(line).collect()
}
