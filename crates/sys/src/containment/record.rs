//! The record of a program, by which all that it has started is found if its keeper is killed.
//!
//! A killed keeper ends nothing. The kernel kills its program, but not what that has started. So a
//! program has a mark in its environment, which all that it starts inherits. The keeper holds a
//! file with this mark by a lock, and removes the file when nothing is left to end. A file that no
//! keeper holds is that of a killed one. Then every process with its mark is killed: by the starter
//! that notices the death of the keeper, or else before the next program is started.
//!
//! If the program has a `group`, the record names it, and all processes in it are killed as well.
//! Otherwise, processes that have cleared or overwritten their environment are not found, nor are
//! those whose rights the user lacks.
//!
//! # Why nothing else is killed
//!
//! A record is believed if it belongs to this user, and it names no group but the one with the same
//! unique number as its mark. So even a record that another user has given another name, by a hard
//! link, leads only to the processes of its own program.

use std::env;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, Mode, fstat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};

use super::group::Group;
use super::job_group::{JobGroup, release_abandoned};
use super::keeper::now;
use super::kill_deadline::{KillDeadline, TIMEOUT};
use crate::files::{Folder, create_locked, lock_leftover, open_leftover, some_name, temporary_folder};
use crate::identity::Stat;

/// The variable with the mark.
const VARIABLE: &str = "ROWLOCK_MARK";
/// The prefix of the files' names.
const PREFIX: &str = ".rowlock-record-";
/// The longest record.
const LONGEST: u64 = 256 + libc::PATH_MAX as u64;

/// The time between two rounds of killing.
const ROUND: Duration = Duration::from_millis(2);

/// The record that a keeper will create.
pub(super) struct Record {
    pub(super) folder: Folder,
    /// The name of the file, which is also the mark.
    pub(super) name: CString,
    /// The group of the program, if one is allowed.
    pub(super) group: Option<Group>,
    /// The content of the file: the mark and, in a second line, the path of the group around that
    /// one.
    text: String,
}

impl Record {
    /// Marks the program of a command. Its group will be in that of its job, if that has one of
    /// version 2. Ends the programs of killed keepers. Returns `None` if there is no folder for the
    /// record.
    pub(super) fn mark(command: &mut Command, job: Option<&JobGroup>) -> Option<Record> {
        let folder = folder()?;
        end_abandoned_in(&folder, None);
        let name = some_name(PREFIX);
        command.env(VARIABLE, &name);
        let group = name.strip_prefix(PREFIX).and_then(|suffix| match job {
            Some(job) => Group::within(job.folder().to_str()?, suffix),
            None => Group::within_own(suffix),
        });
        let text = group.as_ref().map_or_else(|| name.clone(), |group| format!("{name}\n{}", group.path_around()));
        Some(Record { folder, name: CString::new(name).ok()?, group, text })
    }

