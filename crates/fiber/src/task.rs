//! What a fiber is to do, and later what came of it, in a small space of its record: no memory is allocated for what is_inline.

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ending::NoStack;
use crate::error::StackError;
use crate::worker::Here;

/// What came of a fiber's function.
pub(crate) type Outcome<T> = std::thread::Result<T>;

/// A task's room, in words.
const WORDS: usize = 6;

/// A task: nothing, a function, or its outcome.
pub(crate) struct Task {
    vtable: Cell<Option<&'static TaskVtable>>,
    space: Space,
}

/// How a task of some types is treated.
struct TaskVtable {
    run: unsafe fn(&Space),
    /// One that does not run its function, where this one does.
    refused: Option<&'static TaskVtable>,
    refuse: unsafe fn(&Space, StackError),
    drop_function: unsafe fn(&Space),
    drop_outcome: unsafe fn(&Space),
}

/// Room for a value, or for a pointer to its box where it is too large.
struct Space(UnsafeCell<MaybeUninit<[usize; WORDS]>>);

impl Space {
    const fn is_inline<X>() -> bool {
        size_of::<X>() <= size_of::<[usize; WORDS]>() && align_of::<X>() <= align_of::<usize>()
    }

    /// # Safety
    /// Nothing is there.
    #[inline(always)]
    unsafe fn write<X>(&self, value: X) {
        // SAFETY: the room suffices for either, and nothing is overwritten.
        unsafe {
            if Self::is_inline::<X>() {
                self.0.get().cast::<X>().write(value);
            } else {
                self.0.get().cast::<*mut X>().write(Box::into_raw(Box::new(value)));
            }
        }
    }

    /// # Safety
    /// Such a value is there; it is not any more.
    #[inline(always)]
    unsafe fn read<X>(&self) -> X {
        // SAFETY: that is how it was written.
        unsafe {
            if Self::is_inline::<X>() {
                self.0.get().cast::<X>().read()
            } else {
                *Box::from_raw(self.0.get().cast::<*mut X>().read())
            }
        }
    }
}

/// A function and what it returns.
struct Of<F, T>(PhantomData<(F, T)>);

impl<F: FnOnce() -> T, T> Of<F, T> {
    const VTABLE: TaskVtable = TaskVtable { run: Self::run, refused: Some(&Self::REFUSED), ..Self::REFUSED };
    const REFUSED: TaskVtable = TaskVtable {
        run: Self::drop_and_refuse,
        refused: None,
        refuse: Self::forget_and_refuse,
        drop_function: Self::drop_function,
        drop_outcome: Self::drop_outcome,
    };

    unsafe fn run(space: &Space) {
        // SAFETY: there is a function, which makes room for its outcome.
        unsafe {
            let function = space.read::<F>();
            space.write::<Outcome<T>>(catch_unwind(AssertUnwindSafe(function)));
        }
    }

    #[cold]
    unsafe fn drop_and_refuse(space: &Space) {
        // SAFETY: there is a function, which makes room for its outcome.
        unsafe {
            let function = space.read::<F>();
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(function)));
            let why = Here::expect().stacks.take_reason();
            space.write::<Outcome<T>>(Err(dropped.err().unwrap_or_else(|| Box::new(NoStack(why)))));
        }
    }

    #[cold]
    unsafe fn forget_and_refuse(space: &Space, why: StackError) {
        // SAFETY: as above.
        unsafe {
            std::mem::forget(space.read::<F>());
            space.write::<Outcome<T>>(Err(Box::new(NoStack(why))));
        }
    }

    unsafe fn drop_function(space: &Space) {
        // SAFETY: there is one.
        drop(unsafe { space.read::<F>() });
    }

    unsafe fn drop_outcome(space: &Space) {
        // SAFETY: there is one.
        drop(unsafe { space.read::<Outcome<T>>() });
    }
}

impl Task {
    pub(crate) const fn new() -> Task {
        Task { vtable: Cell::new(None), space: Space(UnsafeCell::new(MaybeUninit::uninit())) }
    }

    /// Puts a function there.
    ///
    /// # Safety
    /// There was nothing. What the function and its outcome borrow lives until the outcome is taken or dropped, or the function is dropped.
    #[inline(always)]
    pub(crate) unsafe fn put<F: FnOnce() -> T, T>(&self, function: F) {
        // SAFETY: the caller's promise.
        unsafe { self.space.write(function) };
        self.vtable.set(Some(&Of::<F, T>::VTABLE));
    }

    /// Runs the function, and keeps its outcome.
    ///
    /// # Safety
    /// There is a function, or nothing, as it was dropped.
    #[inline(always)]
    pub(crate) unsafe fn run(&self) {
        if let Some(vtable) = self.vtable.get() {
            // SAFETY: one of these types.
            unsafe { (vtable.run)(&self.space) };
        }
    }

    /// When it [runs](Task::run) it shall drop its function, and have as its outcome that there was no [stack](crate::stack::Stacks::take_reason).
    ///
    /// # Safety
    /// As with [`run`](Task::run).
    pub(crate) unsafe fn refuse_when_run(&self) {
        self.vtable.set(self.vtable.get().and_then(|vtable| vtable.refused.or(Some(vtable))));
    }

    /// Forgets the function, and has as its outcome that there was no stack.
    ///
    /// # Safety
    /// As with [`run`](Task::run).
    pub(crate) unsafe fn refuse(&self, why: StackError) {
        if let Some(vtable) = self.vtable.get() {
            // SAFETY: one of these types.
            unsafe { (vtable.refuse)(&self.space, why) };
        }
    }

    /// Takes the outcome. None where the function was dropped.
    ///
    /// # Safety
    /// The function has run, or was dropped, and returns this type; the outcome was not taken yet.
    #[inline(always)]
    pub(crate) unsafe fn take<T>(&self) -> Option<Outcome<T>> {
        self.vtable.take()?;
        // SAFETY: the caller's promise.
        Some(unsafe { self.space.read() })
    }

    /// Drops the function. False if that was done before.
    ///
    /// # Safety
    /// It has not run.
    pub(crate) unsafe fn drop_function(&self) -> bool {
        let vtable = self.vtable.take();
        if let Some(vtable) = vtable {
            // SAFETY: the caller's promise.
            unsafe { (vtable.drop_function)(&self.space) };
        }
        vtable.is_some()
    }

    /// Drops the outcome, if it was not taken.
    ///
    /// # Safety
    /// The function has run.
    pub(crate) unsafe fn drop_outcome(&self) {
        if let Some(vtable) = self.vtable.take() {
            // SAFETY: the caller's promise.
            unsafe { (vtable.drop_outcome)(&self.space) };
        }
    }
}
