//! The switch: stops, lowers and continues the processes of all jobs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::Arc;

use policy::gang::Action;
use policy::{Instant, JobId, Span};
use sys::cpus::Pinned;
use wait::turn::{Turn, WrittenPage};

use crate::mechanisms::{Mechanisms, Target};
use crate::priority::Priority;
use crate::process_list::ProcessList;
use crate::processes::{LastThreads, threads};
use crate::restraint::LowerBy;
use crate::state::{Job, State};
use crate::table::Table;

/// How long it may take to stop or continue a process, by signals and as one of a control group.
const TIME_FOR_PROCESS: Span = Span::from_micros(50);
const TIME_IN_GROUP: Span = Span::from_micros(5);
/// How long it may take to lower or raise a thread.
const TIME_FOR_THREAD: Span = Span::from_micros(20);

/// An agent's means to switch.
#[derive(Debug)]
pub(crate) struct Switcher {
    priority: Priority,
    lists: BTreeMap<JobId, ProcessList>,
    /// Tell the threads of jobs whose turn it is.
    pages: BTreeMap<JobId, WrittenPage>,
    last_threads: LastThreads,
    /// The job with whose last thread this one shares a CPU, and the CPU.
    there: Option<(JobId, u32, Pinned)>,
    mechanisms: Mechanisms,
    /// The last version of the table for which there are lists.
    state: Option<Arc<State>>,
}

/// A job that could not be stopped, lowered or continued, and the reason.
pub(crate) type Failure = (JobId, io::Error);

impl Switcher {
    /// The calling thread becomes one that can switch.
    pub(crate) fn new() -> Switcher {
        Switcher {
            priority: Priority::raise(),
            lists: BTreeMap::new(),
            pages: BTreeMap::new(),
            last_threads: LastThreads::default(),
            there: None,
            mechanisms: Mechanisms::default(),
            state: None,
        }
    }

    /// Gives all processes of all jobs the action of their job at `now`. It may be repeated.
    /// Returns the time from the first process that runs again to the last, `None` without any; or
    /// the first failure: all other jobs have their action nevertheless.
    ///
    /// All stops come first: a process that continues may take the CPU of this one for a tick.
    pub(crate) fn switch(&mut self, table: &Table, state: &Arc<State>, now: Instant) -> Result<Option<Span>, Failure> {
        self.find_lists(table, state);
        // This comes before the stops, after which CPUs are idle.
        let last_thread = self.last_thread(state, now);
        if last_thread.map(|(job, _)| job) != self.there.as_ref().map(|&(job, _, _)| job) {
            self.go_to(last_thread);
        }
        let Switcher { lists, pages, mechanisms, .. } = self;
        let jobs: Vec<_> = jobs(lists, state).map(|of @ (id, _, _)| (state.action(id, now), of)).collect();
        let of = |action: Option<Action>| jobs.iter().filter(move |(own, _)| *own == action).map(|&(_, of)| of);
        let tell = |is_ours: bool| {
            let turns = pages.iter().map(|(&id, page)| (page, state.turn(id, now)));
            turns
                .filter(|(_, turn)| matches!(turn, Turn::OursUntil(_)) == is_ours)
                .for_each(|(page, turn)| page.set(turn));
        };
        let mut failed = None;
        let mut enforce = |action: Option<Action>, step: Step| {
            for (id, job, list) in of(action) {
                if let Err(why) = step(mechanisms, &job.target(id, list)) {
                    failed.get_or_insert((id, why));
                }
            }
        };
        tell(false);
        enforce(Some(Action::Stop), Mechanisms::stop);
        enforce(Some(Action::Lower), Mechanisms::lower);
        enforce(None, Mechanisms::leave);
        tell(true);
        enforce(Some(Action::Run), Mechanisms::run);
        let skew = mechanisms.take_begun().map(|begun| wait::now().since(begun));
        mechanisms.forget_unused();
        failed.map_or(Ok(skew), Err)
    }

    /// Makes ready for the switch at this time, if it is known. To look for the CPU and to move
    /// there takes longer than all the rest of a switch.
    pub(crate) fn prepare(&mut self, state: &State, boundary: Option<Instant>) {
        self.go_to(boundary.and_then(|boundary| self.last_thread(state, boundary)));
    }

    /// The thread that a switch at `now` continues last, and its job, if that matters: see
    /// `processes::last_thread`.
    fn last_thread(&self, state: &State, now: Instant) -> Option<(JobId, (u32, u32))> {
        let mut continued = jobs(&self.lists, state)
            .filter(|&(id, _, list)| state.action(id, now) == Some(Action::Run) && list.is_stopped());
        continued.find_map(|(id, _, list)| Some((id, list.last_thread()?)))
    }

