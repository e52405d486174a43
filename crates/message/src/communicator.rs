//! Groups of ranks that send each other messages.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use bytemuck::{AnyBitPattern, NoUninit, Pod};
use sys::unnamed::UnnamedFile;
use wait::{Statistics, Waiting};

use crate::endpoint::{Endpoint, Received};
use crate::error::{JoinError, MessageError};
use crate::matching::{Envelope, Pattern};
use crate::memory::{Memory, create};
use crate::request::{ReceiveRequest, SendRequest};

/// The variable with the number of this rank, which `rowlock prun` sets.
pub const RANK: &str = "ROWLOCK_RANK";
/// The variable with the number of ranks.
pub const RANKS: &str = "ROWLOCK_RANKS";
/// The variable with the path of their memory.
pub const MEMORY: &str = "ROWLOCK_MESSAGES";

/// A rank of which a message is received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Any rank of the communicator.
    #[default]
    Any,
    /// This one.
    Rank(u32),
}

impl From<u32> for Source {
    fn from(rank: u32) -> Source {
        Source::Rank(rank)
    }
}

/// A tag with which a message is received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tag {
    /// Any tag.
    #[default]
    Any,
    /// This one.
    Is(u32),
}

impl From<u32> for Tag {
    fn from(tag: u32) -> Tag {
        Tag::Is(tag)
    }
}

/// A message that was received, or that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The sender, by its rank in the communicator.
    pub source: u32,
    /// The tag.
    pub tag: u32,
    /// The length, in bytes.
    pub bytes: usize,
}

/// A group of ranks that send each other messages.
///
/// A message is received only in the communicator in which it was sent. The messages of a pair of
/// ranks with the same tag are received in the order in which they were sent.
///
/// Threads of a rank may use it at the same time. A clone is the same communicator. When the last
/// one of a job is dropped, the rank leaves the job. A child of a fork cannot use it.
#[derive(Clone, Debug)]
pub struct Communicator {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) group: Arc<Group>,
    /// Twice the number of the communicator. The next one is for its collective calls.
    pub(crate) context: u32,
}

/// The ranks of a communicator.
#[derive(Debug)]
pub(crate) struct Group {
    /// The rank in the job of each rank.
    members: Vec<u32>,
    /// This rank's number.
    own: u32,
    /// The number of collective calls so far.
    pub(crate) calls: AtomicU32,
}

