//! Ranks on several machines: the same calls by an MPI library, with the cargo feature `mpi`.
//!
//! A launcher of that library starts the ranks, and each of them calls [`join`]. The communicator
//! is that of all other jobs, with the same calls.
//!
//! # How
//!
//! Each record that a ring would carry is a message of MPI. So MPI moves bytes, and the engine
//! decides which receive gets them, as everywhere. No call of MPI that is made here waits: records
//! are sent by `MPI_Isend`, found by `MPI_Improbe` and received by `MPI_Imrecv`. Values are
//! combined by the program's own closures, in the same order, so collective calls have the same
//! results to the bit.
//!
//! # Differences
//!
//! * **Waits poll.** MPI cannot wake a thread for a message, so a rule that would block yields
//!   instead. A rank that waits keeps its CPU busy if no other thread wants it. Out of its turn it
//!   sleeps as everywhere.
//! * **Dead ranks** are found by MPI: its launcher ends the job. Only a rank whose thread panics
//!   tells the others, who get an error.
//! * **Leaving** ends when all ranks have left, as `MPI_Finalize` does. It ends MPI, so a process
//!   joins once. MPI asks that the thread that has joined does that. If another library of the
//!   program has initialized MPI, it has to finalize it, too.
//! * **Windows** are for ranks on one machine: [`Communicator::window`] is an error otherwise.
//! * All ranks must have the same byte order, and there are at most 256.

use std::io;
use std::sync::Arc;

use wait::Waiting;

use crate::communicator::Communicator;
use crate::endpoint::Endpoint;
use crate::error::JoinError;
use crate::memory::MOST_RANKS;
use crate::transport::Transport;

pub(crate) mod job;
#[allow(unsafe_code)]
mod library;

use job::Job;
use library::Library;

/// The number of a rank, as launchers tell it: those of Open MPI, of MPICH and its relatives, and
/// all that serve PMIx.
const LAUNCHERS: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];

/// Whether a launcher of MPI has started this process, as far as is known: one that says so in a
/// way of its own is not.
pub(crate) fn is_launched() -> bool {
    LAUNCHERS.iter().any(|variable| std::env::var_os(variable).is_some())
}

/// Joins the job of the launcher of MPI that has started this process. All its processes must call
/// this. Without a launcher, it is a job of one rank.
///
/// # Errors
/// If this process has joined before, if the job has too many ranks, or if MPI fails.
pub fn join(waiting: Waiting) -> Result<Communicator, JoinError> {
    let library = Library::join().map_err(|why| JoinError::system("join by MPI")(io::Error::other(why)))?;
    let (rank, ranks) = (library.rank, library.ranks);
    if ranks > MOST_RANKS {
        return Err(JoinError::Ranks { ranks });
    }
    Ok(Communicator::world(Endpoint::new(Transport::Mpi(Arc::new(Job::new(library))), rank, waiting)))
}
