//! The switch: stops and continues the processes of all jobs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use policy::gang::Action;
use policy::{Instant, JobId};

use crate::priority::Priority;
use crate::process_list::ProcessList;
use crate::processes::{Processes, cpu_of};
use crate::state::State;
use crate::table::Table;

/// An agent's means to switch.
#[derive(Debug)]
pub(crate) struct Switcher {
    priority: Priority,
    lists: BTreeMap<JobId, ProcessList>,
    processes: Processes,
}

impl Switcher {
    /// The calling thread becomes one that can switch.
    pub(crate) fn new() -> Switcher {
        Switcher { priority: Priority::raise(), lists: BTreeMap::new(), processes: Processes::default() }
    }

    /// Gives all processes of all jobs the action of their job at `now`. It may be repeated.
    ///
    /// All stops come first: a process that continues may take the CPU of this one for a tick.
    pub(crate) fn switch(&mut self, table: &Table, state: &State, now: Instant) {
        self.find_lists(table, state);
        let (lists, processes) = (&self.lists, &mut self.processes);
        let jobs_with = |action| lists.iter().filter(move |&(&job, _)| state.action(job, now) == Some(action));
        for (_, list) in jobs_with(Action::Stop) {
            processes.stop_all(list.iter(), |_, _| {});
        }
        let last_thread =
            jobs_with(Action::Run).filter(|(_, list)| list.is_stopped()).find_map(|(_, list)| list.last_thread());
        // If this process may not use that CPU, neither can one of its threads be there.
        let _there = last_thread.and_then(cpu_of).and_then(|cpu| self.priority.pin(cpu));
        for (_, list) in jobs_with(Action::Run) {
            processes.resume_all(list.iter(), |_, _| {});
        }
        self.processes.forget_unused();
    }

    /// The number of processes of all jobs.
    pub(crate) fn count_processes(&mut self, table: &Table, state: &State) -> u64 {
        self.find_lists(table, state);
        self.lists.values().map(|list| list.iter().count() as u64).sum()
    }

    fn find_lists(&mut self, table: &Table, state: &State) {
        self.lists.retain(|&job, _| state.job(job).is_ok());
        for (job, _) in state.jobs().filter(|(_, job)| !job.is_queued()) {
            // A job whose list cannot be read is not stopped.
            if let Entry::Vacant(place) = self.lists.entry(job)
                && let Ok(list) = table.processes(job)
            {
                place.insert(list);
            }
        }
    }

    /// Continues the processes of one job.
    pub(crate) fn resume(&mut self, list: &ProcessList) {
        self.processes.resume_all(list.iter(), |_, _| {});
    }
}
