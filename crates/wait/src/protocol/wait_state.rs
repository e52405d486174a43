//! The rule's state and the counters of one object.

use std::sync::atomic::Ordering::Relaxed;

use policy::record::Off;
use policy::waiting::TeamState;
use policy::{Instant, ThreadId};

use crate::deadline::TimedOut;
use crate::protocol::wait_loop::{Awaited, Wait};
use crate::statistics::{Counters, Statistics};
use crate::sync::{self, AtomicU64};
use crate::waiting::Waiting;

/// The wait state of an object: zeros at first, without pointers. Only waiting threads access it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WaitState {
    /// The rule's [`TeamState`].
    state: AtomicU64,
    waits: AtomicU64,
    counters: Counters,
}

impl WaitState {
    sync::const_fn! {
        pub(crate) fn new() -> WaitState {
            WaitState { state: AtomicU64::new(TeamState(0).0), waits: AtomicU64::new(0), counters: Counters::new() }
        }
    }

    /// Waits anonymously: the rule knows neither the waiter nor the missing threads.
    #[cold]
    pub(crate) fn wait(
        &self,
        awaited: &mut impl Awaited,
        waiting: Waiting,
        deadline: Option<Instant>,
    ) -> Result<(), TimedOut> {
        self.wait_while_possible(awaited, waiting, deadline, None)
    }

    /// Like [`WaitState::wait`], until the event has become impossible.
    #[cold]
    pub(crate) fn wait_while_possible(
        &self,
        awaited: &mut impl Awaited,
        waiting: Waiting,
        deadline: Option<Instant>,
        is_possible: Option<&dyn Fn() -> bool>,
    ) -> Result<(), TimedOut> {
        self.waits.fetch_add(1, Relaxed);
        let wait = Wait {
            thread: ThreadId(0),
            threads: 0,
            round: 0,
            waiting: &waiting,
            state: &self.state,
            counters: &self.counters,
            recorder: &Off,
            is_possible,
            deadline,
        };
        wait.run(awaited, &mut waiting.waiter_without_measuring(), &mut ())
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let mut sum = Statistics { waits: self.waits.load(Relaxed), ..Statistics::default() };
        self.counters.add_to(&mut sum);
        sum
    }
}
