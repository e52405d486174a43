//! A mutex: one owner at a time.
//!
//! One word contains the owner. As long as the mutex is [biased](crate::waiting::biased) to a
//! runtime, locking and unlocking are a comparison and a few loads and stores each; otherwise one
//! atomic operation each. All else happens inside the list of waiters.
//!
//! # Which waiter is next
//! An unlocked mutex is free: the first waiter is woken, and locks it when it runs, unless another
//! fiber or thread has done so before. Handing over the mutex would be fairer, but slower. When a
//! queue has formed, because a fiber was stopped while it held the mutex, a fiber that unlocks and
//! wants to lock again would find it owned by a fiber that does not run yet, and would stop. So the
//! queue would keep its length, with a switch for each acquisition (a *convoy*). A waiter may
//! therefore be passed over, but only once: it then waits at the front, and the mutex is handed
//! over to it. Eight fibers that acquire one mutex again and again, and yield with it every five
//! hundredth time, need 20 ns each time in this way and 210 ns with handing over (medians of 12
//! interleaved runs on a busy machine).
//!
//! # Why no waiter is forgotten
//! If there are waiters, the word has a mark, and the owner unlocks inside the list. A waiter sets
//! the mark inside the list, and only while there is an owner, in one atomic step. The owner clears
//! the mark and takes one waiter off the list, which always tries again: it locks, and sets the
//! mark again if others still wait, or it finds an owner, and sets the mark before it waits. An
//! owner that has locked in between finds no mark, and needs none: the woken waiter cares for those
//! behind it.
//!
//! # Levels
//! In a runtime with one worker, the mutex goes to the fiber of the highest level, and at one level
//! to the first. The owner inherits the level of the first waiter, and so does the owner of a mutex
//! for which this owner waits, and so on. It drops the inherited level with the last such mutex
//! that it holds. So it may keep a level for longer than the waiter of that level waits, but never
//! for longer than it holds mutexes. Several workers have a queue each, and the levels of one mean
//! nothing to the others. There, and among threads and futures, waiters come in the order in which
//! they arrived.

use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use lock_api::GuardNoSend;
use policy::feedback::Level;

use crate::current_worker::CurrentWorker;
use crate::fiber_thread;
use crate::record::Fiber;
use crate::time::after;
use crate::waiting::biased::Biased;
use crate::waiting::list::{Taken, TakenList, WaitList, Waiter};
use crate::waiting::{self, Operation, Performing};
use crate::worker::Worker;

/// A mutex for fibers, threads and futures: one of them at a time accesses the value. A fiber that
/// waits for it lets other fibers run; a thread spins for a while and then blocks.
///
/// There is no poisoning: if the owner panics, the mutex is unlocked as at any other end of its
/// guard. [`lock_async`] locks it in a future.
///
/// # Panics
/// Locking panics if the calling fiber or thread has locked it already: it would wait for itself.
///
/// ```
/// use rowlock_fiber::{Mutex, run, spawn};
///
/// static SUM: Mutex<u64> = Mutex::new(0);
///
/// let thread = std::thread::spawn(|| *SUM.lock() += 50);
/// run(|| {
///     let fibers: Vec<_> = (0..100).map(|i| spawn(move || *SUM.lock() += i)).collect();
///     for fiber in fibers {
///         fiber.join().unwrap();
///     }
/// });
/// thread.join().unwrap();
/// assert_eq!(*SUM.lock(), 5000);
/// ```
///
/// A guard belongs to the fiber or thread that locked:
///
/// ```compile_fail,E0277
/// static MUTEX: rowlock_fiber::Mutex<u32> = rowlock_fiber::Mutex::new(0);
/// let guard = MUTEX.lock();
/// rowlock_fiber::spawn(move || drop(guard));
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Keeps a [`Mutex`] locked until it is dropped. Other fibers may run meanwhile.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// Locks a mutex in a future. If that is dropped before it is ready, the mutex is not locked.
pub async fn lock_async<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // SAFETY: the raw mutex is locked here, and unlocked by the guard.
    Performing::new(Lock { mutex: unsafe { mutex.raw() }, owner: FUTURE }, Payload::default()).await;
    // SAFETY: it is locked.
    unsafe { mutex.make_guard_unchecked() }
}

const FREE: usize = 0;

/// There is a waiter, or was when the word was written.
const WAITED_FOR: usize = 1;

/// The owner inherits a level because of this mutex.
const INHERITED: usize = 2;

/// The bits that do not belong to the owner.
const MARKS: usize = WAITED_FOR | INHERITED;

/// The owner is a future.
const FUTURE: usize = 8;

/// The mutex without its value.
pub struct RawMutex {
    /// The address of the owner's record, or of thread-locals of a thread; and marks.
    word: AtomicUsize,
    waiting: Biased<WaitList<Payload>>,
}

