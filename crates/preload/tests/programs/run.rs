//! A run of a program: what it did, and that nothing of it is left.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use account::{Book, Entry, Environment};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::catalogue::Program;
use crate::inputs::{inputs, made};
use crate::library;

/// When a run counts as hanging. Nothing takes nearly as long.
const LIMIT: Duration = Duration::from_secs(900);

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
    pub(crate) entries: Vec<Entry>,
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
    let [output, errors] = ["output", "errors"].map(|name| scratch.path().join(name));
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("set -e; {}", program.script)).current_dir(&folder);
    command.env("INPUT", inputs()).env("MADE", made()).env("LC_ALL", "C").env("HOME", scratch.path());
    command.env_remove("LD_PRELOAD");
    command.stdin(Stdio::null()).stdout(File::create(&output).unwrap()).stderr(File::create(&errors).unwrap());
    let mut book = None;
    if let Way::Preloaded(rule) = way {
        let path = scratch.path().join("book");
        book = Some(Book::create(&path).unwrap());
        let environment = Environment { rule: rule.parse().unwrap(), costs: None, book: Some(path) };
        command.env("LD_PRELOAD", library::preload()).envs(environment.variables());
    }
    let began = Instant::now();
    let mut child = command.process_group(0).spawn().unwrap();
    let group = Pid::from_child(&child);
    let (over, is_over) = mpsc::channel::<()>();
    let ended = AtomicBool::new(false);
    let (time, hung) = thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let hangs = is_over.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout);
            // Its leader is not reaped yet, so the group is what it was.
            hangs && kill_process_group(group, Signal::KILL).is_ok()
        });
        let meanwhile = scope.spawn(|| meanwhile(group, &ended));
        while waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).is_err() {}
        let time = began.elapsed();
        ended.store(true, Relaxed);
        meanwhile.join().unwrap();
        drop(over);
        (time, watch.join().unwrap())
    });
    // Whatever it has left behind.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait().unwrap();
    let complaints = String::from_utf8_lossy(&fs::read(errors).unwrap()).into_owned();
    if hung {
        return Err(format!("{} hangs, {way:?}\n{complaints}", program.name));
    }
    let deeds = Deeds { status, printed: fs::read(output).unwrap(), files: files(&folder) };
    Ok(Outcome { deeds, complaints, time, entries: book.map(|book| book.entries()).unwrap_or_default() })
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    entries.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())).collect()
}
