//! Calls that block a kernel thread, and the pool of threads that make them.
//!
//! There is one pool per process. A call takes an idle thread, or a new one while there are fewer
//! than [`MOST`], or waits for its turn. Calls that wait for other threads, which may need the pool
//! themselves, have as many threads as there are such calls, in addition.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::current_worker::CurrentWorker;
use crate::objects::channel::channel;
use crate::remote::remote;

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
    if CurrentWorker::visit(|here| here.is_none_or(|here| here.is_wait_forbidden())) {
        return function();
    }
    let (sender, receiver) = channel(1);
    let remote = remote();
    let job = move || {
        // While it exists, it is no deadlock if all fibers wait.
        let _remote = remote;
        // If the runtime has ended, there is no receiver, and the result is dropped.
        drop(sender.send(catch_unwind(AssertUnwindSafe(function))));
    };
    if let Err(job) = submit(Box::new(job), false) {
        job();
    }
    match receiver.recv() {
        Ok(Ok(result)) => result,
        Ok(Err(payload)) => resume_unwind(payload),
        Err(_) => unreachable!("the job sends a result"),
    }
}

pub(crate) type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    /// And whether they wait for other threads.
    jobs: VecDeque<(Job, bool)>,
    threads: usize,
    /// How many jobs that wait for other threads have not ended.
    waits: usize,
    /// How many of them wait for a job, including those that have been notified and have not woken
    /// yet.
    idle: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { jobs: VecDeque::new(), threads: 0, waits: 0, idle: 0 });
static SUBMITTED: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs jobs until there has been none for long enough.
fn serve() {
    let mut pool = pool();
    loop {
        while let Some((job, waits)) = pool.jobs.pop_front() {
            drop(pool);
            // A panic of what the job drops concerns no caller.
            let _ = catch_unwind(AssertUnwindSafe(job));
            pool = self::pool();
            pool.waits -= usize::from(waits);
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

/// Runs a job on a thread of the pool. `waits` says whether it waits for other threads. Returns the
/// job if the pool has no thread and the kernel cannot start one.
pub(crate) fn submit(job: Job, waits: bool) -> Result<(), Job> {
    let mut pool = pool();
    pool.jobs.push_back((job, waits));
    pool.waits += usize::from(waits);
    if pool.jobs.len() <= pool.idle {
        SUBMITTED.notify_one();
    } else if pool.threads < MOST + pool.waits {
        let made = thread::Builder::new().name("fiber call".into()).stack_size(STACK).spawn(serve);
        if made.is_ok() {
            pool.threads += 1;
        } else if pool.threads == 0 {
            pool.waits -= usize::from(waits);
            return pool.jobs.pop_back().map_or(Ok(()), |(job, _)| Err(job));
        }
    }
    Ok(())
}
