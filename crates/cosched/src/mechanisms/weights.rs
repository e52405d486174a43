//! The weight of a control group: all threads of a job together hardly get a CPU that others want.
//!
//! The numbers are those of the simulator, as far as each version of control groups has them:
//! `cpu.shares` from 2, where 1024 is ordinary, and `cpu.weight` from 1, where 100 is ordinary.
//!
//! A weight that a user has given to the group remains: only the ordinary one is lowered, and only
//! the lowest one is raised.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;

use policy::JobId;
use sys::cgroups::Hierarchy;
use sys::containment::{JobGroup, control_of_job};
use sys::files::Control;

use super::{Mechanism, Target, hierarchy};
use crate::restraint::LowerBy;

/// The file with the weight of a group of version 2.
pub(super) const SECOND: &str = "cpu.weight";

/// The weights in one version of control groups.
#[derive(Clone, Copy, Debug)]
struct Scale {
    version: u32,
    file: &'static str,
    ordinary: &'static str,
    lowest: &'static str,
}

const SCALES: [Scale; 2] = [
    Scale { version: 1, file: "cpu.shares", ordinary: "1024", lowest: "2" },
    Scale { version: 2, file: SECOND, ordinary: "100", lowest: "1" },
];

impl Scale {
    fn hierarchy(self) -> io::Result<Hierarchy> {
        let missing = || io::Error::other(format!("control groups have no {} here", self.file));
        hierarchy(self.version, "cpu").ok_or_else(missing)
    }
}

/// Creates a group with a weight for the job of this process, or takes the one that it has. Returns
/// that if it is new, and how it is used.
pub(crate) fn weighted_group(own: Option<&JobGroup>) -> io::Result<(Option<JobGroup>, LowerBy)> {
    let [first, second] = SCALES;
    let by = |scale: Scale, group: &JobGroup| {
        let group = group.path().to_owned();
        LowerBy::Weight { version: scale.version, group }
    };
    if let Some(own) = own.filter(|own| own.control(second.file).is_ok()) {
        return Ok((None, by(second, own)));
    }
    let create = |scale: Scale| {
        let group = JobGroup::create_weighted(&scale.hierarchy()?, scale.file)?;
        let by = by(scale, &group);
        Ok((Some(group), by))
    };
    let both = |why: io::Error, other: io::Error| io::Error::other(format!("{why}, and {other}"));
    create(first).or_else(|why| create(second).map_err(|other| both(why, other)))
}

/// Changes the weights of the groups of jobs, and keeps their files open.
#[derive(Debug, Default)]
pub(super) struct Weights(BTreeMap<JobId, Open>);

#[derive(Debug)]
struct Open {
    scale: Scale,
    control: Control,
    /// Whether it was used since the last call of `forget_unused`.
    is_used: bool,
}

impl Open {
    fn of(target: &Target<'_>) -> io::Result<Open> {
        let Some(LowerBy::Weight { version, group }) = target.lower_by else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let scale = SCALES.into_iter().find(|scale| scale.version == *version).ok_or(io::ErrorKind::InvalidInput)?;
        let control = control_of_job(&scale.hierarchy()?, group, target.agent.pid, scale.file)?;
        Ok(Open { scale, control, is_used: true })
    }

    fn set(&mut self, is_lowered: bool) -> io::Result<()> {
        self.is_used = true;
        let Scale { ordinary, lowest, .. } = self.scale;
        let (from, to) = if is_lowered { (ordinary, lowest) } else { (lowest, ordinary) };
        if self.control.read()? == from { self.control.write(to) } else { Ok(()) }
    }
}

impl Weights {
    fn set(&mut self, target: &Target<'_>, is_lowered: bool) -> io::Result<()> {
        match self.0.entry(target.id) {
            Entry::Occupied(open) => open.into_mut().set(is_lowered),
            Entry::Vacant(place) => place.insert(Open::of(target)?).set(is_lowered),
        }
    }
}

impl Mechanism for Weights {
    fn restrain(&mut self, target: &Target<'_>) -> io::Result<()> {
        self.set(target, true)
    }

    fn release(&mut self, target: &Target<'_>) -> io::Result<()> {
        self.set(target, false)
    }

    fn forget_unused(&mut self) {
        self.0.retain(|_, open| std::mem::take(&mut open.is_used));
    }
}

#[cfg(test)]
mod tests;
