//! A reader-writer lock.
//!
//! Readers and writers take turns. A reader that comes while a writer waits waits, too. When the
//! current readers have left, the writer that has waited longest comes in. When it leaves, all
//! readers that wait by then come in. So a writer waits for the writers before it and one group of
//! readers between each two, and a reader waits for one writer, whatever the others do: neither
//! side starves. The lock is handed over, and no other comes in between.

use std::time::{Duration, Instant};

use lock_api::GuardNoSend;

use crate::time::after;
use crate::waiting::biased::Biased;
use crate::waiting::list::{TakenList, WaitList};
use crate::waiting::{self, Operation};

/// A reader-writer lock for fibers and threads: many may read the value at a time, or one may
/// change it.
///
/// Readers and writers take turns: a reader that comes while a writer waits comes after it, and
/// readers that wait when a writer leaves come before the next one. So neither side starves the
/// other. But a fiber that reads and wants to read again meanwhile may wait forever, for a writer
/// that waits for it. There is no poisoning, as for a [`Mutex`](crate::Mutex).
///
/// ```
/// use rowlock_fiber::{RwLock, scope};
///
/// rowlock_fiber::run(|| {
///     let lock = RwLock::new(1);
///     scope(|scope| {
///         scope.spawn(|| *lock.write() += 1);
///         scope.spawn(|| assert!(*lock.read() > 0));
///     });
///     assert_eq!(lock.into_inner(), 2);
/// });
/// ```
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// Allows its owner to read the value of a [`RwLock`] until it is dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// Allows its owner to change the value of a [`RwLock`] until it is dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// The lock without its value.
pub struct RawRwLock(Biased<State>);

struct State {
    readers: usize,
    has_writer: bool,
    reading: WaitList<()>,
    writing: WaitList<()>,
}

impl State {
    /// Lets all waiting readers in.
    fn let_readers_in(&mut self, woken: &mut TakenList<()>) {
        while let Some(reader) = self.reading.pop() {
            self.readers += 1;
            woken.push(reader);
        }
    }

    /// Lets the next writer in, if there is one and no reader is in.
    fn let_writer_in(&mut self, woken: &mut TakenList<()>) {
        if self.readers == 0
            && let Some(writer) = self.writing.pop()
        {
            self.has_writer = true;
            woken.push(writer);
        }
    }
}

struct Read<'a>(&'a RawRwLock);

impl Operation for Read<'_> {
    type State = State;
    type Payload = ();
    const KIND: &'static str = "a reader-writer lock, to read";
    const OBJECT: fn(&Self) -> &Biased<State> = |operation| &operation.0.0;
    const LIST: fn(&mut State) -> &mut WaitList<()> = |state| &mut state.reading;

    fn attempt(&self, state: &mut State, (): &mut (), _: &mut TakenList<()>) -> bool {
        let can = !state.has_writer && state.writing.is_empty();
        state.readers += usize::from(can);
        can
    }

    fn undo(&self, (): ()) {
        waiting::change(&self.0.0, |state, woken| {
            state.readers -= 1;
            state.let_writer_in(woken);
        });
    }
}

struct Write<'a>(&'a RawRwLock);

impl Operation for Write<'_> {
    type State = State;
    type Payload = ();
    const KIND: &'static str = "a reader-writer lock, to write";
    const OBJECT: fn(&Self) -> &Biased<State> = |operation| &operation.0.0;
    const LIST: fn(&mut State) -> &mut WaitList<()> = |state| &mut state.writing;

    fn attempt(&self, state: &mut State, (): &mut (), _: &mut TakenList<()>) -> bool {
        let can = !state.has_writer && state.readers == 0;
        state.has_writer |= can;
        can
    }

    fn on_left(&self, state: &mut State, woken: &mut TakenList<()>) {
        // It may be the writer that kept readers out.
        if state.writing.is_empty() && !state.has_writer {
            state.let_readers_in(woken);
        }
    }

    fn undo(&self, (): ()) {
        waiting::change(&self.0.0, |state, woken| {
            state.has_writer = false;
            state.let_readers_in(woken);
            state.let_writer_in(woken);
        });
    }
}

// SAFETY: the state says which callers hold the lock, and one thread at a time accesses it.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "it is an initial value")]
    const INIT: RawRwLock = RawRwLock(Biased::new(State {
        readers: 0,
        has_writer: false,
        reading: WaitList::new(),
        writing: WaitList::new(),
    }));

    type GuardMarker = GuardNoSend;

    fn lock_shared(&self) {
        waiting::perform(&Read(self), ());
    }

    fn try_lock_shared(&self) -> bool {
        waiting::attempt(&Read(self), ()).is_ok()
    }

    unsafe fn unlock_shared(&self) {
        Read(self).undo(());
    }

    fn lock_exclusive(&self) {
        waiting::perform(&Write(self), ());
    }

    fn try_lock_exclusive(&self) -> bool {
        waiting::attempt(&Write(self), ()).is_ok()
    }

    unsafe fn unlock_exclusive(&self) {
        Write(self).undo(());
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.try_lock_shared_until(after(timeout))
    }

    fn try_lock_shared_until(&self, deadline: Instant) -> bool {
        waiting::perform_until(&Read(self), (), Some(deadline)).is_ok()
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.try_lock_exclusive_until(after(timeout))
    }

    fn try_lock_exclusive_until(&self, deadline: Instant) -> bool {
        waiting::perform_until(&Write(self), (), Some(deadline)).is_ok()
    }
}
