//! An event.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use crate::error::TimedOut;
use crate::time::after;
use crate::waiting::biased::Biased;
use crate::waiting::list::{TakenList, WaitList};
use crate::waiting::{self, Operation, Performing};

/// An event: fibers, threads and futures wait until it is set.
///
/// An event with [`manual_reset`](Event::manual_reset) lets all pass until it is reset. Each set of
/// an event with [`auto_reset`](Event::auto_reset) lets one pass; to set a set event has no effect.
///
/// ```
/// let event = rowlock_fiber::Event::manual_reset();
/// std::thread::scope(|scope| {
///     scope.spawn(|| rowlock_fiber::run(|| event.wait()));
///     event.set();
/// });
/// ```
pub struct Event {
    resets: bool,
    state: Biased<State>,
}

struct State {
    is_set: bool,
    waiting: WaitList<()>,
}

impl Event {
    /// An event that is not set, and stays set until it is [reset](Event::reset).
    pub const fn manual_reset() -> Event {
        Event { resets: false, state: Biased::new(State { is_set: false, waiting: WaitList::new() }) }
    }

    /// An event that is not set. The first to pass resets it.
    pub const fn auto_reset() -> Event {
        Event { resets: true, ..Event::manual_reset() }
    }

    /// Sets it.
    pub fn set(&self) {
        self.change(|state, woken| {
            state.is_set = true;
            while state.is_set
                && let Some(waiter) = state.waiting.pop()
            {
                state.is_set = !self.resets;
                woken.push(waiter);
            }
        });
    }

    fn change<R>(&self, change: impl FnOnce(&mut State, &mut TakenList<()>) -> R) -> R {
        waiting::change(&self.state, change)
    }

    /// Resets it. Returns whether it was set.
    pub fn reset(&self) -> bool {
        self.change(|state, _| std::mem::replace(&mut state.is_set, false))
    }

    /// Whether it is set now. The answer may be out of date immediately.
    pub fn is_set(&self) -> bool {
        self.change(|state, _| state.is_set)
    }

    /// Waits until it is set.
    pub fn wait(&self) {
        waiting::perform(&Pass(self), ());
    }

    /// Like [`Event::wait`], but waits only until the deadline.
    ///
    /// # Errors
    /// If the deadline has passed. A set event lets the caller pass even then.
    pub fn wait_until(&self, deadline: Instant) -> Result<(), TimedOut> {
        waiting::perform_until(&Pass(self), (), Some(deadline)).map_err(|()| TimedOut)
    }

    /// Like [`Event::wait_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Event::wait_until`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), TimedOut> {
        self.wait_until(after(timeout))
    }

    /// Like [`Event::wait`], in a future.
    pub async fn wait_async(&self) {
        Performing::new(Pass(self), ()).await;
    }
}

struct Pass<'a>(&'a Event);

impl Operation for Pass<'_> {
    type State = State;
    type Payload = ();
    const KIND: &'static str = "an event";
    const OBJECT: fn(&Self) -> &Biased<State> = |operation| &operation.0.state;
    const LIST: fn(&mut State) -> &mut WaitList<()> = |state| &mut state.waiting;

    fn attempt(&self, state: &mut State, (): &mut (), _: &mut TakenList<()>) -> bool {
        let can = state.is_set;
        state.is_set &= !self.0.resets;
        can
    }

    fn undo(&self, (): ()) {
        if self.0.resets {
            self.0.set();
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("is_set", &self.is_set()).finish_non_exhaustive()
    }
}

impl Wake for Event {
    fn wake(self: Arc<Event>) {
        self.set();
    }

    fn wake_by_ref(self: &Arc<Event>) {
        self.set();
    }
}

/// Runs a future to its end on the calling fiber or thread, which blocks while the future waits.
///
/// ```
/// let answer = rowlock_fiber::run(|| {
///     let fiber = rowlock_fiber::spawn(|| 6 * 7);
///     rowlock_fiber::block_on(async { fiber.await.unwrap() })
/// });
/// assert_eq!(answer, 42);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let woken = Arc::new(Event::auto_reset());
    let waker = Arc::clone(&woken).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => woken.wait(),
        }
    }
}
