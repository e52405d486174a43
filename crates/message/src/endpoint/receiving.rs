//! How messages come from the rings of other ranks: to the queues, or directly into a buffer.

use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use super::Endpoint;
use super::queues::{Collected, Direct, Received, Shared, Stream};
use crate::bell::Bell;
use crate::error::MessageError;
use crate::matching::{Envelope, Pattern};
use crate::memory::RingMemory;
use crate::ring::{Kind, Nonsense, Record};

/// The most that is allocated for a message before its bytes have come.
const MOST_AHEAD: u64 = 1 << 20;

impl Endpoint {
    pub(super) fn overwritten(&self, rank: u32) -> impl Fn(Nonsense) -> MessageError {
        move |Nonsense| MessageError::Overwritten { rank }
    }

    /// The ring from a rank that has announced itself.
    #[inline]
    pub(super) fn incoming(&self, from: u32) -> Option<&RingMemory> {
        match self.incoming[from as usize].get() {
            Some(memory) => Some(memory),
            None => self.meet(from),
        }
    }

    #[cold]
    pub(super) fn meet(&self, from: u32) -> Option<&RingMemory> {
        let has_announced = self.senders[from as usize / 64].load(SeqCst) & 1 << (from % 64) != 0;
        let memory = has_announced.then(|| self.memory.ring(from, self.rank)).flatten()?;
        Some(self.incoming[from as usize].get_or_init(|| memory))
    }