    /// Creates the file and locks it. Leaves no file if that fails. It makes only system calls,
    /// since it runs in the keeper.
    pub(super) fn create(&self) -> Option<File> {
        loop {
            match create_locked(&self.folder, self.name.as_c_str(), Mode::RUSR | Mode::WUSR) {
                Ok(Some(file)) if rustix::io::write(&file, self.text.as_bytes()) == Ok(self.text.len()) => {
                    return Some(file);
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(Errno::EXIST) => return None,
                _ => {
                    self.remove();
                    return None;
                }
            }
        }
    }

    /// Removes the file, likewise.
    #[expect(clippy::disallowed_methods, reason = "removes the file that it has created")]
    pub(super) fn remove(&self) {
        let _ = unlinkat(&self.folder, self.name.as_c_str(), AtFlags::empty());
    }
}

/// Ends the processes that killed keepers have left. Ignores errors: the next start tries again.
/// The keeper of the record `ended` has ended, so its record needs no lock. A program that was
/// killed before its exec may still hold that lock, or another process that ends the same record.
pub(super) fn end_abandoned(ended: Option<&CStr>) {
    if let Some(folder) = folder() {
        end_abandoned_in(&folder, ended);
    }
}

fn end_abandoned_in(folder: &Folder, ended: Option<&CStr>) {
    for entry in Dir::read_from(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_bytes().starts_with(PREFIX.as_bytes()) {
            let is_known = ended == Some(name);
            let opened = if is_known { open_leftover(folder, name) } else { lock_leftover(folder, name) };
            if let Ok(Some(file)) = opened {
                end_and_remove(folder, name, &file);
            }
        }
    }
}

fn end_and_remove(folder: &Folder, name: &CStr, file: &File) {
    let is_ours = fstat(file).is_ok_and(|about| about.st_uid == geteuid().as_raw());
    let mut text = String::new();
    if is_ours && file.take(LONGEST).read_to_string(&mut text).is_ok() && end_recorded(&text) {
        let _ = folder.remove(name);
    }
}

/// Kills all processes that a record with this text leads to. Returns whether there are none any
/// more.
pub(super) fn end_recorded(text: &str) -> bool {
    let (mark, around) = text.split_once('\n').map_or((text, None), |(mark, around)| (mark, Some(around)));
    let Some(number) = mark.strip_prefix(PREFIX) else {
        // Its keeper was killed before it let the program begin.
        return true;
    };
    // A process that is frozen, or has the lowest weight, may not die.
    release_abandoned();
    // Some may have left the group, or have made it one of threads, which cannot be killed.
    let is_over = kill_marked(mark);
    let group = around.and_then(|around| Group::within(around, number));
    group.is_none_or(|group| end_group(&group)) && is_over
}

/// Kills all processes in a group and removes it. Returns whether it is gone.
fn end_group(group: &Group) -> bool {
    if group.has_this_process() {
        // It is left over itself. Only a start from elsewhere can end all.
        return false;
    }
    let mut round = now();
    let mut deadline = KillDeadline::new(round);
    while !group.remove() {
        group.kill();
        if group.waits_for_cpu() {
            deadline.extend(now());
        }
        if deadline.has_passed(round) {
            return false;
        }
        sleep(ROUND);
        round = now();
    }
    true
}

/// The user's own folder for a session, or else the one for temporary files.
fn folder() -> Option<Folder> {
    let named = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let own = named.and_then(|folder| Folder::open_private(&folder).ok());
    own.or_else(|| Folder::open(&temporary_folder().ok()?).ok())
}

/// Kills all processes with a mark, except this one. Returns whether there are none any more.
fn kill_marked(mark: &str) -> bool {
    let variable = format!("{VARIABLE}={mark}");
    kill_until_none(|| kill_those_with(variable.as_bytes()), now)
}

/// Repeats rounds of killing, which return the processes that they have killed, until they find
/// none. Returns false if a round cannot look, or if a process does not die.
fn kill_until_none(mut kill: impl FnMut() -> Option<Vec<Pid>>, now: impl Fn() -> i64) -> bool {
    let mut deadline = KillDeadline::new(now());
    let mut rounds_without = 0;
    // A process that has ended meanwhile may have started another one.
    while rounds_without < 2 {
        let round = now();
        let Some(killed) = kill() else { return false };
        rounds_without = if killed.is_empty() { rounds_without + 1 } else { 0 };
        let left: Vec<Stat> = killed.iter().copied().filter_map(left_of).collect();
        if left.is_empty() || left.iter().any(Stat::waits_for_cpu) {
            deadline.extend(now());
        }
        if !killed.is_empty() && deadline.has_passed(round) {
            return false;
        }
        sleep(ROUND);
    }
    true
}

/// Kills the processes with this variable, and returns them. Returns `None` without a `/proc` that
/// shows the processes of this PID namespace.
fn kill_those_with(variable: &[u8]) -> Option<Vec<Pid>> {
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
        let environment = environment(*id)?;
        let is_marked = environment.split(|&byte| byte == 0).any(|entry| entry == variable);
        (is_marked && pidfd_send_signal(process, Signal::KILL).is_ok()).then_some(())
    };
    Some(ids.filter(|id| kill(id).is_some()).collect())
}

/// The environment of a process. One that executes a program has none for a moment, which may be
/// long beside other load: waits for its end, but not for ever.
fn environment(id: Pid) -> Option<Vec<u8>> {
    let deadline = now() + TIMEOUT;
    loop {
        let environment = fs::read(format!("/proc/{id}/environ")).ok()?;
        if !environment.is_empty() || has_none(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?) {
            return Some(environment);
        }
        if now() > deadline {
            return None;
        }
        sleep(ROUND);
    }
}

/// Whether a process with this `/proc/PID/stat` has ended, or was given an empty environment.
fn has_none(stat: &str) -> bool {
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap_or(0)..].split_whitespace().collect();
    // The first one is the end of the second of all.
    let field = |number: usize| fields.get(number - 2).copied().unwrap_or("0");
    let (memory, begin, end) = (field(23), field(50), field(51));
    memory == "0" || end != "0" && begin == end
}

/// The state of a killed process, if it has not ended.
fn left_of(id: Pid) -> Option<Stat> {
    Stat::of(id.as_raw_pid().unsigned_abs()).filter(|stat| !stat.has_ended())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::containment::kill_deadline::LONGEST;

    #[test]
    fn slow_rounds_of_killing_end_processes_that_die_and_give_up_others() {
        // It is not reaped, so no other process gets its id.
        let child = testing::Child::start(&mut testing::command("true"));
        assert!(child.wait_until_ended());
        let ended = Pid::from_raw(child.id().cast_signed()).unwrap();
        let kill = |rounds: &[&[Pid]]| {
            let (time, mut rounds) = (Cell::new(0), rounds.iter());
            let round = || {
                time.set(time.get() + LONGEST / 2 + 1);
                rounds.next().map(|killed| killed.to_vec())
            };
            kill_until_none(round, || time.get())
        };
        assert!(kill(&[&[], &[]]));
        assert!(kill(&[&[ended], &[ended], &[], &[]]));
        // This process was not killed, of course.
        assert!(!kill(&[&[getpid()], &[getpid()], &[getpid()], &[], &[]]));
        assert!(!kill(&[&[]]), "the second round cannot look");
    }

    #[test]
    fn a_process_that_executes_a_program_has_an_environment_soon() {
        let stat = |memory, begin, end| {
            let fields = (24..50).map(|_| "7").collect::<Vec<_>>().join(" ");
            format!("42 (a) b) R {}{memory} {fields} {begin} {end} 0\n", "7 ".repeat(19))
        };
        assert!(!has_none(&stat(4096, 0, 0)), "not yet");
        assert!(!has_none(&stat(4096, 100, 200)), "by now");
        assert!(has_none(&stat(4096, 100, 100)), "as it was asked to");
        assert!(has_none(&stat(0, 0, 0)), "it has ended");
    }
}