#[derive(Default)]
struct Payload {
    owner: usize,
    /// It was woken before, when another one locked first.
    was_passed_over: bool,
    /// It owns the mutex.
    was_handed_over: bool,
}

/// Calls a function with the calling fiber's worker, if it has one, and the caller's address.
#[inline(always)]
fn as_owner<R>(then: impl FnOnce(Option<CurrentWorker>, usize) -> R) -> R {
    CurrentWorker::visit(|here| then(here, here.map_or_else(fiber_thread::address, |here| here.current().address())))
}

/// Counts the locks of a fiber, if it may be interrupted.
#[inline(always)]
fn count_locks(here: Option<CurrentWorker>, more: i32) {
    if let Some(here) = here.filter(|here| here.has_ticks()) {
        here.count_locks(more);
    }
}

impl RawMutex {
    /// The offset of the word, for debuggers.
    pub(crate) const WORD: u64 = std::mem::offset_of!(RawMutex, word) as u64;

    /// Locks the mutex if it is free and has no waiters.
    #[inline(always)]
    fn lock_free(&self, here: Option<CurrentWorker>, owner: usize) -> bool {
        let plainly = || {
            let is_free = self.word.load(Relaxed) == FREE;
            if is_free {
                self.word.store(owner, Relaxed);
            }
            is_free
        };
        match here.and_then(|here| self.waiting.if_biased(&here, plainly)) {
            Some(locked) => locked,
            None => self.waiting.is_shared() && self.word.compare_exchange(FREE, owner, Acquire, Relaxed).is_ok(),
        }
    }

    #[inline(always)]
    fn lock_until(&self, deadline: Option<Instant>) -> bool {
        as_owner(|here, owner| {
            if let Some(here) = here {
                here.safepoint();
            } else {
                crate::preempt::orphan::unwind_if_orphaned();
            }
            let locked = self.lock_free(here, owner) || self.lock_contended(owner, deadline);
            if locked {
                count_locks(here, 1);
            }
            locked
        })
    }

    #[cold]
    #[inline(never)]
    #[allow(clippy::panic, reason = "documented: the caller would wait for itself")]
    fn lock_contended(&self, owner: usize, deadline: Option<Instant>) -> bool {
        if deadline.is_none() && self.word.load(Relaxed) & !MARKS == owner {
            panic!("a mutex is locked again by the fiber or thread that has locked it: it would wait for itself");
        }
        let locked = waiting::perform_until(&Lock { mutex: self, owner }, Payload::default(), deadline).is_ok();
        if locked && self.word.load(Relaxed) & WAITED_FOR != 0 {
            self.raise_owner();
        }
        locked
    }

    /// Locks the mutex if it is free, or else sets a mark, in one step. For a caller inside.
    fn lock_or_mark(&self, owner: usize, has_waiters: bool, mark: usize) -> bool {
        let others = if has_waiters { WAITED_FOR } else { 0 };
        let change = |word| Some(if word & !MARKS == FREE { owner | others } else { word | mark });
        self.word.fetch_update(Acquire, Relaxed, change).is_ok_and(|word| word & !MARKS == FREE)
    }

    /// Raises the owner to the level of the first waiter, if both are fibers of the caller's
    /// runtime, and that has one worker.
    fn raise_owner(&self) {
        let Some(here) = CurrentWorker::look().filter(|here| here.is_alone) else { return };
        let first = self.waiting.enter(Some(&here), |waiting| waiting.first().and_then(Waiter::fiber));
        if let (Some(first), Some(owner)) = (first.filter(|first| here.is_home_of(*first)), self.owner(&here)) {
            if self.word.fetch_or(INHERITED, Relaxed) & INHERITED == 0 {
                owner.inherited_levels.set(owner.inherited_levels.get() + 1);
            }
            here.inherit_level(owner, here.level(first));
        }
    }

    /// The owner, if it is a fiber of this runtime.
    fn owner(&self, here: &Worker) -> Option<Fiber> {
        here.core().records.at(self.word.load(Relaxed) & !MARKS)
    }

    #[inline(always)]
    fn unlock_in(&self, here: Option<CurrentWorker>) {
        let plainly = || {
            let is_plain = self.word.load(Relaxed) & MARKS == 0;
            if is_plain {
                self.word.store(FREE, Relaxed);
            }
            is_plain
        };
        let unlocked = here.and_then(|here| self.waiting.if_biased(&here, plainly)).unwrap_or_else(|| {
            let word = self.word.load(Relaxed);
            word & MARKS == 0
                && self.waiting.is_shared()
                && self.word.compare_exchange(word, FREE, Release, Relaxed).is_ok()
        });
        if !unlocked {
            self.unlock_contended(here);
        }
        count_locks(here, -1);
    }

