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

use crate::error::{Error, JoinError};
use crate::memory::{Memory, RingWords};
#[cfg(feature = "mpi")]
use crate::mpi::job::{Job, LONGEST, Link};
use crate::record::Header;
use crate::ring::{self, Nonsense};

/// The connection of a rank with the others.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    /// Rings in memory that the ranks share. The claimant is this process, in the slot of the rank.
    Memory(Arc<Memory>, Claimant),
    /// An MPI library, for ranks on several machines.
    #[cfg(feature = "mpi")]
    Mpi(Arc<Job>),
}

impl Transport {
    /// The calling process becomes this rank, once.
    pub(crate) fn claim(memory: Arc<Memory>, rank: u32) -> Result<Transport, JoinError> {
        if rank >= memory.roster.ranks() {
            return Err(JoinError::NoSuchRank { rank, ranks: memory.roster.ranks() });
        }
        let claimant = memory.roster.own_process();
        if memory.roster.process(rank).claim(claimant) {
            Ok(Transport::Memory(memory, claimant))
        } else {
            Err(JoinError::Joined { rank })
        }
    }

    pub(crate) fn ranks(&self) -> u32 {
        match self {
            Transport::Memory(memory, _) => memory.roster.ranks(),
            #[cfg(feature = "mpi")]
            Transport::Mpi(job) => job.ranks(),
        }
    }

    /// The state of the waiting rule.
    pub(crate) fn team_state(&self) -> &AtomicU64 {
        match self {
            Transport::Memory(memory, _) => memory.team_state(),
            #[cfg(feature = "mpi")]
            Transport::Mpi(job) => &job.team_state,
        }
    }

    /// Takes what has arrived, if that takes a call.
    #[inline]
    pub(crate) fn poll(&self) -> Result<(), Error> {
        match self {
            Transport::Memory(..) => Ok(()),
            #[cfg(feature = "mpi")]
            Transport::Mpi(job) => job.poll(),
        }
    }

    /// Which of 64 ranks have written to this one, as bits.
    #[inline]
    pub(crate) fn writers(&self, rank: u32, word: usize) -> u64 {
        match self {
            Transport::Memory(memory, _) => memory.writers(rank).word(word),
            #[cfg(feature = "mpi")]
            Transport::Mpi(job) => job.writers(word),
        }
    }

    /// The writer's end of the link between two ranks. To be called once.
    pub(crate) fn writer(&self, from: u32, to: u32) -> io::Result<Writer> {
        match self {
            Transport::Memory(memory, _) => memory.writer(from, to).map(Writer::Ring),
            #[cfg(feature = "mpi")]
            Transport::Mpi(job) => Ok(Writer::Mpi(job.link(to))),
        }
    }

    /// The reader's end. To be called once.
    pub(crate) fn reader(&self, from: u32, to: u32) -> io::Result<Reader> {
        match self {
            Transport::Memory(memory, _) => memory.reader(from, to).map(Reader::Ring),
            #[cfg(feature = "mpi")]
            Transport::Mpi(job) => Ok(Reader::Mpi(job.link(from))),
        }
    }

    /// The longest payload of a record.
    pub(crate) fn longest_payload(&self) -> usize {
        match self {
            Transport::Memory(memory, _) => memory.longest_payload(),
            #[cfg(feature = "mpi")]
            Transport::Mpi(_) => LONGEST,
        }
    }

    /// The process id of a rank whose memory this process may read, as far as is known.
    pub(crate) fn pid(&self, rank: u32) -> Option<u32> {
        match self {
            Transport::Memory(memory, _) => memory.roster.pid(rank),
            #[cfg(feature = "mpi")]
            Transport::Mpi(_) => None,
        }
    }

    /// Wakes the threads of a rank that sleep, after a change.
    #[inline]
    pub(crate) fn ring(&self, rank: u32) {
        match self {
            Transport::Memory(memory, _) => memory.bell(rank).ring(),
            #[cfg(feature = "mpi")]
            Transport::Mpi(_) => {}
        }
    }

    /// Sleeps until a change at this rank or the deadline, unless the awaited change `has_come`.
    /// May return early.
    pub(crate) fn sleep(&self, rank: u32, deadline: Option<Instant>, has_come: impl FnMut() -> bool) {
        match self {
            Transport::Memory(memory, _) => memory.bell(rank).sleep(deadline, has_come),
            #[cfg(feature = "mpi")]
            Transport::Mpi(_) => yield_until(deadline, has_come),
        }
    }

