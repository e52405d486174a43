//! What the workers of a runtime share, and what others reach it by.

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::deadlock::Deadlock;
use crate::ending::Rounds;
use crate::error::SpawnError;
use crate::inbox::Inbox;
use crate::join::DETACHED;
use crate::record::{Fiber, Records, State};
use crate::runtime::Config;
use crate::unstarted::UnstartedFibers;

/// What the workers of a runtime share.
///
/// It stays for as long as the runtime runs, and after that as long as there are handles and [`Remote`](crate::Remote)s. Handles are not counted while it runs, as that
/// would be an atomic operation for each; at the [end](Core::finish) those that are left are.
pub(crate) struct Core {
    number: u64,
    config: Config,
    pub(crate) records: Records,
    /// One for each worker.
    pub(crate) inboxes: Box<[Inbox]>,
    pub(crate) unstarted: UnstartedFibers,
    pub(crate) rounds: Rounds,
    /// How many there are outside of whom something may come.
    expected: AtomicUsize,
    /// How often a fiber has used up its running time.
    demotions: AtomicU64,
    /// All fibers seemed to wait, and nobody outside to be able to wake one: the first worker is to see to it.
    pub(crate) stuck: AtomicBool,
    /// How often a worker has lain down for good.
    rests: AtomicUsize,
    /// It lasts as long as the process, so nobody can be told that it ends.
    pub(crate) lasts: AtomicBool,
    /// How often all fibers were called off, wherever they wait.
    cancellations: AtomicU32,
    outside: Mutex<Outside>,
    /// The runtime is over.
    over: Condvar,
    /// Why the first fiber was cancelled, if it was, and how often nobody could go on.
    deadlock: Mutex<Option<(Deadlock, u32)>>,
}

/// What threads that are no workers touch.
struct Outside {
    /// The first fiber has ended, and with it the runtime does.
    ends: bool,
    over: bool,
    /// Records of nobody, through their links.
    free: Vec<Spare>,
    /// Numbers that have no records yet.
    unmade: std::ops::Range<u32>,
}

/// A record of nobody, and those that its links lead to.
struct Spare(Fiber);

// SAFETY: they are nobody's.
unsafe impl Send for Spare {}

impl Core {
    pub(crate) fn new(config: Config) -> Result<Arc<Core>, SpawnError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let number = NUMBERS.fetch_add(1, Relaxed);
        let records = Records::new(config.most)?;
        alive(|alive| alive.insert(number));
        Ok(Arc::new(Core {
            number,
            records,
            inboxes: (0..config.workers.max(1)).map(|_| Inbox::new()).collect(),
            config,
            unstarted: UnstartedFibers::default(),
            rounds: Rounds::default(),
            expected: AtomicUsize::new(0),
            demotions: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            rests: AtomicUsize::new(0),
            lasts: AtomicBool::new(false),
            cancellations: AtomicU32::new(0),
            outside: Mutex::new(Outside { ends: false, over: false, free: Vec::new(), unmade: 0..0 }),
            over: Condvar::new(),
            deadlock: Mutex::new(None),
        }))
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn count_demotion(&self) {
        self.demotions.fetch_add(1, Relaxed);
    }

    pub(crate) fn demotions(&self) -> u64 {
        self.demotions.load(Relaxed)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Keeps the first deadlock, for who asked for the run. Returns how often there has been one.
    pub(crate) fn deadlocked(&self, deadlock: &Deadlock) -> u32 {
        let mut kept = self.deadlock.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, before) = kept.take().unwrap_or_else(|| (deadlock.clone(), 0));
        *kept = Some((first, before + 1));
        before + 1
    }

    pub(crate) fn take_deadlock(&self) -> Option<Deadlock> {
        self.deadlock.lock().unwrap_or_else(PoisonError::into_inner).take().map(|(first, _)| first)
    }

    fn outside(&self) -> MutexGuard<'_, Outside> {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Who may still come.

    /// Somebody outside may bring something: until it says otherwise, that all fibers wait is no deadlock.
    pub(crate) fn add_expected(&self) {
        self.expected.fetch_add(1, SeqCst);
    }

    /// One of those will not.
    pub(crate) fn remove_expected(&self) {
        if self.expected.fetch_sub(1, SeqCst) == 1 {
            for inbox in &self.inboxes {
                let _ = inbox.wake_if_asleep();
            }
        }
    }

    /// Whether something may come from outside.
    pub(crate) fn is_expecting(&self) -> bool {
        self.expected.load(SeqCst) > 0
    }

    /// A worker is about to lie down until it is awakened.
    pub(crate) fn count_rest(&self) {
        self.rests.fetch_add(1, SeqCst);
    }

    /// How often that was said.
    pub(crate) fn rest_count(&self) -> usize {
        self.rests.load(SeqCst)
    }

    /// Does something while nobody outside brings a fiber, makes one ready, or gives a record back.
    pub(crate) fn with_outside_locked<R>(&self, then: impl FnOnce() -> R) -> R {
        let _outside = self.outside();
        then()
    }

    /// Wakes a worker that has nothing to do, if there is one.
    pub(crate) fn wake_idle_worker(&self) {
        fence(SeqCst);
        let _ = self.inboxes.iter().any(Inbox::wake_if_asleep)
            || self.inboxes.iter().any(|inbox| inbox.stopped_timer.fire_if_stopped());
    }