    #[cold]
    #[inline(never)]
    fn unlock_contended(&self, here: Option<CurrentWorker>) {
        if self.word.load(Relaxed) & INHERITED != 0
            && let Some(here) = here.filter(|here| here.is_alone)
            && let Some(owner) = self.owner(&here)
        {
            let inherited = owner.inherited_levels.get().saturating_sub(1);
            owner.inherited_levels.set(inherited);
            if inherited == 0 {
                here.drop_inherited_level(owner);
            }
        }
        let next = self.waiting.enter(here.as_deref(), |waiting| {
            let mut next = waiting.pop();
            let mut word = FREE;
            if let Some(next) = next.as_mut().map(Taken::payload).filter(|next| next.was_passed_over) {
                next.was_handed_over = true;
                word = next.owner | if waiting.is_empty() { 0 } else { WAITED_FOR };
            }
            self.word.store(word, Release);
            next
        });
        let Some(next) = next else { return };
        let alone = here.filter(|here| here.is_alone);
        let fiber = next.fiber().filter(|fiber| alone.is_some_and(|here| here.is_home_of(*fiber)));
        next.wake(here);
        if let (Some(here), Some(fiber)) = (alone, fiber) {
            here.yield_soon_if_outranked(fiber);
        }
    }
}

#[repr(C)]
struct Lock<'a> {
    mutex: &'a RawMutex,
    owner: usize,
}

impl Operation for Lock<'_> {
    type State = WaitList<Payload>;
    type Payload = Payload;
    const KIND: &'static str = "a mutex";
    const OBJECT: fn(&Self) -> &Biased<WaitList<Payload>> = |operation| &operation.mutex.waiting;
    const LIST: fn(&mut WaitList<Payload>) -> &mut WaitList<Payload> = |waiting| waiting;

    fn attempt(&self, waiting: &mut WaitList<Payload>, payload: &mut Payload, _: &mut TakenList<Payload>) -> bool {
        payload.owner = self.owner;
        self.mutex.lock_or_mark(self.owner, !waiting.is_empty(), WAITED_FOR)
    }

    fn enlist(&self, waiting: &mut WaitList<Payload>, waiter: Pin<&Waiter<Payload>>) {
        let here = CurrentWorker::look().filter(|here| here.is_alone);
        let level = |waiter: &Waiter<Payload>| match (here, waiter.fiber()) {
            (Some(here), Some(fiber)) if here.is_home_of(fiber) => here.level(fiber),
            _ => Level::default(),
        };
        // SAFETY: the caller has the object's state.
        let goes_first = unsafe { waiter.payload() }.was_passed_over;
        let mine = level(&waiter);
        let is_before = |other: &Waiter<Payload>| level(other) < mine || !goes_first && level(other) == mine;
        let previous = waiting.backwards().find(|other| is_before(other)).map(NonNull::from);
        waiting.insert_after(previous, waiter);
    }

    fn on_listed(&self) {
        self.mutex.raise_owner();
    }

    fn complete(&self, payload: &mut Payload) -> bool {
        payload.was_passed_over = true;
        payload.was_handed_over
    }

    fn undo(&self, payload: Payload) {
        // Without the mutex, it was woken to lock it, and another waiter must do so.
        if payload.was_handed_over
            || self.mutex.waiting.enter(CurrentWorker::look().as_deref(), |waiting| {
                self.mutex.lock_or_mark(FUTURE, !waiting.is_empty(), 0)
            })
        {
            self.mutex.unlock_contended(CurrentWorker::look());
        }
    }

    fn blocker(&self) -> Option<Fiber> {
        CurrentWorker::look().and_then(|here| self.mutex.owner(&here))
    }
}

// SAFETY: a thread that has stored the owner, when there was none, is alone until it clears the
// word. With a bias, it does so inside; otherwise in one atomic step. See the module.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const, reason = "it is an initial value")]
    const INIT: RawMutex = RawMutex { word: AtomicUsize::new(FREE), waiting: Biased::new(WaitList::new()) };

    type GuardMarker = GuardNoSend;

    #[inline(always)]
    fn lock(&self) {
        // Without a deadline it always succeeds.
        self.lock_until(None);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        as_owner(|here, owner| {
            here.inspect(|here| here.safepoint());
            let locked = self.lock_free(here, owner)
                || self.waiting.enter(here.as_deref(), |waiting| self.lock_or_mark(owner, !waiting.is_empty(), 0));
            if locked {
                count_locks(here, 1);
            }
            locked
        })
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        CurrentWorker::visit(|here| self.unlock_in(here));
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & !MARKS != FREE
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        lock_api::RawMutex::try_lock(self) || self.lock_until(Some(after(timeout)))
    }

    fn try_lock_until(&self, deadline: Instant) -> bool {
        self.lock_until(Some(deadline))
    }
}
