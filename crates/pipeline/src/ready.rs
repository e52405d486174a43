//! Copies of stages that have buffers but no worker yet.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use wait::{Event, Mutex, Waiting};

/// The jobs for workers, and the workers that sleep because there are none.
///
/// As at a [queue](crate::queue), a worker that finds no job joins the sleepers in the same
/// critical section. Adding a job removes a sleeper in the same critical section, unless the caller
/// wakes none; then a running worker will look here before it sleeps.
pub(crate) struct Ready<J> {
    state: Mutex<State<J>>,
    /// How many jobs wait while workers sleep, as of the last change. Only a hint.
    unattended: AtomicUsize,
}

struct State<J> {
    jobs: Vec<J>,
    sleepers: Vec<Arc<Event>>,
    is_over: bool,
}

/// The result of looking for a job.
pub(crate) enum NextJob<J> {
    Job(J),
    /// No job: the worker is now a sleeper, and its event will be set.
    Sleeping,
    /// No job, now or later.
    Ended,
}

impl<J> Ready<J> {
    pub(crate) fn new(waiting: Waiting) -> Ready<J> {
        let state = State { jobs: Vec::new(), sleepers: Vec::new(), is_over: false };
        Ready { state: Mutex::with(state, waiting), unattended: AtomicUsize::new(0) }
    }

    /// Adds a job. Returns a worker to wake if `wake_worker` and one sleeps.
    #[must_use]
    pub(crate) fn add(&self, job: J, wake_worker: bool) -> Option<Arc<Event>> {
        let mut state = self.state.lock();
        state.jobs.push(job);
        let sleeper = if wake_worker { state.sleepers.pop() } else { None };
        self.note(&state);
        sleeper
    }

    /// Takes the first job in this order.
    pub(crate) fn take<K: Ord>(&self, order: impl Fn(&J) -> K, own: &Arc<Event>) -> NextJob<J> {
        let mut state = self.state.lock();
        let first = (0..state.jobs.len()).min_by_key(|&index| order(&state.jobs[index]));
        let found = match first {
            Some(index) => NextJob::Job(state.jobs.remove(index)),
            None if state.is_over => NextJob::Ended,
            None => {
                state.sleepers.push(own.clone());
                NextJob::Sleeping
            }
        };
        self.note(&state);
        found
    }

    /// Whether jobs probably wait while workers sleep.
    #[inline]
    pub(crate) fn has_unattended(&self) -> bool {
        self.unattended.load(Relaxed) > 0
    }

    /// Removes a sleeper to wake, if jobs wait.
    #[must_use]
    pub(crate) fn sleeper(&self) -> Option<Arc<Event>> {
        let mut state = self.state.lock();
        let sleeper = if state.jobs.is_empty() { None } else { state.sleepers.pop() };
        self.note(&state);
        sleeper
    }

    /// No further job matters. Returns all sleepers, which the caller wakes.
    #[must_use]
    pub(crate) fn end(&self) -> Vec<Arc<Event>> {
        let mut state = self.state.lock();
        state.is_over = true;
        std::mem::take(&mut state.sleepers)
    }

    /// The jobs that are left after the workers have ended.
    pub(crate) fn take_jobs(&self) -> Vec<J> {
        std::mem::take(&mut self.state.lock().jobs)
    }

    fn note(&self, state: &State<J>) {
        self.unattended.store(if state.sleepers.is_empty() { 0 } else { state.jobs.len() }, Relaxed);
    }
}
