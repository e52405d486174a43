//! The control group of a job: all programs of the job as one, to freeze them, or to give them
//! less of a resource.
//!
//! The starter creates it below its own group, in a hierarchy of either version, and each program
//! enters it before it begins ([`super::contain_in`]). So all that the program starts is in it from
//! birth. The keeper of the program stays outside: it must not be frozen.
//!
//! # A group that has a controller
//!
//! In version 2 a group has a controller if the group around it passes that on, which only one
//! without processes can do, or the outermost. So a group with a weight is created beside the own
//! group of the starter, unless that is the outermost. It leaves no limits by that, since there
//! is none if the own group has any.
//!
//! # How a program enters
//!
//! * Version 2: it is created in its own `group`, which is created in that of the job. Otherwise it
//!   has to be moved, for which the kernel makes all processes on the machine wait.
//! * Version 1: it moves itself, by `tasks` and not by `cgroup.procs`: it has one thread only,
//!   which the kernel moves without that wait (20 us instead of 10 ms).
//!
//! # How the group ends
//!
//! Its creator removes it, or another process ([`Successor`]) if the creator is killed. Frozen
//! processes do not react to signals, in version 1 not even to SIGKILL. And a killed process needs
//! a CPU to end, for which a group with the lowest weight may wait a minute beside other load. So
//! the group is released before, again and again, since other processes may not know yet that the
//! job has ended. If the other process is killed as well, the next start of a job releases and
//! removes the group, and the next start of any program releases it to end what is `record`ed.
//!
//! The creator holds a lock (`flock`) on the folder of the group, which ends with it. So the
//! creator of a group without a lock was killed. Its process ID does not tell that, because it may
//! be in another PID namespace. A group that is found and removed before it is locked is created
//! again.
//!
//! # Why no other group is frozen
//!
//! Other processes find the group by its path, which any process of this user may have told them.
//! So it must be a group of this user, in a folder that no link leads to, with our prefix and the
//! id of its creator.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, flock, fstat, fstatfs, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::group::{create, first_word, has_limits, is_version_2, open, remove};
use super::{Successor, record};
use crate::cgroups::{Hierarchy, is_writable};
use crate::files::{Control, Folder, has_name, some_name, write_control_at};

/// The prefix of the names of groups of jobs. The id of the creator follows.
const PREFIX: &str = "rowlock-job-";
/// The `statfs` type of version 1.
const VERSION_1: u32 = 0x0027_e0eb;
/// A program can create groups in the group. Deeper ones stay.
const DEPTH: u32 = 50;
/// The files by which a job is restrained, and their content when it is not.
const RELEASED: [(&CStr, &[u8]); 4] =
    [(c"cgroup.freeze", b"0"), (c"freezer.state", b"THAWED"), (c"cpu.weight", b"100"), (c"cpu.shares", b"1024")];
/// How long programs may take to end after their creator has dropped the group and waits for that,
/// and after it was killed: beside other load, their keeper takes as long as a CPU takes to come.
const TIMEOUTS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(150)];

/// The group of a job that this process has created. Dropping it, or the end of this process,
/// removes it with all groups in it.
#[derive(Debug)]
pub struct JobGroup {
    version: u32,
    /// The folder of the group around it, and its name there.
    around: Folder,
    name: CString,
    folder: Folder,
    path: String,
    _lock: OwnedFd,
    /// `None` once it was dropped.
    successor: Option<Successor>,
}

impl JobGroup {
    /// Creates a group below that of this process. Removes those that killed processes have left.
    ///
    /// Starts a child process.
    ///
    /// # Errors
    /// If that is not allowed, or if a program in the group would not see limits of the groups
    /// around it. The error is a clause that goes on after `because`.
    pub fn create(hierarchy: &Hierarchy) -> io::Result<JobGroup> {
        JobGroup::create_in(hierarchy, &hierarchy.folder)
    }

