//! The watcher: a kernel thread that waits for events on behalf of workers whose fibers compute.
//!
//! Its epoll contains those of the workers. A worker asks for one event at a time, and only if a
//! fiber [computes](crate::preempt). Then the watcher requests a tick, and the worker takes the
//! event itself. There is one watcher for the process, which starts when a fiber first waits for a
//! descriptor in a runtime with preemptible fibers.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use sys::scheduling::{Thread, set_slice};

/// The timeslice of the thread. A shorter one lets the kernel run it sooner on a busy CPU.
const SLICE: Duration = Duration::from_micros(100);

const STACK: usize = 64 << 10;

/// What to call at an event, by the number of the registration.
type Registered = BTreeMap<u64, Arc<dyn Fn() + Send + Sync>>;

struct Watcher {
    epoll: OwnedFd,
    registered: Mutex<Registered>,
}

impl Watcher {
    /// The watcher, started if there is none.
    fn get() -> io::Result<Arc<Watcher>> {
        static WATCHER: Mutex<Option<Arc<Watcher>>> = Mutex::new(None);
        let mut started = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = &*started {
            return Ok(Arc::clone(watcher));
        }
        let watcher = Arc::new(Watcher { epoll: epoll::create(CreateFlags::CLOEXEC)?, registered: Mutex::default() });
        let theirs = Arc::clone(&watcher);
        std::thread::Builder::new().name("fiber watcher".into()).stack_size(STACK).spawn(move || theirs.serve())?;
        Ok(Arc::clone(started.insert(watcher)))
    }

    fn registered(&self) -> MutexGuard<'_, Registered> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        // Without it, events come later beside other threads.
        let _ = set_slice(Thread::current(), SLICE);
        let mut events = Vec::<epoll::Event>::with_capacity(64);
        loop {
            events.clear();
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), None);
            for event in &events {
                let on_event = self.registered().get(&event.data.u64()).cloned();
                if let Some(on_event) = on_event {
                    on_event();
                }
            }
        }
    }
}

/// A worker's registration. It lasts no longer than the worker's epoll, which leaves the watcher's
/// when it is closed.
pub(crate) struct Watched {
    watcher: Arc<Watcher>,
    number: u64,
}

impl Watched {
    /// Registers an epoll, and what to call at its next event after it has [asked](Watched::ask).
    pub(crate) fn new(epoll: &OwnedFd, on_event: impl Fn() + Send + Sync + 'static) -> io::Result<Watched> {
        let watcher = Watcher::get()?;
        let mut registered = watcher.registered();
        let number = registered.last_key_value().map_or(0, |(last, _)| last + 1);
        epoll::add(&watcher.epoll, epoll, EventData::new_u64(number), EventFlags::ONESHOT)?;
        registered.insert(number, Arc::new(on_event));
        drop(registered);
        Ok(Watched { watcher, number })
    }

    /// Asks for the next event, or for one now if there is one. Returns false if that is not
    /// possible.
    pub(crate) fn ask(&self, epoll: &OwnedFd) -> bool {
        let events = EventFlags::ONESHOT | EventFlags::IN;
        epoll::modify(&self.watcher.epoll, epoll.as_fd(), EventData::new_u64(self.number), events).is_ok()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watcher.registered().remove(&self.number);
    }
}
