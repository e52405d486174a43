//! A value that is made once.

use std::fmt;
use std::sync::{OnceLock, PoisonError};

use crate::mutex::Mutex;

/// A value that is made by the first fiber that needs it, while the others that do wait for that and let the rest run.
///
/// Whoever makes it may wait for other things meanwhile, which with the standard library's would stop the kernel thread, or never end. Reading it needs no runtime.
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
    /// Had by who makes the value: so nobody ever waits at the other.
    making: Mutex<()>,
}

impl<T> OnceCell<T> {
    /// One without a value.
    pub const fn new() -> OnceCell<T> {
        OnceCell { value: OnceLock::new(), making: Mutex::new(()) }
    }

    /// The value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value for who has the cell for itself, if there is one.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// The value, which is made by this function if there is none. If that panics there is still none, and the next one makes it.
    ///
    /// # Panics
    /// With the function's panic; where no runtime runs and there is no value; and if the function wants the value itself.
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
        // Whoever panicked there has left nothing half made.
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = self.value.get() {
            return value;
        }
        let value = make();
        self.value.get_or_init(|| value)
    }

    /// Sets the value, if there is none.
    ///
    /// # Errors
    /// When there is one; the error has what was to be the value.
    ///
    /// # Panics
    /// Where no runtime runs.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
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
