//! Events: a server learns of them from its ranks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that a rank has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// It has asked for the end of the job, as by `MPI_Abort`.
    Abort {
        /// The rank.
        rank: u32,
        /// The exit code that it has asked for.
        code: i32,
        /// Its message, which may be empty.
        message: String,
    },
    /// It has called for what is refused here. The call has failed.
    Refused {
        /// The rank.
        rank: u32,
        /// The call.
        call: Call,
    },
    /// It has ended without a connection, and another one is connected, and does not expect that.
    Missing {
        /// The rank that has ended.
        rank: u32,
        /// A rank that is connected.
        waiting: u32,
    },
    /// Its connection has ended before it has said that it is done, as by `MPI_Finalize`. Most
    /// likely it has ended; others may wait for it for ever.
    Lost {
        /// The rank.
        rank: u32,
    },
}

/// Calls that are refused: they need more than one job that stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Call {
    /// It starts further processes (`MPI_Comm_spawn`).
    Spawn,
    /// It makes a name known to other jobs (`MPI_Publish_name`).
    Publish,
    /// It looks up such a name (`MPI_Lookup_name`).
    Lookup,
    /// It takes such a name back (`MPI_Unpublish_name`).
    Unpublish,
    /// It joins another job (`MPI_Comm_connect`, `MPI_Comm_accept`).
    Connect,
    /// It leaves another job (`MPI_Comm_disconnect`).
    Disconnect,
}

impl fmt::Display for Call {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Call::Spawn => "MPI_Comm_spawn",
            // The second and the third begin with a call of the first kind.
            Call::Publish => "MPI_Publish_name, MPI_Comm_accept or MPI_Comm_connect",
            Call::Lookup => "MPI_Lookup_name",
            Call::Unpublish => "MPI_Unpublish_name",
            Call::Connect => "MPI_Comm_connect or MPI_Comm_accept",
            Call::Disconnect => "MPI_Comm_disconnect",
        })
    }
}