    /// As [`create`](JobGroup::create), but the group has a weight, in this file. In version 2 it
    /// is beside the group of this process, unless that is the outermost one.
    ///
    /// # Errors
    /// As [`create`](JobGroup::create), or if groups have no weight there, or this process has
    /// another weight than the ordinary one.
    pub fn create_weighted(hierarchy: &Hierarchy, file: &str) -> io::Result<JobGroup> {
        let own = &hierarchy.folder;
        let fail = |why: &str| Err(io::Error::other(format!("{} {why}", own.display())));
        let around = match own.parent() {
            _ if hierarchy.version == 1 || *own == hierarchy.mount => own,
            Some(parent) if first_word(own, file) == "100" => parent,
            _ => return fail(&format!("has no {file} of 100")),
        };
        let group = JobGroup::create_in(hierarchy, around)?;
        match group.control(file) {
            Ok(_) => Ok(group),
            Err(_) => fail(&format!("passes no {file} on")),
        }
    }

    fn create_in(hierarchy: &Hierarchy, around: &Path) -> io::Result<JobGroup> {
        let own = &hierarchy.folder;
        let fail = |folder: &Path, why: &str| Err(io::Error::other(format!("{} {why}", folder.display())));
        if !is_writable(around) {
            return fail(around, "may not be changed by this user");
        }
        // Another part of the hierarchy may be mounted here.
        let processes = fs::read_to_string(own.join("cgroup.procs"))?;
        if !processes.lines().any(|id| id.parse() == Ok(std::process::id())) {
            return fail(own, "does not contain this process");
        }
        if hierarchy.version == 2 && has_limits(own) {
            return fail(own, "has limits, which programs in another group would not see");
        }
        let around = Folder::open(around)?;
        // They may have been created in another hierarchy.
        places().for_each(|around| end_abandoned_in(&around));
        let name = some_name(PREFIX);
        let inner = around.path().strip_prefix(&hierarchy.mount).unwrap_or(Path::new("")).join(&name);
        let Some(path) = inner.to_str().map(str::to_owned) else { return fail(own, "is not valid UTF-8") };
        let name = CString::new(name)?;
        let successor = Successor::start(&[around.as_fd()], TIMEOUTS, |_| end(around.as_fd(), &name))?;
        let opened = create_locked(around.as_fd(), &name)
            .map_err(io::Error::from)
            .and_then(|lock| Ok((lock, Folder::open(&hierarchy.mount.join(&path))?)));
        match opened {
            Ok((_lock, folder)) => {
                let version = hierarchy.version;
                let group = JobGroup { version, around, name, folder, path, _lock, successor: Some(successor) };
                if first_word(group.folder(), "cgroup.type") == "domain" || version == 1 {
                    return Ok(group);
                }
                fail(group.around.path(), "is a group of threads")
            }
            Err(why) => {
                let around = around.path().display();
                let why = io::Error::new(why.kind(), format!("no group can be created in {around}: {why}"));
                drop(successor);
                Err(why)
            }
        }
    }

    /// Its path below the mount point of the hierarchy.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Opens one of its files.
    ///
    /// # Errors
    /// If there is no such file, or it may not be written.
    pub fn control(&self, file: &str) -> io::Result<Control> {
        Control::open_in(&self.folder, file)
    }

    /// The path of its folder.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn is_of_version_2(&self) -> bool {
        self.version == 2
    }

    pub(super) fn entrance(&self) -> Entrance {
        Entrance { folder: self.folder.clone(), version: self.version }
    }
}

impl Drop for JobGroup {
    fn drop(&mut self) {
        let is_over = end(self.around.as_fd(), &self.name);
        // Otherwise it waits for its processes.
        self.successor.take().filter(|_| is_over).into_iter().for_each(Successor::dismiss);
    }
}

/// The group of a job, for the program that enters it.
#[derive(Debug)]
pub(super) struct Entrance {
    folder: Folder,
    version: u32,
}

impl Entrance {
    /// Moves this process, which has one thread, into the group, unless it `was_created` in it. It
    /// makes only system calls.
    pub(super) fn enter(&self, was_created: bool) -> Result<(), Errno> {
        match self.version {
            1 => write_control_at(&self.folder, c"tasks", b"0"),
            _ if was_created => Ok(()),
            _ => write_control_at(&self.folder, c"cgroup.procs", b"0"),
        }
    }
}

