//! What fibers run in.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use policy::feedback::Rules;

use crate::chance::Deterministic;
use crate::clock::Clock;
use crate::deadlock::Deadlock;
use crate::ending;
use crate::error::{JoinError, RunError, SpawnError};
use crate::record::Records;
use crate::worker::{Here, Worker};

/// How a runtime is made.
///
/// ```
/// use policy::Span;
/// use policy::feedback::{Boost, Rules};
///
/// let rules = Rules { levels: 50, running_time: Span::from_micros(150), boost: Boost::Never };
/// let config = rowlock_fiber::Config { rules, ..Default::default() };
/// assert_eq!(rowlock_fiber::Runtime::new(config).run(|| 6 * 7).unwrap(), 42);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The feedback queue's levels, running time and boost.
    pub rules: Rules,
    /// How many kernel threads run fibers.
    pub workers: u32,
    /// How large a fiber's stack is, in bytes, where it asks for nothing else.
    pub stack_size: usize,
    /// How many fibers there may be at a time.
    pub most: u32,
    /// For tests: that who runs next is drawn from a seed, and that the clock of [`now`](crate::now), [`sleep`](crate::sleep) and all deadlines goes on only by what fibers do.
    /// Then a run with the same seed takes the same course, as long as its fibers wait for nothing from outside: see [`explore`](crate::explore).
    pub deterministic: Option<Deterministic>,
}

impl Default for Config {
    fn default() -> Config {
        Config { rules: Rules::default(), workers: 1, stack_size: 64 << 10, most: 1 << 22, deterministic: None }
    }
}

/// What the workers of a runtime share.
pub(crate) struct Core {
    number: u64,
    config: Config,
    pub(crate) records: Records,
    /// How often a fiber has used up its running time.
    demotions: AtomicU64,
    /// Why the first fiber was cancelled, if it was, and how often nobody could go on.
    deadlock: Cell<Option<(Deadlock, u32)>>,
}

impl Core {
    fn new(config: Config) -> Result<Core, SpawnError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let number = NUMBERS.fetch_add(1, Relaxed);
        let records = Records::new(config.most).map_err(SpawnError::Memory)?;
        alive(|alive| alive.insert(number));
        Ok(Core { number, config, records, demotions: AtomicU64::new(0), deadlock: Cell::new(None) })
    }

    fn is_over(&self) {
        alive(|alive| alive.remove(&self.number));
    }

    /// Keeps the first deadlock, for who asked for the run. Returns how often there has been one.
    pub(crate) fn deadlocked(&self, deadlock: &Deadlock) -> u32 {
        let (first, before) = self.deadlock.take().unwrap_or_else(|| (deadlock.clone(), 0));
        self.deadlock.set(Some((first, before + 1)));
        before + 1
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn demoted(&self) {
        self.demotions.fetch_add(1, Relaxed);
    }

    pub(crate) fn demotions(&self) -> u64 {
        self.demotions.load(Relaxed)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }
}

/// The numbers of the runtimes that are not over.
fn alive<R>(then: impl FnOnce(&mut BTreeSet<u64>) -> R) -> R {
    static ALIVE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    then(&mut ALIVE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whether a runtime is not over.
pub(crate) fn is_alive(number: u64) -> bool {
    alive(|alive| alive.contains(&number))
}

/// Fibers and the kernel threads that run them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runtime {
    config: Config,
}

/// Runs a function as the first fiber of a [`Runtime`] of the usual [`Config`], and returns what it returns.
///
/// # Panics
/// Where [`Runtime::run`] returns an error.
#[track_caller]
#[allow(clippy::panic, reason = "it is what is documented")]
pub fn run<T>(first: impl FnOnce() -> T) -> T {
    match Runtime::default().run(first) {
        Ok(result) => result,
        Err(error) => panic!("{error}"),
    }
}

impl Runtime {
    /// One that is made so.
    pub fn new(config: Config) -> Runtime {
        Runtime { config }
    }

    /// Runs a function as the first fiber, on this thread's own stack, and returns what it returns. With that the runtime ends, and with it all fibers that are left:
    /// those that have not begun never do, and the others unwind from where they wait.
    ///
    /// # Errors
    /// When there is no memory for it; when the function waited for what could never come; when it left by [`exit`](crate::exit); on a thread that runs
    /// fibers already; and for a deterministic runtime with several workers.
    ///
    /// # Panics
    /// With the function's panic.
    pub fn run<T>(&self, first: impl FnOnce() -> T) -> Result<T, RunError> {
        if Here::get().is_some() {
            return Err(RunError::Inside);
        }
        if self.config.deterministic.is_some() && self.config.workers > 1 {
            return Err(RunError::Workers { workers: self.config.workers });
        }
        let core = Box::new(Core::new(self.config)?);
        let clock = if self.config.deterministic.is_some() { Clock::drawn() } else { Clock::real() };
        let worker = Box::new(Worker::new(&core, clock));
        // SAFETY: it stays in its box until it has resigned.
        unsafe { worker.adopt()? };
        let outcome = catch_unwind(AssertUnwindSafe(first));
        let left = ending::end_all(&worker);
        worker.resign();
        let deadlock = core.deadlock.take();
        core.is_over();
        if left > 0 {
            // Somebody may point to what is on their stacks.
            std::mem::forget((worker, core));
        }
        match outcome {
            Ok(result) => Ok(result),
            Err(payload) => match (ending::reason(payload), deadlock) {
                (JoinError::Cancelled, Some((deadlock, _))) => Err(RunError::Deadlock(deadlock)),
                (JoinError::Exited, _) => Err(RunError::Exited),
                (JoinError::Panicked(payload), _) => resume_unwind(payload),
                (other, _) => resume_unwind(Box::new(other.to_string())),
            },
        }
    }
}
