//! The waiters at an object: a list linked through the waiters themselves.

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomPinned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::task::Waker;

use wait::parker::Unparker;

use crate::current_worker::CurrentWorker;
use crate::record::Fiber;
use crate::waitable::Woken;
use crate::wake;

/// The fiber, thread or future that waits.
pub(crate) enum Who {
    Fiber(Fiber),
    Thread(Unparker),
    Future(Waker),
}

/// A waiter, and what it waits with, for example the value that it sends.
///
/// While it is on a list, only the thread inside the object touches it. The thread that takes it
/// off then has it alone, until it wakes it.
pub(crate) struct Waiter<P> {
    who: Cell<Option<Who>>,
    next: Cell<Option<NonNull<Waiter<P>>>>,
    previous: Cell<Option<NonNull<Waiter<P>>>>,
    is_listed: Cell<bool>,
    /// The thread that has taken it off the list does not touch it any more.
    is_released: AtomicBool,
    payload: UnsafeCell<P>,
    _pinned: PhantomPinned,
}

impl<P> Waiter<P> {
    #[inline(always)]
    pub(crate) fn new(payload: P) -> Waiter<P> {
        Waiter {
            who: Cell::new(None),
            next: Cell::new(None),
            previous: Cell::new(None),
            is_listed: Cell::new(false),
            is_released: AtomicBool::new(false),
            payload: UnsafeCell::new(payload),
            _pinned: PhantomPinned,
        }
    }

    /// Its fiber. For a waiter on a list of an object whose state the caller has.
    pub(crate) fn fiber(&self) -> Option<Fiber> {
        // SAFETY: as above, no other thread touches it now.
        match unsafe { &*self.who.as_ptr() } {
            Some(Who::Fiber(fiber)) => Some(*fiber),
            _ => None,
        }
    }

    /// Sets who waits. For a waiter on no list, or inside the object. Returns the former waiter.
    #[inline(always)]
    pub(crate) fn set_who(&self, who: Who) -> Option<Who> {
        self.is_released.store(false, Relaxed);
        self.who.replace(Some(who))
    }

    /// Its address, which is a multiple of 8 and not below 16.
    pub(crate) fn address(self: Pin<&Self>) -> usize {
        std::ptr::from_ref(self.get_ref()).expose_provenance()
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed.get()
    }

    /// For a waiter that is on no list: waits until the thread that took it off is done with it.
    pub(crate) fn wait_until_released(&self) {
        while !self.is_released.load(Acquire) {
            std::thread::yield_now();
        }
    }

    /// # Safety
    /// The waiter is on a list of an object whose state the caller has, or it belongs to the caller
    /// alone: it was taken off the list and not woken yet, or is the caller's own and on no list.
    /// The reference is not used any more when that ends.
    #[allow(clippy::mut_from_ref, reason = "the caller has it alone")]
    pub(crate) unsafe fn payload(&self) -> &mut P {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.payload.get() }
    }
}

/// Waiters in the order in which they came, or in another one.
pub(crate) struct WaitList<P> {
    first: Option<NonNull<Waiter<P>>>,
    last: Option<NonNull<Waiter<P>>>,
}

// SAFETY: it is inside an object, and only the thread inside touches it and its waiters.
unsafe impl<P: Send> Send for WaitList<P> {}

