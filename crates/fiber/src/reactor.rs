//! A worker's reactor: the descriptors for which fibers wait, a time, and other kernel threads.
//!
//! A fiber that would block on a descriptor registers it for one event with the worker's epoll and
//! stops. So nothing has to be undone when a descriptor is closed, and no event is reported for
//! which no fiber waits. The worker looks for events when no fiber is ready, and then sleeps until
//! there is one. While it is busy, it looks at intervals, but only if a fiber waits for an event.
//!
//! Times come from a timerfd, which counts nanoseconds and is exact; a timeout of the kernel's wait
//! may be late by a thousandth of itself, and by at least 50 us.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::queue::Queue;
use crate::record::Fiber;
use crate::trust::{Known, PATIENCE, Trials, borrow};
use crate::watcher::Watched;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The event that a fiber waits for at a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Something to read, or the end of it, or a connection.
    In = 0,
    /// Room to write, or an established connection.
    Out = 1,
}

const EVENTS: usize = 256;

/// The maximum number of trials that end at once.
const AT_ONCE: usize = 16;

/// The events of the eventfd and of the timer: no descriptor has these numbers.
const EVENTFD: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// The fibers that wait at a descriptor, by direction.
type Waiting = [Queue; 2];

/// What belongs to a descriptor's number.
#[derive(Default)]
struct Place {
    waiting: Waiting,
    known: Known,
}

/// The events for which fibers wait.
fn events([reads, writes]: &Waiting) -> EventFlags {
    let wanted = |queue: &Queue, events| if queue.is_empty() { EventFlags::empty() } else { events };
    EventFlags::ONESHOT | wanted(reads, EventFlags::IN | EventFlags::RDHUP) | wanted(writes, EventFlags::OUT)
}

/// A worker's reactor; see the module.
pub(crate) struct Reactor {
    timer: OwnedFd,
    /// When the timer will fire.
    armed: Cell<Option<Instant>>,
    /// By the descriptor's number.
    places: RefCell<Vec<Place>>,
    events: RefCell<Vec<epoll::Event>>,
    waiting: Cell<usize>,
    trials: Trials,
    /// The registration with the watcher, if there can be ticks. It is dropped before the epoll.
    watched: OnceCell<Watched>,
    is_watched: Cell<bool>,
    epoll: OwnedFd,
}

impl Reactor {
    /// The reactor of a worker with this eventfd.
    pub(crate) fn new(eventfd: &OwnedFd) -> io::Result<Reactor> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // Edge-triggered: each notification and each time is reported once, and nothing needs to be
        // read.
        epoll::add(&epoll, eventfd, EventData::new_u64(EVENTFD), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        Ok(Reactor {
            epoll,
            timer,
            armed: Cell::new(None),
            places: RefCell::default(),
            events: RefCell::new(Vec::with_capacity(EVENTS)),
            waiting: Cell::new(0),
            trials: Trials::default(),
            watched: OnceCell::new(),
            is_watched: Cell::new(false),
        })
    }

    /// Registers a fiber to be woken when the descriptor is ready.
    pub(crate) fn register(&self, fd: BorrowedFd<'_>, direction: Direction, fiber: Fiber) -> Result<(), Errno> {
        let number = fd.as_raw_fd() as usize;
        let mut places = self.places.borrow_mut();
        if number >= places.len() {
            places.resize_with(number + 1, Place::default);
        }
        let Place { waiting, known } = &places[number];
        waiting[direction as usize].push(fiber);
        let (data, events) = (EventData::new_u64(number as u64), events(waiting));
        // Most have been added before, unless the number was another descriptor's then.
        let told = match epoll::modify(&self.epoll, fd, data, events) {
            Err(Errno::NOENT) => {
                known.forget();
                epoll::add(&self.epoll, fd, data, events)
            }
            told => told,
        };
        match told {
            Ok(()) => self.waiting.set(self.waiting.get() + 1),
            Err(_) => drop(waiting[direction as usize].remove(fiber)),
        }
        told
    }

    /// The same at a descriptor that is known to be plain. Returns false if that is wrong, because
    /// the number is another descriptor's now.
    #[cfg(interposed)]
    pub(crate) fn register_on_trust(&self, fd: BorrowedFd<'_>, direction: Direction, fiber: Fiber) -> bool {
        if self.register(fd, direction, fiber).is_err() {
            return false;
        }
        let is_plain = |known: &Known| {
            let is_plain = known.is_plain(direction);
            if is_plain {
                self.trials.begin(fd.as_raw_fd(), known);
            }
            is_plain
        };
        self.known(fd, is_plain) == Some(true) || !self.leave(fd, direction, fiber)
    }

