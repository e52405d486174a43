//! The freezers of control groups: `cgroup.freeze` of version 2, and `freezer.state` of version 1.
//!
//! One write stops all processes of a job, and one lets them go on. A process that is created
//! meanwhile is frozen as well. Signals to a frozen process are pending, so it keeps the stops of
//! others, and a debugger sees nothing. But a stop of its terminal acts only when it is thawed, so
//! a job that is left to its terminal is thawed.
//!
//! A process that has left the group, as a manager of control groups may, is not stopped.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::SeqCst;

use policy::{Instant, JobId};
use sys::cgroups::Hierarchy;
use sys::containment::{JobGroup, control_of_job};
use sys::files::Control;

use super::{Mechanism, Target, hierarchy, weights};
use crate::processes::mark;

/// A freezer of one version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freezer {
    version: u32,
    file: &'static str,
    frozen: &'static str,
    thawed: &'static str,
}

impl Freezer {
    pub(super) const VERSION_1: Freezer =
        Freezer { version: 1, file: "freezer.state", frozen: "FROZEN", thawed: "THAWED" };
    pub(super) const VERSION_2: Freezer = Freezer { version: 2, file: "cgroup.freeze", frozen: "1", thawed: "0" };

    /// Creates a group that can be frozen, for the job of this process. In version 2, a job that is
    /// lowered gets one with a weight if that is possible.
    pub(super) fn create(self, is_lowered: bool) -> io::Result<JobGroup> {
        let hierarchy = self.hierarchy()?;
        let weighted =
            (is_lowered && self.version == 2).then(|| JobGroup::create_weighted(&hierarchy, weights::SECOND));
        let group = weighted.and_then(Result::ok).map_or_else(|| JobGroup::create(&hierarchy), Ok)?;
        let lacks = |why| io::Error::other(format!("groups have no {} here: {why}", self.file));
        group.control(self.file).and_then(|control| control.read()).map_err(lacks)?;
        Ok(group)
    }

    /// Lets the processes in a group of this process go on.
    pub(super) fn thaw(self, group: &JobGroup) -> io::Result<()> {
        group.control(self.file)?.write(self.thawed)
    }

    fn hierarchy(self) -> io::Result<Hierarchy> {
        let missing = || io::Error::other(format!("no freezer of version {} is mounted", self.version));
        hierarchy(self.version, "freezer").ok_or_else(missing)
    }
}

/// Freezes the groups of jobs, and keeps their files open.
#[derive(Debug)]
pub(super) struct Freezers {
    freezer: Freezer,
    jobs: BTreeMap<JobId, Frozen>,
    /// When it has begun to thaw groups.
    begun: Option<Instant>,
}

#[derive(Debug)]
struct Frozen {
    /// `None` if it cannot be opened: then the job runs.
    control: Option<Control>,
    /// Whether it was used since the last call of `forget_unused`.
    is_used: bool,
}

impl Freezers {
    pub(super) fn new(freezer: Freezer) -> Freezers {
        Freezers { freezer, jobs: BTreeMap::new(), begun: None }
    }

    fn write(&mut self, target: &Target<'_>, setting: &str) -> io::Result<()> {
        if let Some(frozen) = self.jobs.get_mut(&target.id) {
            frozen.is_used = true;
            return frozen.control.as_ref().map_or(Ok(()), |control| control.write(setting));
        }
        let opened = self.open(target);
        let (control, done) = match opened {
            Ok(control) => {
                let done = control.write(setting);
                (Some(control), done)
            }
            Err(why) => (None, Err(why)),
        };
        self.jobs.insert(target.id, Frozen { control, is_used: true });
        done
    }

    fn open(&self, target: &Target<'_>) -> io::Result<Control> {
        let group = target.stop_by.and_then(|stop_by| stop_by.group.as_deref()).unwrap_or_default();
        control_of_job(&self.freezer.hierarchy()?, group, target.agent.pid, self.freezer.file)
    }
}

impl Mechanism for Freezers {
    fn restrain(&mut self, target: &Target<'_>) -> io::Result<()> {
        target.list.group_mark().fetch_or(mark::stopped(0), SeqCst);
        self.write(target, self.freezer.frozen)
    }

    fn release(&mut self, target: &Target<'_>) -> io::Result<()> {
        let word = target.list.group_mark();
        let (before, begun) = (word.load(SeqCst), wait::now());
        self.write(target, self.freezer.thawed)?;
        if mark::is_ours(before) {
            self.begun.get_or_insert(begun);
            // If it fails, another switcher was here.
            let _ = word.compare_exchange(before, mark::over(before), SeqCst, SeqCst);
        }
        Ok(())
    }

    fn take_begun(&mut self) -> Option<Instant> {
        self.begun.take()
    }

    fn leave(&mut self, target: &Target<'_>) -> io::Result<()> {
        self.release(target)
    }

    /// A job that is no longer in the table may still have processes, and its agent may have been
    /// killed.
    fn forget_unused(&mut self) {
        let thawed = self.freezer.thawed;
        self.jobs.retain(|_, frozen| {
            if !frozen.is_used {
                let _ = frozen.control.as_ref().map(|control| control.write(thawed));
            }
            std::mem::take(&mut frozen.is_used)
        });
    }
}
