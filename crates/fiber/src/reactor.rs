//! A worker's reactor: waits for descriptors, a time, and other kernel threads.
//!
//! A fiber that would block on a descriptor registers it for one event with the worker's epoll and
//! stops. So nothing has to be undone when a descriptor is closed, and no event is reported for
//! which no fiber waits. The worker looks for events when no fiber is ready, and then sleeps until
//! there is one. While it is busy, it looks every [`POLL_INTERVAL`], but only if a fiber waits for
//! an event.
//!
//! Times come from a timerfd, which counts nanoseconds and is exact; a timeout of the kernel's wait
//! may be late by a thousandth of itself, and by at least 50 us.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::current_worker::CurrentWorker;
use crate::outside::{Direction, EventSource};
use crate::queue::Queue;
use crate::record::Fiber;
use crate::waitable::{Waitable, Woken};
use crate::watcher::Watched;
use crate::worker::{POLL_INTERVAL, Worker};

/// How many events are taken at a time.
const EVENTS: usize = 256;

/// The events of the eventfd and of the timer: no descriptor has these numbers.
const EVENTFD: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// The fibers that wait at a descriptor, by direction.
#[derive(Default)]
struct Place {
    queues: [Queue; 2],
    /// The descriptor has been added to epoll under this number, and is most likely still there.
    known: bool,
}

impl Place {
    /// The events for which fibers wait.
    fn events(&self) -> EventFlags {
        let [reads, writes] = [EventFlags::IN | EventFlags::RDHUP, EventFlags::OUT];
        let wanted = |queue: &Queue, events| if queue.is_empty() { EventFlags::empty() } else { events };
        EventFlags::ONESHOT | wanted(&self.queues[0], reads) | wanted(&self.queues[1], writes)
    }
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
    /// The registration with the watcher, if there can be ticks. It is dropped before the epoll.
    watched: OnceCell<Watched>,
    is_watched: Cell<bool>,
    epoll: OwnedFd,
}

impl Reactor {
    /// The reactor of a worker with this eventfd.
    pub(crate) fn make(eventfd: &OwnedFd) -> io::Result<Box<dyn EventSource>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // Edge-triggered: each notification and each time is reported once, and nothing needs to be
        // read.
        epoll::add(&epoll, eventfd, EventData::new_u64(EVENTFD), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        Ok(Box::new(Reactor {
            epoll,
            timer,
            armed: Cell::new(None),
            places: RefCell::default(),
            events: RefCell::new(Vec::with_capacity(EVENTS)),
            waiting: Cell::new(0),
            watched: OnceCell::new(),
            is_watched: Cell::new(false),
        }))
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
        let times = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(ahead) };
        self.armed.set(Some(until));
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times).is_ok()
    }

    fn take_events(&self, worker: &Worker, waits: bool) {
        let timeout = (!waits).then(|| timespec(Duration::ZERO));
        let mut events = self.events.borrow_mut();
        events.clear();
        // An interruption by a signal is as good as an event: the caller looks again.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref());
        if !events.is_empty() {
            self.is_watched.set(false);
        }
        for event in events.iter() {
            match event.data.u64() {
                EVENTFD => (),
                TIMER => self.armed.set(None),
                number => self.wake(worker, number as usize),
            }
        }
    }

    /// Wakes all fibers that wait at a descriptor, in both directions: to register one direction
    /// again would take a system call, and fibers rarely wait for both.
    fn wake(&self, worker: &Worker, number: usize) {
        let [readers, writers] = &mut self.places.borrow_mut()[number].queues;
        while let Some(fiber) = readers.pop().or_else(|| writers.pop()) {
            self.waiting.set(self.waiting.get() - 1);
            worker.wake(fiber, Woken::Called);
        }
    }
}

