//! Errors. Each names the rank that it is about.

use std::fmt;
use std::io;

/// The reason why a message could not be sent or received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such rank.
    #[error("there is no rank {rank}: the communicator has {}, counted from 0", Count((*ranks).into(), "rank"))]
    NoSuchRank {
        /// The number that was given.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// The message does not fit. It is kept: a call with a longer buffer receives it.
    #[error(
        "the message of {} from rank {rank} with tag {tag} does not fit into a buffer of {}: \
         receive it with a longer one",
        Count(*length, "byte"),
        Count(*room, "byte")
    )]
    TooShort {
        /// The sender.
        rank: u32,
        /// The tag of the message.
        tag: u32,
        /// The length of the message in bytes.
        length: u64,
        /// The length of the buffer in bytes.
        room: u64,
    },
    /// The message is no whole number of values of the type. It is kept, as above.
    #[error(
        "the message of {} from rank {rank} with tag {tag} is no sequence of values of {}: \
         receive it as the type that was sent",
        Count(*length, "byte"),
        Count(*size, "byte")
    )]
    OtherType {
        /// The sender.
        rank: u32,
        /// The tag of the message.
        tag: u32,
        /// The length of the message in bytes.
        length: u64,
        /// The size of the values to be received.
        size: u64,
    },
    /// A part of a collective call has another length at another rank.
    #[error("rank {rank} takes part with {}, and this rank expects {expected} from it", Count(*found, "value"))]
    OtherLength {
        /// The other rank.
        rank: u32,
        /// The number of its values.
        found: u64,
        /// The number that was expected.
        expected: u64,
    },
    /// A part of a collective call is no whole number of values of the type at this rank.
    #[error(
        "rank {rank} takes part with {}, and this rank expects values of {} from it",
        Count(*length, "byte"),
        Count(*size, "byte")
    )]
    OtherValues {
        /// The other rank.
        rank: u32,
        /// The length of its part in bytes.
        length: u64,
        /// The size of the values that were expected.
        size: u64,
    },
    /// The buffers of a collective call do not fit together.
    #[error("rank {rank} takes part with a buffer of {}, and needs {expected}", Count(*found, "value"))]
    WrongLength {
        /// The calling rank.
        rank: u32,
        /// The length of its buffer.
        found: u64,
        /// The necessary length.
        expected: u64,
    },
    /// A rank has died, or was dropped by a thread that panicked.
    #[error("rank {rank} has died (process {pid}), and the wait may have been for it")]
    Lost {
        /// The first such rank, among all of the job.
        rank: u32,
        /// Its process id.
        pid: u32,
    },
    /// The awaited rank has left the job. If any rank was awaited, this is one of them, and all
    /// others have left as well.
    #[error("rank {rank} has left the job, so it neither sends nor receives what is waited for")]
    Left {
        /// The rank.
        rank: u32,
    },
    /// The sender has given up before all of the message had arrived.
    #[error("rank {rank} has given up sending a message of {} with tag {tag}", Count(*length, "byte"))]
    Withdrawn {
        /// The sender.
        rank: u32,
        /// The tag of the message.
        tag: u32,
        /// The length of the message in bytes.
        length: u64,
    },
    /// This message was withdrawn because another one to the same rank has failed.
    #[error("the message to rank {rank} was given up, because another one to it has failed")]
    GivenUp {
        /// The receiver.
        rank: u32,
    },
    /// A link, in shared memory or by MPI, carries what no rank writes.
    #[error("the link between this rank and rank {rank} is damaged: {what}")]
    Damaged {
        /// The other rank.
        rank: u32,
        /// The problem, as a clause.
        what: &'static str,
    },
    /// The system refused memory for messages, or MPI has failed.
    #[error("cannot exchange messages with rank {rank}: {why}")]
    System {
        /// The other rank, or the calling one.
        rank: u32,
        /// The reason, as the system or MPI says it.
        why: String,
    },
    /// A window cannot be had.
    #[error("rank {rank} cannot register memory: {why}")]
    Window {
        /// The rank whose memory it is.
        rank: u32,
        /// The reason.
        why: String,
    },
    /// The words are not within the memory that a rank has registered.
    #[error("the words up to {end} are beyond the memory that rank {rank} has registered, which has {length}")]
    BeyondWindow {
        /// The rank whose memory it is.
        rank: u32,
        /// The place behind the last word.
        end: u64,
        /// The number of words.
        length: u64,
    },
    /// All contexts that this rank may choose are used.
    #[error("rank {rank} has chosen contexts for all communicators that it can: use communicators again")]
    Contexts {
        /// The rank.
        rank: u32,
    },
}

