//! A fiber's function, and later its outcome, in a small space of its record: what fits there needs
//! no allocation.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) type Outcome<T> = std::thread::Result<T>;

type Words = [usize; 6];

/// A task: nothing, a function, or its outcome.
pub(crate) struct Task {
    operations: Cell<Option<&'static Operations>>,
    space: Space,
}

struct Operations {
    run: unsafe fn(&Space),
    refuse: unsafe fn(&Task, Box<dyn Any + Send>, bool),
    drop_function: unsafe fn(&Space),
    drop_outcome: unsafe fn(&Space),
}

/// Space for a value, or for its box if it is too large.
struct Space(UnsafeCell<MaybeUninit<Words>>);

impl Space {
    const fn is_inline<X>() -> bool {
        size_of::<X>() <= size_of::<Words>() && align_of::<X>() <= align_of::<Words>()
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
                self.0.get().cast::<Box<X>>().write(Box::new(value));
            }
        }
    }

    /// # Safety
    /// The space contains a value of this type. It is empty afterwards.
    #[inline(always)]
    unsafe fn read<X>(&self) -> X {
        // SAFETY: that is how it was written.
        unsafe {
            if Self::is_inline::<X>() { self.0.get().cast::<X>().read() } else { *self.0.get().cast::<Box<X>>().read() }
        }
    }

    /// # Safety
    /// As for [`read`](Space::read).
    unsafe fn empty<X>(&self) {
        // SAFETY: the caller's promise.
        drop(unsafe { self.read::<X>() });
    }
}

/// A function that returns an outcome.
struct Of<F, T>(PhantomData<(F, T)>);

impl<F: FnOnce() -> Outcome<T>, T> Of<F, T> {
    const OPERATIONS: Operations = Operations {
        run: Self::run,
        refuse: Self::refuse,
        drop_function: Space::empty::<F>,
        drop_outcome: Space::empty::<Outcome<T>>,
    };

    /// # Safety
    /// The space contains the function. Afterwards it contains the outcome.
    unsafe fn run(space: &Space) {
        // SAFETY: by the caller's promise. The function leaves space for its outcome.
        unsafe {
            let function = space.read::<F>();
            space.write::<Outcome<T>>(function());
        }
    }

    /// # Safety
    /// The space contains the function. Afterwards it contains another one.
    #[cold]
    unsafe fn refuse(task: &Task, why: Box<dyn Any + Send>, drops: bool) {
        // SAFETY: the caller's promise.
        let mut function = ManuallyDrop::new(unsafe { task.space.read::<F>() });
        let refused: Box<dyn FnOnce() -> Outcome<T> + '_> = Box::new(move || {
            // SAFETY: it is dropped once.
            let drop = || unsafe { ManuallyDrop::drop(&mut function) };
            let dropped = if drops { catch_unwind(AssertUnwindSafe(drop)) } else { Ok(()) };
            Err(dropped.err().unwrap_or(why))
        });
        // SAFETY: the space is empty, and the new function borrows what the old one did.
        unsafe { task.set(refused) };
    }
}

/// Calls a fiber's function. The standard library's backtraces of panics end at this name, unless
/// they are to be full, and so do [dumps](crate::dump()).
#[inline(never)]
fn __rust_begin_short_backtrace<T>(function: impl FnOnce() -> T) -> T {
    let result = function();
    // This prevents a tail call.
    std::hint::black_box(());
    result
}

impl Default for Task {
    fn default() -> Task {
        Task { operations: Cell::new(None), space: Space(UnsafeCell::new(MaybeUninit::uninit())) }
    }
}

impl Task {
    /// # Safety
    /// The task is empty. Data that the function and its outcome borrow lives until the outcome is
    /// taken or dropped, or the function is dropped.
    #[inline(always)]
    pub(crate) unsafe fn put<T>(&self, function: impl FnOnce() -> T) {
        // SAFETY: the caller's promise.
        unsafe { self.set(move || catch_unwind(AssertUnwindSafe(|| __rust_begin_short_backtrace(function)))) };
    }

    /// # Safety
    /// As for [`put`](Task::put).
    #[inline(always)]
    unsafe fn set<F: FnOnce() -> Outcome<T>, T>(&self, function: F) {
        // SAFETY: the caller's promise.
        unsafe { self.space.write(function) };
        self.operations.set(Some(&Of::<F, T>::OPERATIONS));
    }

    /// Runs the function, and stores its outcome.
    ///
    /// # Safety
    /// There is a function, or nothing because it was dropped.
    #[inline(always)]
    pub(crate) unsafe fn run(&self) {
        if let Some(operations) = self.operations.get() {
            // SAFETY: the operations belong to these types.
            unsafe { (operations.run)(&self.space) };
        }
    }

    /// Replaces the function by one that drops it, or forgets it, and fails with this payload.
    ///
    /// # Safety
    /// As for [`run`](Task::run).
    pub(crate) unsafe fn refuse(&self, why: Box<dyn Any + Send>, drops: bool) {
        if let Some(operations) = self.operations.get() {
            // SAFETY: the operations belong to these types.
            unsafe { (operations.refuse)(self, why, drops) };
        }
    }

    /// Takes the outcome. `None` if the function was dropped.
    ///
    /// # Safety
    /// The function has run, or was dropped, and returns this type. The outcome has not been taken.
    #[inline(always)]
    pub(crate) unsafe fn take<T>(&self) -> Option<Outcome<T>> {
        self.operations.take()?;
        // SAFETY: the caller's promise.
        Some(unsafe { self.space.read() })
    }

    /// Drops the function. Returns false if that was done before.
    ///
    /// # Safety
    /// It has not run.
    pub(crate) unsafe fn drop_function(&self) -> bool {
        let operations = self.operations.take();
        // SAFETY: the caller's promise.
        operations.inspect(|operations| unsafe { (operations.drop_function)(&self.space) }).is_some()
    }

    /// Drops the outcome, unless it was taken.
    ///
    /// # Safety
    /// The function has run.
    pub(crate) unsafe fn drop_outcome(&self) {
        // SAFETY: the caller's promise.
        self.operations.take().inspect(|operations| unsafe { (operations.drop_outcome)(&self.space) });
    }
}
