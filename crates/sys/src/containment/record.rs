//! The record of a program, by which all that it has started is found if its keeper is killed.
//!
//! A killed keeper ends nothing. The kernel kills its program, but not what that has started. So a
//! program has a mark in its environment, which all that it starts inherits. The keeper holds a
//! file with this mark by a lock, and removes the file when nothing is left to end. A file that no
//! keeper holds is that of a killed one. Then every process with its mark is killed: by the starter
//! that notices the death of the keeper, or else before the next program is started.
//!
//! Processes that have cleared or overwritten their environment are not found, nor are those whose
//! rights the user lacks.

use std::env;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, Mode, fstat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};

use crate::files::{Folder, create_locked, lock_leftover, some_name, temporary_folder};

/// The variable with the mark.
const VARIABLE: &str = "ROWLOCK_MARK";
/// The prefix of the files' names.
const PREFIX: &str = ".rowlock-record-";
/// The longest mark.
const LONGEST: u64 = 256;

/// How long marked processes may take to end, and the time between two rounds of killing.
const TIMEOUT: Duration = Duration::from_secs(5);
const ROUND: Duration = Duration::from_millis(2);

/// The record that a keeper will create.
pub(super) struct Record {
    pub(super) folder: Folder,
    /// The name of the file, which is also the mark.
    name: CString,
}

impl Record {
    /// Marks the program of a command. Ends the programs of killed keepers. Returns `None` if there
    /// is no folder for the record.
    pub(super) fn mark(command: &mut Command) -> Option<Record> {
        let folder = folder()?;
        end_abandoned_in(&folder);
        let name = some_name(PREFIX);
        command.env(VARIABLE, &name);
        Some(Record { folder, name: CString::new(name).ok()? })
    }

    /// Creates the file and locks it, by a descriptor of its folder. Leaves no file if that fails.
    /// It makes only system calls, since it runs in the keeper.
    pub(super) fn create(&self, folder: BorrowedFd<'_>) -> Option<File> {
        loop {
            match create_locked(folder, self.name.as_c_str(), Mode::RUSR | Mode::WUSR) {
                Ok(Some(file)) if rustix::io::write(&file, self.name.to_bytes()) == Ok(self.name.count_bytes()) => {
                    return Some(file);
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(Errno::EXIST) => return None,
                _ => {
                    self.remove(folder);
                    return None;
                }
            }
        }
    }

    /// Removes the file, likewise, by a descriptor of its folder.
    #[expect(clippy::disallowed_methods, reason = "removes the file that it has created")]
    pub(super) fn remove(&self, folder: BorrowedFd<'_>) {
        let _ = unlinkat(folder, self.name.as_c_str(), AtFlags::empty());
    }
}

/// Ends what killed keepers have left. Ignores errors: the next start tries again.
pub(super) fn end_abandoned() {
    if let Some(folder) = folder() {
        end_abandoned_in(&folder);
    }
}

fn end_abandoned_in(folder: &Folder) {
    for entry in Dir::read_from(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_bytes().starts_with(PREFIX.as_bytes()) {
            end_if_abandoned(folder, entry.file_name());
        }
    }
}

fn end_if_abandoned(folder: &Folder, name: &CStr) {
    let Ok(Some(file)) = lock_leftover(folder, name) else { return };
    let is_ours = fstat(&file).is_ok_and(|about| about.st_uid == geteuid().as_raw());
    let mut mark = Vec::new();
    // The name may be one that another user has given to the file.
    if is_ours && file.take(LONGEST).read_to_end(&mut mark).is_ok() && kill_marked(&mark) {
        let _ = folder.remove(name);
    }
}

/// The user's own folder for a session, or else the one for temporary files.
fn folder() -> Option<Folder> {
    let named = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let own = named.and_then(|folder| Folder::open_private(&folder).ok());
    own.or_else(|| Folder::open(&temporary_folder().ok()?).ok())
}

/// Kills all processes with a mark, except this one. Returns whether there are none any more.
fn kill_marked(mark: &[u8]) -> bool {
    if !mark.starts_with(PREFIX.as_bytes()) {
        // Its keeper was killed before it let the program begin.
        return true;
    }
    let variable = [VARIABLE.as_bytes(), b"=", mark].concat();
    let deadline = Instant::now() + TIMEOUT;
    let mut rounds_without = 0;
    // A process that executes a program has no environment for a moment.
    while rounds_without < 2 {
        let Some(killed) = kill_those_with(&variable) else { return false };
        rounds_without = if killed == 0 { rounds_without + 1 } else { 0 };
        if Instant::now() > deadline {
            return false;
        }
        sleep(ROUND);
    }
    true
}

/// Kills the processes with this variable, and returns their number. Returns `None` without a
/// `/proc` that shows the processes of this PID namespace.
fn kill_those_with(variable: &[u8]) -> Option<usize> {
    let own = getpid();
    if fs::read_link("/proc/self").ok()? != Path::new(&own.to_string()) {
        return None;
    }
    let ids = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
        let id = std::str::from_utf8(entry.file_name().as_bytes()).ok()?.parse().ok()?;
        Pid::from_raw(id).filter(|&id| id != own)
    });
    let kill = |id: &Pid| {
        // The descriptor is that of the process whose environment is then read, even if the id is
        // used again.
        let process = pidfd_open(*id, PidfdFlags::empty()).ok()?;
        let environment = fs::read(format!("/proc/{id}/environ")).ok()?;
        let is_marked = environment.split(|&byte| byte == 0).any(|entry| entry == variable);
        (is_marked && pidfd_send_signal(process, Signal::KILL).is_ok()).then_some(())
    };
    Some(ids.filter_map(|id| kill(&id)).count())
}
