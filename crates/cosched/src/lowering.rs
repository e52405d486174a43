//! How a job is lowered in the turns of others, and why it cannot be.
//!
//! By the weight of a control group, if the job has one, or else by the priorities of its threads.
//! These count only within a task group, so there must be no job outside of it. And the kernel lets
//! a process without privileges lower its threads, but not raise them again.

use std::io;

use policy::JobId;
use sys::containment::JobGroup;
use sys::identity::Identity;
use sys::priorities::{check_idle_and_back, check_worst_nice_and_back};
use sys::scheduling::{Attributes, Policy, SchedulingError, Thread, WORST_NICE, attributes};
use sys::task_group::TaskGroup;

use crate::mechanisms::{StopMeans, weighted_group};
use crate::restraint::LowerBy;

/// The reason why a job cannot be lowered.
#[derive(Debug, thiserror::Error)]
#[error(
    "the job cannot be lowered: not by a weight, because {weight}, and not by priorities, because {priorities}; instead \
     of `--how moderate`, use `--how adaptive` or `--how strict`, which stop jobs"
)]
pub struct CannotLower {
    /// Why by no weight: a clause that goes on after `because`.
    weight: io::Error,
    /// Why by no priorities.
    #[source]
    priorities: NoPriorities,
}

/// The reason why the threads of a job cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NoPriorities {
    #[error("threads that are lowered could not be raised again: {0}")]
    Rights(SchedulingError),
    #[error("they say nothing to job {job}, which is not in {group}")]
    Apart { job: JobId, group: TaskGroup },
    #[error("its threads have the policy {} and the nice value {}", .0.policy, .0.nice)]
    NotOrdinary(Attributes),
    #[error("those of its threads are unknown")]
    Unknown,
}

/// The means of a process to lower its job. A group that it has is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct LowerMeans {
    group: Option<JobGroup>,
    by: LowerBy,
}

impl LowerMeans {
    /// Prepares the best mechanism for the job of a program that runs already, or for that of this
    /// process, which has this group, if any. It is beside jobs in these task groups.
    pub(crate) fn prepare(
        program: Option<Identity>,
        own: Option<&JobGroup>,
        others: impl IntoIterator<Item = (JobId, Option<TaskGroup>)>,
    ) -> Result<LowerMeans, CannotLower> {
        if let Some(program) = program {
            return Ok(LowerMeans { group: None, by: LowerBy::of_running(program, others)? });
        }
        let weight = match weighted_group(own) {
            Ok((group, by)) => return Ok(LowerMeans { group, by }),
            Err(why) => why,
        };
        match by_priorities(Identity::own(), others) {
            Ok(by) => Ok(LowerMeans { group: None, by }),
            Err(priorities) => Err(CannotLower { weight, priorities }),
        }
    }

    /// As the table says it to the agents of all jobs.
    pub(crate) fn lower_by(&self) -> LowerBy {
        self.by.clone()
    }

    /// The group that the programs of the job must be in.
    pub(crate) fn group(&self) -> Option<&JobGroup> {
        self.group.as_ref()
    }
}

impl LowerBy {
    /// The best mechanism for a job that runs already, beside jobs in these task groups. Its
    /// threads have begun with the priority of this process.
    pub(crate) fn of_running(
        process: Identity,
        others: impl IntoIterator<Item = (JobId, Option<TaskGroup>)>,
    ) -> Result<LowerBy, CannotLower> {
        let weight = || io::Error::other("only ranks that begin with `--how moderate` are in a control group for that");
        by_priorities(process, others).map_err(|priorities| CannotLower { weight: weight(), priorities })
    }
}

/// The mechanism by which a job of this process would be lowered if there were no other jobs.
/// Creates and removes groups to find that out.
///
/// # Errors
/// [`CannotLower`].
pub fn find_lower_mechanism() -> Result<LowerBy, CannotLower> {
    let stop = StopMeans::prepare(None, true).ok();
    LowerMeans::prepare(None, stop.as_ref().and_then(StopMeans::group), []).map(|means| means.lower_by())
}

