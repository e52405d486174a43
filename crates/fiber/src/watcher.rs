//! The watcher: a kernel thread that waits for events on behalf of workers whose fibers compute.
//!
//! Its epoll contains those of the workers. A worker asks for one event at a time, and only if a
//! fiber [computes](crate::preempt). Then the watcher requests a tick, and the worker takes the
//! event itself. There is one watcher for the process, which starts when a fiber first waits for a
//! descriptor in a runtime with preemptible fibers.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use sys::scheduling::{Thread, set_slice};

use crate::shared::Core;

/// The timeslice of the thread. A shorter one lets the kernel run it sooner on a busy CPU.
const SLICE: Duration = Duration::from_micros(100);

const STACK: usize = 64 << 10;

struct Watcher {
    epoll: OwnedFd,
    /// The workers that have registered, by their numbers here.
    workers: Mutex<Workers>,
}

#[derive(Default)]
struct Workers {
    last: u64,
    all: BTreeMap<u64, (Weak<Core>, usize)>,
}

impl Watcher {
    /// The watcher, started if there is none.
    fn get() -> io::Result<Arc<Watcher>> {
        static WATCHER: Mutex<Option<Arc<Watcher>>> = Mutex::new(None);
        let mut started = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = &*started {
            return Ok(Arc::clone(watcher));
        }
        let watcher = Arc::new(Watcher { epoll: epoll::create(CreateFlags::CLOEXEC)?, workers: Mutex::default() });
        let theirs = Arc::clone(&watcher);
        std::thread::Builder::new().name("fiber watcher".into()).stack_size(STACK).spawn(move || theirs.serve())?;
        Ok(Arc::clone(started.insert(watcher)))
    }

    fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        // Without it, events come later beside other threads.
        let _ = set_slice(Thread::current(), SLICE);
        let mut events = Vec::<epoll::Event>::with_capacity(64);
        loop {
            events.clear();
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), None);
            for event in &events {
                let worker = self.workers().all.get(&event.data.u64()).cloned();
                if let Some((core, index)) = worker
                    && let Some(core) = core.upgrade()
                {
                    core.inboxes[index].tick_request.fire();
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
    pub(crate) fn new(epoll: &OwnedFd, core: Weak<Core>, index: usize) -> io::Result<Watched> {
        let watcher = Watcher::get()?;
        let mut workers = watcher.workers();
        workers.last += 1;
        let number = workers.last;
        epoll::add(&watcher.epoll, epoll, EventData::new_u64(number), EventFlags::ONESHOT)?;
        workers.all.insert(number, (core, index));
        drop(workers);
        Ok(Watched { watcher, number })
    }

    /// Asks for a tick at the next event, or now if there is one. Returns false if that is not
    /// possible.
    pub(crate) fn ask(&self, epoll: &OwnedFd) -> bool {
        let events = EventFlags::ONESHOT | EventFlags::IN;
        epoll::modify(&self.watcher.epoll, epoll.as_fd(), EventData::new_u64(self.number), events).is_ok()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watcher.workers().all.remove(&self.number);
    }
}
