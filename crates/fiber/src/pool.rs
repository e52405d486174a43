//! Kernel threads for what would stop one that runs fibers.
//!
//! There is one pool for the whole process. A call takes an idle thread, or a new one while there are fewer than [`MOST`], or its turn. So many threads cost
//! little, since most of them sleep in the kernel, and calls that wait for each other's doing need one each.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How many threads there are at most.
pub(crate) const MOST: usize = 256;

/// How long a thread waits for another call before it ends.
const IDLE: Duration = Duration::from_secs(5);

/// How large their stacks are: as those of other kernel threads.
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
    /// How many of them wait for a job, those that have been called and do not know it yet among them.
    idle: usize,
}

static POOL: Pool =
    Pool { state: Mutex::new(State { jobs: VecDeque::new(), threads: 0, idle: 0 }), called: Condvar::new() };

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread of the pool does, until there has been nothing to do for long enough.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            while let Some(job) = state.jobs.pop_front() {
                drop(state);
                // A panic in what the job drops is nobody's.
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

/// Has a job done by a thread of the pool. Gives it back where the kernel has no thread for it, not a single one.
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
