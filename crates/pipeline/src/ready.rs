//! Copies of stages that have buffers before them and no worker yet.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use wait::{Event, Mutex, Waiting};

/// What workers can take up, and the workers that sleep since there is nothing.
///
/// As at a [queue](crate::queue), who finds nothing joins the sleepers in the same critical section, and who brings something
/// takes a sleeper off the list in the same one, unless nobody is to be woken; then a worker is at work that will look here itself before it sleeps.
pub(crate) struct Ready<J> {
    state: Mutex<State<J>>,
    /// How many jobs wait while workers sleep, as of the last change: a hint.
    unattended: AtomicUsize,
}

struct State<J> {
    jobs: Vec<J>,
    sleepers: Vec<Arc<Event>>,
    is_over: bool,
}

/// What a worker finds.
pub(crate) enum Found<J> {
    Job(J),
    /// Nothing; it rests, and its event will be set.
    Resting,
    /// There will be nothing any more.
    Over,
}

impl<J> Ready<J> {
    pub(crate) fn new(waiting: Waiting) -> Ready<J> {
        let state = State { jobs: Vec::new(), sleepers: Vec::new(), is_over: false };
        Ready { state: Mutex::with(state, waiting), unattended: AtomicUsize::new(0) }
    }

    /// Adds a job; where a sleeper is wanted for it, returns one to be woken.
    #[must_use]
    pub(crate) fn add(&self, job: J, wants_sleeper: bool) -> Option<Arc<Event>> {
        let mut state = self.state.lock();
        state.jobs.push(job);
        let sleeper = if wants_sleeper { state.sleepers.pop() } else { None };
        self.note(&state);
        sleeper
    }

    /// The job that comes first in this order, if there is one.
    pub(crate) fn take<K: Ord>(&self, order: impl Fn(&J) -> K, own: &Arc<Event>) -> Found<J> {
        let mut state = self.state.lock();
        let first = (0..state.jobs.len()).min_by_key(|&index| order(&state.jobs[index]));
        let found = match first {
            Some(index) => Found::Job(state.jobs.remove(index)),
            None if state.is_over => Found::Over,
            None => {
                state.sleepers.push(own.clone());
                Found::Resting
            }
        };
        self.note(&state);
        found
    }

    /// Whether jobs wait while workers sleep, as far as can be seen without looking twice.
    #[inline]
    pub(crate) fn has_unattended(&self) -> bool {
        self.unattended.load(Relaxed) > 0
    }

    /// A sleeper to be woken, if jobs wait.
    #[must_use]
    pub(crate) fn sleeper(&self) -> Option<Arc<Event>> {
        let mut state = self.state.lock();
        let sleeper = if state.jobs.is_empty() { None } else { state.sleepers.pop() };
        self.note(&state);
        sleeper
    }

    /// Nothing will be added any more, or nothing that matters. Returns all sleepers, to be woken.
    #[must_use]
    pub(crate) fn end(&self) -> Vec<Arc<Event>> {
        let mut state = self.state.lock();
        state.is_over = true;
        std::mem::take(&mut state.sleepers)
    }

    /// What is left when the workers are gone.
    pub(crate) fn take_rest(&self) -> Vec<J> {
        std::mem::take(&mut self.state.lock().jobs)
    }

    fn note(&self, state: &State<J>) {
        self.unattended.store(if state.sleepers.is_empty() { 0 } else { state.jobs.len() }, Relaxed);
    }
}
