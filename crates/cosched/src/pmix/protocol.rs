//! The messages of a job and its server, as lines of JSON: the job gives one order, and then the
//! number of each rank that has ended. The server makes reports.

use std::ffi::OsString;
use std::io;

use pmix::Event;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest line of an order.
pub(super) const LONGEST_ORDER: u64 = 1 << 20;

/// Names and values of the variables of a rank.
pub(super) type Variables = Vec<(OsString, OsString)>;

/// The job to serve.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Its name, which only its ranks know.
    pub(super) name: String,
    /// The application of each rank.
    pub(super) applications: Vec<u32>,
    /// The folder for all files.
    pub(super) folder: OsString,
}

/// A message of the server.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Report {
    /// First: it serves, and these are the variables of each rank.
    Ready(Vec<Variables>),
    /// Or it does not serve, and this is why.
    Failed(String),
    /// Or there is no library, and this says which one is needed.
    NoLibrary(String),
    /// Then all that happens.
    Event(Event),
}

/// A line with a message.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    // These types have no keys that are no strings, so this cannot fail.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The message of a line.
///
/// # Errors
/// If there is none.
pub(super) fn parse<Message: DeserializeOwned>(line: &[u8]) -> io::Result<Message> {
    serde_json::from_slice(line).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
}
