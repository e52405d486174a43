//! Blocking calls that other kernel threads make for a worker's fibers.
//!
//! A call has a number that is unique for its worker. The thread that has made it puts the number
//! on a list and notifies the worker, which looks up the waiting fiber. A fiber that does not wait
//! any more, or whose runtime is over, is not found, and nothing else needs to be done.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

use crate::eventcount::EventCount;
use crate::record::Fiber;
use crate::waits::{Waitable, Woken};
use crate::worker::{CurrentWorker, Worker};

/// A worker's calls.
#[derive(Default)]
pub(crate) struct Calls {
    last: Cell<u64>,
    waiting: RefCell<HashMap<u64, Fiber>>,
    answered: Arc<Answered>,
}

/// Calls that are done, and whose fibers have not been woken yet.
#[derive(Default)]
struct Answered {
    any: AtomicBool,
    numbers: Mutex<Vec<u64>>,
}

/// Reports when dropped that a call is done. The thread that makes the call owns it.
pub(crate) struct Answer {
    number: u64,
    answered: Arc<Answered>,
    eventcount: Arc<EventCount>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut numbers = self.answered.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.push(self.number);
        self.answered.any.store(true, Release);
        drop(numbers);
        self.eventcount.notify();
    }
}

impl Calls {
    /// Whether a fiber waits for an answer.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Whether there are answers.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered.any.load(Acquire)
    }

    /// Wakes the fibers whose calls are done.
    pub(crate) fn look(&self, worker: &Worker) {
        if !self.is_answered() {
            return;
        }
        let numbers = {
            let mut numbers = self.answered.numbers.lock().unwrap_or_else(PoisonError::into_inner);
            self.answered.any.store(false, Relaxed);
            std::mem::take(&mut *numbers)
        };
        for number in numbers {
            if let Some(fiber) = self.waiting.borrow_mut().remove(&number) {
                worker.wake(fiber, Woken::Called);
            }
        }
    }

    /// Makes a call elsewhere, and waits for it. `submit` gets what must be dropped when it is
    /// done, and returns false if the call could not be submitted.
    pub(crate) fn call(
        &self,
        here: CurrentWorker,
        eventcount: &Arc<EventCount>,
        submit: impl FnOnce(Answer) -> bool,
    ) -> bool {
        let number = self.last.get() + 1;
        self.last.set(number);
        self.waiting.borrow_mut().insert(number, here.current());
        let answer = Answer { number, answered: Arc::clone(&self.answered), eventcount: Arc::clone(eventcount) };
        if !submit(answer) {
            self.waiting.borrow_mut().remove(&number);
            return false;
        }
        here.look_outside_within(crate::reactor::POLL_INTERVAL);
        here.block(&Call(number), None);
        true
    }
}

/// A wait for an answer.
struct Call(u64);

impl Waitable for Call {
    fn leave(&self, _: Fiber) -> bool {
        CurrentWorker::expect().outside.calls.waiting.borrow_mut().remove(&self.0).is_some()
    }

    fn kind(&self) -> &'static str {
        "a blocking call on another kernel thread"
    }
}
