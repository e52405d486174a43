//! Disk throttling: runs programs in a control group whose reads and writes the kernel delays.
//!
//! The group exists as long as the value does, or the process. If its successor was killed as well,
//! it is removed when the next one is created. It works with both versions of control groups.
//! Version 1 delays only direct input and output. Reads from the page cache are never delayed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sys::block_device::BlockDevice;
use sys::cgroups::Hierarchy;
use sys::containment::Successor;
use sys::files::write_control;

use crate::invocation::Invocation;

/// The prefix of the names of our groups. A process id and a counter follow.
const NAME: &str = "rowlock-disk-";
/// A shell script that enters the group and executes the program.
const ENTER: &str = "echo $$ > \"$0\" && exec \"$@\"";

/// A control group for which the disk below a folder is slow.
#[derive(Debug)]
pub struct Throttle {
    group: PathBuf,
    device: String,
    version: u32,
    /// Held as long as the group is in use, to distinguish it from one of a killed process.
    _lock: File,
    _successor: Successor,
}

/// Transfer rates in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// For reads.
    pub read: u64,
    /// For writes.
    pub write: u64,
}

/// Why the disk cannot be throttled.
#[derive(Debug, thiserror::Error)]
pub enum ThrottleError {
    /// There is no such disk.
    #[error("{} does not lie on a block device that the kernel shows", .0.display())]
    NoDevice(PathBuf),
    /// No control group hierarchy controls disks.
    #[error(
        "no control group here can limit disks: `blkio` of version 1 is not mounted, and `io` of version 2 is not delegated to groups"
    )]
    NoController,
    /// A group could not be created or configured.
    #[error("cannot limit the disk by a control group: {}: {why}", path.display())]
    Group {
        /// The path of the group or file.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
}

impl Throttle {
    /// Creates a group for which the disk below `folder` has no limits yet.
    ///
    /// # Errors
    /// If there is no such disk, or no permission to limit it.
    pub fn new(folder: &Path) -> Result<Throttle, ThrottleError> {
        let device = BlockDevice::under(folder).and_then(|device| device.numbers());
        let device = device.ok_or_else(|| ThrottleError::NoDevice(folder.to_owned()))?;
        let mut refused = ThrottleError::NoController;
        for (version, parent) in parents(&Hierarchy::all()) {
            remove_abandoned(&parent);
            match create(&parent) {
                Ok((group, _lock, _successor)) => return Ok(Throttle { group, device, version, _lock, _successor }),
                Err(why) => refused = ThrottleError::Group { path: parent, why },
            }
        }
        Err(refused)
    }

    /// Sets the limits.
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub fn limit(&self, rates: Rates) -> Result<(), ThrottleError> {
        for (file, line) in limits(self.version, &self.device, rates) {
            let path = self.group.join(file);
            write_control(&path, &line).map_err(|why| ThrottleError::Group { path, why })?;
        }
        Ok(())
    }

