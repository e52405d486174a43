//! One run of a program: its behaviour, and the removal of all its processes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use counters::{Environment, ProcessReport, Region};
use rustix::process::{Pid, Signal, kill_process_group};
use testing::{Child, processes};

use crate::catalogue::Program;
use crate::inputs::{built, inputs};
use crate::library;

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunMode {
    Plain,
    /// By this rule.
    Preloaded(&'static str),
}

/// The outcome of a run.
pub(crate) struct Outcome {
    pub(crate) behaviour: Behaviour,
    pub(crate) stderr: String,
    pub(crate) time: Duration,
    /// The reports of the processes that had loaded the library.
    pub(crate) entries: Vec<ProcessReport>,
}

/// The behaviour of a program, as visible from outside.
#[derive(PartialEq, Eq)]
pub(crate) struct Behaviour {
    pub(crate) status: ExitStatus,
    pub(crate) printed: Vec<u8>,
    /// The files left in its folder.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

/// Runs a program until it ends, in a new folder and process group. `meanwhile` runs until then,
/// and may disturb the group. Returns an error if the program hangs.
pub(crate) fn run(
    program: &Program,
    mode: RunMode,
    meanwhile: impl FnOnce(Pid, &AtomicBool) + Send,
) -> Result<Outcome, String> {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let mut command = testing::command("/bin/sh");
    command.arg("-c").arg(format!("set -e; {}", program.script)).current_dir(&folder);
    command.env("INPUT", inputs()).env("MADE", built()).env("LC_ALL", "C").env("HOME", scratch.path());
    let mut region = None;
    if let RunMode::Preloaded(rule) = mode {
        let path = scratch.path().join("region");
        region = Some(Region::create(&path).unwrap());
        let environment = Environment { rule: rule.parse().unwrap(), costs: None, region: Some(path) };
        command.env("LD_PRELOAD", library::preload()).envs(environment.variables());
    }
    let began = Instant::now();
    let mut child = Child::start(command.process_group(0));
    let group = Pid::from_child(child.process());
    let ended = AtomicBool::new(false);
    let (time, ends) = thread::scope(|scope| {
        let meanwhile = scope.spawn(|| meanwhile(group, &ended));
        let ends = child.wait_until_ended();
        let time = began.elapsed();
        ended.store(true, Relaxed);
        meanwhile.join().unwrap();
        (time, ends)
    });
    let state = if ends { String::new() } else { processes::describe_tree(child.id()) };
    // Kill its remaining processes. The group leader has not been waited for, so the group still
    // exists.
    let _ = kill_process_group(group, Signal::KILL);
    let output = child.finish();
    if !ends {
        return Err(format!("{} hangs, {mode:?}\n{state}{output}", program.name));
    }
    let behaviour = Behaviour { status: output.status, printed: output.bytes, files: files(&folder) };
    Ok(Outcome {
        behaviour,
        stderr: output.stderr,
        time,
        entries: region.map(|region| region.processes()).unwrap_or_default(),
    })
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    entries.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())).collect()
}
