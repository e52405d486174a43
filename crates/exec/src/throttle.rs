//! A slower disk: programs in a control group whose reads and writes the kernel delays.
//!
//! The group exists as long as the value does; what a killed process has left is removed when the next one is made. Both versions of control
//! groups do. Of version 1 only direct input and output are slowed, and reads from the page cache are slowed nowhere.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use sys::block_device::BlockDevice;
use sys::cgroups::Hierarchy;

use crate::invocation::Invocation;

/// What the names of all our groups begin with; the number of a process and a count follow.
const NAME: &str = "rowlock-disk-";
/// How often, and how long apart, it is tried to remove a group: processes in it may be on their way out.
const TRIES: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(10);
/// Puts itself into the group, and becomes the program.
const ENTER: &str = "echo $$ > \"$0\" && exec \"$@\"";

/// A group of programs for which the disk below a folder is slow.
#[derive(Debug)]
pub struct Throttle {
    group: PathBuf,
    device: String,
    version: u32,
    /// Held as long as the group is in use: that tells it from what a killed process left.
    _lock: File,
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// That may be read.
    pub read: u64,
    /// That may be written.
    pub write: u64,
}

/// Why the disk cannot be slowed.
#[derive(Debug, thiserror::Error)]
pub enum ThrottleError {
    /// There is no disk.
    #[error("{} does not lie on a block device that the kernel shows", .0.display())]
    NoDevice(PathBuf),
    /// No hierarchy controls disks.
    #[error(
        "no control group here can limit disks: neither `blkio` of version 1 is mounted, nor `io` of version 2 handed down to groups"
    )]
    NoController,
    /// A group could not be made or written.
    #[error("cannot limit the disk by a control group: {}: {why}", path.display())]
    Group {
        /// What could not be made or written.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
}

impl Throttle {
    /// Makes a group for which the disk below `folder` has no limit yet.
    ///
    /// # Errors
    /// Where there is no such disk, or no right to limit it.
    pub fn new(folder: &Path) -> Result<Throttle, ThrottleError> {
        let device = BlockDevice::under(folder).and_then(|device| device.numbers());
        let device = device.ok_or_else(|| ThrottleError::NoDevice(folder.to_owned()))?;
        let mut refused = ThrottleError::NoController;
        for (version, parent) in parents(&Hierarchy::all()) {
            sweep(&parent);
            match make(&parent) {
                Ok((group, lock)) => return Ok(Throttle { group, device, version, _lock: lock }),
                Err(why) => refused = ThrottleError::Group { path: parent, why },
            }
        }
        Err(refused)
    }

    /// Limits the disk from now on.
    ///
    /// # Errors
    /// When the kernel does not take it.
    pub fn limit(&self, rates: Rates) -> Result<(), ThrottleError> {
        for (file, line) in limits(self.version, &self.device, rates) {
            let path = self.group.join(file);
            fs::write(&path, line).map_err(|why| ThrottleError::Group { path, why })?;
        }
        Ok(())
    }

    /// This program with these arguments, which runs in the group. It is started by a shell that it takes the place of.
    pub fn invocation(&self, program: &Path, arguments: &[OsString]) -> Invocation {
        let mut all: Vec<OsString> = vec!["-c".into(), ENTER.into(), self.group.join("cgroup.procs").into()];
        all.push(program.into());
        all.extend_from_slice(arguments);
        Invocation::new("/bin/sh".as_ref(), &all)
    }

    /// The group's folder.
    pub fn group(&self) -> &Path {
        &self.group
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            match fs::remove_dir(&self.group) {
                Err(why) if why.kind() == ErrorKind::ResourceBusy => sleep(BETWEEN),
                _ => return,
            }
        }
    }
}

/// The groups below which ours might be made, best first.
fn parents(hierarchies: &[Hierarchy]) -> Vec<(u32, PathBuf)> {
    let mut parents = Vec::new();
    for hierarchy in hierarchies {
        match hierarchy.version {
            1 if hierarchy.controllers.iter().any(|name| name == "blkio") => {
                parents.push((1, hierarchy.folder.clone()));
            }
            2 => {
                // Only what hands the controller down has groups with it, and that is rarely the group that has processes.
                let hands_down = |folder: &&Path| {
                    let controllers = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
                    controllers.split_ascii_whitespace().any(|name| name == "io")
                };
                parents.extend(hierarchy.folders().filter(hands_down).map(|folder| (2, folder.to_owned())));
            }
            _ => {}
        }
    }
    parents
}

