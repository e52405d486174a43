//! The keys of a table in `groups`.

use super::KeyDefault::{Is, Required};
use super::{Key, MOST_BURSTS, MOST_THREADS, Value, count};

keys! {
    NAME = "name", Value::Name, Required, r#""batch""#, "the name, unique among the groups of a job";
    FIBERS = "fibers", count(1, MOST_THREADS), Required, "2000", "the number of fibers";
    COMPUTE = "compute", Value::Compute, Required, r#"{ mean = "20 us", sd = "5 us" }"#,
        "the time that a fiber computes in a burst";
    BURSTS = "bursts", count(1, MOST_BURSTS), Is("1"), "100", "the number of bursts of each fiber";
    CRITICAL = "critical", Value::Compute, Is("none: it uses no lock"), r#""200 ns""#,
        "the time that it then computes while it holds its lock";
    CHECKPOINT = "checkpoint", Value::Time, Is("never"), r#""10 us""#,
        "how long it computes before it checks whether its running time is used up";
    THINK = "think", Value::Compute, Is("none: it yields"), r#"{ distribution = "exponential", mean = "1 ms" }"#,
        "how long it sleeps between two bursts";
    JOIN_EVERY = "join_every", count(1, MOST_THREADS), Is("none"), "16",
        "every N-th of them joins the previous one after its own bursts";
}

/// All keys.
pub const ALL: &[Key] = &[NAME, FIBERS, COMPUTE, BURSTS, CRITICAL, CHECKPOINT, THINK, JOIN_EVERY];
