//! A fiber's record, and where it is kept.
//!
//! The records of a runtime are in one reservation of address space, by number. They stay in place
//! until the runtime is over and there is no handle any more, so a [`Fiber`] is an address that is
//! valid for all that time. A record is reused when its fiber has ended and the handle is gone.
//!
//! # Which thread may touch what
//! A started fiber belongs to one worker, its *home*. While it is ready, its home may give it to
//! another worker, and has nothing to do with it any more. An unstarted fiber belongs to the thread
//! that takes it to run it. Only the owner touches the cells. The [links](Record::next)
//! belong to the thread that has the fiber on a list. The task belongs to the thread that runs it
//! and then, once the [meeting](Record::meeting) says that the fiber has ended, to the owner of the
//! handle. Other threads read two things as well: the fiber's [home](Record::home), to send it
//! there, and its [state](Record::state), when a runtime ends.

use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize};

use policy::ThreadId;
use sys::reservation::{Reservation, page_size};

use crate::arch::Context;
use crate::error::SpawnError;
use crate::fiber_thread::FiberThread;
use crate::inbox::InboxItem;
use crate::stack::Stack;
use crate::task::Task;
use crate::waitable::{Waitable, Woken};
use crate::worker_pointer::WorkerPointer;

/// The state of a fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// The record is free. This is 0, like memory that was never written.
    Free = 0,
    /// It has no stack yet, and waits for a CPU.
    Unstarted,
    /// It waits for a CPU.
    Ready,
    Running,
    /// It waits for something else: [`Record::waits`] says for what.
    Blocked,
    /// The same while it cannot be cancelled: it unwinds, and that would be a panic in a panic, or
    /// it is in a call of the C library.
    BlockedUnwinding,
    Ended,
}

/// A state that other threads may read while its owner changes it: what they see may be out of
/// date. A thread that reads a state sees also all that came before it, in particular the fiber's
/// [home](Record::home).
#[derive(Default)]
pub(crate) struct SharedState(AtomicU8);

impl SharedState {
    #[inline(always)]
    pub(crate) fn get(&self) -> State {
        // SAFETY: only states are written, and 0, the initial value of memory, is one.
        unsafe { std::mem::transmute::<u8, State>(self.0.load(Acquire)) }
    }

    #[inline(always)]
    pub(crate) fn set(&self, state: State) {
        self.0.store(state as u8, Release);
    }
}

/// Ticks that a fiber has run. A worker that has given the fiber away, or the record back, may
/// still add some.
#[derive(Default)]
pub(crate) struct SpentTicks(AtomicU32);

impl SpentTicks {
    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, ticks: u32) {
        self.0.store(ticks, Relaxed);
    }
}

/// A fiber's worker.
#[derive(Default)]
pub(crate) struct Home(AtomicPtr<()>);

impl Home {
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<WorkerPointer> {
        NonNull::new(self.0.load(Relaxed)).map(WorkerPointer)
    }

    #[inline(always)]
    pub(crate) fn set(&self, worker: Option<WorkerPointer>) {
        self.0.store(worker.map_or(std::ptr::null_mut(), |worker| worker.0.as_ptr()), Relaxed);
    }
}

/// How a fiber is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Only when it calls the library. It has its own thread-locals.
    Cooperative,
    /// Anywhere. It has its own thread-locals.
    Preemptible,
    /// Only when it calls the library. It shares its worker's thread-locals.
    Sharing,
}

/// Fields that few fibers need.
pub(crate) struct Extras {
    pub(crate) name: Option<Box<str>>,
    /// The size of its stack, if it asked for one.
    pub(crate) stack: Option<usize>,
}

// The values of a [meeting](Record::meeting) besides the addresses of joiners.
pub(crate) const NO_JOINER: usize = 0;
pub(crate) const DETACHED: usize = 1;
pub(crate) const ENDED: usize = 2;

