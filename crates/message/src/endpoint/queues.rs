//! What the threads of a rank share, below its lock.

use std::collections::{BTreeMap, VecDeque};

use crate::error::MessageError;
use crate::matching::{Envelope, Matching, Pattern};
use crate::memory::RingMemory;
use crate::ring::Tail;

/// The part of a rank that its lock protects.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) matching: Matching,
    pub(super) streams: Vec<Stream>,
    /// By rank. `None` for those to which nothing was sent.
    pub(super) outgoing: Vec<Option<Outgoing>>,
    pub(super) requests: BTreeMap<u64, Request>,
    /// The number of the last request, or turn to send.
    pub(super) last: u64,
    /// The sender that is asked first for a message of any.
    pub(super) first: u32,
}

/// The message that a ring is in the middle of.
#[derive(Debug, Default)]
pub(super) enum Stream {
    #[default]
    Idle,
    /// It is collected.
    Collected(Collected),
    /// A thread receives it into its own buffer.
    Direct,
}

#[derive(Debug)]
pub(super) struct Collected {
    pub(super) to: Destination,
    pub(super) length: u64,
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Destination {
    /// A posted receive.
    Request(u64),
    /// A message that is kept.
    Early(u64),
}

/// A message that a thread receives into its own buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    pub(super) envelope: Envelope,
    pub(super) length: usize,
    pub(super) received: usize,
}

/// What goes to a rank.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) memory: RingMemory,
    pub(super) tail: Tail,
    /// Messages that have no room yet, in their order.
    pub(super) queue: VecDeque<Pending>,
}

#[derive(Debug)]
pub(super) enum Pending {
    /// A thread sends it when its turn has come.
    Turn(u64),
    /// Any thread of this rank sends it.
    Owned { request: u64, message: Message, bytes: Vec<u8> },
}

/// A message that is being sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) context: u32,
    pub(super) tag: u32,
    /// Whether the receiver knows the length of a long one.
    pub(super) has_begun: bool,
    pub(super) sent: usize,
}

/// A send or receive that was begun.
#[derive(Debug)]
pub(super) enum Request {
    Sends,
    Sent(Vec<u8>),
    Receives,
    Received(Envelope, Vec<u8>),
}

/// A message as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) envelope: Envelope,
    /// In bytes.
    pub(crate) length: usize,
}

/// What a request has received, or sent, with the envelope of a message that was received.
pub(crate) type Completed = (Option<Envelope>, Vec<u8>);

impl Shared {
    /// Where a message that begins to come goes to.
    pub(super) fn direct(&mut self, envelope: Envelope, length: u64) -> Destination {
        match self.matching.take_receive(envelope) {
            Some(request) => Destination::Request(request),
            None => Destination::Early(self.matching.keep(envelope, length)),
        }
    }

    /// A message whose bytes are coming goes to a request instead of being kept.
    pub(super) fn redirect(&mut self, number: u64, request: u64) {
        for stream in &mut self.streams {
            if let Stream::Collected(collected) = stream
                && matches!(collected.to, Destination::Early(early) if early == number)
            {
                collected.to = Destination::Request(request);
            }
        }
    }

    /// All bytes of a message have come.
    pub(super) fn complete(&mut self, to: Destination, envelope: Envelope, bytes: Vec<u8>) {
        match to {
            Destination::Early(number) => self.matching.complete(number, bytes),
            Destination::Request(request) => {
                // It may have been given up meanwhile.
                if let Some(state) = self.requests.get_mut(&request) {
                    *state = Request::Received(envelope, bytes);
                }
            }
        }
    }

    /// Takes a message that has come early into a buffer.
    pub(super) fn take_early(&mut self, pattern: Pattern, buffer: &mut [u8]) -> Result<Option<Received>, MessageError> {
        let room = buffer.len() as u64;
        if let Some(early) = self.matching.find(pattern).filter(|early| early.length > room) {
            let (rank, length) = (early.envelope.source, early.length);
            return Err(MessageError::TooLong { rank, length, room });
        }
        Ok(self.matching.take_message(pattern, room).map(|(envelope, bytes)| {
            buffer[..bytes.len()].copy_from_slice(&bytes);
            Received { envelope, length: bytes.len() }
        }))
    }

    pub(super) fn take_complete(&mut self, request: u64) -> Option<Completed> {
        match self.requests.get(&request)? {
            Request::Sends | Request::Receives => None,
            Request::Sent(_) | Request::Received(..) => match self.requests.remove(&request)? {
                Request::Sent(bytes) => Some((None, bytes)),
                Request::Received(envelope, bytes) => Some((Some(envelope), bytes)),
                Request::Sends | Request::Receives => None,
            },
        }
    }
}