/// Opens a file of a group that a process with this id has created, by the path of the group below
/// the mount point. Neither path nor id need be true.
///
/// # Errors
/// If it is not the group of a job of this user and this creator, or has no such file.
pub fn control_of_job(hierarchy: &Hierarchy, path: &str, creator: u32, file: &str) -> io::Result<Control> {
    let is_name =
        |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with(&format!("{PREFIX}{creator}-")));
    let path = Path::new(path);
    let is_inner = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_inner || !path.file_name().is_some_and(is_name) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "its name is not that of a group of this job"));
    }
    let mount: OwnedFd = openat_folder(rustix::fs::CWD, hierarchy.mount.as_os_str())?;
    let group = path.iter().try_fold(mount, openat_folder)?;
    let is_of_groups = fstatfs(&group).is_ok_and(|about| about.f_type as u32 == VERSION_1) || is_version_2(&group);
    if !is_of_groups || fstat(&group)?.st_uid != geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a control group of this user"));
    }
    Control::open_in(&group, file)
}

/// Opens a folder that is no link.
#[expect(clippy::disallowed_methods, reason = "it only reads")]
fn openat_folder(within: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    openat(within, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Creates a group and locks it.
fn create_locked(around: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    loop {
        match create(around, name) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(why) => return Err(why),
        }
        match lock(around, name) {
            // Another process has found it before it was locked, and removes it.
            Err(Errno::WOULDBLOCK | Errno::NOENT) => std::thread::yield_now(),
            locked => return locked,
        }
    }
}

/// Locks a group that no process has locked.
fn lock(around: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let group = open(around, name)?;
    flock(&group, FlockOperation::NonBlockingLockExclusive)?;
    // It may have been removed meanwhile.
    if has_name(&group, around, name) { Ok(group) } else { Err(Errno::NOENT) }
}

/// Releases a group, and removes it with the groups in it. Returns whether there is none any more.
/// It makes only system calls.
fn end(around: BorrowedFd<'_>, name: &CStr) -> bool {
    release(around, name);
    cfg!(rowlock_canary = "a-group-stays") || remove(around, name, DEPTH).is_ok()
}

/// Lets all processes of a group run, with the ordinary weight. It makes only system calls.
fn release(around: BorrowedFd<'_>, name: &CStr) {
    if let Ok(group) = openat_folder(around, name) {
        // Those of the other version or of other controllers do not exist.
        for (file, setting) in RELEASED {
            let _ = write_control_at(&group, file, setting);
        }
    }
}

/// Releases all jobs of killed processes, below and beside the own groups of this process, so that
/// they can be ended.
pub(super) fn release_abandoned() {
    places().for_each(|around| abandoned_in(&around).for_each(|(name, _lock)| release(around.as_fd(), &name)));
}

/// The groups in all hierarchies in which this process would create some.
fn places() -> impl Iterator<Item = Folder> {
    let folders = |hierarchy: Hierarchy| hierarchy.folders().take(2).map(Path::to_owned).collect::<Vec<_>>();
    Hierarchy::all().into_iter().flat_map(folders).filter_map(|folder| Folder::open(&folder).ok())
}

/// Removes the groups of killed processes, and ends what is left in them. Ignores errors.
fn end_abandoned_in(around: &Folder) {
    let left = abandoned_in(around).filter_map(|(name, _lock)| (!end(around.as_fd(), &name)).then_some(name));
    let left: Vec<CString> = left.collect();
    if !left.is_empty() {
        // This releases them as well, so they must not be locked here.
        record::end_abandoned(None);
        left.iter().for_each(|name| {
            end(around.as_fd(), name);
        });
    }
}

/// The names of those groups in a group whose creators have ended, with their locks.
fn abandoned_in(around: &Folder) -> impl Iterator<Item = (CString, OwnedFd)> {
    let entries = Dir::read_from(around).into_iter().flatten().flatten();
    let is_own = move |name: &CStr| {
        let about = statat(around, name, AtFlags::SYMLINK_NOFOLLOW);
        about.is_ok_and(|about| about.st_uid == geteuid().as_raw())
    };
    let names = entries.map(|entry| entry.file_name().to_owned());
    let names = names.filter(move |name| name.to_str().is_ok_and(is_locked_by_creator) && is_own(name));
    names.filter_map(move |name| lock(around.as_fd(), &name).ok().map(|lock| (name, lock)))
}

/// Whether this is the name of a group that its creator has locked. One with another part was
/// created by an earlier version of rowlock, without a lock.
fn is_locked_by_creator(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|rest| rest.split('-').count() == 3)
}

#[cfg(test)]
mod tests;
