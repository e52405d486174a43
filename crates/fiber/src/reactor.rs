//! A worker's reactor: waits for descriptors, a time, and other kernel threads.
//!
//! A fiber that would block on a descriptor registers it for one event with the worker's epoll and
//! stops. So nothing has to be undone when a descriptor is closed, and no event is reported for
//! which no fiber waits. The worker looks for events when no fiber is ready, and then sleeps until
//! there is one. While it is busy, it looks every [`POLL_INTERVAL`], but only if a fiber waits for
//! an event.
//!
//! Times come from a timerfd, which counts nanoseconds and is exact; a timeout of the kernel's wait
//! may be late by a thousandth of itself, and by at least 50 us. All of this is created when a
//! worker first needs it.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use policy::Span;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::eventcount::EventCount;
use crate::queue::Queue;
use crate::record::Fiber;
use crate::waits::{Waitable, Woken};
use crate::worker::{CurrentWorker, Worker};

/// How often a busy worker looks for events.
pub(crate) const POLL_INTERVAL: Span = Span::from_micros(50);

/// How many events are taken at a time.
const EVENTS: usize = 256;

/// The events of the eventcount and of the timer: no descriptor has these numbers.
const EVENTCOUNT: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// The event that a fiber waits for at a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Something to read, or the end of it, or a connection.
    In,
    /// Room to write, or an established connection.
    Out,
}

/// The fibers that wait at a descriptor.
#[derive(Default)]
struct Place {
    readers: Queue,
    writers: Queue,
    /// The descriptor has been added to epoll under this number, and is most likely still there.
    known: bool,
}

impl Place {
    fn queue(&mut self, direction: Direction) -> &mut Queue {
        match direction {
            Direction::In => &mut self.readers,
            Direction::Out => &mut self.writers,
        }
    }

    /// The events for which fibers wait.
    fn events(&self) -> EventFlags {
        let reads = if self.readers.is_empty() { EventFlags::empty() } else { EventFlags::IN | EventFlags::RDHUP };
        let writes = if self.writers.is_empty() { EventFlags::empty() } else { EventFlags::OUT };
        EventFlags::ONESHOT | reads | writes
    }
}

/// A worker's reactor; see the module.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    timer: OwnedFd,
    eventcount: Arc<EventCount>,
    /// When the timer will fire.
    armed: Cell<Option<Instant>>,
    /// By the descriptor's number.
    places: RefCell<Vec<Place>>,
    events: RefCell<Vec<epoll::Event>>,
    waiting: Cell<usize>,
}

impl Reactor {
    pub(crate) fn new() -> io::Result<Reactor> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let eventcount = EventCount::new()?;
        // Edge-triggered: each notification and each time is reported once, and nothing needs to be
        // read.
        epoll::add(&epoll, &eventcount, EventData::new_u64(EVENTCOUNT), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        Ok(Reactor {
            epoll,
            timer,
            eventcount: Arc::new(eventcount),
            armed: Cell::new(None),
            places: RefCell::default(),
            events: RefCell::new(Vec::with_capacity(EVENTS)),
            waiting: Cell::new(0),
        })
    }

    /// The eventcount that other kernel threads notify.
    pub(crate) fn eventcount(&self) -> &Arc<EventCount> {
        &self.eventcount
    }

