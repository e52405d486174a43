//! A value that calls a function when it is dropped.

pub(crate) struct AtDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for AtDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
