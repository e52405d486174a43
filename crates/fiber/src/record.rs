//! What is known of a fiber, and where it is kept.
//!
//! Records lie in one reservation of address space for each runtime, by number, and stay at their places until the runtime is over and nobody has a handle any
//! more: a [`Fiber`] is an address that is good for all that time. A record is used again for another fiber when its fiber has ended and its
//! handle is gone.
//!
//! # Who may touch what
//! A started fiber belongs to one worker, its *home*, for good; one that has not started belongs to whoever takes it to run it. Cells are touched by the owner alone,
//! [links](Record::next) by whoever has the fiber on a list, and the task by who runs it and then, once the [meeting](Record::meeting) says that it has ended,
//! by who has the handle. Two things others look at as well: [where it runs](Record::home), to send it there, and [what it does](Record::state), when a runtime ends.

use std::cell::Cell;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize};

use sys::reservation::{Reservation, page_size};

use crate::arch::Context;
use crate::debugger::Place;
use crate::error::SpawnError;
use crate::inbox::InboxItem;
use crate::preemptible::PreemptibleFiber;
use crate::stack::Stack;
use crate::task::Task;
use crate::waits::{Waits, Woken};
use crate::worker::Worker;

/// What a fiber is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// The record is nobody's. It is zero, as is memory that nobody has written to.
    Free = 0,
    /// It has no stack yet, and waits for a CPU.
    Unstarted,
    /// It waits for a CPU.
    Ready,
    Running,
    /// It waits for something else: [`Record::waits`] says for what.
    Blocked,
    /// The same in the middle of unwinding: it cannot be cancelled, as that would be a panic in a panic.
    BlockedUnwinding,
    Ended,
}

/// A state that others may look at while its owner changes it: what they see may be over. Who sees one sees as well all that came before it, above all where the
/// fiber [runs](Record::home).
pub(crate) struct SharedState(AtomicU8);

impl SharedState {
    #[inline(always)]
    pub(crate) fn get(&self) -> State {
        // SAFETY: only states are written, and zero, with which memory begins, is one.
        unsafe { std::mem::transmute::<u8, State>(self.0.load(Acquire)) }
    }

    #[inline(always)]
    pub(crate) fn set(&self, state: State) {
        self.0.store(state as u8, Release);
    }
}

/// A fiber's worker.
pub(crate) struct Home(AtomicPtr<Worker>);

impl Home {
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<NonNull<Worker>> {
        NonNull::new(self.0.load(Relaxed))
    }

    #[inline(always)]
    pub(crate) fn set(&self, worker: Option<NonNull<Worker>>) {
        self.0.store(worker.map_or(std::ptr::null_mut(), NonNull::as_ptr), Relaxed);
    }
}

/// What few fibers have.
#[derive(Default)]
pub(crate) struct Extras {
    pub(crate) name: Option<Box<str>>,
    /// The size of its stack, where it asked for one.
    pub(crate) stack: Option<usize>,
    pub(crate) locals: crate::local::Locals,
}

/// A fiber's record.
#[repr(C)]
pub(crate) struct Record {
    /// Where it was left, while it is started and does not run.
    pub(crate) context: Cell<Context>,
    /// From when it first runs until it ends; none on the kernel thread's own.
    pub(crate) stack: Cell<Option<Stack>>,
    /// Where it runs, once it has started.
    pub(crate) home: Home,
    /// Its place among the records: what the feedback queue knows it by.
    pub(crate) number: Cell<u32>,
    /// How many fibers had the record before.
    pub(crate) generation: Cell<u32>,
    pub(crate) state: SharedState,
    /// Why it was woken last.
    pub(crate) woken: Cell<Woken>,
    /// The last window of the time accounting that has it.
    pub(crate) window: Cell<u8>,
    /// It was told that its runtime ends, and unwinds, or has caught that.
    pub(crate) was_cancelled: Cell<bool>,
    /// It may be interrupted anywhere: once it has started it is a [preemptible fiber](crate::preemptible).
    pub(crate) is_preemptible: Cell<bool>,
    /// How many ticks it has run that the queue has not been told of.
    pub(crate) spent: Cell<u32>,
    /// With how many it has used up its running time.
    pub(crate) allowance: Cell<u32>,
    /// Its runtime ends, and it is to be told at its next wait.
    pub(crate) cancel_pending: Cell<bool>,
    /// It waits for a lock that it was woken for before, in vain.
    pub(crate) was_passed_over: Cell<bool>,
    /// For how many locks that it has it is lent a level.
    pub(crate) inherited_levels: Cell<u16>,
    /// How many ticks it has run before.
    pub(crate) used: Cell<u64>,
    /// The list that it is on: of a worker's free records, of those that wait for one thing, or of a worker's inbox.
    pub(crate) next: Cell<Option<Fiber>>,
    pub(crate) previous: Cell<Option<Fiber>>,
    /// For what it waits, while it is blocked.
    pub(crate) waits: Cell<Option<NonNull<dyn Waits>>>,
    /// Where its end and its handle meet; see [`join`](crate::join).
    pub(crate) meeting: AtomicUsize,
    /// In its own time only.
    pub(crate) extras: Cell<Option<Box<Extras>>>,
    pub(crate) task: Task,
}