    /// Whether a fiber waits at a descriptor.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.get() > 0
    }

    /// Wakes the fibers whose descriptors are ready. Does not wait.
    #[cold]
    pub(crate) fn look(&self, worker: &Worker) {
        self.take_events(worker, Some(Duration::ZERO));
    }

    /// Waits until a descriptor is ready, the time has come or another thread notifies the
    /// eventcount. Does not wait if `busy` returns true, which is called when the worker already
    /// listens.
    #[cold]
    pub(crate) fn sleep(&self, worker: &Worker, until: Option<Instant>, busy: impl FnOnce() -> bool) {
        self.eventcount.listen();
        let timeout = if busy() || until.is_some_and(|until| !self.arm(until)) { Some(Duration::ZERO) } else { None };
        self.take_events(worker, timeout);
        self.eventcount.stop_listening();
    }

    /// Sets the timer. Returns false if the time has come, or the timer cannot be set.
    fn arm(&self, until: Instant) -> bool {
        if self.armed.get() == Some(until) {
            return true;
        }
        let ahead = until.saturating_duration_since(Instant::now());
        if ahead.is_zero() {
            return false;
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value =
            Timespec { tv_sec: ahead.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: ahead.subsec_nanos().into() };
        let set = timerfd_settime(
            &self.timer,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: zero, it_value: value },
        );
        self.armed.set(Some(until));
        set.is_ok()
    }

    fn take_events(&self, worker: &Worker, timeout: Option<Duration>) {
        let timeout = timeout.map(|_| Timespec { tv_sec: 0, tv_nsec: 0 });
        let mut events = self.events.borrow_mut();
        events.clear();
        // An interruption by a signal is as good as an event: the caller looks again.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref());
        for event in events.iter() {
            match event.data.u64() {
                EVENTCOUNT => (),
                TIMER => self.armed.set(None),
                number => self.ready(worker, number as usize),
            }
        }
    }

    /// Wakes all fibers that wait at a descriptor, in both directions: to register one direction
    /// again would take a system call, and fibers rarely wait for both.
    fn ready(&self, worker: &Worker, number: usize) {
        let place = &mut self.places.borrow_mut()[number];
        while let Some(fiber) = place.readers.pop().or_else(|| place.writers.pop()) {
            self.waiting.set(self.waiting.get() - 1);
            worker.wake(fiber, Woken::Called);
        }
    }

    /// Registers a fiber to be woken when the descriptor is ready.
    fn register(&self, fd: BorrowedFd<'_>, direction: Direction, fiber: Fiber) -> Result<(), Errno> {
        let number = fd.as_raw_fd() as usize;
        let mut places = self.places.borrow_mut();
        if number >= places.len() {
            places.resize_with(number + 1, Place::default);
        }
        let place = &mut places[number];
        place.queue(direction).push(fiber);
        let (data, events) = (EventData::new_u64(number as u64), place.events());
        let add = || epoll::add(&self.epoll, fd, data, events);
        let modify = || epoll::modify(&self.epoll, fd, data, events);
        let told = if place.known {
            modify().or_else(|why| if why == Errno::NOENT { add() } else { Err(why) })
        } else {
            add().or_else(|why| if why == Errno::EXIST { modify() } else { Err(why) })
        };
        place.known = told.is_ok();
        match told {
            Ok(()) => self.waiting.set(self.waiting.get() + 1),
            Err(_) => drop(place.queue(direction).remove(fiber)),
        }
        told
    }

    /// Removes a fiber. Returns false if it has been woken.
    fn leave(&self, fd: BorrowedFd<'_>, direction: Direction, fiber: Fiber) -> bool {
        let number = fd.as_raw_fd() as usize;
        let place = &mut self.places.borrow_mut()[number];
        let left = place.queue(direction).remove(fiber);
        if left {
            self.waiting.set(self.waiting.get() - 1);
            // The number may soon be another descriptor's, for which no fiber waits.
            let _ = epoll::modify(&self.epoll, fd, EventData::new_u64(number as u64), place.events());
        }
        left
    }
}

/// A wait for a descriptor.
struct Readiness<'a> {
    fd: BorrowedFd<'a>,
    direction: Direction,
}

impl Waitable for Readiness<'_> {
    fn leave(&self, fiber: Fiber) -> bool {
        let here = CurrentWorker::expect();
        here.outside.reactor().is_ok_and(|reactor| reactor.leave(self.fd, self.direction, fiber))
    }

    fn kind(&self) -> &'static str {
        match self.direction {
            Direction::In => "input from a descriptor",
            Direction::Out => "room for output to a descriptor",
        }
    }
}

/// Waits until a descriptor may be ready: the caller tries, and waits again if it was not. A fiber
/// lets others run meanwhile; another thread blocks.
///
/// # Errors
/// [`TimedOut`](io::ErrorKind::TimedOut), or the kernel's error if it cannot watch the descriptor.
pub(crate) fn wait(fd: BorrowedFd<'_>, direction: Direction, deadline: Option<Instant>) -> io::Result<()> {
    CurrentWorker::visit(|here| wait_in(here, fd, direction, deadline))
}

fn wait_in(
    here: Option<CurrentWorker>,
    fd: BorrowedFd<'_>,
    direction: Direction,
    deadline: Option<Instant>,
) -> io::Result<()> {
    let Some(here) = here else {
        return if poll(fd, direction, deadline)? { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) };
    };
    if here.outside.is_wait_forbidden() {
        return Err(io::Error::other("the runtime ends, and with it the fiber that would wait for this"));
    }
    let reactor = here.outside.reactor()?;
    match reactor.register(fd, direction, here.current()) {
        Ok(()) => (),
        // A descriptor that epoll refuses, such as a file on a disk, is always ready.
        Err(Errno::PERM) => return Ok(()),
        Err(why) => return Err(why.into()),
    }
    here.look_outside_within(POLL_INTERVAL);
    match here.block(&Readiness { fd, direction }, deadline) {
        Woken::TimedOut => Err(io::ErrorKind::TimedOut.into()),
        Woken::Called | Woken::Cancelled => Ok(()),
    }
}

/// Blocks the kernel thread until a descriptor is ready, or until the deadline. Returns whether it
/// is ready.
pub(crate) fn poll(fd: BorrowedFd<'_>, direction: Direction, deadline: Option<Instant>) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags};
    let flags = match direction {
        Direction::In => PollFlags::IN | PollFlags::RDHUP,
        Direction::Out => PollFlags::OUT,
    };
    loop {
        let ahead = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = ahead.map(|ahead| Timespec {
            tv_sec: ahead.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: ahead.subsec_nanos().into(),
        });
        match rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), flags)], timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => (),
            Err(why) => return Err(why.into()),
        }
    }
}
