//! How the stack of a fiber unwinds without a panic, and what its joiner is told.

use std::any::Any;
use std::panic::resume_unwind;

use crate::error::{JoinError, StackError};

/// Whether a fiber can be unwound. If panics abort, fibers that remain when their runtime ends stay
/// where they are.
pub(crate) const CAN_UNWIND: bool = cfg!(panic = "unwind");

/// The payload of a fiber whose runtime ends.
struct Cancelled;

/// The payload of a fiber that has exited.
pub(crate) struct Exited;

/// The payload of a fiber that never ran.
pub(crate) struct NoStack(pub(crate) StackError);

/// Unwinds the calling fiber, whose runtime ends.
#[cold]
pub(crate) fn unwind() -> ! {
    resume_unwind(Box::new(Cancelled))
}

/// Why a fiber with this payload has no result.
#[cold]
pub(crate) fn reason(payload: Box<dyn Any + Send>) -> JoinError {
    if payload.is::<Cancelled>() {
        return JoinError::Cancelled;
    }
    if payload.is::<Exited>() {
        return JoinError::Exited;
    }
    match payload.downcast::<NoStack>() {
        Ok(no_stack) => JoinError::NoStack(no_stack.0),
        Err(payload) => JoinError::Panicked(payload),
    }
}
