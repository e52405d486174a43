//! What the waits at one object remember together, and what they have come to.

use std::sync::atomic::Ordering::Relaxed;

use policy::record::Off;
use policy::waiting::TeamState;
use policy::{Instant, ThreadId};

use crate::deadline::TimedOut;
use crate::protocol::wait_loop::{Awaited, Wait};
use crate::statistics::{Counters, Statistics};
use crate::sync::{self, AtomicU64};
use crate::waiting::Waiting;

/// An object's wait_state, beside what the object is: zero at the start, and without pointers. Nobody who need not wait
/// touches it.
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

    /// Waits, as somebody who is not known and knows nobody.
    ///
    /// # Errors
    /// When the deadline has passed; never without one.
    #[cold]
    pub(crate) fn wait(
        &self,
        awaited: &mut impl Awaited,
        waiting: Waiting,
        deadline: Option<Instant>,
    ) -> Result<(), TimedOut> {
        self.waits.fetch_add(1, Relaxed);
        let wait = Wait {
            thread: ThreadId(0),
            threads: 0,
            cpus: waiting.cpus(),
            movable: waiting.movable(),
            state: &self.state,
            counters: &self.counters,
            recorder: &Off,
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
