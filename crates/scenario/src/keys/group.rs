//! The keys of a table in `groups`.

use super::{Key, KeyDefault, MOST_BURSTS, MOST_THREADS, Value, count, key, required};

/// `name`
pub const NAME: Key = required("name", Value::Name, "\"batch\"", "the name, unique among the groups of a job");
/// `fibers`
pub const FIBERS: Key = required("fibers", count(1, MOST_THREADS), "2000", "the number of fibers");
/// `compute`
pub const COMPUTE: Key = required(
    "compute",
    Value::Compute,
    "{ mean = \"20 us\", sd = \"5 us\" }",
    "the time that a fiber computes in a burst",
);
/// `bursts`
pub const BURSTS: Key =
    key("bursts", count(1, MOST_BURSTS), KeyDefault::Is("1"), "100", "the number of bursts of each fiber");
/// `critical`
pub const CRITICAL: Key = key(
    "critical",
    Value::Compute,
    KeyDefault::Is("none: it uses no lock"),
    "\"200 ns\"",
    "the time that it then computes while it holds its lock",
);
/// `checkpoint`
pub const CHECKPOINT: Key = key(
    "checkpoint",
    Value::Time,
    KeyDefault::Is("never"),
    "\"10 us\"",
    "how long it computes before it checks whether its running time is used up",
);
/// `think`
pub const THINK: Key = key(
    "think",
    Value::Compute,
    KeyDefault::Is("none: it yields"),
    "{ distribution = \"exponential\", mean = \"1 ms\" }",
    "how long it sleeps between two bursts",
);
/// `join_every`
pub const JOIN_EVERY: Key = key(
    "join_every",
    count(1, MOST_THREADS),
    KeyDefault::Is("none"),
    "16",
    "every N-th of them joins the previous one after its own bursts",
);

/// All keys.
pub const ALL: &[Key] = &[NAME, FIBERS, COMPUTE, BURSTS, CRITICAL, CHECKPOINT, THINK, JOIN_EVERY];
