//! A table of `stages`.

use super::{Key, KeyDefault, MOST_THREADS, STAGE_KINDS, Value, count, key, required};

/// `name`
pub const NAME: Key = required("name", Value::Name, "\"read\"", "its name; no two stages of a job have the same");
/// `kind`
pub const KIND: Key =
    required("kind", Value::OneOf(&STAGE_KINDS), "\"io\"", "what it mostly does; all but `compute` may block");
/// `compute`
pub const COMPUTE: Key = key(
    "compute",
    Value::Compute,
    KeyDefault::Is("none; required for `compute`"),
    "\"20 us\"",
    "the time that it computes with each buffer",
);
/// `device`
pub const DEVICE: Key = key(
    "device",
    Value::Compute,
    KeyDefault::Is("required but for `compute`, which has none"),
    "{ mean = \"1 ms\", sd = \"0.2 ms\" }",
    "the time that the device then takes, or for `communicate` a message on its way",
);
/// `fork`
pub const FORK: Key =
    key("fork", count(1, MOST_THREADS), KeyDefault::Is("1"), "4", "how many copies of it work at once");
/// `nice`
pub const NICE: Key =
    key("nice", Value::Nice, KeyDefault::Is("0"), "5", "its nice value; with 0 it has that of the job");

/// All of them.
pub const ALL: &[Key] = &[NAME, KIND, COMPUTE, DEVICE, FORK, NICE];
