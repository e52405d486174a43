//! A clock of one thread that a test scripts: time passes only by what the thread does on it.

use std::cell::RefCell;

use policy::{Instant, Span};

/// How long a reading of the clock takes, with the spinning before it.
pub(crate) const READING: Span = Span::from_nanos(500);
/// How long a yield takes.
pub(crate) const YIELD: Span = Span::from_micros(1);
/// How many threads run or are ready on the machine of the script.
pub(crate) const LOAD: u32 = 1;

/// What happens at a moment.
type Event = Box<dyn FnOnce()>;

struct Script {
    now: Instant,
    /// What happens once, later, and when.
    event: Option<(Instant, Event)>,
}

thread_local! {
    static SCRIPT: RefCell<Option<Script>> = const { RefCell::new(None) };
}

/// The calling thread's clock until this is dropped. It stands at one second at first.
pub(crate) struct ScriptedClock(());

impl ScriptedClock {
    pub(crate) fn start() -> ScriptedClock {
        let script = Script { now: Instant::ZERO + Span::from_millis(1_000), event: None };
        SCRIPT.with(|current| assert!(current.borrow_mut().replace(script).is_none(), "one clock a thread"));
        ScriptedClock(())
    }

    /// The time, without a reading, which would take time itself.
    pub(crate) fn time(&self) -> Instant {
        with(|script| script.now).unwrap_or(Instant::ZERO)
    }

    /// Makes something happen on this thread when so much time has passed from now on.
    pub(crate) fn after(&self, delay: Span, event: impl FnOnce() + 'static) {
        with(|script| script.event = Some((script.now + delay, Box::new(event))));
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

/// Lets time pass, and what is due by then happen; `false` if the thread has no script.
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

/// A reading of the clock, if the thread has a script.
pub(super) fn now() -> Option<Instant> {
    pass(READING).then(|| with(|script| script.now)).flatten()
}

/// Sleeps to the deadline, or until something happens; `false` if the thread has no script.
///
/// # Panics
/// If neither would ever end the sleep.
pub(super) fn sleep(is_as_expected: impl FnOnce() -> bool, deadline: Option<Instant>) -> bool {
    let next = with(|script| (script.now, script.event.as_ref().map(|(at, _)| *at)));
    let Some((now, event)) = next else { return false };
    if is_as_expected() {
        let end = [event, deadline].into_iter().flatten().min().expect("a sleep that ends");
        pass_to(end.max(now));
    }
    true
}

/// How many threads run or are ready, if the thread has a script.
pub(crate) fn load() -> Option<u32> {
    with(|_| LOAD)
}