    /// The first rank that has died, with its process id.
    pub(crate) fn lost(&self) -> Option<(u32, u32)> {
        match self {
            Transport::Memory(memory, _) => memory.roster.lost(),
            #[cfg(feature = "mpi")]
            Transport::Mpi(job) => job.lost(),
        }
    }

    /// Whether a rank has left the job.
    pub(crate) fn has_left(&self, rank: u32) -> bool {
        match self {
            Transport::Memory(memory, _) => memory.roster.process(rank).is_retired(),
            #[cfg(feature = "mpi")]
            Transport::Mpi(job) => job.has_left(rank),
        }
    }

    /// This rank leaves the job. Those that wait for it notice that.
    pub(crate) fn leave(&self, rank: u32) {
        match self {
            Transport::Memory(memory, claimant) => {
                memory.roster.process(rank).retire(*claimant);
                (0..memory.roster.ranks()).for_each(|other| memory.bell(other).ring());
            }
            #[cfg(feature = "mpi")]
            Transport::Mpi(job) => job.leave(),
        }
    }

    /// This rank has died, although its process goes on.
    pub(crate) fn die(&self, rank: u32) {
        match self {
            Transport::Memory(memory, claimant) => memory.roster.process(rank).abandon(*claimant),
            #[cfg(feature = "mpi")]
            Transport::Mpi(job) => job.die(),
        }
    }
}

/// Stands for a sleep where a rank cannot sleep: gives its CPU to other threads, if there are any.
#[cfg(feature = "mpi")]
fn yield_until(deadline: Option<Instant>, mut has_come: impl FnMut() -> bool) {
    while !has_come() && deadline.is_none_or(|deadline| wait::now() < deadline) {
        std::thread::yield_now();
    }
}

/// The end of a link that one rank writes.
#[derive(Debug)]
pub(crate) enum Writer {
    Ring(ring::Writer<RingWords>),
    #[cfg(feature = "mpi")]
    Mpi(Link),
}

impl Writer {
    /// Writes a record if there is room. Returns whether it did.
    #[inline]
    pub(crate) fn write(&mut self, header: Header, payload: &[u8]) -> Result<bool, Nonsense> {
        match self {
            Writer::Ring(ring) => ring.write(header, payload),
            #[cfg(feature = "mpi")]
            Writer::Mpi(link) => Ok(link.write(&header, payload)),
        }
    }

    /// Withdraws announced messages up to this number.
    pub(crate) fn withdraw(&self, number: u64) {
        match self {
            Writer::Ring(ring) => ring.withdraw(number),
            #[cfg(feature = "mpi")]
            Writer::Mpi(link) => link.withdraw(number),
        }
    }

    /// Whether the reader may be able to read the memory of this process.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Writer::Ring(_) => true,
            #[cfg(feature = "mpi")]
            Writer::Mpi(_) => false,
        }
    }
}

/// The end of a link that one rank reads.
#[derive(Debug)]
pub(crate) enum Reader {
    Ring(ring::Reader<RingWords>),
    #[cfg(feature = "mpi")]
    Mpi(Link),
}

impl Reader {
    /// The header of the next record, if it is there.
    #[inline]
    pub(crate) fn next(&self) -> Result<Option<Header>, Nonsense> {
        match self {
            Reader::Ring(ring) => ring.next(),
            #[cfg(feature = "mpi")]
            Reader::Mpi(link) => link.next(),
        }
    }

    /// Copies the beginning of the payload of the next record, which has this header.
    #[inline]
    pub(crate) fn copy(&self, header: &Header, to: &mut [u8]) {
        match self {
            Reader::Ring(ring) => ring.copy(header, to),
            #[cfg(feature = "mpi")]
            Reader::Mpi(link) => link.copy(to),
        }
    }

    /// Removes the next record, which has this header. Returns whether the writer is to be told
    /// that there is room.
    #[inline]
    pub(crate) fn remove(&mut self, header: &Header) -> bool {
        match self {
            Reader::Ring(ring) => ring.remove(header),
            #[cfg(feature = "mpi")]
            Reader::Mpi(link) => {
                link.remove();
                false
            }
        }
    }

    /// Whether the writer has withdrawn this announced message. The caller has read its content.
    pub(crate) fn is_withdrawn(&self, number: u64) -> bool {
        match self {
            Reader::Ring(ring) => ring.is_withdrawn(number),
            #[cfg(feature = "mpi")]
            Reader::Mpi(link) => link.is_withdrawn(number),
        }
    }
}