impl<P> WaitList<P> {
    pub(crate) const fn new() -> WaitList<P> {
        WaitList { first: None, last: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// A waiter on this list.
    fn at<'a>(waiter: NonNull<Waiter<P>>) -> &'a Waiter<P> {
        // SAFETY: waiters leave the list before they are gone, and the caller has the object.
        unsafe { waiter.as_ref() }
    }

    pub(crate) fn first(&self) -> Option<&Waiter<P>> {
        self.first.map(Self::at)
    }

    /// All waiters, from the last one on.
    pub(crate) fn backwards(&self) -> impl Iterator<Item = &Waiter<P>> {
        std::iter::successors(self.last.map(Self::at), |waiter| waiter.previous.get().map(Self::at))
    }

    /// Appends a waiter, which is on no list.
    #[inline]
    pub(crate) fn push(&mut self, waiter: Pin<&Waiter<P>>) {
        let last = self.last;
        self.insert_after(last, waiter);
    }

    /// Inserts a waiter, which is on no list, behind another one, or first.
    pub(crate) fn insert_after(&mut self, previous: Option<NonNull<Waiter<P>>>, waiter: Pin<&Waiter<P>>) {
        let this = NonNull::from(waiter.get_ref());
        let next = match previous {
            Some(previous) => Self::at(previous).next.replace(Some(this)),
            None => self.first.replace(this),
        };
        match next {
            Some(next) => Self::at(next).previous.set(Some(this)),
            None => self.last = Some(this),
        }
        waiter.previous.set(previous);
        waiter.next.set(next);
        waiter.is_listed.set(true);
    }

    /// Removes a waiter from any place. Returns false if it is not on the list.
    pub(crate) fn remove(&mut self, waiter: &Waiter<P>) -> bool {
        if !waiter.is_listed.replace(false) {
            return false;
        }
        let (previous, next) = (waiter.previous.get(), waiter.next.get());
        match previous {
            Some(previous) => Self::at(previous).next.set(next),
            None => self.first = next,
        }
        match next {
            Some(next) => Self::at(next).previous.set(previous),
            None => self.last = previous,
        }
        true
    }

    /// Takes the first waiter for which this holds off the list. It must be woken.
    #[cfg(interposed)]
    pub(crate) fn take(&mut self, holds: impl Fn(&Waiter<P>) -> bool) -> Option<Taken<P>> {
        let mut all = std::iter::successors(self.first, |waiter| Self::at(*waiter).next.get());
        let found = all.find(|waiter| holds(Self::at(*waiter)))?;
        self.remove(Self::at(found));
        Some(Taken(found))
    }

    /// Takes the first waiter off the list. It must be woken.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Taken<P>> {
        let first = self.first?;
        self.remove(Self::at(first));
        Some(Taken(first))
    }
}

/// A waiter that was taken off its list, and belongs to the caller until it wakes it.
#[must_use = "it waits until it is woken"]
pub(crate) struct Taken<P>(NonNull<Waiter<P>>);

impl<P> Taken<P> {
    #[inline]
    pub(crate) fn payload(&mut self) -> &mut P {
        // SAFETY: it belongs to the caller alone until it is woken.
        unsafe { self.0.as_ref().payload() }
    }

    pub(crate) fn fiber(&self) -> Option<Fiber> {
        // SAFETY: as above.
        unsafe { self.0.as_ref() }.fiber()
    }

    /// Wakes it. Never called inside an object, because the waker of a future is user code.
    #[inline]
    pub(crate) fn wake(self, here: Option<CurrentWorker>) {
        // SAFETY: it exists until it is woken, or released.
        let waiter = unsafe { self.0.as_ref() };
        match waiter.who.take() {
            Some(Who::Fiber(fiber)) => wake::wake(here, fiber, Woken::Called),
            Some(Who::Thread(thread)) => thread.unpark(),
            Some(Who::Future(waker)) => {
                waiter.is_released.store(true, Release);
                // A waker that panics must not keep others from being woken.
                let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
            }
            None => unreachable!("a waiter on a list says who waits"),
        }
    }
}

impl Taken<()> {
    /// The waiter at this address.
    ///
    /// # Safety
    /// It is a waiter's address that was exposed, and from now on the waiter belongs to the caller.
    pub(crate) unsafe fn at(address: usize) -> Taken<()> {
        // SAFETY: the caller's promise.
        Taken(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) })
    }
}

/// Waiters that were taken off their lists, in their order, to be woken outside the object.
#[must_use = "they wait until they are woken"]
pub(crate) struct TakenList<P> {
    first: Option<NonNull<Waiter<P>>>,
    last: Option<NonNull<Waiter<P>>>,
}

impl<P> TakenList<P> {
    pub(crate) const fn new() -> TakenList<P> {
        TakenList { first: None, last: None }
    }

    #[inline]
    pub(crate) fn push(&mut self, taken: Taken<P>) {
        // SAFETY: it belongs to the caller.
        unsafe { taken.0.as_ref() }.next.set(None);
        match self.last.replace(taken.0) {
            // SAFETY: as above.
            Some(last) => unsafe { last.as_ref() }.next.set(Some(taken.0)),
            None => self.first = Some(taken.0),
        }
    }

    pub(crate) fn take_all(&mut self, list: &mut WaitList<P>) {
        while let Some(waiter) = list.pop() {
            self.push(waiter);
        }
    }

    #[inline]
    pub(crate) fn wake(mut self, here: Option<CurrentWorker>) {
        while let Some(first) = self.first {
            // SAFETY: it exists until it is woken.
            self.first = unsafe { first.as_ref() }.next.get();
            Taken(first).wake(here);
        }
    }
}