    /// Binds this thread to the CPU of another one, or to none.
    fn go_to(&mut self, thread: Option<(JobId, (u32, u32))>) {
        let there = thread.and_then(|(job, thread)| Some((job, self.last_threads.cpu(job, thread)?)));
        if there == self.there.as_ref().map(|&(job, cpu, _)| (job, cpu)) {
            return;
        }
        // The first binding ends before the second one begins.
        self.there = None;
        // If this process may not use that CPU, neither can one of its threads be there.
        self.there = there.and_then(|(job, cpu)| Some((job, cpu, self.priority.pin(cpu)?)));
    }

    /// How long the processes of all jobs may delay a switch.
    pub(crate) fn time_for_processes(&mut self, table: &Table, state: &Arc<State>) -> Span {
        self.find_lists(table, state);
        let time = |(_, job, list): (_, &Job, &ProcessList)| {
            let is_grouped = job.stop_by.as_ref().is_some_and(|stop_by| stop_by.group.is_some());
            let of_each = if is_grouped { TIME_IN_GROUP } else { TIME_FOR_PROCESS };
            let of_processes = of_each.as_nanos().saturating_mul(list.iter().count() as u64);
            let has_priorities = job.lower_by.as_ref().is_some_and(LowerBy::is_of_threads);
            let counted = list.iter().filter(|_| has_priorities).filter_map(|(process, _)| threads(process));
            let threads = counted.map(|threads| threads.len() as u64).sum();
            of_processes.saturating_add(TIME_FOR_THREAD.as_nanos().saturating_mul(threads))
        };
        Span::from_nanos(jobs(&self.lists, state).map(time).fold(0, u64::saturating_add))
    }

    fn find_lists(&mut self, table: &Table, state: &Arc<State>) {
        let before = self.state.replace(state.clone());
        let Switcher { lists, pages, last_threads, mechanisms, .. } = self;
        last_threads.retain(|id| state.job(id).is_ok());
        pages.retain(|&id, _| state.job(id).is_ok());
        lists.retain(|&id, list| {
            let is_there = state.job(id).is_ok();
            if let (false, Some(job)) = (is_there, before.as_ref().and_then(|before| before.job(id).ok())) {
                // If its agent was killed, its processes can end only if they run. If it was
                // adopted, they go on. An agent may have stopped them after their own had left.
                let _ = mechanisms.run(&job.target(id, list));
            }
            is_there
        });
        for (job, _) in state.jobs().filter(|(_, job)| !job.is_queued()) {
            // A job whose list cannot be read is not stopped.
            if let Entry::Vacant(place) = self.lists.entry(job)
                && let Ok(list) = table.processes(job)
            {
                place.insert(list);
                // A job without a page is stopped by its mechanism.
                table.turn_page(job).ok().map(|page| self.pages.insert(job, page));
            }
        }
    }

    /// Lets one job run.
    pub(crate) fn release(&mut self, target: &Target<'_>) -> io::Result<()> {
        self.mechanisms.run(target)
    }
}

