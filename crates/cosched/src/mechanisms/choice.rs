//! Which mechanism stops a job: the first one that works here, of those that need the least time.

use std::io;

use sys::containment::JobGroup;

use super::freezers::Freezer;
use crate::restraint::{Hint, StopBy, StopChoice, StopMechanism};

/// The means of a process to stop its job. A group that it has is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct StopMeans {
    mechanism: StopMechanism,
    group: Option<JobGroup>,
    hint: Hint,
}

/// Why a mechanism cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("jobs cannot be stopped by the mechanism `{}`, because {why}", mechanism.name())]
pub struct Obstacle {
    /// The mechanism.
    pub mechanism: StopMechanism,
    /// The reason.
    #[source]
    pub why: io::Error,
}

/// The mechanism by which a job of this process would be stopped, and why it is not a better one.
/// Creates and removes groups to find that out.
pub fn find_stop_mechanism() -> (StopMechanism, Vec<Obstacle>) {
    let (means, obstacles) = first_that_works(StopMechanism::ALL, |mechanism| StopMeans::new(mechanism, false));
    (means.map_or(StopMechanism::Signals, |means| means.mechanism), obstacles)
}

impl StopMeans {
    /// Prepares a mechanism, or the best one if none is asked for. A job that is lowered in the
    /// turns of others can have only one group of version 2 for both.
    pub(crate) fn prepare(asked: Option<StopChoice>, is_lowered: bool) -> Result<StopMeans, Obstacle> {
        let order = match asked {
            None | Some(StopChoice::Hint) => StopMechanism::ALL.to_vec(),
            Some(StopChoice::By(asked)) => vec![asked],
        };
        let (means, mut obstacles) = first_that_works(order, |mechanism| StopMeans::new(mechanism, is_lowered));
        let hint = if asked == Some(StopChoice::Hint) { Hint::Obeyed } else { Hint::Unused };
        // The last one, signals, has none.
        means.map(|means| StopMeans { hint, ..means }).ok_or_else(|| obstacles.remove(0))
    }

    fn new(mechanism: StopMechanism, is_lowered: bool) -> io::Result<StopMeans> {
        let group = freezer(mechanism).map(|freezer| freezer.create(is_lowered)).transpose()?;
        Ok(StopMeans { mechanism, group, hint: Hint::Unused })
    }

    /// As the table says it to the agents of all jobs.
    pub(crate) fn stop_by(&self) -> StopBy {
        let group = self.group.as_ref().map(|group| group.path().to_owned());
        StopBy { mechanism: self.mechanism, group, hint: self.hint }
    }

    /// The group that the programs of the job must be in.
    pub(crate) fn group(&self) -> Option<&JobGroup> {
        self.group.as_ref()
    }

    /// Lets a frozen job go on. A job that is stopped by signals remains so.
    pub(crate) fn thaw(&self) {
        if let (Some(freezer), Some(group)) = (freezer(self.mechanism), &self.group) {
            let _ = freezer.thaw(group);
        }
    }
}

fn freezer(mechanism: StopMechanism) -> Option<Freezer> {
    match mechanism {
        StopMechanism::Freeze => Some(Freezer::VERSION_2),
        StopMechanism::Freezer => Some(Freezer::VERSION_1),
        StopMechanism::Signals => None,
    }
}

/// Tries mechanisms in this order. Returns the first success, and the failures before.
fn first_that_works<T>(
    order: impl IntoIterator<Item = StopMechanism>,
    attempt: impl Fn(StopMechanism) -> io::Result<T>,
) -> (Option<T>, Vec<Obstacle>) {
    let mut obstacles = Vec::new();
    for mechanism in order {
        match attempt(mechanism) {
            Ok(works) => return (Some(works), obstacles),
            Err(why) => obstacles.push(Obstacle { mechanism, why }),
        }
    }
    (None, obstacles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mechanism_that_works_is_preferred_and_the_better_ones_are_explained() {
        let choose = |works: &[StopMechanism]| {
            let attempt = |mechanism| match works.contains(&mechanism) {
                true => Ok(mechanism),
                false => Err(io::Error::other("it is Sunday")),
            };
            let (chosen, obstacles) = first_that_works(StopMechanism::ALL, attempt);
            (chosen, obstacles.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        use StopMechanism::{Freeze, Freezer, Signals};
        assert_eq!(choose(&[Signals, Freezer, Freeze]), (Some(Freeze), vec![]));
        let why = |name| format!("jobs cannot be stopped by the mechanism `{name}`, because it is Sunday");
        assert_eq!(choose(&[Signals, Freezer]), (Some(Freezer), vec![why("freeze")]));
        assert_eq!(choose(&[Signals]), (Some(Signals), vec![why("freeze"), why("freezer")]));
    }

    #[test]
    fn signals_need_nothing() {
        let means = StopMeans::prepare(Some(StopChoice::By(StopMechanism::Signals)), true).unwrap();
        assert_eq!(means.stop_by(), StopBy { mechanism: StopMechanism::Signals, group: None, hint: Hint::Unused });
    }
}
