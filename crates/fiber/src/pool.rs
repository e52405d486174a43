//! Calls that block a kernel thread, and the pool of threads that make them.
//!
//! There is one pool per process. A call takes an idle thread, or a new one while there are fewer
//! than [`MOST`], or waits for its turn. So many threads cost little, because most of them sleep in
//! the kernel, and calls that wait for each other need one each.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::record::Fiber;
use crate::remote::{Remote, remote};
use crate::waiting::Waitable;
use crate::worker::CurrentWorker;

/// The maximum number of threads.
const MOST: usize = 256;

/// How long a thread waits for another call before it ends.
const IDLE: Duration = Duration::from_secs(5);

/// The size of their stacks, as for other kernel threads.
const STACK: usize = 2 << 20;

/// Calls a function on another kernel thread while this fiber waits and others run. For calls that
/// would stop them all, such as those of a library that blocks, or a long computation.
///
/// The threads belong to a pool that the whole process shares. It grows as needed up to 256, and
/// further calls wait for their turn. Threads that have nothing to do for five seconds end. The
/// function is called directly on a thread that runs no fibers; if the kernel has no thread left,
/// which stops the other fibers; and in a fiber that unwinds because its runtime has ended.
///
/// A call cannot be cancelled. If the runtime ends meanwhile, the fiber unwinds without waiting for
/// the call, and its result is dropped.
///
/// # Panics
/// With the function's panic.
///
/// ```
/// let answer = rowlock_fiber::run(|| rowlock_fiber::blocking(|| "from another kernel thread"));
/// assert_eq!(answer, "from another kernel thread");
/// ```
pub fn blocking<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> T {
    if CurrentWorker::visit(|here| here.is_none_or(|here| here.outside.is_wait_forbidden())) {
        return function();
    }
    let call = Arc::new(Call { state: Mutex::new(State::Made), remote: remote() });
    let theirs = Arc::clone(&call);
    let job = move || theirs.finish(catch_unwind(AssertUnwindSafe(function)));
    if let Err(job) = submit(Box::new(job)) {
        job();
    }
    CurrentWorker::enter(|here| {
        let mut state = call.lock();
        if let State::Made = *state {
            *state = State::Awaited { fiber: here.current().number.get(), worker: here.index() };
            drop(state);
            here.block(&*call, None);
        }
    });
    let state = std::mem::replace(&mut *call.lock(), State::Left);
    match state {
        State::Done(Ok(result)) => result,
        State::Done(Err(payload)) => resume_unwind(payload),
        State::Made | State::Awaited { .. } | State::Left => unreachable!("the call is done"),
    }
}

/// A call and the fiber that waits for it.
struct Call<T> {
    state: Mutex<State<T>>,
    /// While it exists, it is no deadlock if all fibers wait.
    remote: Remote,
}

enum State<T> {
    Made,
    Awaited {
        fiber: u32,
        worker: usize,
    },
    Done(thread::Result<T>),
    /// The runtime has ended.
    Left,
}

impl<T> Call<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over the result. The lock is held until the fiber has been sent: one that finds that
    /// it has not been taken may leave.
    fn finish(&self, result: thread::Result<T>) {
        let mut state = self.lock();
        if matches!(*state, State::Left) {
            // The result is dropped without the lock.
            return drop(state);
        }
        if let State::Awaited { fiber, worker } = std::mem::replace(&mut *state, State::Done(result)) {
            self.remote.wake(fiber, worker);
        }
    }
}

impl<T> Waitable for Call<T> {
    fn leave(&self, _: Fiber) -> bool {
        let mut state = self.lock();
        let left = matches!(*state, State::Awaited { .. });
        if left {
            *state = State::Left;
        }
        left
    }

    fn kind(&self) -> &'static str {
        "a blocking call on another kernel thread"
    }
}

/// A call.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    jobs: VecDeque<Job>,
    threads: usize,
    /// How many of them wait for a job, including those that have been notified and have not woken
    /// yet.
    idle: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { jobs: VecDeque::new(), threads: 0, idle: 0 });
static SUBMITTED: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs jobs until there has been none for long enough.
fn serve() {
    let mut pool = pool();
    loop {
        while let Some(job) = pool.jobs.pop_front() {
            drop(pool);
            // A panic of what the job drops concerns no caller.
            let _ = catch_unwind(AssertUnwindSafe(job));
            pool = self::pool();
        }
        pool.idle += 1;
        let (again, timeout) = SUBMITTED.wait_timeout(pool, IDLE).unwrap_or_else(PoisonError::into_inner);
        pool = again;
        pool.idle -= 1;
        if timeout.timed_out() && pool.jobs.is_empty() {
            pool.threads -= 1;
            return;
        }
    }
}

/// Runs a job on a thread of the pool. Returns the job if the pool has no thread and the kernel
/// cannot start one.
pub(crate) fn submit(job: Job) -> Result<(), Job> {
    let mut pool = pool();
    pool.jobs.push_back(job);
    if pool.jobs.len() <= pool.idle {
        SUBMITTED.notify_one();
    } else if pool.threads < MOST {
        let made = thread::Builder::new().name("fiber call".into()).stack_size(STACK).spawn(serve);
        if made.is_ok() {
            pool.threads += 1;
        } else if pool.threads == 0 {
            return pool.jobs.pop_back().map_or(Ok(()), Err);
        }
    }
    Ok(())
}