/// A step of a switch, which mechanisms take for a job.
type Step = fn(&mut Mechanisms, &Target<'_>) -> io::Result<()>;

/// All jobs whose lists can be read.
fn jobs<'a>(
    lists: &'a BTreeMap<JobId, ProcessList>,
    state: &'a State,
) -> impl Iterator<Item = (JobId, &'a Job, &'a ProcessList)> {
    state.jobs().filter_map(|(id, job)| Some((id, job, lists.get(&id)?)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use policy::gang::Gang;
    use sys::identity::Identity;
    use sys::priorities::check_idle_and_back;
    use sys::scheduling::{Policy, Thread, attributes};
    use wait::turn::TurnPage;

    use super::*;
    use crate::agent::AgentError;
    use crate::process_list::PLACES;
    use crate::processes::tests::identity;
    use crate::restraint::{Hint, StopBy, StopMechanism};
    use crate::state::tests::entering;
    use crate::state::{Entering, StateError};
    use crate::topology::Topology;

    const SLICE: Span = Span::from_millis(20);

    fn table_in(place: &Path) -> Table {
        Table::enter(place, || State::new(Topology::of_cpus(&[0]), SLICE)).unwrap()
    }

    fn enter(table: &Table, gang: Gang) -> JobId {
        let entering = Entering { agent: Identity::own(), ..entering(1, gang, 1) };
        update(table, |state, now| state.enter(&entering, now))
    }

    fn update<T>(table: &Table, change: impl Fn(&mut State, Instant) -> Result<T, StateError>) -> T {
        table.update(|state, now| Ok::<_, AgentError>(change(state, now)?)).unwrap()
    }

    #[test]
    fn a_switch_tells_the_threads_of_each_job_whose_turn_it_is() {
        testing::isolated(|| {
            let place = tempfile::tempdir().unwrap();
            let table = table_in(place.path());
            let jobs = [enter(&table, Gang::Strict), enter(&table, Gang::Strict)];
            let page = |job| {
                table.turn_page(job).unwrap().set_slice(SLICE);
                TurnPage::open(&table.turn_page_path(job)).unwrap()
            };
            let pages = jobs.map(page);
            let mut switcher = Switcher::new();
            let mut look = |now| {
                let state = table.state().unwrap();
                switcher.switch(&table, &state, now).unwrap();
                let turns = pages.each_ref().map(|page| page.turn(now));
                let is_right = |(job, turn)| state.job(job).is_err() || state.turn(job, now) == turn;
                assert!(jobs.into_iter().zip(turns).all(is_right), "{turns:?}");
                turns.map(|turn| turn.is_others())
            };
            let now = wait::now() + SLICE;
            let [one, other] = [look(now), look(now + SLICE)];
            assert!(one != other && one[0] != one[1] && other[0] != other[1]);
            update(&table, |state, now| state.release(jobs[0], now));
            assert!(!look(now + SLICE)[1], "it is alone");
        });
    }

    #[test]
    fn an_agent_goes_to_the_cpu_of_the_thread_that_its_next_switch_continues_last() {
        testing::isolated(|| {
            let allowed = sys::cpus::allowed().unwrap();
            let place = tempfile::tempdir().unwrap();
            let table = table_in(place.path());
            let jobs = [enter(&table, Gang::Strict), enter(&table, Gang::Strict)];
            let cpus = [allowed[0], allowed[allowed.len() - 1]];
            let children = [0, 1].map(|at: usize| {
                let mut command = testing::command("sleep");
                sys::cpus::bind_in(command.arg("1000"), &[cpus[at]]).unwrap();
                let child = testing::Child::start(&mut command);
                update(&table, |state, _| {
                    state.set_stop_by(
                        jobs[at],
                        StopBy { mechanism: StopMechanism::Signals, group: None, hint: Hint::Unused },
                    )
                });
                let list = table.processes(jobs[at]).unwrap();
                list.set(&[identity(child.id())], PLACES);
                list.set_last_thread(Some((child.id(), child.id())));
                child
            });
            let (mut switcher, state) = (Switcher::new(), table.state().unwrap());
            let now = wait::now();
            for boundary in [now + SLICE, now + SLICE + SLICE] {
                switcher.switch(&table, &state, boundary).unwrap();
                let next = jobs.iter().position(|&job| state.has_turn(job, boundary + SLICE)).unwrap();
                switcher.prepare(&state, Some(boundary + SLICE));
                assert_eq!(sys::cpus::allowed().unwrap(), [cpus[next]]);
            }
            switcher.prepare(&state, None);
            assert_eq!(sys::cpus::allowed().unwrap(), allowed);
            drop(children);
        });
    }

    #[test]
    fn the_processes_of_a_job_that_has_left_while_it_was_lowered_are_raised() {
        if let Err(why) = check_idle_and_back() {
            return eprintln!("not tested: {why}");
        }
        testing::isolated(|| {
            let place = tempfile::tempdir().unwrap();
            let table = table_in(place.path());
            let [job, _other] = [Gang::Moderate, Gang::Strict].map(|gang| enter(&table, gang));
            update(&table, |state, _| state.set_lower_by(job, LowerBy::SchedIdle));
            let child = testing::Child::start(testing::command("sleep").arg("1000"));
            let thread = Thread::from_number(child.id()).unwrap();
            let is_lowered = || attributes(thread).unwrap().policy == Policy::Idle;
            table.processes(job).unwrap().set(&[identity(child.id())], PLACES);
            let mut switcher = Switcher::new();
            let mut switch = |now| switcher.switch(&table, &table.state().unwrap(), now).unwrap();
            let now = wait::now();
            let is_others = |now: &Instant| table.state().unwrap().action(job, *now) == Some(Action::Lower);
            switch([now, now + SLICE].into_iter().find(is_others).unwrap());
            assert!(is_lowered());
            update(&table, |state, now| state.release(job, now));
            switch(now);
            assert!(!is_lowered());
        });
    }
}