impl Communicator {
    /// All ranks of the job that `rowlock prun` has started. Does not wait for them.
    ///
    /// # Errors
    /// If `prun` has not started this process, if its rank has joined before, or if there is no
    /// memory.
    pub fn world(waiting: Waiting) -> Result<Communicator, JoinError> {
        let number = |name: &'static str| {
            let value = std::env::var(name).map_err(|_| JoinError::Environment { name, problem: "is not set" })?;
            value.parse().map_err(|_| JoinError::Environment { name, problem: "is no number" })
        };
        let (rank, ranks) = (number(RANK)?, number(RANKS)?);
        let path = std::env::var_os(MEMORY).ok_or(JoinError::Environment { name: MEMORY, problem: "is not set" })?;
        Communicator::on(Memory::open(path.as_ref(), ranks)?, rank, waiting, None)
    }

    /// The ranks of a job whose processes start themselves. All name it alike, and each has another
    /// number from 0. Does not wait for the others.
    ///
    /// The memory is a file in `/dev/shm` until all have joined. The name can be used again when
    /// all have ended.
    ///
    /// # Errors
    /// If the numbers do not fit together, or if there is no memory.
    pub fn named(name: &str, rank: u32, ranks: u32, waiting: Waiting) -> Result<Communicator, JoinError> {
        Communicator::on(Memory::open_named(name, ranks)?, rank, waiting, Some(name))
    }

    /// The ranks of a job whose memory [`create`] has created.
    ///
    /// # Errors
    /// As for [`Communicator::named`].
    pub fn join(memory: &Path, rank: u32, ranks: u32, waiting: Waiting) -> Result<Communicator, JoinError> {
        Communicator::on(Memory::open(memory, ranks)?, rank, waiting, None)
    }

    /// A job whose ranks are threads of this process.
    ///
    /// # Errors
    /// If there cannot be so many ranks, or there is no memory.
    pub fn threads(ranks: u32, waiting: Waiting) -> Result<Vec<Communicator>, JoinError> {
        let memory: UnnamedFile = create(ranks)?;
        (0..ranks).map(|rank| Communicator::join(memory.path(), rank, ranks, waiting)).collect()
    }

    fn on(memory: Memory, rank: u32, waiting: Waiting, name: Option<&str>) -> Result<Communicator, JoinError> {
        let members = (0..memory.ranks()).collect();
        let endpoint = Arc::new(Endpoint::join(memory, rank, waiting, name)?);
        Ok(Communicator::of(endpoint, members, rank, 0))
    }

    pub(crate) fn of(endpoint: Arc<Endpoint>, members: Vec<u32>, own: u32, context: u32) -> Communicator {
        Communicator { endpoint, group: Arc::new(Group { members, own, calls: AtomicU32::new(0) }), context }
    }

    /// The number of this rank.
    pub fn rank(&self) -> u32 {
        self.group.own
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.group.members.len() as u32
    }

    /// The counts of the waits of this rank so far, in all communicators.
    pub fn statistics(&self) -> Statistics {
        self.endpoint.statistics()
    }

    /// Sends a message. Returns when the values are copied, and blocks until there is room for
    /// them: a rank that does not receive what others send holds them up. A message to this rank
    /// itself always has room.
    ///
    /// # Errors
    /// If there is no such rank, if it has left or is lost, or if there is no memory.
    pub fn send<T: NoUninit>(&self, to: u32, tag: u32, values: &[T]) -> Result<(), MessageError> {
        let to = self.member(to)?;
        self.endpoint.send(to, self.context, tag, bytemuck::cast_slice(values))
    }

    /// Receives a message into the beginning of `buffer`. Blocks until there is one.
    ///
    /// # Errors
    /// If there is no such rank, if it has left, or if any rank is lost. If the message is longer
    /// than the buffer, or no whole number of values: then it is kept.
    pub fn receive<T: Pod>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
        buffer: &mut [T],
    ) -> Result<Status, MessageError> {
        let pattern = self.pattern(source.into(), tag.into())?;
        let Received { envelope, length } = self.endpoint.receive(pattern, bytemuck::cast_slice_mut(buffer))?;
        if !length.is_multiple_of(size_of::<T>().max(1)) {
            return Err(MessageError::OtherType { rank: self.rank_of(envelope.source), length: length as u64 });
        }
        Ok(self.status(envelope, length))
    }

    /// Receives a message of any length. Blocks until there is one.
    ///
    /// # Errors
    /// As for [`Communicator::receive`].
    pub fn receive_vec<T: NoUninit + AnyBitPattern>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(Status, Vec<T>), MessageError> {
        let pattern = self.pattern(source.into(), tag.into())?;
        let (envelope, bytes) = self.endpoint.receive_any_length(pattern)?;
        Ok((self.status(envelope, bytes.len()), self.values(envelope, &bytes)?))
    }

    /// Begins to send a message, which the request owns until it is sent.
    ///
    /// # Errors
    /// As for [`Communicator::send`].
    pub fn begin_send<T: NoUninit + AnyBitPattern>(
        &self,
        to: u32,
        tag: u32,
        values: &[T],
    ) -> Result<SendRequest, MessageError> {
        let to = self.member(to)?;
        let request = self.endpoint.begin_send(to, self.context, tag, bytemuck::cast_slice(values).to_vec())?;
        Ok(SendRequest::new(self.endpoint.clone(), request, to))
    }

    /// Begins to receive a message. It takes precedence over receives that begin later.
    ///
    /// # Errors
    /// If there is no such rank.
    pub fn begin_receive<T: NoUninit + AnyBitPattern>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<ReceiveRequest<T>, MessageError> {
        let pattern = self.pattern(source.into(), tag.into())?;
        let request = self.endpoint.begin_receive(pattern)?;
        Ok(ReceiveRequest::new(self.clone(), request, pattern.source))
    }

    /// The next message that would be received. Blocks until there is one.
    ///
    /// # Errors
    /// As for [`Communicator::receive`].
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status, MessageError> {
        let (envelope, length) = self.endpoint.probe(self.pattern(source.into(), tag.into())?)?;
        Ok(self.status(envelope, length as usize))
    }

    /// The next message that would be received, if it has come. Never blocks.
    ///
    /// # Errors
    /// If there is no such rank, or its memory was overwritten.
    pub fn try_probe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Status>, MessageError> {
        let found = self.endpoint.try_probe(self.pattern(source.into(), tag.into())?)?;
        Ok(found.map(|(envelope, length)| self.status(envelope, length as usize)))
    }

    /// The rank in the job of a rank.
    pub(crate) fn member(&self, rank: u32) -> Result<u32, MessageError> {
        let ranks = self.ranks();
        self.group.members.get(rank as usize).copied().ok_or(MessageError::NoSuchRank { rank, ranks })
    }

    fn pattern(&self, source: Source, tag: Tag) -> Result<Pattern, MessageError> {
        let source = match source {
            Source::Any => None,
            Source::Rank(rank) => Some(self.member(rank)?),
        };
        let tag = match tag {
            Tag::Any => None,
            Tag::Is(tag) => Some(tag),
        };
        Ok(Pattern { context: self.context, source, tag })
    }

    /// The rank of a rank of the job.
    fn rank_of(&self, member: u32) -> u32 {
        self.group.members.iter().position(|&found| found == member).unwrap_or_default() as u32
    }

    pub(crate) fn status(&self, envelope: Envelope, bytes: usize) -> Status {
        Status { source: self.rank_of(envelope.source), tag: envelope.tag, bytes }
    }

    pub(crate) fn values<T: NoUninit + AnyBitPattern>(
        &self,
        envelope: Envelope,
        bytes: &[u8],
    ) -> Result<Vec<T>, MessageError> {
        let size = size_of::<T>();
        if size == 0 || !bytes.len().is_multiple_of(size) {
            return Err(MessageError::OtherType { rank: self.rank_of(envelope.source), length: bytes.len() as u64 });
        }
        let mut values = vec![T::zeroed(); bytes.len() / size];
        bytemuck::cast_slice_mut(&mut values).copy_from_slice(bytes);
        Ok(values)
    }

    /// The number of the next collective call, which is the tag of its messages.
    pub(crate) fn next_call(&self) -> u32 {
        self.group.calls.fetch_add(1, Relaxed)
    }

    /// This communicator for the messages of collective calls.
    pub(crate) fn for_calls(&self) -> Communicator {
        Communicator { context: self.context | 1, ..self.clone() }
    }
}
