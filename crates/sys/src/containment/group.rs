//! The control group of a program: a set of processes that holds all that the program starts,
//! whatever they do with their environment and their parents.
//!
//! The keeper creates the group below that of its starter and starts the program in it. The kernel
//! kills all processes of a group at once, those of other users too, and those that are being
//! created. Where no group is allowed, the program has none, and the keeper and its record find
//! what they can.
//!
//! # The program is as fast as without the group
//!
//! * The group has no controllers, since the group around it passes none on. So the program
//!   competes for CPUs, memory and disks as a member of the group around it.
//! * The kernel would account for stalls (PSI) in every group and the groups around it, at each
//!   switch of threads. That is switched off for this group (`cgroup.pressure`, Linux 6.1).
//! * The program is created in the group. To move a running process into a group, the kernel first
//!   makes all processes on the machine fork and exit in a slower way. It waits 10 ms for that.
//!
//! So version 1 of control groups is not used: its processes can only be moved, and it cannot kill
//! a group. It does not let users have groups of their own either.
//!
//! # When the group would harm
//!
//! Some programs choose the number of their threads or the size of their heap by the limits of
//! their own group, and do not look at the groups around it. They would not see limits of the group
//! around this one, so there is no group if that has limits.
//!
//! A program that manages control groups finds itself in an inner one. It may create groups in it,
//! which are ended with it. It can move processes elsewhere, which the group then does not hold.
//!
//! Sources: `Documentation/admin-guide/cgroup-v2.rst` and `kernel/cgroup/cgroup.c` of Linux
//! (`cgroup_attach_lock` for the cost of moving), clone(2) for `CLONE_INTO_CGROUP`;
//! <https://github.com/golang/go/issues/81180> and JDK-8322420 for programs that see only their own
//! group.

use std::ffi::{CStr, CString};
use std::fmt::Display;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, fstatfs, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::keeper::read_at;
use crate::cgroups::Hierarchy;
use crate::files::{Folder, write_control_at};
use crate::identity::Stat;

/// The prefix of the names of our groups.
const PREFIX: &str = "rowlock-program-";
/// The `statfs` type of version 2.
const VERSION_2: u32 = 0x6367_7270;
/// The flag of `clone3`, whose type in the C library's header is too small.
const CLONE_INTO_CGROUP: u64 = 1 << 33;
/// The limits that programs look up in their own group.
const LIMITS: [&str; 6] = ["cpu.max", "memory.max", "memory.high", "memory.swap.max", "cpuset.cpus", "cpuset.mems"];
/// A program can create groups in groups. Deeper ones stay.
const DEPTH: u32 = 50;

/// A control group that may exist.
#[derive(Debug)]
pub(super) struct Group {
    /// The folder of the group around it.
    around: Folder,
    name: CString,
}

impl Group {
    /// A group in the group of this process, whose name ends like this. Returns `None` if there are
    /// no groups here, or if one would harm.
    pub(super) fn within_own(suffix: &str) -> Option<Group> {
        let own = Hierarchy::all().into_iter().find(|hierarchy| hierarchy.version == 2)?.folder;
        // Another part of the hierarchy may be mounted here.
        let processes = fs::read_to_string(own.join("cgroup.procs")).ok()?;
        let is_own = processes.lines().any(|id| id.parse() == Ok(std::process::id()));
        if is_own && is_harmless_within(&own) { Group::within(own.to_str()?, suffix) } else { None }
    }

    /// A group in the group with this folder. Returns `None` if there is no such folder of version
    /// 2, or if the name cannot be that of a group of ours.
    pub(super) fn within(around: &str, suffix: &str) -> Option<Group> {
        let around = Folder::open(Path::new(around)).ok()?;
        let is_valid = suffix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let name = CString::new(format!("{PREFIX}{suffix}")).ok()?;
        (is_version_2(&around) && is_valid).then_some(Group { around, name })
    }

    /// The path of the group around it.
    pub(super) fn path_around(&self) -> impl Display {
        self.around.path().display()
    }

    /// Whether a process in the group needs only a CPU to end, if all are killed. Those in groups
    /// within it do not count.
    pub(super) fn waits_for_cpu(&self) -> bool {
        let processes = self.around.path().join(&*self.name.to_string_lossy()).join("cgroup.procs");
        let processes = fs::read_to_string(processes).unwrap_or_default();
        let mut processes = processes.lines().filter_map(|id| id.parse().ok());
        processes.any(|id| Stat::of(id).is_some_and(|stat| stat.waits_for_cpu()))
    }

    /// Whether this process is in the group.
    pub(super) fn has_this_process(&self) -> bool {
        let own = fs::read("/proc/self/cgroup").unwrap_or_default();
        own.windows(self.name.count_bytes()).any(|part| part == self.name.to_bytes())
    }
}

