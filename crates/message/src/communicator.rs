//! Communicators: ranks that exchange messages among themselves, each by its own number.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use sys::elements::{self, Element};
use wait::Statistics;

use crate::endpoint::Endpoint;
use crate::engine::{Delivery, Engine, Want};
use crate::error::Error;
use crate::matching::{Envelope, Pattern, Ticket};
use crate::operation::{Arrival, Exchange, Probe, Receive, Send};
use crate::request::{ReceiveRequest, SendRequest};
use crate::sending::{Payload, Sending};

/// The source of messages to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Any rank of the communicator.
    Any,
    /// This rank.
    Rank(u32),
}

impl From<u32> for Source {
    fn from(rank: u32) -> Source {
        Source::Rank(rank)
    }
}

/// The tag of messages to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Any tag.
    Any,
    /// This tag.
    Value(u32),
}

impl From<u32> for Tag {
    fn from(tag: u32) -> Tag {
        Tag::Value(tag)
    }
}

/// The source, tag and length of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The rank of the sender in the communicator.
    pub source: u32,
    /// The tag.
    pub tag: u32,
    /// The number of values of the type that the call is about.
    pub count: usize,
}

/// Two ways in which the ranks of a communicator talk, which never mix.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Talk {
    /// Messages of the program.
    Messages = 0,
    /// Collective calls.
    Collective = 1,
}

/// A group of ranks that exchange messages, as one of them sees it.
///
/// Ranks are counted from 0 in each communicator. The numbers in errors are those of the whole job.
///
/// Several threads of a process may use a communicator at the same time. A message that one thread
/// sends after another is received after it, if both go to the same rank with the same tag.
///
/// When the last communicator of a rank is dropped, the rank leaves the job: others that wait for
/// it get an error. Messages that it has sent can be received even then, except for long ones whose
/// [requests](SendRequest) were not waited for. Leaving waits until all short ones are on their
/// way, as long as their receivers are there. If a thread panics and drops its last communicator,
/// the rank has died. The child of a fork must not use its parent's communicators.
pub struct Communicator {
    pub(crate) endpoint: Arc<Endpoint>,
    context: u32,
    /// The ranks in the job.
    pub(crate) members: Arc<[u32]>,
    rank: u32,
}

impl Communicator {
    /// The communicator of all ranks of a job.
    pub(crate) fn world(endpoint: Endpoint) -> Communicator {
        let (members, rank) = ((0..endpoint.ranks()).collect(), endpoint.rank);
        Communicator { endpoint: Arc::new(endpoint), context: 0, members, rank }
    }

    /// A communicator of some ranks of this one, including the caller.
    pub(crate) fn of(&self, members: Arc<[u32]>, context: u32) -> Communicator {
        let rank = members.iter().position(|&member| member == self.endpoint.rank).unwrap_or_default() as u32;
        Communicator { endpoint: self.endpoint.clone(), context, members, rank }
    }

