//! The keys of the `[coscheduling]` table.

use super::KeyDefault::Is;
use super::{GANGS, Key, MOVEMENTS, PARTITIONERS, Value, count};
use policy::turn::LONGEST_ROUND;

use crate::coscheduling::Reschedule;

keys! {
    HOW = "how", Value::OneOf(&GANGS), Is("adaptive"), r#""moderate""#, "what happens to jobs that are not active";
    SLICE = "slice", Value::Time, Is("50 ms"), r#""200 ms""#, "how long a slice is active";
    PARTITION = "partition", Value::OneOf(&PARTITIONERS), Is("adaptive-scan"), r#""best-fit""#,
        "the algorithm that finds cells for a job";
    MOVE = "move", Value::OneOf(&MOVEMENTS), Is("never"), r#""within-node""#,
        "whether a job may have other cells in another slice";
    MOST_SLICES = "most_slices", count(1, LONGEST_ROUND), Is("no limit"), "2",
        "the most slices; jobs that would need more wait until others end, in order of arrival";
    LOWER = "lower", Value::Lowering, Is("nice 15"), r#""weight 2""#,
        "how jobs that are not active are lowered: their nice value is larger by this, or their group has this weight, where an active job has 1024";
    CLOCK_SKEW = "clock_skew", Value::Span, Is("0 ns"), r#""1 ms""#,
        "the standard deviation of the clocks of the cells";
    RESCHEDULE = "reschedule", Value::OneOf(&Reschedule::NAMES), Is("boundary"), r#""tick""#,
        "when a cell looks whose turn it is: at the boundary of a slice, or at the next tick or choice of a thread after it";
    CREATE = "create", Value::Span, Is("0 ns"), r#""60 ms""#,
        "the time to create a job; jobs are created one after another";
    START = "start", Value::Span, Is("0 ns"), r#""700 ms""#,
        "the time that each thread of a job computes before its work, to load its program";
    SWITCH_COST = "switch_cost", Value::Span, Is("0 ns"), r#""0.27 ms""#,
        "the time that a cell takes to switch to another job, besides the context switch";
    SWITCH_COST_PER_JOB = "switch_cost_per_job", Value::Span, Is("0 ns"), r#""17 us""#,
        "further time for each job that the cell has";
}

/// All keys.
pub const ALL: &[Key] = &[
    HOW,
    SLICE,
    PARTITION,
    MOVE,
    MOST_SLICES,
    LOWER,
    CLOCK_SKEW,
    RESCHEDULE,
    CREATE,
    START,
    SWITCH_COST,
    SWITCH_COST_PER_JOB,
];
