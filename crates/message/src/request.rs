//! Requests: sends and receives that no call waits for.
//!
//! A request borrows no buffer. So it may be leaked, and no memory is written or read that has
//! become something else. A send owns its values, and a copy of that ownership stays with the
//! engine until the message is complete. A receive only reserves a message, and gets its buffer at
//! the end.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};

use sys::elements::Element;

use crate::communicator::{Communicator, Owned, Posted, Status};
use crate::engine::Delivery;
use crate::error::Error;
use crate::operation::Until;

/// A message that is being sent, by [`Communicator::isend`].
///
/// Dropping it does not stop the message. But if the rank leaves the job before a long message has
/// been read, the receiver gets an error instead.
#[must_use = "a message is complete when its request has been waited for"]
pub struct SendRequest<'c, T> {
    pub(crate) communicator: &'c Communicator,
    pub(crate) to: u32,
    pub(crate) values: Arc<Owned<T>>,
    pub(crate) delivery: Delivery,
}

impl<T: Element> SendRequest<'_, T> {
    /// Whether the message is complete. Makes progress.
    ///
    /// # Errors
    /// If the message could not be sent, if any rank has died, or if the receiver has left.
    pub fn test(&self) -> Result<bool, Error> {
        self.communicator.endpoint.test(&mut self.until_over())?;
        self.outcome().unwrap_or(Ok(())).map(|()| self.outcome().is_some())
    }

    /// Waits until the message is complete. Returns its values.
    ///
    /// # Errors
    /// If the message could not be sent, or if the receiver dies or leaves.
    pub fn wait(self) -> Result<Vec<T>, Error> {
        self.communicator.endpoint.run(&mut self.until_over())?;
        self.outcome().unwrap_or(Ok(()))?;
        let SendRequest { values, .. } = self;
        Ok(Arc::try_unwrap(values).map_or_else(|values| values.0.clone(), |values| values.0))
    }

    fn until_over(&self) -> Until<impl FnMut() -> bool + '_> {
        Until { rank: self.to, condition: || self.outcome().is_some() }
    }

    fn outcome(&self) -> Option<Result<(), Error>> {
        self.delivery.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<T> fmt::Debug for SendRequest<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendRequest").field("to", &self.to).finish_non_exhaustive()
    }
}

/// A receive that was posted, by [`Communicator::ireceive`].
///
/// If it is dropped without having been waited for, its message is there for other receives.
#[must_use = "a message is received when its request has been waited for"]
pub struct ReceiveRequest<'c, T> {
    communicator: &'c Communicator,
    posted: Posted<'c>,
    values: PhantomData<fn(&mut [T])>,
}

impl<'c, T: Element> ReceiveRequest<'c, T> {
    pub(crate) fn new(communicator: &'c Communicator, posted: Posted<'c>) -> ReceiveRequest<'c, T> {
        ReceiveRequest { communicator, posted, values: PhantomData }
    }

    /// The message, if it has arrived: how long a buffer must be. Makes progress. The content of a
    /// long message may have to be copied yet.
    ///
    /// # Errors
    /// If the sender has left, or any rank has died, without that message.
    pub fn test(&self) -> Result<Option<Status>, Error> {
        let mut arrival = self.posted.arrival();
        self.communicator.endpoint.test(&mut arrival)?;
        Ok(arrival.found.map(|envelope| self.communicator.status::<T>(&envelope)))
    }

    /// Waits for the message and receives it into the beginning of `values`.
    ///
    /// # Errors
    /// As [`Communicator::receive`]. A message that does not fit is there for the next receive that
    /// matches.
    pub fn wait(self, values: &mut [T]) -> Result<Status, Error> {
        let mut receive = self.posted.receive(values);
        self.communicator.endpoint.run(&mut receive)?;
        self.posted.complete::<T>(self.communicator, receive.want.got)
    }
}

impl<T> fmt::Debug for ReceiveRequest<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveRequest").finish_non_exhaustive()
    }
}
