//! Fibers.
#![allow(unsafe_code)]
mod arch;
mod clock;
mod error;
mod gate;
mod join;
mod local;
mod meter;
pub mod mutex;
mod queue;
mod record;
mod runtime;
mod stack;
mod task;
mod timers;
mod waits;
mod worker;

pub use error::{JoinError, SpawnError};
pub use join::JoinHandle;
pub use runtime::{Config, Runtime};

use worker::Here;

/// Spawn.
#[inline(always)]
pub fn spawn<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let here = Here::expect();
    unsafe {
        let fiber = here.spawn(None, function).expect("x");
        JoinHandle::new(fiber, &here)
    }
}

/// Yield.
#[inline(always)]
pub fn yield_now() {
    Here::expect().yield_now();
}
pub fn checkpoint() {
    Here::expect().point();
}

/// test
pub struct L(mutex::Lock);
impl L {
    pub const fn new() -> L {
        L(mutex::Lock::new())
    }
    #[inline(always)]
    pub fn lock(&self) {
        self.0.lock()
    }
    #[inline(always)]
    pub fn unlock(&self) {
        self.0.unlock()
    }
}