/// The best mechanism that lowers the threads of a job. They have begun with the priority of this
/// process.
fn by_priorities(
    process: Identity,
    others: impl IntoIterator<Item = (JobId, Option<TaskGroup>)>,
) -> Result<LowerBy, NoPriorities> {
    let group = TaskGroup::of(process.pid).ok_or(NoPriorities::Unknown)?;
    if let Some((job, _)) = others.into_iter().find(|(_, other)| other.as_ref() != Some(&group)) {
        return Err(NoPriorities::Apart { job, group });
    }
    let ordinary = Thread::from_number(process.pid).and_then(|thread| attributes(thread).ok());
    choose(ordinary.ok_or(NoPriorities::Unknown)?, check_idle_and_back(), check_worst_nice_and_back())
}

/// Chooses for threads that have this priority, given whether each mechanism can be undone.
fn choose(
    ordinary: Attributes,
    idle: Result<(), SchedulingError>,
    nice: Result<(), SchedulingError>,
) -> Result<LowerBy, NoPriorities> {
    match (idle, nice) {
        (Ok(()), _) if ordinary.policy == Policy::Other => Ok(LowerBy::SchedIdle),
        (_, Ok(())) if ordinary.policy.is_fair() && ordinary.nice < WORST_NICE => {
            Ok(LowerBy::Nice { ordinary: ordinary.nice })
        }
        (_, Err(why)) => Err(NoPriorities::Rights(why)),
        (_, Ok(())) => Err(NoPriorities::NotOrdinary(ordinary)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> SchedulingError {
        SchedulingError { cause: "not permitted".to_owned(), requirement: Some("a right".to_owned()) }
    }

    #[test]
    fn sched_idle_is_preferred_to_nice_values_and_what_cannot_be_undone_is_not_offered() {
        let ordinary = |policy, nice| Attributes { policy, nice, slice: None, clamp: None };
        let plain = ordinary(Policy::Other, 0);
        assert_eq!(choose(plain, Ok(()), Ok(())), Ok(LowerBy::SchedIdle));
        assert_eq!(choose(plain, Ok(()), Err(refused())), Ok(LowerBy::SchedIdle));
        assert_eq!(choose(plain, Err(refused()), Ok(())), Ok(LowerBy::Nice { ordinary: 0 }));
        assert_eq!(choose(plain, Err(refused()), Err(refused())), Err(NoPriorities::Rights(refused())));
        let batch = ordinary(Policy::Batch, 5);
        assert_eq!(choose(batch, Ok(()), Ok(())), Ok(LowerBy::Nice { ordinary: 5 }));
        for other in [ordinary(Policy::Fifo(1), 0), ordinary(Policy::Idle, 0), ordinary(Policy::Batch, 19)] {
            assert_eq!(choose(other, Ok(()), Ok(())), Err(NoPriorities::NotOrdinary(other)));
        }
    }

    #[test]
    fn priorities_do_not_lower_a_job_that_is_beside_one_in_another_task_group() {
        let agent = Identity::own();
        let own = TaskGroup::of(agent.pid).unwrap();
        let beside = |other| by_priorities(agent, [(JobId(1), Some(own.clone())), (JobId(2), other)]);
        let refused = Err(NoPriorities::Apart { job: JobId(2), group: own.clone() });
        assert_eq!(beside(Some(TaskGroup::Group("elsewhere".into()))), refused);
        assert_eq!(beside(None), refused);
        assert!(!matches!(beside(Some(own.clone())), Err(NoPriorities::Apart { .. } | NoPriorities::Unknown)));
        assert_eq!(by_priorities(Identity { pid: u32::MAX, started: 1 }, []), Err(NoPriorities::Unknown));
    }

    #[test]
    fn a_refusal_says_what_is_missing_and_what_to_use_instead() {
        let priorities = NoPriorities::Rights(refused());
        let text = CannotLower { weight: io::Error::other("it is Sunday"), priorities }.to_string();
        let parts = ["because it is Sunday", "not permitted; it takes a right", "`--how adaptive`"];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}
