//! What fibers run in.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use policy::feedback::Rules;

use crate::clock::Clock;
use crate::error::SpawnError;
use crate::record::Records;
use crate::worker::{Here, Worker};

/// How a runtime is made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The feedback queue's levels, running time and boost.
    pub rules: Rules,
    /// How many kernel threads run fibers.
    pub workers: u32,
    /// How large a fiber's stack is, in bytes, where it asks for nothing else.
    pub stack_size: usize,
    /// How many fibers there may be at a time.
    pub most: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { rules: Rules::default(), workers: 1, stack_size: 64 << 10, most: 1 << 22 }
    }
}

/// What the workers of a runtime share.
pub(crate) struct Core {
    number: u64,
    config: Config,
    pub(crate) records: Records,
}

impl Core {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }
}

/// The numbers of the runtimes that are not over.
static ALIVE: Mutex<Option<HashSet<u64>>> = Mutex::new(None);

/// Whether a runtime is not over.
pub(crate) fn is_alive(number: u64) -> bool {
    let alive = ALIVE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    alive.as_ref().is_some_and(|alive| alive.contains(&number))
}

/// Fibers and the kernel threads that run them.
pub struct Runtime {
    config: Config,
}

impl Runtime {
    /// One that is made so.
    pub fn new(config: Config) -> Runtime {
        Runtime { config }
    }

    /// Runs a function as the first fiber, on this thread's own stack, and returns what it returns.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn run<T>(&self, first: impl FnOnce() -> T) -> Result<T, SpawnError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        assert!(Here::get().is_none(), "a runtime runs on this thread already");
        let number = NUMBERS.fetch_add(1, Relaxed);
        let records = Records::new(self.config.most).map_err(SpawnError::Memory)?;
        let core = Box::new(Core { number, config: self.config, records });
        ALIVE.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert_default().insert(number);
        let worker = Box::new(Worker::new(&core, Clock::real()));
        let adopted = worker.adopt()?;
        let result = first();
        drop(adopted);
        ALIVE.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert_default().remove(&number);
        Ok(result)
    }
}