impl Record {
    fn new(number: u32) -> Record {
        Record {
            context: Cell::new(Context::NONE),
            stack: Cell::new(None),
            home: Home(AtomicPtr::new(std::ptr::null_mut())),
            number: Cell::new(number),
            generation: Cell::new(0),
            state: SharedState(AtomicU8::new(State::Free as u8)),
            woken: Cell::new(Woken::Called),
            window: Cell::new(0),
            was_cancelled: Cell::new(false),
            is_preemptible: Cell::new(false),
            spent: Cell::new(0),
            allowance: Cell::new(0),
            cancel_pending: Cell::new(false),
            was_passed_over: Cell::new(false),
            inherited_levels: Cell::new(0),
            used: Cell::new(0),
            next: Cell::new(None),
            previous: Cell::new(None),
            waits: Cell::new(None),
            meeting: AtomicUsize::new(0),
            extras: Cell::new(None),
            task: Task::new(),
        }
    }
}

impl Record {
    /// What it has besides, while it runs, if it may be interrupted anywhere.
    #[inline(always)]
    pub(crate) fn preemptible(&self) -> Option<&'static PreemptibleFiber> {
        if self.is_preemptible.get() { self.stack.get().and_then(|stack| stack.preemptible()) } else { None }
    }

    /// Whether it runs and no worker is its home: it was [sent away](crate::preempt::orphan), and nobody else may touch what it has.
    pub(crate) fn is_orphan(&self) -> bool {
        self.state.get() == State::Running && self.home.get().is_none()
    }

    /// Whether it has a name, a stack of its own size or values of its own.
    #[inline(always)]
    pub(crate) fn has_extras(&self) -> bool {
        // SAFETY: looked at in the fiber's own time, or by who may touch it.
        unsafe { (*self.extras.as_ptr()).is_some() }
    }

    /// The size of its stack in bytes, where it asked for one.
    #[cold]
    pub(crate) fn stack_size(&self) -> Option<usize> {
        if self.has_extras() { self.with_extras(|extras| extras.stack) } else { None }
    }

    /// Its extras for a moment, made where there were none. Inside nobody comes back here.
    pub(crate) fn with_extras<R>(&self, then: impl FnOnce(&mut Extras) -> R) -> R {
        let mut extras = self.extras.take().unwrap_or_default();
        let result = then(&mut extras);
        self.extras.set(Some(extras));
        result
    }

    /// Makes it a fiber that has not started.
    ///
    /// # Safety
    /// It is nobody's; and as with [`put`](Task::put).
    #[inline(always)]
    pub(crate) unsafe fn begin<F: FnOnce() -> T, T>(
        &self,
        extras: Option<Box<Extras>>,
        is_preemptible: bool,
        function: F,
        meeting: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.task.put(function) };
        self.meeting.store(meeting, Relaxed);
        self.cancel_pending.set(false);
        self.was_cancelled.set(false);
        self.is_preemptible.set(is_preemptible);
        self.inherited_levels.set(0);
        self.spent.set(0);
        self.used.set(0);
        if extras.is_some() {
            self.extras.set(extras);
        }
        // Last, for who looks through the records when a runtime ends.
        self.state.set(State::Unstarted);
    }

    /// Drops the function of a fiber that has not started: it will end without an outcome. False where that was done before.
    pub(crate) fn drop_task(&self) -> bool {
        debug_assert_eq!(self.state.get(), State::Unstarted);
        // SAFETY: it has not started.
        unsafe { self.task.drop_function() }
    }

    /// Its name, or its number where it has none.
    pub(crate) fn label(&self) -> String {
        let number = self.number.get();
        let name = self.has_extras().then(|| self.with_extras(|extras| extras.name.clone())).flatten();
        name.map_or_else(|| format!("fiber {number}"), |name| format!("fiber {number} `{name}`"))
    }
}

