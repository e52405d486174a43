//! How messages go to the rings of other ranks.

use std::collections::{BTreeMap, VecDeque};

use super::Endpoint;
use super::queues::{Message, Outgoing, Pending, Request, Shared};
use crate::bell::Bell;
use crate::error::MessageError;
use crate::matching::Envelope;
use crate::ring::{Kind, Nonsense, Record, Tail};

impl Endpoint {
    pub(super) fn outgoing<'s>(
        &self,
        all: &'s mut [Option<Outgoing>],
        to: u32,
    ) -> Result<&'s mut Outgoing, MessageError> {
        let place = &mut all[to as usize];
        if place.is_none() {
            let lacks = |why| MessageError::Memory { rank: to, why };
            self.memory.reserve(self.rank, to).map_err(lacks)?;
            let memory = self.memory.ring(self.rank, to).ok_or(MessageError::Overwritten { rank: to })?;
            self.memory.announce(self.rank, to);
            *place = Some(Outgoing { memory, tail: Tail::default(), queue: VecDeque::new() });
        }
        place.as_mut().ok_or(MessageError::Overwritten { rank: to })
    }

    /// Writes as much of a message as there is room for. Returns whether that is all.
    #[inline]
    pub(super) fn push(
        &self,
        outgoing: &mut Outgoing,
        to: u32,
        message: &mut Message,
        bytes: &[u8],
    ) -> Result<bool, MessageError> {
        if self.memory.has_left(to) {
            return Err(MessageError::Left { rank: to });
        }
        let ring = outgoing.memory.ring();
        let (bell, longest) = (Bell(self.memory.bell(to)), ring.longest());
        let &mut Message { context, tag, .. } = message;
        let mut send = |kind, piece: &[u8]| {
            let record = Record { kind, context, tag, length: piece.len() };
            let sent = ring.send(&mut outgoing.tail, record, piece);
            if sent == Ok(true) {
                bell.ring();
            }
            sent.map_err(|Nonsense| MessageError::Overwritten { rank: to })
        };
        if bytes.len() <= longest {
            return send(Kind::Whole, bytes);
        }
        message.has_begun = message.has_begun || send(Kind::First, &(bytes.len() as u64).to_ne_bytes())?;
        if !message.has_begun {
            return Ok(false);
        }
        while let Some(rest) = bytes.get(message.sent..).filter(|rest| !rest.is_empty()) {
            let piece = &rest[..rest.len().min(longest)];
            if !send(Kind::Next, piece)? {
                return Ok(false);
            }
            message.sent += piece.len();
        }
        Ok(true)
    }

    /// Sends the messages of requests to a rank as far as there is room.
    pub(super) fn advance(&self, shared: &mut Shared, to: u32) -> Result<(), MessageError> {
        match &mut shared.outgoing[to as usize] {
            Some(outgoing) if !outgoing.queue.is_empty() => self.advance_queue(outgoing, &mut shared.requests, to),
            _ => Ok(()),
        }
    }

    pub(super) fn advance_queue(
        &self,
        outgoing: &mut Outgoing,
        requests: &mut BTreeMap<u64, Request>,
        to: u32,
    ) -> Result<(), MessageError> {
        while let Some(Pending::Owned { .. }) = outgoing.queue.front() {
            let Some(Pending::Owned { request, mut message, bytes }) = outgoing.queue.pop_front() else { break };
            if !self.push(outgoing, to, &mut message, &bytes)? {
                outgoing.queue.push_front(Pending::Owned { request, message, bytes });
                break;
            }
            if let Some(state) = requests.get_mut(&request) {
                *state = Request::Sent(bytes);
            }
            self.stir();
        }
        Ok(())
    }

    pub(super) fn advance_all(&self, shared: &mut Shared) -> Result<(), MessageError> {
        (0..self.ranks()).try_for_each(|to| self.advance(shared, to))
    }

    pub(super) fn send_to_self(&self, shared: &mut Shared, Message { context, tag, .. }: Message, bytes: Vec<u8>) {
        let envelope = Envelope { context, source: self.rank, tag };
        let to = shared.direct(envelope, bytes.len() as u64);
        shared.complete(to, envelope, bytes);
        self.stir();
    }
}