    /// The rings of all ranks that have announced themselves.
    pub(super) fn all_incoming(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&*self.senders).flat_map(|(group, set)| {
            let mut set = set.load(SeqCst);
            std::iter::from_fn(move || {
                let bit = (set != 0).then(|| set.trailing_zeros())?;
                set &= set - 1;
                Some(group * 64 + bit)
            })
        })
    }

    /// Moves all messages that have come to the queues.
    pub(super) fn pull_from(&self, shared: &mut Shared, source: Option<u32>) -> Result<(), MessageError> {
        match source {
            Some(source) if source == self.rank => Ok(()),
            Some(source) => {
                while self.pull(shared, source)? {}
                Ok(())
            }
            None => self.all_incoming().try_for_each(|source| {
                while self.pull(shared, source)? {}
                Ok(())
            }),
        }
    }

    /// Moves a record to the queues. Returns whether there was one.
    pub(super) fn pull(&self, shared: &mut Shared, source: u32) -> Result<bool, MessageError> {
        let Some(memory) = self.incoming(source) else { return Ok(false) };
        let (ring, overwritten) = (memory.ring(), self.overwritten(source));
        let head = self.heads[source as usize].load(Relaxed);
        let stream = std::mem::take(&mut shared.streams[source as usize]);
        if matches!(stream, Stream::Direct) {
            shared.streams[source as usize] = stream;
            return Ok(false);
        }
        let Some(record) = ring.peek(head).map_err(&overwritten)? else {
            shared.streams[source as usize] = stream;
            return Ok(false);
        };
        let envelope = Envelope { context: record.context, source, tag: record.tag };
        let mut collected = match stream {
            Stream::Collected(collected) if record.kind == Kind::Next => collected,
            Stream::Idle => {
                let length = ring.length(head, record).map_err(&overwritten)?;
                let bytes = Vec::with_capacity(length.min(MOST_AHEAD) as usize);
                Collected { to: shared.direct(envelope, length), length, bytes }
            }
            _ => return Err(overwritten(Nonsense)),
        };
        let before = collected.bytes.len();
        let after = if record.kind == Kind::First { before } else { before + record.length };
        if after as u64 > collected.length {
            return Err(overwritten(Nonsense));
        }
        collected.bytes.resize(after, 0);
        if after > before {
            ring.read(head, &mut collected.bytes[before..]);
        }
        self.release(source, memory, record);
        if (after as u64) < collected.length {
            shared.streams[source as usize] = Stream::Collected(collected);
        } else {
            shared.complete(collected.to, envelope, collected.bytes);
        }
        self.stir();
        Ok(true)
    }

    /// Releases a record that was read.
    #[inline]
    pub(super) fn release(&self, source: u32, memory: &RingMemory, record: Record) {
        let mut head = self.heads[source as usize].load(Relaxed);
        let may_wake = memory.ring().release(&mut head, record);
        self.heads[source as usize].store(head, Release);
        if may_wake {
            Bell(self.memory.bell(source)).ring();
        }
    }

    /// Receives the next message that the pattern accepts, if it has come.
    pub(super) fn try_receive(
        &self,
        shared: &mut Shared,
        pattern: Pattern,
        buffer: &mut [u8],
        direct: &mut Option<Direct>,
    ) -> Result<Option<Received>, MessageError> {
        if let Some(direct) = direct {
            return self.continue_direct(shared, buffer, direct);
        }
        if let Some(received) = shared.take_early(pattern, buffer)? {
            return Ok(Some(received));
        }
        // A message that has begun to come is the next one.
        if shared.matching.find(pattern).is_some() {
            self.pull_from(shared, None)?;
            return shared.take_early(pattern, buffer);
        }
        match pattern.source {
            Some(source) => self.receive_from(shared, source, pattern, buffer, direct),
            None => {
                // Each sender is the first one in turn.
                let first = shared.first;
                let (before, after): (Vec<u32>, Vec<u32>) = self.all_incoming().partition(|&source| source < first);
                for source in after.into_iter().chain(before) {
                    let received = self.receive_from(shared, source, pattern, buffer, direct)?;
                    if received.is_some() || direct.is_some() {
                        shared.first = source + 1;
                        return Ok(received);
                    }
                }
                Ok(None)
            }
        }
    }

    pub(super) fn receive_from(
        &self,
        shared: &mut Shared,
        source: u32,
        pattern: Pattern,
        buffer: &mut [u8],
        direct: &mut Option<Direct>,
    ) -> Result<Option<Received>, MessageError> {
        loop {
            let Some(memory) = self.incoming(source).filter(|_| source != self.rank) else { return Ok(None) };
            let (ring, head) = (memory.ring(), self.heads[source as usize].load(Relaxed));
            let Some(record) = ring.peek(head).map_err(self.overwritten(source))? else { return Ok(None) };
            let envelope = Envelope { context: record.context, source, tag: record.tag };
            let begins = matches!(shared.streams[source as usize], Stream::Idle);
            let length = if begins { ring.length(head, record).map_err(self.overwritten(source))? } else { 0 };
            let is_mine = begins
                && pattern.accepts(envelope)
                && length <= buffer.len() as u64
                && !shared.matching.is_awaited(envelope);
            if !is_mine {
                if !self.pull(shared, source)? {
                    return Ok(None);
                }
                if let Some(received) = shared.take_early(pattern, buffer)? {
                    return Ok(Some(received));
                }
                continue;
            }
            let length = length as usize;
            if record.kind == Kind::Whole {
                ring.read(head, &mut buffer[..length]);
                self.release(source, memory, record);
                return Ok(Some(Received { envelope, length }));
            }
            self.release(source, memory, record);
            shared.streams[source as usize] = Stream::Direct;
            let direct = direct.insert(Direct { envelope, length, received: 0 });
            return self.continue_direct(shared, buffer, direct);
        }
    }

    pub(super) fn continue_direct(
        &self,
        shared: &mut Shared,
        buffer: &mut [u8],
        direct: &mut Direct,
    ) -> Result<Option<Received>, MessageError> {
        let source = direct.envelope.source;
        let overwritten = self.overwritten(source);
        let Some(memory) = self.incoming(source) else { return Err(overwritten(Nonsense)) };
        while direct.received < direct.length {
            let (ring, head) = (memory.ring(), self.heads[source as usize].load(Relaxed));
            let Some(record) = ring.peek(head).map_err(&overwritten)? else { return Ok(None) };
            let end = direct.received + record.length;
            if record.kind != Kind::Next || end > direct.length {
                return Err(overwritten(Nonsense));
            }
            ring.read(head, &mut buffer[direct.received..end]);
            self.release(source, memory, record);
            direct.received = end;
        }
        shared.streams[source as usize] = Stream::Idle;
        self.stir();
        Ok(Some(Received { envelope: direct.envelope, length: direct.length }))
    }
}
