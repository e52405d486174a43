//! The keys of a table in `stages`.

use super::{Key, KeyDefault, MOST_THREADS, STAGE_KINDS, Value, count, key, required};

/// `name`
pub const NAME: Key = required("name", Value::Name, "\"read\"", "the name, unique among the stages of a job");
/// `kind`
pub const KIND: Key =
    required("kind", Value::OneOf(&STAGE_KINDS), "\"io\"", "the kind of its work; all but `compute` may block");
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
    KeyDefault::Is("required except for `compute`, which has none"),
    "{ mean = \"1 ms\", sd = \"0.2 ms\" }",
    "the time that the device then takes, or for `communicate` a message",
);
/// `fork`
pub const FORK: Key =
    key("fork", count(1, MOST_THREADS), KeyDefault::Is("1"), "4", "the number of copies that run in parallel");
/// `nice`
pub const NICE: Key = key("nice", Value::Nice, KeyDefault::Is("0"), "5", "its nice value; 0 means that of the job");

/// All keys.
pub const ALL: &[Key] = &[NAME, KIND, COMPUTE, DEVICE, FORK, NICE];