    /// The number of the calling rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.members.len() as u32
    }

    /// The counts of all waits of this rank so far, in all communicators.
    pub fn statistics(&self) -> Statistics {
        self.endpoint.statistics()
    }

    /// Sends a message. Returns as soon as `values` may change: a short message is on its way then,
    /// and a long one has been read by the receiver, which may be in any call that waits.
    ///
    /// # Errors
    /// If there is no such rank, or if it is waited for and dies or leaves.
    pub fn send<T: Element>(&self, to: u32, tag: u32, values: &[T]) -> Result<(), Error> {
        self.send_by(Talk::Messages, to, tag, values)
    }

    pub(crate) fn send_by<T: Element>(&self, talk: Talk, to: u32, tag: u32, values: &[T]) -> Result<(), Error> {
        let sending = self.sending(talk, tag, elements::bytes(values));
        self.endpoint.run(&mut Send::new(self.member(to)?, sending))
    }

    /// Waits for a message and receives it into the beginning of `values`.
    ///
    /// # Errors
    /// If there is no such rank, if the message does not fit, or if the sender dies or leaves.
    /// While it waits, the death of *any* rank of the job is an error.
    pub fn receive<T: Element>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
        values: &mut [T],
    ) -> Result<Status, Error> {
        self.receive_by(Talk::Messages, from.into(), tag.into(), values)
    }

    pub(crate) fn receive_by<T: Element>(
        &self,
        talk: Talk,
        from: Source,
        tag: Tag,
        values: &mut [T],
    ) -> Result<Status, Error> {
        let pattern = self.pattern(talk, from, tag)?;
        let (engine, posted) = Posted::with_engine(&self.endpoint, pattern);
        let mut receive = posted.receive(values);
        self.endpoint.run_from(engine, &mut receive)?;
        posted.complete::<T>(self, receive.want.got)
    }

    /// Sends a message and receives one at the same time: without a copy in between, also where two
    /// ranks send each other long messages.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`receive`](Self::receive).
    pub fn send_receive<T: Element, U: Element>(
        &self,
        (to, sent_tag, sent): (u32, u32, &[T]),
        (from, tag, values): (impl Into<Source>, impl Into<Tag>, &mut [U]),
    ) -> Result<Status, Error> {
        self.exchange(Talk::Messages, (to, sent_tag, sent), (from.into(), tag.into(), values))
    }

    pub(crate) fn exchange<T: Element, U: Element>(
        &self,
        talk: Talk,
        (to, sent_tag, sent): (u32, u32, &[T]),
        (from, tag, values): (Source, Tag, &mut [U]),
    ) -> Result<Status, Error> {
        let send = Send::new(self.member(to)?, self.sending(talk, sent_tag, elements::bytes(sent)));
        let pattern = self.pattern(talk, from, tag)?;
        let (engine, posted) = Posted::with_engine(&self.endpoint, pattern);
        let mut exchange = Exchange { send, receive: posted.receive(values) };
        self.endpoint.run_from(engine, &mut exchange)?;
        posted.complete::<U>(self, exchange.receive.want.got)
    }

    /// Sends a message that the request owns until it is complete. Never waits: the message is
    /// sent in this call or in later ones of this rank.
    ///
    /// # Errors
    /// If there is no such rank.
    pub fn isend<T: Element>(&self, to: u32, tag: u32, values: Vec<T>) -> Result<SendRequest<'_, T>, Error> {
        let to = self.member(to)?;
        let (values, delivery) = (Arc::new(Owned(values)), Delivery::new(Mutex::new(None)));
        let sending = self.sending(Talk::Messages, tag, values.clone() as Arc<dyn Payload + std::marker::Send + Sync>);
        let mut engine = self.endpoint.engine();
        engine.enqueue(to, sending, delivery.clone())?;
        engine.tell_news();
        drop(engine);
        Ok(SendRequest { communicator: self, to, values, delivery })
    }

    /// Posts a receive: the next message that matches belongs to the request. Its buffer is given
    /// when the message is received.
    ///
    /// # Errors
    /// If there is no such rank.
    pub fn ireceive<T: Element>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<ReceiveRequest<'_, T>, Error> {
        let pattern = self.pattern(Talk::Messages, from.into(), tag.into())?;
        Ok(ReceiveRequest::new(self, Posted::with_engine(&self.endpoint, pattern).1))
    }

    /// Waits for a message without receiving it. The count is that of values of type `T`, rounded
    /// up.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn probe<T: Element>(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status, Error> {
        let mut probe = self.probing(from.into(), tag.into())?;
        self.endpoint.run(&mut probe)?;
        probe.found.map(|envelope| self.status::<T>(&envelope)).ok_or(Error::Left { rank: self.endpoint.rank })
    }

    /// As [`probe`](Self::probe), without waiting: `None` if there is no such message yet.
    ///
    /// # Errors
    /// If there is no such rank, or if it has left, or if any rank of the job has died.
    pub fn iprobe<T: Element>(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Status>, Error> {
        let mut probe = self.probing(from.into(), tag.into())?;
        self.endpoint.test(&mut probe)?;
        Ok(probe.found.map(|envelope| self.status::<T>(&envelope)))
    }

    fn probing(&self, from: Source, tag: Tag) -> Result<Probe, Error> {
        Ok(Probe { pattern: self.pattern(Talk::Messages, from, tag)?, found: None })
    }

    /// The number in the job of a rank of this communicator.
    pub(crate) fn member(&self, rank: u32) -> Result<u32, Error> {
        let member = self.members.get(rank as usize).copied();
        member.ok_or(Error::NoSuchRank { rank, ranks: self.ranks() })
    }

    fn sending<P: Payload>(&self, talk: Talk, tag: u32, payload: P) -> Sending<P> {
        Sending::new(self.context | talk as u32, tag, payload)
    }

    fn pattern(&self, talk: Talk, from: Source, tag: Tag) -> Result<Pattern, Error> {
        let source = match from {
            Source::Any => None,
            Source::Rank(rank) => Some(self.member(rank)?),
        };
        let tag = match tag {
            Tag::Any => None,
            Tag::Value(tag) => Some(tag),
        };
        Ok(Pattern { context: self.context | talk as u32, source, tag })
    }

    pub(crate) fn status<T: Element>(&self, envelope: &Envelope) -> Status {
        // The world, and others often, number their ranks as the job does.
        let source = match self.members.get(envelope.source as usize) {
            Some(&member) if member == envelope.source => envelope.source as usize,
            _ => self.members.iter().position(|&member| member == envelope.source).unwrap_or_default(),
        };
        let count = envelope.length.div_ceil(size_of::<T>() as u64) as usize;
        Status { source: source as u32, tag: envelope.tag, count }
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator").field("rank", &self.rank).field("ranks", &self.ranks()).finish_non_exhaustive()
    }
}

/// Values of a message that no call waits for.
#[derive(Debug)]
pub(crate) struct Owned<T>(pub(crate) Vec<T>);

impl<T: Element> Payload for Owned<T> {
    fn bytes(&self) -> &[u8] {
        elements::bytes(&self.0)
    }
}

/// A posted receive, which is given back when dropped.
pub(crate) struct Posted<'c> {
    endpoint: &'c Endpoint,
    pattern: Pattern,
    pub(crate) ticket: Ticket,
}

impl<'c> Posted<'c> {
    /// Posts a receive, and returns the engine for its first step.
    fn with_engine(endpoint: &'c Endpoint, pattern: Pattern) -> (MutexGuard<'c, Engine>, Posted<'c>) {
        let mut engine = endpoint.engine();
        let ticket = engine.matching.post(pattern);
        (engine, Posted { endpoint, pattern, ticket })
    }

    pub(crate) fn receive<'a, T: Element>(&self, values: &'a mut [T]) -> Receive<'a> {
        let want = Want { ticket: self.ticket, buffer: elements::bytes_mut(values), size: size_of::<T>(), got: None };
        Receive { want, from: self.pattern.source }
    }

    /// The receive is over.
    pub(crate) fn complete<T: Element>(self, of: &Communicator, got: Option<Envelope>) -> Result<Status, Error> {
        // A receive that has ended without an error has its message.
        let got = got.ok_or(Error::Left { rank: of.endpoint.rank })?;
        std::mem::forget(self);
        Ok(of.status::<T>(&got))
    }

    pub(crate) fn arrival(&self) -> Arrival {
        Arrival { ticket: self.ticket, from: self.pattern.source, found: None }
    }
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        self.endpoint.engine().give_back(self.ticket);
    }
}