    /// The invocation of a program in the group. A shell enters the group and then executes the
    /// program.
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

/// The possible parents of our group, the best first.
fn parents(hierarchies: &[Hierarchy]) -> Vec<(u32, PathBuf)> {
    let mut parents = Vec::new();
    for hierarchy in hierarchies {
        match hierarchy.version {
            1 if hierarchy.controllers.iter().any(|name| name == "blkio") => {
                parents.push((1, hierarchy.folder.clone()));
            }
            2 => {
                // Only groups that delegate the controller can have such subgroups. These groups
                // rarely have processes themselves.
                let delegates_io = |folder: &&Path| {
                    let controllers = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
                    controllers.split_ascii_whitespace().any(|name| name == "io")
                };
                parents.extend(hierarchy.folders().filter(delegates_io).map(|folder| (2, folder.to_owned())));
            }
            _ => {}
        }
    }
    parents
}

/// The files to write, with their contents.
fn limits(version: u32, device: &str, Rates { read, write }: Rates) -> Vec<(&'static str, String)> {
    match version {
        1 => vec![
            ("blkio.throttle.read_bps_device", format!("{device} {read}")),
            ("blkio.throttle.write_bps_device", format!("{device} {write}")),
        ],
        _ => vec![("io.max", format!("{device} rbps={read} wbps={write}"))],
    }
}

/// Creates a group and locks it.
#[expect(clippy::disallowed_methods, reason = "a control group is no folder of a disk")]
fn create(parent: &Path) -> io::Result<(PathBuf, File, Successor)> {
    for count in 0.. {
        let name = format!("{NAME}{}-{count}", std::process::id());
        let group = parent.join(&name);
        match fs::create_dir(&group).and_then(|()| lock(&group)) {
            Ok(Some(folder)) => return Ok((group, folder, Successor::removing(File::open(parent)?, &name, &[])?)),
            Ok(None) => {}
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
            Err(why) => {
                let _ = fs::remove_dir(&group);
                return Err(why);
            }
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Locks a group. Returns `None` if another process has taken it for abandoned before it was
/// locked, and has removed it or is about to.
fn lock(group: &Path) -> io::Result<Option<File>> {
    let folder = match File::open(group) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    // A process that removes it holds the lock meanwhile, so it stays if it is still there.
    Ok(group.exists().then_some(folder))
}

/// Removes the groups of killed processes: those of ours that are not locked and have no processes.
#[expect(clippy::disallowed_methods, reason = "a control group is no folder of a disk")]
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(NAME);
        if is_ours && let Ok(Some(_lock)) = lock(&entry.path()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::execution::RunLimits;

    const RATES: Rates = Rates { read: 1_000, write: 2_000 };

    #[test]
    fn limits_have_the_format_of_each_version() {
        let one = [
            ("blkio.throttle.read_bps_device", "8:0 1000".to_owned()),
            ("blkio.throttle.write_bps_device", "8:0 2000".to_owned()),
        ];
        assert_eq!(limits(1, "8:0", RATES), one);
        assert_eq!(limits(2, "8:0", RATES), [("io.max", "8:0 rbps=1000 wbps=2000".to_owned())]);
    }

    #[test]
    fn groups_are_created_where_disks_are_controlled() {
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
    fn only_unused_groups_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let (used, lock, successor) = create(parent.path()).unwrap();
        let left = parent.path().join(format!("{NAME}1-0"));
        let others = parent.path().join("another");
        fs::create_dir(&left).and_then(|()| fs::create_dir(&others)).unwrap();
        remove_abandoned(parent.path());
        assert_eq!((used.exists(), left.exists(), others.exists()), (true, false, true));
        std::mem::forget(successor);
        drop(lock);
        // The successor closes its copy of the lock soon after it has started.
        while used.exists() {
            remove_abandoned(parent.path());
        }
    }

    #[test]
    fn a_group_is_created_while_other_processes_remove_abandoned_ones() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            let creator = scope.spawn(|| (0..100).map(|_| create(parent.path())).collect::<io::Result<Vec<_>>>());
            while !creator.is_finished() {
                remove_abandoned(parent.path());
            }
            let created = creator.join().unwrap().unwrap();
            assert!(created.iter().all(|(group, ..)| group.exists()));
        });
        // Between its creation and its lock, another process may hold the lock, or have removed it.
        let (used, _lock, _successor) = create(parent.path()).unwrap();
        assert!(lock(&used).unwrap().is_none() && lock(&parent.path().join("removed")).unwrap().is_none());
    }

    #[test]
    fn folders_without_a_disk_are_refused() {
        let why = Throttle::new(Path::new("/proc")).unwrap_err();
        assert!(matches!(why, ThrottleError::NoDevice(_)), "{why}");
    }

    #[test]
    fn a_program_runs_in_the_group_and_the_group_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let throttle = match Throttle::new(folder.path()) {
            Ok(throttle) => throttle,
            // Without permission there is nothing to test. The user gets the same error.
            Err(why) => return eprintln!("not tested: {why}"),
        };
        throttle.limit(Rates { read: 1 << 30, write: 1 << 30 }).unwrap();
        let group = throttle.group().to_owned();
        let script = "grep -q rowlock-disk- /proc/self/cgroup && test \"$1\" = 'a b'";
        let arguments = ["-c", script, "name", "a b"].map(OsString::from);
        let invocation = throttle.invocation(Path::new("/bin/sh"), &arguments);
        let limits_of_run = RunLimits { cancel: &AtomicBool::new(false), limit: None };
        let execution = invocation.execute(&mut invocation.command(), limits_of_run).unwrap().unwrap();
        assert!(execution.status.success(), "{execution:?}");
        assert!(group.exists());
        drop(throttle);
        assert!(!group.exists());
    }
}