/// The files to be written, and what into each.
fn limits(version: u32, device: &str, Rates { read, write }: Rates) -> Vec<(&'static str, String)> {
    match version {
        1 => vec![
            ("blkio.throttle.read_bps_device", format!("{device} {read}")),
            ("blkio.throttle.write_bps_device", format!("{device} {write}")),
        ],
        _ => vec![("io.max", format!("{device} rbps={read} wbps={write}"))],
    }
}

/// A new group, locked.
fn make(parent: &Path) -> io::Result<(PathBuf, File)> {
    let mut count = 0;
    loop {
        let group = parent.join(format!("{NAME}{}-{count}", std::process::id()));
        match fs::create_dir(&group) {
            Ok(()) => {
                let lock = File::open(&group)
                    .and_then(|folder| Ok(flock(&folder, FlockOperation::NonBlockingLockExclusive).map(|()| folder)?));
                return match lock {
                    Ok(folder) => Ok((group, folder)),
                    Err(why) => {
                        let _ = fs::remove_dir(&group);
                        Err(why)
                    }
                };
            }
            Err(why) if why.kind() == ErrorKind::AlreadyExists => count += 1,
            Err(why) => return Err(why),
        }
    }
}

/// Removes what killed processes have left: groups of ours that nobody has locked, and that no process is in.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(NAME);
        if let Some(folder) = is_ours.then(|| File::open(entry.path()).ok()).flatten()
            && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::execution::Until;

    const RATES: Rates = Rates { read: 1_000, write: 2_000 };

    #[test]
    fn limits_are_written_as_each_version_wants_them() {
        let one = [
            ("blkio.throttle.read_bps_device", "8:0 1000".to_owned()),
            ("blkio.throttle.write_bps_device", "8:0 2000".to_owned()),
        ];
        assert_eq!(limits(1, "8:0", RATES), one);
        assert_eq!(limits(2, "8:0", RATES), [("io.max", "8:0 rbps=1000 wbps=2000".to_owned())]);
    }

    #[test]
    fn groups_are_made_where_disks_are_controlled() {
        let top = tempfile::tempdir().unwrap();
        let inner = top.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(top.path().join("a/cgroup.subtree_control"), "cpu io\n").unwrap();
        let of = |version, controllers: &[&str]| Hierarchy {
            version,
            controllers: controllers.iter().map(|&name| name.to_owned()).collect(),
            mount: top.path().to_owned(),
            folder: inner.clone(),
        };
        let all = [of(1, &["cpu"]), of(1, &["blkio"]), of(2, &[])];
        assert_eq!(parents(&all), [(1, inner.clone()), (2, top.path().join("a"))]);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_is_in_use_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let (used, lock) = make(parent.path()).unwrap();
        let left = parent.path().join(format!("{NAME}1-0"));
        let others = parent.path().join("another");
        fs::create_dir(&left).and_then(|()| fs::create_dir(&others)).unwrap();
        sweep(parent.path());
        assert_eq!((used.exists(), left.exists(), others.exists()), (true, false, true));
        drop(lock);
        sweep(parent.path());
        assert!(!used.exists());
    }

    #[test]
    fn folders_without_a_disk_are_refused() {
        let why = Throttle::new(Path::new("/proc")).unwrap_err();
        assert!(matches!(why, ThrottleError::NoDevice(_)), "{why}");
    }

    #[test]
    fn a_program_runs_in_the_group_and_the_group_goes() {
        let folder = tempfile::tempdir().unwrap();
        let throttle = match Throttle::new(folder.path()) {
            Ok(throttle) => throttle,
            // Without the right there is nothing to test, and that is said to the user as well.
            Err(why) => return eprintln!("left out: {why}"),
        };
        throttle.limit(Rates { read: 1 << 30, write: 1 << 30 }).unwrap();
        let group = throttle.group().to_owned();
        let script = "grep -q rowlock-disk- /proc/self/cgroup && test \"$1\" = 'a b'";
        let arguments = ["-c", script, "name", "a b"].map(OsString::from);
        let invocation = throttle.invocation(Path::new("/bin/sh"), &arguments);
        let until = Until { cancel: &AtomicBool::new(false), limit: None };
        let execution = invocation.execute(&mut invocation.command(), until).unwrap().unwrap();
        assert!(execution.status.success(), "{execution:?}");
        assert!(group.exists());
        drop(throttle);
        assert!(!group.exists());
    }
}
