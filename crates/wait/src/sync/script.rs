//! A scripted clock for one thread. Time passes only when the thread reads it, yields or sleeps.

use std::cell::RefCell;

use policy::{Instant, Span};

use crate::turn::TurnPage;

/// The time from one reading of a spinning thread to the next.
pub(crate) const READING: Span = Span::from_nanos(500);
/// The time that a yield takes.
pub(crate) const YIELD: Span = Span::from_micros(1);
/// The number of threads that are running or ready.
pub(crate) const LOAD: u32 = 1;

/// An action of the test.
type Event = Box<dyn FnOnce()>;

struct Script {
    now: Instant,
    /// The next action and its time.
    event: Option<(Instant, Event)>,
    turn_page: Option<&'static TurnPage>,
}

thread_local! {
    static SCRIPT: RefCell<Option<Script>> = const { RefCell::new(None) };
}

/// The calling thread's clock until this is dropped. It starts at one second.
pub(crate) struct ScriptedClock(());

impl ScriptedClock {
    pub(crate) fn start() -> ScriptedClock {
        let script = Script { now: Instant::ZERO + Span::from_millis(1_000), event: None, turn_page: None };
        SCRIPT.with(|current| assert!(current.borrow_mut().replace(script).is_none(), "one clock a thread"));
        ScriptedClock(())
    }

    /// The time. Unlike a reading by the code under test, this takes no time.
    pub(crate) fn time(&self) -> Instant {
        with(|script| script.now).unwrap_or(Instant::ZERO)
    }

    /// Runs an action on this thread after a delay.
    pub(crate) fn after(&self, delay: Span, event: impl FnOnce() + 'static) {
        with(|script| script.event = Some((script.now + delay, Box::new(event))));
    }

    /// Lets the thread read this page.
    pub(crate) fn take_turns_by(&self, page: &'static TurnPage) {
        with(|script| script.turn_page = Some(page));
    }
}

impl Drop for ScriptedClock {
    fn drop(&mut self) {
        SCRIPT.with(|current| current.borrow_mut().take());
    }
}

fn with<T>(act: impl FnOnce(&mut Script) -> T) -> Option<T> {
    SCRIPT.with(|current| current.borrow_mut().as_mut().map(act))
}

/// Lets time pass and runs the action that is due by then. `false` if the thread has no script.
pub(super) fn pass(span: Span) -> bool {
    with(|script| script.now + span).is_some_and(|to| {
        pass_to(to);
        true
    })
}

fn pass_to(to: Instant) {
    let due = with(|script| {
        script.now = to;
        script.event.take_if(|(at, _)| *at <= to)
    });
    if let Some((_, event)) = due.flatten() {
        event();
    }
}

/// Reads the clock. `None` if the thread has no script.
pub(super) fn now() -> Option<Instant> {
    pass(READING).then(|| with(|script| script.now)).flatten()
}

/// Sleeps until the deadline or the next action. `false` if the thread has no script.
///
/// # Panics
/// If neither would ever end the sleep.
pub(crate) fn sleep(is_as_expected: impl FnOnce() -> bool, deadline: Option<Instant>) -> bool {
    let next = with(|script| (script.now, script.event.as_ref().map(|(at, _)| *at)));
    let Some((now, event)) = next else { return false };
    if is_as_expected() {
        let end = [event, deadline].into_iter().flatten().min().expect("a sleep that ends");
        pass_to(end.max(now));
    }
    true
}

/// The page that says whose turn it is, if the thread has a script with one.
pub(crate) fn turn_page() -> Option<&'static TurnPage> {
    with(|script| script.turn_page).flatten()
}

/// The number of threads that are running or ready. `None` if the thread has no script.
pub(crate) fn load() -> Option<u32> {
    with(|_| LOAD)
}
