//! What was run, on what.

use serde::{Deserialize, Serialize};

/// What was run, on what: runs are pooled only where it is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The version of rowlock.
    pub rowlock_version: String,
    /// The machine.
    pub machine: host::Machine,
    /// How many bytes the compute-bound program sorts; the I/O-bound one twice as many.
    pub size: u64,
    /// Bytes of a record.
    pub record: u64,
    /// Bytes of its key, with which it begins.
    pub key: u64,
    /// Bytes of memory for each sort.
    pub memory: u64,
    /// The seed of the input.
    pub seed: u64,
    /// What was evicted before each run.
    pub evicted: String,
    /// How many bytes a second the I/O-bound program may read, and as many write; nothing where it was not throttled.
    pub rate: Option<u64>,
}