/// A fiber of a runtime that is not over, or to which somebody has a handle; see the module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fiber(NonNull<Record>);

impl Fiber {
    /// As a number that is not below 16.
    pub(crate) fn address(self) -> usize {
        self.0.addr().get()
    }

    /// The fiber of this [address](Fiber::address).
    ///
    /// # Safety
    /// It is one's, and that fiber's runtime is not over.
    pub(crate) unsafe fn from_address(address: usize) -> Fiber {
        // SAFETY: records are not at zero.
        Fiber(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) })
    }
}

impl Deref for Fiber {
    type Target = Record;

    #[inline(always)]
    fn deref(&self) -> &Record {
        // SAFETY: records stay where they are for as long as there are fibers; see the module.
        unsafe { self.0.as_ref() }
    }
}

/// There is room for so many at least, unless fewer were asked for: a runtime for fewer would surprise who has asked for many.
const FEW: u32 = 1 << 12;

/// So many records are made at a time: 64 KiB of them.
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
        // SAFETY: the address of a item that has not been taken.
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
    /// How many there are; the others' memory was not touched yet.
    made: Mutex<u32>,
    /// Where debuggers find them.
    place: Place,
}

impl Records {
    /// Room for so many; where the limit of address space leaves none, for half as many, or a quarter, and so on, with as much again left for stacks and all else.
    pub(crate) fn new(most: u32) -> Result<Records, SpawnError> {
        let reserve = |capacity: u32| Reservation::new(capacity as usize * size_of::<Record>());
        let mut capacity = most;
        let mut memory = reserve(capacity);
        while memory.is_err() && capacity / 2 >= FEW {
            capacity /= 2;
            memory = reserve(capacity).and_then(|memory| reserve(capacity).map(|_| memory));
        }
        let memory = memory.map_err(|why| SpawnError::Room { most: capacity, why })?;
        memory.base().as_ptr().expose_provenance();
        let place = Place::new(memory.base().as_ptr().cast());
        Ok(Records { memory, capacity, made: Mutex::new(0), place })
    }

    /// How many there is room for.
    pub(crate) fn most(&self) -> u32 {
        self.capacity
    }

    /// Some more records, by their numbers. None when there is room for no more.
    pub(crate) fn more(&self) -> Option<std::ops::Range<u32>> {
        let mut made = self.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let first = *made;
        let end = (first + MORE).min(self.capacity);
        *made = end;
        // In one go for all their pages, which costs a quarter of what each of them costs when it is touched. Kernels before Linux 5.14 cannot.
        let page = page_size();
        let bytes = |number: u32| (number as usize * size_of::<Record>()).next_multiple_of(page);
        let _ = self.memory.populate(bytes(first)..bytes(end));
        self.place.made(end);
        (first < end).then_some(first..end)
    }

    /// A new record.
    ///
    /// # Safety
    /// The number is one of [`more`](Records::more), and this is the first time.
    pub(crate) unsafe fn make(&self, number: u32) -> Fiber {
        let fiber = self.get(number);
        // SAFETY: within what can be written to.
        unsafe { fiber.0.write(Record::new(number)) };
        fiber
    }

    /// All that were made; their memory can be read, and those whose numbers no worker has used yet look free.
    pub(crate) fn all(&self) -> impl Iterator<Item = Fiber> {
        let made = *self.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        (0..made).map(|number| self.get(number))
    }

    /// The record of a number that was [made](Records::make).
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Fiber {
        debug_assert!(number < self.capacity);
        // SAFETY: within the reservation.
        Fiber(unsafe { self.memory.base().cast::<Record>().add(number as usize) })
    }

    /// The record at an [address](Fiber::address), if there is one: it may be another fiber's by now.
    #[cold]
    pub(crate) fn at(&self, address: usize) -> Option<Fiber> {
        let made = *self.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let offset = address.checked_sub(self.memory.base().addr().get())?;
        let number = u32::try_from(offset / size_of::<Record>()).ok()?;
        (number < made).then(|| self.get(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fiber_that_has_not_started_takes_less_than_two_hundred_bytes() {
        // With what the feedback queue knows of it.
        assert!(size_of::<Record>() + 24 <= 200, "{}", size_of::<Record>());
    }
}
