//! Values that borrow a communicator. C knows no borrows, and may free the communicator first: so
//! each has a share of it.

use std::sync::Arc;

use message::Communicator;

/// A value that borrows a communicator, with a share of that. The order of the fields is that in
/// which they are dropped.
pub(crate) struct Lent<T> {
    value: T,
    communicator: Arc<Communicator>,
}

impl<T> Lent<T> {
    /// The value that `make` makes.
    ///
    /// # Safety
    /// `make` keeps the reference nowhere but in its result. That gives it to nothing that outlives
    /// the result.
    pub(crate) unsafe fn new<E>(
        communicator: &Arc<Communicator>,
        make: impl FnOnce(&'static Communicator) -> Result<T, E>,
    ) -> Result<Lent<T>, E> {
        let communicator = communicator.clone();
        // SAFETY: the communicator does not move, is only shared, and lives as long as the share.
        // That is dropped after the value, which contains the reference.
        let value = make(unsafe { &*Arc::as_ptr(&communicator) })?;
        Ok(Lent { value, communicator })
    }

    pub(crate) fn get(&self) -> &T {
        &self.value
    }

    /// The result of a call that takes the value.
    ///
    /// # Safety
    /// `call` drops the value.
    pub(crate) unsafe fn end<R>(self, call: impl FnOnce(T) -> R) -> R {
        let Lent { value, communicator } = self;
        let result = call(value);
        drop(communicator);
        result
    }
}