/// These functions make only system calls, since they run in the keeper.
impl Group {
    /// Creates the group, and forks this process so that its child is in the group. Returns the
    /// child's id in the parent and 0 in the child. If that is not allowed, it returns `None` and
    /// leaves no group.
    ///
    /// # Safety
    /// As for `fork`. In addition, the child may only make system calls until it executes a
    /// program, since the C library takes it for its parent.
    pub(super) unsafe fn fork(&self) -> Option<libc::pid_t> {
        create(self.around(), &self.name).ok()?;
        let forked = self.open().and_then(|group| {
            let _ = write_control_at(&group, c"cgroup.pressure", b"0");
            // Since Linux 5.14.
            statat(&group, c"cgroup.kill", AtFlags::empty()).ok()?;
            let order = libc::clone_args {
                flags: CLONE_INTO_CGROUP,
                exit_signal: libc::SIGCHLD as u64,
                cgroup: group.as_raw_fd() as u64,
                pidfd: 0,
                child_tid: 0,
                parent_tid: 0,
                stack: 0,
                stack_size: 0,
                tls: 0,
                set_tid: 0,
                set_tid_size: 0,
            };
            // SAFETY: the kernel reads a structure of this size. Without a stack and without flags
            // that share something, it is a fork.
            let forked = unsafe { libc::syscall(libc::SYS_clone3, &raw const order, size_of_val(&order)) };
            libc::pid_t::try_from(forked).ok().filter(|&forked| forked >= 0)
        });
        if forked.is_none() {
            self.remove();
        }
        forked
    }

    /// The folder of the group around it, by which all of this is done.
    pub(super) fn around(&self) -> BorrowedFd<'_> {
        self.around.as_fd()
    }

    /// Kills all processes in the group and in groups within it.
    pub(super) fn kill(&self) {
        if let Some(group) = self.open() {
            let _ = write_control_at(&group, c"cgroup.kill", b"1");
        }
    }

    /// Moves the processes of the group to the group around it. Those that are created meanwhile
    /// stay.
    pub(super) fn release(&self) {
        let mut text = [0; 4096];
        let processes = self.open().and_then(|group| read_at(group.as_fd(), c"cgroup.procs", &mut text));
        // A line that does not end is incomplete.
        for line in processes.into_iter().flat_map(|text| text.split_inclusive(|&byte| byte == b'\n')) {
            if line.ends_with(b"\n") {
                let _ = write_control_at(&self.around, c"cgroup.procs", line);
            }
        }
    }

    /// Removes the group and the groups within it. Returns whether there is none any more: a group
    /// with processes stays.
    pub(super) fn remove(&self) -> bool {
        cfg!(rowlock_canary = "a-group-stays") || remove(self.around(), &self.name, DEPTH).is_ok()
    }

    fn open(&self) -> Option<OwnedFd> {
        open(self.around(), &self.name).ok()
    }
}

/// Whether this is a folder of version 2.
pub(super) fn is_version_2(folder: impl AsFd) -> bool {
    fstatfs(folder).is_ok_and(|about| about.f_type as u32 == VERSION_2)
}

/// Whether a program in a new group within this one has the same limits as in this one, sees the
/// same, and competes for CPUs as a member of this one.
pub(super) fn is_harmless_within(group: &Path) -> bool {
    first_word(group, "cgroup.subtree_control").is_empty() && !has_limits(group)
}

/// Whether this group has limits that a program would look up.
pub(super) fn has_limits(group: &Path) -> bool {
    !LIMITS.iter().all(|name| ["", "max"].contains(&first_word(group, name).as_str()))
}

/// The first word in a file of a group. Empty if there is none.
pub(super) fn first_word(group: &Path, name: &str) -> String {
    let text = fs::read_to_string(group.join(name)).unwrap_or_default();
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

#[expect(clippy::disallowed_methods, reason = "it only reads")]
pub(super) fn open(around: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    openat(around, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Creates a group. It makes only a system call.
#[expect(clippy::disallowed_methods, reason = "a control group is no folder of a disk")]
pub(super) fn create(around: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    mkdirat(around, name, Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH)
}

/// Removes a group, and the groups in it to this depth. It makes only system calls.
#[expect(clippy::disallowed_methods, reason = "a control group is no folder of a disk")]
pub(super) fn remove(around: BorrowedFd<'_>, name: &CStr, depth: u32) -> Result<(), Errno> {
    match unlinkat(around, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => return Ok(()),
        // It has processes or groups.
        Err(Errno::BUSY) if depth > 0 => {}
        removed => return removed,
    }
    let group = open(around, name)?;
    let mut entries = [MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(&group, &mut entries);
    while let Some(Ok(entry)) = entries.next() {
        if entry.file_type() == FileType::Directory && ![c".", c".."].contains(&entry.file_name()) {
            remove(group.as_fd(), entry.file_name(), depth - 1)?;
        }
    }
    unlinkat(around, name, AtFlags::REMOVEDIR)
}