    /// All workers are to call off what their fibers wait for.
    pub(crate) fn cancel_all_waits(&self) {
        self.cancellations.fetch_add(1, SeqCst);
        for inbox in &self.inboxes {
            let _ = inbox.wake_if_asleep();
        }
    }

    /// How often that was said.
    pub(crate) fn cancellations(&self) -> u32 {
        self.cancellations.load(SeqCst)
    }

    // Records that no worker has at hand.

    /// Some records of nobody, through their links.
    pub(crate) fn take_spare(&self) -> Option<Fiber> {
        self.outside().free.pop().map(|spare| spare.0)
    }

    /// Takes back such.
    pub(crate) fn return_records(&self, first: Fiber) {
        self.outside().free.push(Spare(first));
    }

    /// A fiber for a thread that is no worker. `put` makes it one of a function.
    ///
    /// The lock is kept until the fiber is on its way, so the runtime cannot be over before. While it ends, only those that let go of others, or wait for their ends, may still come.
    pub(crate) fn add_from_outside(&self, is_release: bool, put: impl FnOnce(Fiber)) -> Result<Fiber, SpawnError> {
        let mut outside = self.outside();
        if outside.over || outside.ends && !is_release {
            return Err(SpawnError::Over);
        }
        let fiber = match outside.free.pop() {
            Some(Spare(fiber)) => {
                outside.free.extend(fiber.next.take().map(Spare));
                fiber
            }
            None => {
                if outside.unmade.is_empty() {
                    outside.unmade = self.more()?;
                }
                let number = outside.unmade.start;
                outside.unmade.start += 1;
                // SAFETY: each number comes once.
                unsafe { self.records.make(number) }
            }
        };
        put(fiber);
        if let [inbox] = &*self.inboxes {
            inbox.send(fiber);
        } else {
            self.unstarted.push_urgently(fiber);
            self.wake_idle_worker();
        }
        Ok(fiber)
    }

    /// Numbers of new records.
    pub(crate) fn more(&self) -> Result<std::ops::Range<u32>, SpawnError> {
        self.records.more().ok_or(SpawnError::TooMany { most: self.records.most() })
    }

    // The end.

    /// Nobody outside makes fibers any more: who floods the runtime with them must not keep it from its end.
    pub(crate) fn begin_shutdown(&self) {
        self.outside().ends = true;
    }

    /// Whether nobody outside can make fibers any more.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.outside().ends
    }

    /// Blocks the kernel thread until the runtime is over.
    pub(crate) fn wait_until_over(&self) {
        let mut outside = self.outside();
        while !outside.over {
            outside = self.over.wait(outside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No worker is left. From now on whoever has a handle has a share of this.
    pub(crate) fn finish(self: &Arc<Core>) {
        alive(|alive| alive.remove(&self.number));
        let mut outside = self.outside();
        outside.over = true;
        // Those that came last of all, from outside, and found nobody to run them.
        let mut late = Vec::new();
        self.inboxes.iter().for_each(|inbox| inbox.take(|fiber: Fiber| late.push(fiber)));
        late.extend(std::iter::from_fn(|| self.unstarted.pop()));
        // Or to wake somebody who has not ended in time.
        late.retain(|fiber| fiber.state.get() == State::Unstarted);
        let has_handle = |fiber: &Fiber| fiber.state.get() != State::Free && fiber.meeting.load(Acquire) != DETACHED;
        for _ in self.records.all().filter(has_handle) {
            // SAFETY: it is this very count.
            unsafe { Arc::increment_strong_count(Arc::as_ptr(self)) };
        }
        drop(outside);
        self.over.notify_all();
        // Outside of the lock, as they may have handles themselves.
        for fiber in late {
            let _ = crate::ending::drop_task(fiber);
        }
    }

    /// A handle on a thread that is no worker gives a record back whose fiber has ended, or never will.
    ///
    /// # Safety
    /// It is the only handle, and forgets it; what came of the fiber was taken or dropped, if it has ended.
    pub(crate) unsafe fn return_record(core: NonNull<Core>, fiber: Fiber) {
        // SAFETY: the handle kept it so far.
        let over = unsafe {
            let mut outside = core.as_ref().outside();
            if !outside.over {
                fiber.state.set(State::Free);
                fiber.generation.set(fiber.generation.get().wrapping_add(1));
                fiber.next.set(None);
                outside.free.push(Spare(fiber));
            }
            outside.over
        };
        if over {
            // SAFETY: the share that the end of the runtime has counted.
            unsafe { Arc::decrement_strong_count(core.as_ptr()) };
        }
    }
}

/// A core, with the right to count those who share it.
pub(crate) fn pointer(core: &Arc<Core>) -> NonNull<Core> {
    // SAFETY: it is there.
    unsafe { NonNull::new_unchecked(Arc::as_ptr(core).cast_mut()) }
}

/// The numbers of the runtimes that are not over.
fn alive<R>(then: impl FnOnce(&mut BTreeSet<u64>) -> R) -> R {
    static ALIVE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    then(&mut ALIVE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whether a runtime is not over.
pub(crate) fn is_alive(number: u64) -> bool {
    alive(|alive| alive.contains(&number))
}
