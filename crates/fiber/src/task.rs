//! A fiber's function, and later its outcome, in a small space of its record: what fits there needs
//! no allocation.

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ending::NoStack;
use crate::error::StackError;
use crate::worker::CurrentWorker;

/// The outcome of a fiber's function.
pub(crate) type Outcome<T> = std::thread::Result<T>;

/// The space of a task, in words.
const WORDS: usize = 6;

/// A task: nothing, a function, or its outcome.
pub(crate) struct Task {
    vtable: Cell<Option<&'static TaskVtable>>,
    space: Space,
}

/// The operations of a task of some type.
struct TaskVtable {
    run: unsafe fn(&Space),
    /// The operations of a refused task, which does not run its function.
    refused: Option<&'static TaskVtable>,
    refuse: unsafe fn(&Space, StackError),
    drop_function: unsafe fn(&Space),
    drop_outcome: unsafe fn(&Space),
}

/// Space for a value, or for a pointer to its box if it is too large.
struct Space(UnsafeCell<MaybeUninit<[usize; WORDS]>>);

impl Space {
    const fn is_inline<X>() -> bool {
        size_of::<X>() <= size_of::<[usize; WORDS]>() && align_of::<X>() <= align_of::<usize>()
    }

    /// # Safety
    /// The space is empty.
    #[inline(always)]
    unsafe fn write<X>(&self, value: X) {
        // SAFETY: the space suffices for either, and nothing is overwritten.
        unsafe {
            if Self::is_inline::<X>() {
                self.0.get().cast::<X>().write(value);
            } else {
                self.0.get().cast::<*mut X>().write(Box::into_raw(Box::new(value)));
            }
        }
    }

    /// # Safety
    /// The space contains a value of this type. It is empty afterwards.
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

/// A function and its return type.
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

    /// # Safety
    /// The space contains the function. Afterwards it contains the outcome.
    unsafe fn run(space: &Space) {
        // SAFETY: by the caller's promise. The function leaves space for its outcome.
        unsafe {
            let function = space.read::<F>();
            space.write::<Outcome<T>>(catch_unwind(AssertUnwindSafe(function)));
        }
    }

    /// # Safety
    /// As for [`Of::run`].
    #[cold]
    unsafe fn drop_and_refuse(space: &Space) {
        // SAFETY: as above.
        unsafe {
            let function = space.read::<F>();
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(function)));
            let why = CurrentWorker::expect().stacks.take_reason();
            space.write::<Outcome<T>>(Err(dropped.err().unwrap_or_else(|| Box::new(NoStack(why)))));
        }
    }

    /// # Safety
    /// As for [`Of::run`].
    #[cold]
    unsafe fn forget_and_refuse(space: &Space, why: StackError) {
        // SAFETY: as above.
        unsafe {
            std::mem::forget(space.read::<F>());
            space.write::<Outcome<T>>(Err(Box::new(NoStack(why))));
        }
    }

    /// # Safety
    /// The space contains the function. Afterwards it is empty.
    unsafe fn drop_function(space: &Space) {
        // SAFETY: the caller's promise.
        drop(unsafe { space.read::<F>() });
    }

    /// # Safety
    /// The space contains the outcome. Afterwards it is empty.
    unsafe fn drop_outcome(space: &Space) {
        // SAFETY: the caller's promise.
        drop(unsafe { space.read::<Outcome<T>>() });
    }
}

impl Task {
    pub(crate) const fn new() -> Task {
        Task { vtable: Cell::new(None), space: Space(UnsafeCell::new(MaybeUninit::uninit())) }
    }

    /// Stores a function.
    ///
    /// # Safety
    /// The task is empty. Data that the function and its outcome borrow lives until the outcome is
    /// taken or dropped, or the function is dropped.
    #[inline(always)]
    pub(crate) unsafe fn put<F: FnOnce() -> T, T>(&self, function: F) {
        // SAFETY: the caller's promise.
        unsafe { self.space.write(function) };
        self.vtable.set(Some(&Of::<F, T>::VTABLE));
    }

    /// Runs the function, and stores its outcome.
    ///
    /// # Safety
    /// There is a function, or nothing because it was dropped.
    #[inline(always)]
    pub(crate) unsafe fn run(&self) {
        if let Some(vtable) = self.vtable.get() {
            // SAFETY: the vtable belongs to these types.
            unsafe { (vtable.run)(&self.space) };
        }
    }

    /// Refuses the task: [running](Task::run) it drops its function, and its outcome is that there
    /// was no [stack](crate::stack::Stacks::take_reason).
    ///
    /// # Safety
    /// As for [`run`](Task::run).
    pub(crate) unsafe fn refuse_when_run(&self) {
        self.vtable.set(self.vtable.get().and_then(|vtable| vtable.refused.or(Some(vtable))));
    }

    /// Forgets the function. The outcome is that there was no stack.
    ///
    /// # Safety
    /// As for [`run`](Task::run).
    pub(crate) unsafe fn refuse(&self, why: StackError) {
        if let Some(vtable) = self.vtable.get() {
            // SAFETY: the vtable belongs to these types.
            unsafe { (vtable.refuse)(&self.space, why) };
        }
    }

    /// Takes the outcome. `None` if the function was dropped.
    ///
    /// # Safety
    /// The function has run, or was dropped, and returns this type. The outcome has not been taken.
    #[inline(always)]
    pub(crate) unsafe fn take<T>(&self) -> Option<Outcome<T>> {
        self.vtable.take()?;
        // SAFETY: the caller's promise.
        Some(unsafe { self.space.read() })
    }

    /// Drops the function. Returns false if that was done before.
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

    /// Drops the outcome, unless it was taken.
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
