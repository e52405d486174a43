//! The keys of a table in `stages`.

use super::KeyDefault::{Is, Required};
use super::{Key, MOST_THREADS, STAGE_KINDS, Value, count};

keys! {
    NAME = "name", Value::Name, Required, r#""read""#, "the name, unique among the stages of a job";
    KIND = "kind", Value::OneOf(&STAGE_KINDS), Required, r#""io""#, "the kind of its work; all but `compute` may block";
    COMPUTE = "compute", Value::Compute, Is("none; required for `compute`"), r#""20 us""#,
        "the time that it computes with each buffer";
    DEVICE = "device", Value::Compute, Is("required except for `compute`, which has none"),
        r#"{ mean = "1 ms", sd = "0.2 ms" }"#, "the time that the device then takes, or for `communicate` a message";
    FORK = "fork", count(1, MOST_THREADS), Is("1"), "4", "the number of copies that run in parallel";
    NICE = "nice", Value::Nice, Is("0"), "5", "its nice value; 0 means that of the job";
}

/// All keys.
pub const ALL: &[Key] = &[NAME, KIND, COMPUTE, DEVICE, FORK, NICE];
