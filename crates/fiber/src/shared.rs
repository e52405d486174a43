//! The state that the workers of a runtime share, and access to it for other threads.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::Config;
use crate::error::SpawnError;
use crate::inbox::Inbox;
use crate::offered::OfferedFibers;
use crate::record::{DETACHED, Fiber, Records, State};
use crate::rounds::Rounds;

/// The state that the workers of a runtime share.
///
/// It exists as long as the runtime runs, and after that as long as there are handles and
/// [`Remote`](crate::Remote)s. Handles are not counted while it runs, because that would be an
/// atomic operation for each. At the [end](Core::finish) those that remain are counted.
pub(crate) struct Core {
    pub(crate) number: u64,
    pub(crate) config: Config,
    pub(crate) records: Records,
    pub(crate) inboxes: Box<[Inbox]>,
    pub(crate) offered: OfferedFibers,
    pub(crate) rounds: Rounds,
    /// How many sources outside may still add something.
    expected: AtomicUsize,
    /// How often a fiber has used up its running time.
    pub(crate) demotions: AtomicU64,
    /// A worker has ticks, so there may be preemptible fibers.
    pub(crate) has_ticks: AtomicBool,
    /// A fiber waits for another one that waits. Cleared by a search for cycles.
    pub(crate) may_have_cycle: AtomicBool,
    /// How often a worker has gone to sleep until it is woken.
    pub(crate) rests: AtomicUsize,
    /// It lasts as long as the process, so there is no caller to tell of a deadlock.
    pub(crate) lasts: AtomicBool,
    /// How often all waits were cancelled.
    pub(crate) cancellations: AtomicU32,
    outside: Mutex<Outside>,
    /// The [deadlock](crate::Deadlock) for which the first fiber was cancelled, and how often there
    /// has been one.
    deadlock: Mutex<(Option<Box<dyn Any + Send>>, u32)>,
}

/// The part that threads other than workers touch.
struct Outside {
    /// The first fiber has ended, and so the runtime ends.
    ends: bool,
    over: bool,
    /// Free records, by their links.
    free: Vec<Spare>,
}

/// A free record, and those that its links lead to.
struct Spare(Fiber);

// SAFETY: free records belong to no thread.
unsafe impl Send for Spare {}

/// The number of no runtime.
pub(crate) const NO_RUNTIME: u64 = u64::MAX;

