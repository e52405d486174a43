//! Runtimes whose time goes on only when a test advances it: for tests that are about when fibers are interrupted, woken, or sent away.
#![allow(dead_code, clippy::unwrap_used, reason = "not every test needs all, and one that cannot run has failed")]

use std::ops::Deref;
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, Rules};
use rowlock_fiber::{Config, PreemptBy, Runtime, ScriptedClock};
use sys::scheduling::{Policy, Thread, attributes};

/// A running time, and so the time from one tick to the next; also while a runtime ends.
pub(crate) const TURN: Duration = Duration::from_millis(1);

/// A runtime with one worker and a clock of its own, whose fibers may be interrupted anywhere.
pub(crate) struct Scripted {
    pub(crate) clock: ScriptedClock,
    runtime: Runtime,
}

impl Deref for Scripted {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

/// One whose running times are a [`TURN`].
pub(crate) fn runtime(preempt_by: PreemptBy, levels: u32, boost: Boost) -> Scripted {
    with(preempt_by, Rules { levels, running_time: Span::from_nanos(TURN.as_nanos() as u64), boost })
}

pub(crate) fn with(preempt_by: PreemptBy, rules: Rules) -> Scripted {
    let clock = ScriptedClock::new();
    let config = Config { rules, preemptible: true, preempt_by, clock: Some(clock.clone()), ..Config::default() };
    Scripted { clock, runtime: Runtime::new(config) }
}

/// Whether the fiber that asks goes on elsewhere, since its runtime ended: its kernel thread has the least claim to a CPU that there is.
pub(crate) fn is_elsewhere() -> bool {
    attributes(Thread::current()).unwrap().policy == Policy::Idle
}

/// Waits until a thread of this process waits at a futex.
pub(crate) fn await_futex(thread: Thread) {
    let path = format!("/proc/self/task/{}/syscall", thread.number());
    while !std::fs::read_to_string(&path).unwrap().starts_with(&format!("{} ", libc::SYS_futex)) {
        std::thread::yield_now();
    }
}
