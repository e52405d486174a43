//! Sends and receives that were begun. They own what they send and receive, so one that is leaked
//! does no harm.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit};

use crate::communicator::{Communicator, Status};
use crate::endpoint::Endpoint;
use crate::error::MessageError;

/// A message that is being sent. When it is dropped, the message is still sent as the rank sends,
/// receives and waits.
#[derive(Debug)]
#[must_use = "a rank that does nothing else sends only as much as there is room for"]
pub struct SendRequest {
    endpoint: Arc<Endpoint>,
    number: u64,
    to: u32,
}

impl SendRequest {
    pub(crate) fn new(endpoint: Arc<Endpoint>, number: u64, to: u32) -> SendRequest {
        SendRequest { endpoint, number, to }
    }

    /// Blocks until the message is sent: until all of it is where its receiver finds it.
    ///
    /// # Errors
    /// If the receiver has left, or if any rank is lost.
    pub fn wait(self) -> Result<(), MessageError> {
        self.endpoint.finish(self.number, Some(self.to)).map(drop)
    }

    /// Returns the request if the message is not sent yet. Never blocks.
    ///
    /// # Errors
    /// As for [`SendRequest::wait`].
    pub fn test(self) -> Result<Option<SendRequest>, MessageError> {
        let is_sent = self.endpoint.test(self.number)?.is_some();
        Ok((!is_sent).then_some(self))
    }
}

impl Drop for SendRequest {
    fn drop(&mut self) {
        self.endpoint.forget(self.number);
    }
}

/// A message that is being received. When it is dropped, a message that has come for it is lost.
#[derive(Debug)]
#[must_use = "the message is lost if the request is dropped"]
pub struct ReceiveRequest<T> {
    communicator: Communicator,
    number: u64,
    source: Option<u32>,
    values: PhantomData<fn() -> T>,
}

/// A request that was tested: complete, or the same request.
#[derive(Debug)]
pub enum Tested<T> {
    /// The message.
    Received(Status, Vec<T>),
    /// There is none yet.
    Waits(ReceiveRequest<T>),
}

impl<T: NoUninit + AnyBitPattern> ReceiveRequest<T> {
    pub(crate) fn new(communicator: Communicator, number: u64, source: Option<u32>) -> ReceiveRequest<T> {
        ReceiveRequest { communicator, number, source, values: PhantomData }
    }

    /// Blocks until the message is received.
    ///
    /// # Errors
    /// If its sender has left, or any rank is lost. If it is no whole number of values: then it is
    /// lost.
    pub fn wait(self) -> Result<(Status, Vec<T>), MessageError> {
        let (envelope, bytes) = self.communicator.endpoint.finish(self.number, self.source)?;
        self.message(envelope, &bytes)
    }

    /// Whether the message has come. Never blocks.
    ///
    /// # Errors
    /// As for [`ReceiveRequest::wait`].
    pub fn test(self) -> Result<Tested<T>, MessageError> {
        match self.communicator.endpoint.test(self.number)? {
            Some((envelope, bytes)) => {
                self.message(envelope, &bytes).map(|(status, values)| Tested::Received(status, values))
            }
            None => Ok(Tested::Waits(self)),
        }
    }

    fn message(
        &self,
        envelope: Option<crate::matching::Envelope>,
        bytes: &[u8],
    ) -> Result<(Status, Vec<T>), MessageError> {
        let envelope = envelope.ok_or(MessageError::Mismatch("a receive was completed by a send"))?;
        Ok((self.communicator.status(envelope, bytes.len()), self.communicator.values(envelope, bytes)?))
    }
}

impl<T> Drop for ReceiveRequest<T> {
    fn drop(&mut self) {
        self.communicator.endpoint.forget(self.number);
    }
}