impl Core {
    pub(crate) fn new(config: Config) -> Result<Arc<Core>, SpawnError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let number = NUMBERS.fetch_add(1, Relaxed);
        let records = Records::new(config.most)?;
        Ok(Arc::new(Core {
            number,
            records,
            inboxes: (0..config.workers.max(1)).map(|_| Inbox::new()).collect(),
            config,
            offered: OfferedFibers::default(),
            rounds: Rounds::default(),
            expected: AtomicUsize::new(0),
            demotions: AtomicU64::new(0),
            has_ticks: AtomicBool::new(false),
            may_have_cycle: AtomicBool::new(false),
            rests: AtomicUsize::new(0),
            lasts: AtomicBool::new(false),
            cancellations: AtomicU32::new(0),
            outside: Mutex::new(Outside { ends: false, over: false, free: Vec::new() }),
            deadlock: Mutex::new((None, 0)),
        }))
    }

    /// Keeps the first deadlock for the caller of `run`. Returns how often there has been one.
    pub(crate) fn count_deadlock(&self, deadlock: impl Any + Send) -> u32 {
        let mut kept = self.deadlock.lock().unwrap_or_else(PoisonError::into_inner);
        kept.0.get_or_insert_with(|| Box::new(deadlock));
        kept.1 += 1;
        kept.1
    }

    pub(crate) fn take_deadlock(&self) -> Option<Box<dyn Any + Send>> {
        self.deadlock.lock().unwrap_or_else(PoisonError::into_inner).0.take()
    }

    fn outside(&self) -> MutexGuard<'_, Outside> {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Expected events from outside.

    /// A source outside may add something: until it is removed, it is no deadlock if all fibers
    /// wait.
    pub(crate) fn add_expected(&self) {
        self.expected.fetch_add(1, SeqCst);
    }

    pub(crate) fn remove_expected(&self) {
        if self.expected.fetch_sub(1, SeqCst) == 1 {
            self.wake_all_workers();
        }
    }

    pub(crate) fn is_expecting(&self) -> bool {
        self.expected.load(SeqCst) > 0
    }

    /// Calls a function while no thread outside can add a fiber, make one ready, or return a
    /// record.
    pub(crate) fn with_outside_locked<R>(&self, then: impl FnOnce() -> R) -> R {
        let _outside = self.outside();
        then()
    }

    /// Wakes a worker that has nothing to do, if there is one, or makes one look that might not do
    /// so for ever.
    pub(crate) fn wake_idle_worker(&self) {
        fence(SeqCst);
        let _ = self.inboxes.iter().any(Inbox::wake_if_asleep)
            || self.inboxes.iter().any(|inbox| inbox.tick_request.fire_if_stopped());
    }

    pub(crate) fn wake_all_workers(&self) {
        self.inboxes.iter().for_each(|inbox| _ = inbox.wake_if_asleep());
    }

    // Free records that no worker has.

    /// Takes some free records, by their links.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_records(&self) -> Result<Fiber, SpawnError> {
        self.take_records_from(&mut self.outside())
    }

    fn take_records_from(&self, outside: &mut Outside) -> Result<Fiber, SpawnError> {
        // SAFETY: the caller has the lock.
        outside.free.pop().map_or_else(|| unsafe { self.records.make() }, |spare| Ok(spare.0))
    }

    pub(crate) fn return_records(&self, first: Fiber) {
        self.outside().free.push(Spare(first));
    }

    /// Adds a fiber on behalf of a thread that is not a worker. `put` gives it its function.
    ///
    /// The lock is held until the fiber has been sent, so the runtime cannot be over before.
    pub(crate) fn add_from_outside(&self, put: impl FnOnce(Fiber)) -> Result<Fiber, SpawnError> {
        let mut outside = self.outside();
        if outside.ends {
            return Err(SpawnError::Over);
        }
        let fiber = self.take_records_from(&mut outside)?;
        outside.free.extend(fiber.next.take().map(Spare));
        put(fiber);
        if let [inbox] = &*self.inboxes {
            inbox.send(fiber);
        } else {
            self.offered.push_urgently(fiber);
            fence(SeqCst);
            let _ = self.inboxes.iter().any(Inbox::wake_if_asleep)
                || self.inboxes.iter().any(|inbox| inbox.tick_request.fire());
        }
        Ok(fiber)
    }

    // The end.

    /// Refuses new fibers from outside: a thread that floods the runtime with them must not keep it
    /// from ending.
    pub(crate) fn begin_shutdown(&self) {
        self.outside().ends = true;
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.outside().ends
    }

    pub(crate) fn is_over(&self) -> bool {
        self.outside().over
    }

    /// Ends the runtime, which has no worker any more. From now on each handle has a share of this.
    pub(crate) fn finish(self: &Arc<Core>) {
        let mut outside = self.outside();
        outside.over = true;
        // Those that were added last, from outside, and found no worker to run them.
        let mut late = Vec::new();
        self.inboxes.iter().for_each(|inbox| inbox.take(|fiber: Fiber| late.push(fiber)));
        late.extend(std::iter::from_fn(|| self.offered.pop()));
        // Fibers that were sent to be woken, but did not end in time, are not among them.
        late.retain(|fiber| fiber.state.get() == State::Unstarted);
        let has_handle = |fiber: &Fiber| fiber.state.get() != State::Free && fiber.meeting.load(Acquire) != DETACHED;
        for _ in self.records.all().filter(has_handle) {
            // SAFETY: it is this very count.
            unsafe { Arc::increment_strong_count(Arc::as_ptr(self)) };
        }
        drop(outside);
        // Without the lock, because they may own handles themselves.
        for fiber in late {
            fiber.drop_task();
        }
    }

    /// Detaches a fiber on behalf of a handle on a thread that is not a worker, by a function that
    /// returns whether the fiber has ended, and so has not been detached. Returns the same.
    ///
    /// # Safety
    /// It is the only handle to the fiber, and is forgotten unless this returns true.
    pub(crate) unsafe fn detach(core: NonNull<Core>, detach: impl FnOnce() -> bool) -> bool {
        // SAFETY: the handle keeps it so far.
        let core = unsafe { Core::share(core) };
        let outside = core.outside();
        let has_ended = detach();
        if outside.over && !has_ended {
            // SAFETY: it is the share that `finish` has counted.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&core)) };
        }
        has_ended
    }

    /// Returns a record on behalf of a handle on a thread that is not a worker. The fiber has
    /// ended.
    ///
    /// # Safety
    /// It is the only handle, and is forgotten. The outcome was taken or dropped.
    pub(crate) unsafe fn return_record(core: NonNull<Core>, fiber: Fiber) {
        // SAFETY: the handle keeps it so far.
        let core = unsafe { Core::share(core) };
        let mut outside = core.outside();
        if outside.over {
            // SAFETY: it is the share that `finish` has counted.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&core)) };
        } else {
            fiber.state.set(State::Free);
            fiber.generation.set(fiber.generation.get().wrapping_add(1));
            fiber.next.set(None);
            outside.free.push(Spare(fiber));
        }
    }

    /// A share of a core.
    ///
    /// # Safety
    /// It exists, and comes from [`pointer`].
    pub(crate) unsafe fn share(core: NonNull<Core>) -> Arc<Core> {
        // SAFETY: the caller's promise.
        unsafe {
            Arc::increment_strong_count(core.as_ptr());
            Arc::from_raw(core.as_ptr())
        }
    }
}

/// A pointer to a core that may change the count of shares.
pub(crate) fn pointer(core: &Arc<Core>) -> NonNull<Core> {
    // SAFETY: an `Arc` is never null.
    unsafe { NonNull::new_unchecked(Arc::as_ptr(core).cast_mut()) }
}