    /// Calls a function with what is known of a descriptor that has been registered.
    pub(crate) fn known<R>(&self, fd: BorrowedFd<'_>, then: impl FnOnce(&Known) -> R) -> Option<R> {
        self.places.borrow().get(fd.as_raw_fd() as usize).map(|place| then(&place.known))
    }

    /// Ends trials that have lasted so long. If trust was wrong, that counts as an event. Returns
    /// false if there is such an event, or more trials, so that the worker does not sleep.
    fn end_trials(&self, time: Duration) -> bool {
        let mut events = self.events.borrow_mut();
        for _ in 0..AT_ONCE {
            let Some(number) = self.trials.next(time) else { return events.is_empty() };
            let is_wrong = |fd| self.known(fd, |known| known.end_trial(fd)) == Some(true);
            if borrow(number).is_some_and(is_wrong) {
                let (flags, data) = (EventFlags::empty(), EventData::new_u64(number as u64));
                events.push(epoll::Event { flags, data });
            }
        }
        false
    }

    /// Removes a fiber. Returns false if it has been woken.
    pub(crate) fn leave(&self, fd: BorrowedFd<'_>, direction: Direction, fiber: Fiber) -> bool {
        let number = fd.as_raw_fd() as usize;
        let waiting = &self.places.borrow()[number].waiting;
        let left = waiting[direction as usize].remove(fiber);
        if left {
            self.waiting.set(self.waiting.get() - 1);
            // The number may soon be another descriptor's, for which no fiber waits.
            let _ = epoll::modify(&self.epoll, fd, EventData::new_u64(number as u64), events(waiting));
        }
        left
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.get() > 0
    }

    /// Whether a single fiber waits.
    pub(crate) fn awaits_one(&self) -> bool {
        self.waiting.get() == 1
    }

    /// Wakes the fibers whose descriptors are ready. Does not wait.
    pub(crate) fn look(&self, wake: impl FnMut(Fiber)) {
        self.end_trials(PATIENCE);
        self.wait(Some(&NOW));
        self.wake_ready(wake);
    }

    /// Waits for a descriptor, for this time, or for the worker's eventfd. The fibers must be
    /// [woken](Reactor::wake_ready) then.
    pub(crate) fn sleep(&self, until: Option<Instant>) {
        let waits = self.end_trials(Duration::ZERO) && until.is_none_or(|until| self.arm(until));
        self.wait((!waits).then_some(&NOW));
    }

    /// Sets the timer. Returns false if the time has come, or the timer cannot be set.
    fn arm(&self, until: Instant) -> bool {
        if self.armed.get() == Some(until) {
            return true;
        }
        let ahead = until.saturating_duration_since(Instant::now());
        let Ok(it_value) = Timespec::try_from(ahead) else { return false };
        if ahead.is_zero() {
            return false;
        }
        self.armed.set(Some(until));
        let times = Itimerspec { it_interval: NOW, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times).is_ok()
    }

    /// Waits for events.
    fn wait(&self, timeout: Option<&Timespec>) {
        let mut events = self.events.borrow_mut();
        // An interruption by a signal is as good as an event: the caller looks again.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), timeout);
    }

    /// Wakes all fibers that wait at the descriptors of the last events, in both directions: to
    /// register one direction again would take a system call, and fibers rarely wait for both.
    pub(crate) fn wake_ready(&self, mut wake: impl FnMut(Fiber)) {
        let mut events = self.events.borrow_mut();
        if !events.is_empty() {
            self.is_watched.set(false);
        }
        for event in events.drain(..) {
            match event.data.u64() {
                EVENTFD => (),
                TIMER => self.armed.set(None),
                number => {
                    let [readers, writers] = &self.places.borrow()[number as usize].waiting;
                    while let Some(fiber) = readers.pop().or_else(|| writers.pop()) {
                        self.waiting.set(self.waiting.get() - 1);
                        wake(fiber);
                    }
                }
            }
        }
    }

    /// Lets the watcher call a function when it is [asked](Reactor::ask_to_be_watched), if that is
    /// possible.
    pub(crate) fn watch(&self, on_event: impl Fn() + Send + Sync + 'static) {
        if self.watched.get().is_none()
            && let Ok(watched) = Watched::new(&self.epoll, on_event)
        {
            let _ = self.watched.set(watched);
        }
    }

    /// Lets the watcher notice the next event, if that is possible.
    pub(crate) fn ask_to_be_watched(&self) {
        self.is_watched.set(self.watched.get().is_some_and(|watched| watched.ask(&self.epoll)));
    }

    /// Whether the watcher notices the next event.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.get()
    }
}
