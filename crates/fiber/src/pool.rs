//! A pool of kernel threads for calls that would block a worker.
//!
//! There is one pool per process. A call takes an idle thread, or a new one while there are fewer
//! than [`MOST`], or waits for its turn. So many threads cost little, because most of them sleep in
//! the kernel, and calls that wait for each other need one each.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The maximum number of threads.
pub(crate) const MOST: usize = 256;

/// How long a thread waits for another call before it ends.
const IDLE: Duration = Duration::from_secs(5);

/// The size of their stacks, as for other kernel threads.
const STACK: usize = 2 << 20;

/// A call.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    state: Mutex<State>,
    called: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// How many of them wait for a job, including those that have been notified and have not woken
    /// yet.
    idle: usize,
}

static POOL: Pool =
    Pool { state: Mutex::new(State { jobs: VecDeque::new(), threads: 0, idle: 0 }), called: Condvar::new() };

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs jobs until there has been none for long enough.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            while let Some(job) = state.jobs.pop_front() {
                drop(state);
                // A panic of what the job drops concerns no caller.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.lock();
            }
            state.idle += 1;
            let (again, timeout) = self.called.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// Runs a job on a thread of the pool. Returns the job if the pool has no thread and the kernel
/// cannot start one.
pub(crate) fn submit(job: Job) -> Result<(), Job> {
    let mut state = POOL.lock();
    state.jobs.push_back(job);
    if state.jobs.len() <= state.idle {
        POOL.called.notify_one();
    } else if state.threads < MOST {
        let made = thread::Builder::new().name("fiber call".into()).stack_size(STACK).spawn(|| POOL.serve());
        if made.is_ok() {
            state.threads += 1;
        } else if state.threads == 0 {
            return state.jobs.pop_back().map_or(Ok(()), Err);
        }
    }
    Ok(())
}
