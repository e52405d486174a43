//! Benchmarks of commands that run programs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::time::{ClockId, clock_gettime};

/// Builds an optimized `rowlock` and returns its path.
///
/// # Errors
/// If it cannot be built.
pub fn build_rowlock() -> anyhow::Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--release", "--package", "rowlock-cli", "--message-format", "json"]);
    let output = cargo.current_dir(&root).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "rowlock cannot be built: {}", output.status);
    let messages = String::from_utf8(output.stdout)?;
    let path = messages.split(r#""executable":""#).skip(1).filter_map(|rest| rest.split('"').next()).last();
    Ok(path.context("cargo names no executable")?.to_owned())
}

/// Compiles a C program of this package, `benches/SOURCE`, into a folder.
///
/// # Errors
/// If it cannot be compiled.
pub fn compile(source: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches").join(source);
    let binary = folder.join(source.file_stem().context("a source has no name")?);
    let status = Command::new("cc").args(["-O2", "-pthread", "-fopenmp", "-o"]).arg(&binary).arg(&source).status()?;
    ensure!(status.success(), "{} cannot be compiled", source.display());
    Ok(binary)
}

/// Compiles the MPI program `benches/exec/mpi.c` by `mpicc.LIBRARY` into a folder. Returns `None`,
/// and says so, if the library is not installed.
///
/// # Errors
/// If it cannot be compiled.
pub fn compile_mpi(library: &str, folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/exec/mpi.c");
    let program = folder.join(library);
    let compiler = format!("mpicc.{library}");
    let Ok(status) = Command::new(&compiler).arg("-O2").arg("-o").arg(&program).arg(source).status() else {
        println!("{library} is left out: there is no {compiler}");
        return Ok(None);
    };
    ensure!(status.success(), "{compiler} has failed");
    Ok(Some(program))
}

/// The time in which programs are measured, in seconds of CLOCK_MONOTONIC. All of them begin before
/// it and end after it.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    begin: f64,
    end: f64,
}

impl Window {
    /// The time before a window in which all jobs start and are classified.
    const START: f64 = 0.5;

    /// A window of so many seconds that begins soon.
    pub fn of(seconds: f64) -> Window {
        let begin = now() + Window::START;
        Window { begin, end: begin + seconds }
    }

    /// Adds its begin and its end to the arguments of a command.
    pub fn add_to(self, command: &mut Command) {
        command.args([self.begin, self.end].map(|time| time.to_string()));
    }

    /// The length of the window, in seconds.
    pub fn seconds(self) -> f64 {
        self.end - self.begin
    }

    /// Sleeps until a moment in the window, from 0 to 1.
    pub fn sleep_until(self, moment: f64) {
        std::thread::sleep(Duration::from_secs_f64((self.begin + moment * self.seconds() - now()).max(0.0)));
    }
}

/// The time on `CLOCK_MONOTONIC`, in seconds: the same for all processes.
pub fn now() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Starts a program whose output is read by [`number_of`] or [`numbers_of`].
///
/// # Errors
/// If it cannot be started.
pub fn start(command: &mut Command) -> std::io::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()
}

/// Waits for a program, and returns the number that it has printed.
///
/// # Errors
/// If it has failed, or printed something else.
pub fn number_of(started: Child) -> anyhow::Result<f64> {
    numbers_of(started)?.into_iter().next().context("a program prints no number")
}

/// Waits for a program, and returns the numbers that it has printed.
///
/// # Errors
/// If it has failed, or printed something else.
pub fn numbers_of(started: Child) -> anyhow::Result<Vec<f64>> {
    let output = started.wait_with_output()?;
    ensure!(output.status.success(), "a program has failed: {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    text.split_whitespace().map(|number| number.parse().context("a program prints no number")).collect()
}

/// The element at this part, from 0 to 1, of sorted numbers.
///
/// # Panics
/// If there are none.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}
