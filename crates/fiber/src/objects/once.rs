//! A value that is created once.

use std::fmt;
use std::sync::OnceLock;

use crate::objects::mutex::Mutex;

/// A value that is created by the first fiber that needs it, while other fibers that need it wait
/// and let the rest run.
///
/// The function that creates it may wait for other things meanwhile. With the standard library's
/// `OnceLock` that would block the kernel thread, or never end. Reading the value needs no runtime.
///
/// ```
/// use rowlock_fiber::OnceCell;
///
/// static ANSWER: OnceCell<u32> = OnceCell::new();
///
/// rowlock_fiber::run(|| assert_eq!(*ANSWER.get_or_init(|| 6 * 7), 42));
/// assert_eq!(ANSWER.get(), Some(&42));
/// ```
pub struct OnceCell<T> {
    value: OnceLock<T>,
    /// The fiber that creates the value holds it, so no fiber ever waits at `value`.
    making: Mutex<()>,
}

impl<T> OnceCell<T> {
    /// A cell without a value.
    pub const fn new() -> OnceCell<T> {
        OnceCell { value: OnceLock::new(), making: Mutex::new(()) }
    }

    /// The value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value, if there is one, without locking.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// The value, which the function creates if there is none. If the function panics, there is
    /// still none, and the next caller creates it.
    ///
    /// # Panics
    /// With the function's panic, and if the function needs the value itself.
    #[inline]
    #[track_caller]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.value.get() {
            Some(value) => value,
            None => self.make(make),
        }
    }

    #[cold]
    #[track_caller]
    fn make(&self, make: impl FnOnce() -> T) -> &T {
        // A fiber that panicked there has left nothing half made.
        let _making = self.making.lock();
        if let Some(value) = self.value.get() {
            return value;
        }
        let value = make();
        self.value.get_or_init(|| value)
    }

    /// Sets the value, if there is none.
    ///
    /// # Errors
    /// If there is one; the error contains the new value.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let _making = self.making.lock();
        self.value.set(value)
    }

    /// The value, if there is one.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> OnceCell<T> {
        OnceCell::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceCell").field(&self.get()).finish()
    }
}
