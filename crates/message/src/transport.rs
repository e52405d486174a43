//! The transport: how records get from rank to rank, and how a rank learns that another one has
//! ended.
//!
//! All above it is the same for each transport: matching, requests, collective calls. A transport
//! carries records in order between each pair of ranks, and may have no room for more of them at
//! the moment. Shared memory is the one that every build has. Its rings need no system call, and a
//! rank can sleep until one of them changes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use policy::Instant;
use wait::process_slot::Claimant;

use crate::error::JoinError;
use crate::memory::{Memory, RingWords, WRITER_WORDS};
use crate::record::Header;
use crate::ring::{self, Nonsense};

/// What connects a rank with the others.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    /// Rings in memory that the ranks share. The claimant is this process, in the slot of the rank.
    Memory(Arc<Memory>, Claimant),
}

impl Transport {
    /// The calling process becomes this rank, once.
    pub(crate) fn claim(memory: Arc<Memory>, rank: u32) -> Result<Transport, JoinError> {
        if rank >= memory.ranks() {
            return Err(JoinError::NoSuchRank { rank, ranks: memory.ranks() });
        }
        let claimant = memory.own_process();
        if memory.process(rank).claim(claimant) {
            Ok(Transport::Memory(memory, claimant))
        } else {
            Err(JoinError::Joined { rank })
        }
    }

    pub(crate) fn ranks(&self) -> u32 {
        match self {
            Transport::Memory(memory, _) => memory.ranks(),
        }
    }

    /// The state of the waiting rule.
    pub(crate) fn team_state(&self) -> &AtomicU64 {
        match self {
            Transport::Memory(memory, _) => memory.team_state(),
        }
    }

    /// The ranks that have written to this one, as bits.
    #[inline]
    pub(crate) fn writers(&self, rank: u32) -> [u64; WRITER_WORDS] {
        match self {
            Transport::Memory(memory, _) => memory.writers(rank),
        }
    }

    /// The writer's end of the link between two ranks. To be called once.
    pub(crate) fn writer(&self, from: u32, to: u32) -> io::Result<Writer> {
        match self {
            Transport::Memory(memory, _) => memory.writer(from, to).map(Writer::Ring),
        }
    }

    /// The reader's end. To be called once.
    pub(crate) fn reader(&self, from: u32, to: u32) -> io::Result<Reader> {
        match self {
            Transport::Memory(memory, _) => memory.reader(from, to).map(Reader::Ring),
        }
    }

    /// The longest payload of a record.
    pub(crate) fn longest_payload(&self) -> usize {
        match self {
            Transport::Memory(memory, _) => memory.longest_payload(),
        }
    }

    /// The process id of a rank whose memory this process may read, as far as is known.
    pub(crate) fn pid(&self, rank: u32) -> Option<u32> {
        match self {
            Transport::Memory(memory, _) => memory.pid(rank),
        }
    }

    /// Wakes the threads of a rank that sleep, after a change.
    #[inline]
    pub(crate) fn ring(&self, rank: u32) {
        match self {
            Transport::Memory(memory, _) => memory.bell(rank).ring(),
        }
    }

    /// Sleeps until a change at this rank or the deadline, unless the awaited change `has_come`.
    /// May return early.
    pub(crate) fn sleep(&self, rank: u32, deadline: Option<Instant>, has_come: impl FnMut() -> bool) {
        match self {
            Transport::Memory(memory, _) => memory.bell(rank).sleep(deadline, has_come),
        }
    }

    /// The first rank that has died, with its process id.
    pub(crate) fn lost(&self) -> Option<(u32, u32)> {
        match self {
            Transport::Memory(memory, _) => memory.lost(),
        }
    }

    /// Whether a rank has left the job.
    pub(crate) fn has_left(&self, rank: u32) -> bool {
        match self {
            Transport::Memory(memory, _) => memory.process(rank).is_retired(),
        }
    }

    /// This rank leaves the job. Those that wait for it notice that.
    pub(crate) fn leave(&self, rank: u32) {
        match self {
            Transport::Memory(memory, claimant) => {
                memory.process(rank).retire(*claimant);
                (0..memory.ranks()).for_each(|other| memory.bell(other).ring());
            }
        }
    }

    /// This rank has died, although its process goes on.
    pub(crate) fn die(&self, rank: u32) {
        match self {
            Transport::Memory(memory, claimant) => memory.process(rank).abandon(*claimant),
        }
    }
}

/// The end of a link that one rank writes.
#[derive(Debug)]
pub(crate) enum Writer {
    Ring(ring::Writer<RingWords>),
}

impl Writer {
    /// Writes a record if there is room. Returns whether it did.
    #[inline]
    pub(crate) fn write(&mut self, header: Header, payload: &[u8]) -> Result<bool, Nonsense> {
        match self {
            Writer::Ring(ring) => ring.write(header, payload),
        }
    }

    /// Withdraws announced messages up to this number.
    pub(crate) fn withdraw(&self, number: u64) {
        match self {
            Writer::Ring(ring) => ring.withdraw(number),
        }
    }

    /// Whether the reader may be able to read the memory of this process.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Writer::Ring(_) => true,
        }
    }
}

/// The end of a link that one rank reads.
#[derive(Debug)]
pub(crate) enum Reader {
    Ring(ring::Reader<RingWords>),
}

impl Reader {
    /// The header of the next record, if it is there.
    #[inline]
    pub(crate) fn next(&self) -> Result<Option<Header>, Nonsense> {
        match self {
            Reader::Ring(ring) => ring.next(),
        }
    }

    /// Copies the beginning of the payload of the next record, which has this header.
    #[inline]
    pub(crate) fn copy(&self, header: &Header, to: &mut [u8]) {
        match self {
            Reader::Ring(ring) => ring.copy(header, to),
        }
    }

    /// Removes the next record, which has this header. Returns whether the writer is to be told
    /// that there is room.
    #[inline]
    pub(crate) fn remove(&mut self, header: &Header) -> bool {
        match self {
            Reader::Ring(ring) => ring.remove(header),
        }
    }

    /// Whether the writer has withdrawn this announced message. The caller has read its content.
    pub(crate) fn is_withdrawn(&self, number: u64) -> bool {
        match self {
            Reader::Ring(ring) => ring.is_withdrawn(number),
        }
    }
}
