//! The switch: stops and continues the processes of all jobs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use policy::gang::Action;
use policy::{Instant, JobId};

use crate::process_list::ProcessList;
use crate::processes::Processes;
use crate::state::State;
use crate::table::Table;

/// An agent's means to switch.
#[derive(Debug, Default)]
pub(crate) struct Switcher {
    lists: BTreeMap<JobId, ProcessList>,
    processes: Processes,
}

impl Switcher {
    /// Gives all processes of all jobs the action of their job at `now`. It may be repeated.
    ///
    /// All stops come first: a process that continues may take the CPU of this one for a tick.
    pub(crate) fn switch(&mut self, table: &Table, state: &State, now: Instant) {
        self.lists.retain(|&job, _| state.job(job).is_ok());
        for (job, _) in state.jobs() {
            // A job whose list cannot be read is not stopped.
            if let Entry::Vacant(place) = self.lists.entry(job)
                && let Ok(list) = table.processes(job)
            {
                place.insert(list);
            }
        }
        let (lists, processes) = (&self.lists, &mut self.processes);
        let jobs_with = |action| lists.iter().filter(move |&(&job, _)| state.action(job, now) == Some(action));
        for (_, list) in jobs_with(Action::Stop) {
            processes.stop_all(list.iter(), |_, _| {});
        }
        for (_, list) in jobs_with(Action::Run) {
            processes.resume_all(list.iter(), |_, _| {});
        }
        self.processes.forget_unused();
    }

    /// Continues the processes of one job.
    pub(crate) fn resume(&mut self, list: &ProcessList) {
        self.processes.resume_all(list.iter(), |_, _| {});
    }
}
