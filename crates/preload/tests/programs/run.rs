//! A run of a program: what it did, and that nothing of it is left.

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
use crate::inputs::{inputs, made};
use crate::library;

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    /// By this rule.
    Preloaded(&'static str),
}

/// What a run came to.
pub(crate) struct Outcome {
    pub(crate) deeds: Deeds,
    pub(crate) complaints: String,
    pub(crate) time: Duration,
    /// Of the processes that had the library.
    pub(crate) entries: Vec<ProcessReport>,
}

/// What a program did, as far as others see it.
#[derive(PartialEq, Eq)]
pub(crate) struct Deeds {
    pub(crate) status: ExitStatus,
    pub(crate) printed: Vec<u8>,
    /// The files that it left in its folder.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

/// Runs a program to its end, in a new folder and a process group of its own, which something else may be done to meanwhile, until
/// it has ended. An error if it hangs.
pub(crate) fn run(
    program: &Program,
    way: Way,
    meanwhile: impl FnOnce(Pid, &AtomicBool) + Send,
) -> Result<Outcome, String> {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let mut command = testing::command("/bin/sh");
    command.arg("-c").arg(format!("set -e; {}", program.script)).current_dir(&folder);
    command.env("INPUT", inputs()).env("MADE", made()).env("LC_ALL", "C").env("HOME", scratch.path());
    let mut book = None;
    if let Way::Preloaded(rule) = way {
        let path = scratch.path().join("book");
        book = Some(Region::create(&path).unwrap());
        let environment = Environment { rule: rule.parse().unwrap(), costs: None, region: Some(path) };
        command.env("LD_PRELOAD", library::preload()).envs(environment.variables());
    }
    let began = Instant::now();
    let mut child = Child::start(command.process_group(0));
    let group = Pid::from_child(child.process());
    let ended = AtomicBool::new(false);
    let (time, ends) = thread::scope(|scope| {
        let meanwhile = scope.spawn(|| meanwhile(group, &ended));
        let ends = child.ends();
        let time = began.elapsed();
        ended.store(true, Relaxed);
        meanwhile.join().unwrap();
        (time, ends)
    });
    let state = if ends { String::new() } else { processes::describe_tree(child.id()) };
    // Whatever it has left behind. Its leader is not waited for yet, so the group is what it was.
    let _ = kill_process_group(group, Signal::KILL);
    let output = child.finish();
    if !ends {
        return Err(format!("{} hangs, {way:?}\n{state}{output}", program.name));
    }
    let deeds = Deeds { status: output.status, printed: output.bytes, files: files(&folder) };
    Ok(Outcome {
        deeds,
        complaints: output.stderr,
        time,
        entries: book.map(|book| book.processes()).unwrap_or_default(),
    })
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    entries.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())).collect()
}