impl EventSource for Reactor {
    fn register(&self, fd: BorrowedFd<'_>, direction: Direction, worker: &Worker) -> Result<(), Errno> {
        let fiber = worker.current();
        let number = fd.as_raw_fd() as usize;
        let mut places = self.places.borrow_mut();
        if number >= places.len() {
            places.resize_with(number + 1, Place::default);
        }
        let place = &mut places[number];
        place.queues[direction as usize].push(fiber);
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
            Ok(()) => {
                if worker.has_ticks() && self.waiting.get() == 0 {
                    if self.watched.get().is_none()
                        && let Ok(watched) = Watched::new(&self.epoll, worker.weak_core(), worker.index)
                    {
                        let _ = self.watched.set(watched);
                    }
                    worker.note_wait_outside();
                }
                self.waiting.set(self.waiting.get() + 1);
                worker.look_within(POLL_INTERVAL);
            }
            Err(_) => drop(place.queues[direction as usize].remove(fiber)),
        }
        told
    }

    fn leave(&self, fd: BorrowedFd<'_>, direction: Direction, fiber: Fiber) -> bool {
        let number = fd.as_raw_fd() as usize;
        let place = &mut self.places.borrow_mut()[number];
        let left = place.queues[direction as usize].remove(fiber);
        if left {
            self.waiting.set(self.waiting.get() - 1);
            // The number may soon be another descriptor's, for which no fiber waits.
            let _ = epoll::modify(&self.epoll, fd, EventData::new_u64(number as u64), place.events());
        }
        left
    }

    fn is_awaited(&self) -> bool {
        self.waiting.get() > 0
    }

    fn look(&self, worker: &Worker) {
        self.take_events(worker, false);
    }

    fn ask_to_be_watched(&self) {
        self.is_watched.set(self.watched.get().is_some_and(|watched| watched.ask(&self.epoll)));
    }

    fn is_watched(&self) -> bool {
        self.is_watched.get()
    }

    fn sleep(&self, worker: &Worker, until: Option<Instant>) {
        self.take_events(worker, until.is_none_or(|until| self.arm(until)));
    }
}

/// A wait for a descriptor.
struct Readiness<'a> {
    fd: BorrowedFd<'a>,
    direction: Direction,
    is_in_c_library: bool,
}

impl Waitable for Readiness<'_> {
    fn leave(&self, fiber: Fiber) -> bool {
        CurrentWorker::expect().event_source().is_ok_and(|source| source.leave(self.fd, self.direction, fiber))
    }

    fn is_in_c_library(&self) -> bool {
        self.is_in_c_library
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
/// [`TimedOut`](ErrorKind::TimedOut), or the kernel's error if it cannot watch the descriptor.
pub(crate) fn wait(fd: BorrowedFd<'_>, direction: Direction, deadline: Option<Instant>) -> io::Result<()> {
    CurrentWorker::visit(|here| {
        let Some(here) = here else {
            return if is_ready(fd, direction, deadline)? { Ok(()) } else { Err(ErrorKind::TimedOut.into()) };
        };
        if here.outside.is_wait_forbidden() {
            return Err(io::Error::other("the runtime ends, and with it the fiber that would wait for this"));
        }
        match block(here, fd, direction, deadline, false)? {
            Woken::TimedOut => Err(ErrorKind::TimedOut.into()),
            Woken::Called => Ok(()),
            Woken::Cancelled => crate::unwinding::unwind(),
        }
    })
}

/// Blocks the fiber until a descriptor may be ready. One that epoll refuses, such as a file on a
/// disk, is always ready.
pub(crate) fn block(
    here: CurrentWorker,
    fd: BorrowedFd<'_>,
    direction: Direction,
    deadline: Option<Instant>,
    is_in_c_library: bool,
) -> io::Result<Woken> {
    match here.event_source()?.register(fd, direction, &here) {
        Ok(()) => (),
        Err(Errno::PERM) => return Ok(Woken::Called),
        Err(why) => return Err(why.into()),
    }
    Ok(here.block_quietly(&Readiness { fd, direction, is_in_c_library }, deadline))
}

/// Blocks the kernel thread until a descriptor is ready, or until the deadline. Returns whether it
/// is ready.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, direction: Direction, deadline: Option<Instant>) -> io::Result<bool> {
    let flags = [PollFlags::IN | PollFlags::RDHUP, PollFlags::OUT][direction as usize];
    loop {
        let timeout = deadline.map(|deadline| timespec(deadline.saturating_duration_since(Instant::now())));
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => (),
            Err(why) => return Err(why.into()),
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}