/// A fiber's record.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Record {
    /// Where it was left, if it has started and does not run.
    pub(crate) context: Cell<Context>,
    /// From its first run to its end. `None` for a fiber on the kernel thread's own stack.
    pub(crate) stack: Cell<Option<Stack>>,
    /// Its index among the records, by which the feedback queue knows it.
    pub(crate) number: u32,
    /// The thread that it is, from its first run to its end.
    pub(crate) thread: Cell<Option<NonNull<FiberThread>>>,
    /// Its worker, once it has started.
    pub(crate) home: Home,
    /// How many fibers had the record before.
    pub(crate) generation: Cell<u32>,
    pub(crate) state: SharedState,
    /// Why it was last woken.
    pub(crate) woken: Cell<Woken>,
    /// It may be interrupted anywhere.
    pub(crate) is_preemptible: Cell<bool>,
    /// Its worker has a timer for it.
    pub(crate) has_timer: Cell<bool>,
    /// It [shares its worker's thread-locals](crate::Builder::spawn_sharing).
    pub(crate) is_sharing: Cell<bool>,
    /// How many ticks it has run of which the queue does not know yet.
    pub(crate) spent: SpentTicks,
    /// The number of ticks after which it has used up its running time.
    pub(crate) allowance: Cell<u32>,
    /// Its runtime ends, and it must be cancelled at its next wait.
    pub(crate) cancel_pending: Cell<bool>,
    /// For how many of its locks it inherits a level.
    pub(crate) inherited_levels: Cell<u16>,
    /// How many ticks it has run before.
    pub(crate) used: Cell<u64>,
    /// The list that it is on: a worker's free records, a queue, or a worker's inbox.
    pub(crate) next: Cell<Option<Fiber>>,
    pub(crate) previous: Cell<Option<Fiber>>,
    /// What it waits for, while it is blocked.
    pub(crate) waits: Cell<Option<NonNull<dyn Waitable>>>,
    /// Where its end and its handle meet; see [`join`](crate::join).
    pub(crate) meeting: AtomicUsize,
    /// Only while it is this fiber's record.
    pub(crate) extras: Cell<Option<Box<Extras>>>,
    pub(crate) task: Task,
}

impl Record {
    /// The thread that it is, once it has started.
    #[inline(always)]
    pub(crate) fn thread(&self) -> &FiberThread {
        match self.thread.get() {
            // SAFETY: it stays in place as long as fibers run with it.
            Some(thread) => unsafe { thread.as_ref() },
            None => unreachable!("the fiber has started"),
        }
    }

    /// What it waits for, while it is blocked. Only its worker looks, and the one that looks for
    /// deadlocks while all others sleep.
    pub(crate) fn waitable(&self) -> Option<&dyn Waitable> {
        // SAFETY: a blocked fiber keeps it, and forgets it before it continues.
        self.waits.get().map(|waits| unsafe { &*waits.as_ptr() })
    }

    /// Whether it has a stack and a block of its own. The first fiber of a worker has none.
    pub(crate) fn has_own_block(&self) -> bool {
        !self.is_sharing.get() && self.stack.get().is_some()
    }

    /// Whether it may continue on another worker, once it is ready and not in the middle of a
    /// switch.
    pub(crate) fn is_movable(&self) -> bool {
        let thread = |thread: &FiberThread| thread.pins.get() == 0 && thread.control_block().thread().is_none();
        !self.has_timer.get() && self.has_own_block() && thread(self.thread())
    }

    /// Whether it runs and has no home: it was [orphaned](crate::preempt::orphan), and no other
    /// thread may touch it.
    pub(crate) fn is_orphan(&self) -> bool {
        self.state.get() == State::Running && self.home.get().is_none()
    }

    /// Whether it waits for something. May be out of date, if it belongs to another worker.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state.get(), State::Blocked | State::BlockedUnwinding)
    }

    /// Its name and its own stack size, if it has one of them.
    #[inline(always)]
    fn extras(&self) -> Option<&Extras> {
        // SAFETY: only the fiber itself, or a thread that may touch it, gets here. They are
        // replaced between two fibers.
        unsafe { (*self.extras.as_ptr()).as_deref() }
    }

    /// Its name, if it has one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.extras()?.name.as_deref()
    }

    /// The size of its stack in bytes, if it asked for one.
    #[inline(always)]
    pub(crate) fn stack_size(&self) -> Option<usize> {
        self.extras()?.stack
    }

    /// Makes it an unstarted fiber.
    ///
    /// # Safety
    /// The record is free; and as for [`put`](Task::put).
    #[inline(always)]
    pub(crate) unsafe fn begin<F: FnOnce() -> T, T>(
        &self,
        extras: Option<Box<Extras>>,
        tier: Tier,
        function: F,
        meeting: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.task.put(function) };
        self.meeting.store(meeting, Relaxed);
        self.cancel_pending.set(false);
        self.is_preemptible.set(tier == Tier::Preemptible);
        self.is_sharing.set(tier == Tier::Sharing);
        self.inherited_levels.set(0);
        self.spent.set(0);
        self.used.set(0);
        if extras.is_some() {
            self.extras.set(extras);
        }
        // Last, for threads that search the records when a runtime ends.
        self.state.set(State::Unstarted);
    }

    /// Drops the function of an unstarted fiber, which will end without an outcome. Returns false
    /// if that was done before.
    pub(crate) fn drop_task(&self) -> bool {
        debug_assert_eq!(self.state.get(), State::Unstarted);
        // SAFETY: it has not started.
        let drop = || unsafe { self.task.drop_function() };
        // A panic ends here, because there is no joiner to tell.
        catch_unwind(AssertUnwindSafe(drop)).unwrap_or(true)
    }
}

/// A fiber of a runtime that is not over, or to which there is a handle; see the module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fiber(NonNull<Record>);

