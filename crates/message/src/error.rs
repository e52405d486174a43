//! The errors of messages.

use std::io;

/// Why ranks cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A variable of `rowlock prun` is missing or cannot be read.
    #[error("{name} {problem}: start the ranks by `rowlock prun -n N -- PROGRAM`, or join them by a name")]
    Environment {
        /// The variable.
        name: &'static str,
        /// A clause about it.
        problem: &'static str,
    },
    /// There are more ranks than memory is laid out for, or none.
    #[error("there can be 1 to {most} ranks, not {ranks}", most = crate::MOST_RANKS)]
    Ranks {
        /// Their number.
        ranks: u32,
    },
    /// There is no such rank.
    #[error("rank {rank} does not exist: there are {ranks}")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// How many there are.
        ranks: u32,
    },
    /// The rank has joined before.
    #[error("rank {rank} has joined already: each number belongs to one process")]
    Taken {
        /// The rank.
        rank: u32,
    },
    /// The memory has another number of ranks.
    #[error("these ranks are {found}, not {expected}")]
    OtherRanks {
        /// The number in the memory.
        found: u32,
        /// The number that was asked for.
        expected: u32,
    },
    /// The file is no memory of ranks, or one of another version.
    #[error("{0}: rebuild all ranks with one version of rowlock, or choose another name")]
    Foreign(&'static str),
    /// A system call failed.
    #[error("cannot {doing}: {why}")]
    System {
        /// The attempted action.
        doing: &'static str,
        /// The error of the system call.
        #[source]
        why: io::Error,
    },
}

/// Why a message was not sent or received. Ranks are those of the communicator.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// There is no such rank.
    #[error("rank {rank} does not exist: this communicator has {ranks}")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// How many there are.
        ranks: u32,
    },
    /// The process of a rank has ended without leaving, so nothing more can be expected of the job.
    #[error("rank {rank} of the job has ended")]
    Lost {
        /// The rank in the whole job.
        rank: u32,
    },
    /// The rank has left: it receives no message, and will send none.
    #[error("rank {rank} of the job has left")]
    Left {
        /// The rank in the whole job.
        rank: u32,
    },
    /// The message is longer than the buffer. It is kept, and can be received into a longer one.
    #[error("the message of rank {rank} has {length} bytes, and there is room for {room}")]
    TooLong {
        /// The sender.
        rank: u32,
        /// The length of the message, in bytes.
        length: u64,
        /// The length of the buffer, in bytes.
        room: u64,
    },
    /// The message is not a whole number of elements.
    #[error("the message of rank {rank} has {length} bytes, which is no whole number of elements")]
    OtherType {
        /// The sender.
        rank: u32,
        /// The length of the message, in bytes.
        length: u64,
    },
    /// Another process has overwritten the memory of a rank.
    #[error("the memory of rank {rank} of the job was overwritten")]
    Overwritten {
        /// The rank in the whole job.
        rank: u32,
    },
    /// The arguments of ranks in a collective call do not fit together.
    #[error("{0}")]
    Mismatch(&'static str),
    /// This process is the child of a fork. Only its parent is a rank.
    #[error("a child of a rank cannot use its messages")]
    Forked,
    /// There is no memory for messages to this rank.
    #[error("there is no memory for messages to rank {rank} of the job: {why}")]
    Memory {
        /// The rank in the whole job.
        rank: u32,
        /// The error of the system.
        #[source]
        why: io::Error,
    },
}