impl Error {
    /// A function that makes an error of the system one about a rank.
    pub(crate) fn system(rank: u32) -> impl FnOnce(io::Error) -> Error {
        move |why| Error::System { rank, why: why.to_string() }
    }

    /// A function that makes an error of the system one about the window of a rank.
    pub(crate) fn window(rank: u32) -> impl FnOnce(io::Error) -> Error {
        move |why| Error::Window { rank, why: why.to_string() }
    }
}

/// A number of things, such as "1 byte" or "2 bytes".
pub(crate) struct Count(pub(crate) u64, pub(crate) &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count(number, noun) = self;
        write!(f, "{number} {noun}{}", if *number == 1 { "" } else { "s" })
    }
}

/// The reason why a rank could not join its job.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A variable of the environment is missing or is nonsense.
    #[error("{variable} is {found}: start the program by `rowlock prun`, or join by a name and a number")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// `not set`, or its value.
        found: String,
    },
    /// The number of ranks is out of range.
    #[error("only jobs of 1 to {} ranks can exchange messages: this one has {ranks}", crate::memory::MOST_RANKS)]
    Ranks {
        /// The number that was given.
        ranks: u32,
    },
    /// The rank is not one of the job.
    #[error("there is no rank {rank}: ranks are counted from 0, and their number is {ranks}")]
    NoSuchRank {
        /// The number that was given.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// The memory is for another number of ranks.
    #[error("the number of ranks is {expected} at rank {rank}, and {found} in the shared memory")]
    OtherRanks {
        /// The rank that wants to join.
        rank: u32,
        /// The number that it expects.
        expected: u32,
        /// The number in the memory.
        found: u32,
    },
    /// The rank has joined before: a rank joins once.
    #[error("rank {rank} has joined this job already: each rank joins once, in one process")]
    Joined {
        /// The rank.
        rank: u32,
    },
    /// The file was not created by this library.
    #[error("this is not the shared memory of a job: {why}")]
    Foreign {
        /// The reason.
        why: &'static str,
    },
    /// The file was created by another version of this library.
    #[error("the shared memory has version {found} of the layout, and this program knows {known}: rebuild one of them")]
    Version {
        /// The version of the file.
        found: u64,
        /// The version of this library.
        known: u64,
    },
    /// The file's length contradicts its header.
    #[error(
        "the shared memory should have {} and has {found}: it has been cut off or overwritten",
        Count(*expected, "byte")
    )]
    Length {
        /// The length by the header.
        expected: u64,
        /// The file's length.
        found: u64,
    },
    /// A system call failed.
    #[error("cannot {doing}: {why}")]
    System {
        /// The attempted action.
        doing: String,
        /// The error of the system call.
        #[source]
        why: io::Error,
    },
}

impl JoinError {
    pub(crate) const TOO_SHORT: JoinError = JoinError::Foreign { why: "it is too short" };
    pub(crate) const NONSENSE: JoinError = JoinError::Foreign { why: "its header says nonsense" };

    /// A function that makes an error of the system one of this action.
    pub(crate) fn system(doing: impl Into<String>) -> impl Fn(io::Error) -> JoinError {
        let doing = doing.into();
        move |why| JoinError::System { doing: doing.clone(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_in_texts() {
        let too_short = Error::TooShort { rank: 1, tag: 4, length: 2, room: 1 }.to_string();
        assert!(
            too_short
                .starts_with("the message of 2 bytes from rank 1 with tag 4 does not fit into a buffer of 1 byte:")
        );
        let other = |found| Error::OtherLength { rank: 1, found, expected: 3 }.to_string();
        assert_eq!(other(1), "rank 1 takes part with 1 value, and this rank expects 3 from it");
        assert_eq!(other(0), "rank 1 takes part with 0 values, and this rank expects 3 from it");
    }
}