impl Fiber {
    /// The feedback queue knows it by this.
    #[inline(always)]
    pub(crate) fn id(self) -> ThreadId {
        ThreadId(self.number)
    }

    /// Its address, which is not below 16.
    pub(crate) fn address(self) -> usize {
        self.0.addr().get()
    }

    /// The fiber at this [address](Fiber::address).
    ///
    /// # Safety
    /// It is a fiber's address, and the fiber's runtime is not over.
    pub(crate) unsafe fn from_address(address: usize) -> Fiber {
        // SAFETY: records are not at 0.
        Fiber(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) })
    }
}

impl Deref for Fiber {
    type Target = Record;

    #[inline(always)]
    fn deref(&self) -> &Record {
        // SAFETY: records stay in place as long as there are fibers; see the module.
        unsafe { self.0.as_ref() }
    }
}

/// The minimum capacity, unless fewer were asked for: a program that asks for many would not expect
/// less.
const FEW: u32 = 1 << 12;

/// How many records are made at a time: 64 KiB.
const MORE: u32 = (65_536 / size_of::<Record>()) as u32;

impl InboxItem for Fiber {
    fn address(self) -> u64 {
        Fiber::address(self) as u64
    }

    unsafe fn at(address: u64) -> Fiber {
        // SAFETY: the caller's promise.
        unsafe { Fiber::from_address(address as usize) }
    }

    fn link(self, older: u64) {
        // SAFETY: it is the address of an item that has not been taken.
        self.next.set((older != 0).then(|| unsafe { InboxItem::at(older) }));
    }

    fn older(self) -> u64 {
        self.next.get().map_or(0, InboxItem::address)
    }
}

/// The records of a runtime.
pub(crate) struct Records {
    memory: Reservation,
    capacity: u32,
    /// Where the memory is.
    pub(crate) first: usize,
    /// How many have been made; the memory of the others has not been touched yet.
    pub(crate) made: AtomicU32,
}

impl Records {
    /// Reserves space for `most` records. If the limit of address space leaves none, for half as
    /// many, or a quarter, and so on, so that as much again remains for stacks and everything else.
    pub(crate) fn new(most: u32) -> Result<Records, SpawnError> {
        let reserve = |capacity: u32| Reservation::new(capacity as usize * size_of::<Record>());
        let mut capacity = most;
        let mut memory = reserve(capacity);
        while memory.is_err() && capacity / 2 >= FEW {
            capacity /= 2;
            memory = reserve(capacity).and_then(|memory| reserve(capacity).map(|_| memory));
        }
        let memory = memory.map_err(|why| SpawnError::Room { most: capacity, why })?;
        let first = memory.base().as_ptr().expose_provenance();
        Ok(Records { first, memory, capacity, made: AtomicU32::new(0) })
    }

    /// Makes free records, linked to each other, and returns the first.
    ///
    /// # Safety
    /// One thread at a time calls this.
    pub(crate) unsafe fn make(&self) -> Result<Fiber, SpawnError> {
        let start = self.made.load(Relaxed);
        let end = (start + MORE).min(self.capacity);
        // All their pages at once, which costs a quarter of touching each. Kernels before Linux
        // 5.14 cannot do this.
        let bytes = |number: u32| (number as usize * size_of::<Record>()).next_multiple_of(page_size());
        let _ = self.memory.populate(bytes(start)..bytes(end));
        let mut first = None;
        for number in (start..end).rev() {
            let fiber = self.get(number);
            // SAFETY: it is within writable memory, and no other thread knows it yet.
            unsafe { fiber.0.write(Record { number, next: Cell::new(first), ..Record::default() }) };
            first = Some(fiber);
        }
        self.made.store(end, Release);
        first.ok_or(SpawnError::TooMany { most: self.capacity })
    }

    /// All that were made.
    pub(crate) fn all(&self) -> impl Iterator<Item = Fiber> {
        (0..self.made.load(Acquire)).map(|number| self.get(number))
    }

    /// The record with a number below the capacity.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Fiber {
        debug_assert!(number < self.capacity);
        // SAFETY: within the reservation.
        Fiber(unsafe { self.memory.base().cast::<Record>().add(number as usize) })
    }

    /// The record at an [address](Fiber::address), if there is one: it may be another fiber's by
    /// now.
    #[cold]
    pub(crate) fn at(&self, address: usize) -> Option<Fiber> {
        let offset = address.checked_sub(self.first)?;
        let number = u32::try_from(offset / size_of::<Record>()).ok()?;
        (number < self.made.load(Acquire)).then(|| self.get(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fiber_that_has_not_started_takes_less_than_two_hundred_bytes() {
        // Including what the feedback queue knows of it.
        assert!(size_of::<Record>() + 24 <= 200, "{}", size_of::<Record>());
    }
}
