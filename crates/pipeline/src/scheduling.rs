//! Requested and effective scheduling of a stage's thread.
//!
//! Nothing here fails. If the kernel refuses a request, the report names the missing permission,
//! and the stage runs without it. So a program can request everything that would help, and gets
//! what its user is allowed.
//!
//! Requests are written as in a [structure](crate::structure), without the name of the stage:
//!
//! ```
//! # use rowlock_pipeline as pipeline;
//! use pipeline::scheduling::{Policy, Scheduling};
//!
//! let requested: Scheduling = "policy=batch slice=3ms affinity=0-1+3 yield".parse()?;
//! assert_eq!((requested.policy, requested.nice), (Some(Policy::Batch), None));
//! assert_eq!(requested.affinity, Some(vec![0, 1, 3]));
//! assert_eq!(requested.to_string(), "policy=batch slice=3ms affinity=0-1+3 yield");
//! # Ok::<(), pipeline::scheduling::SchedulingParseError>(())
//! ```

mod effective;
mod read;

use std::fmt;
use std::time::Duration;

use policy::Span;
use policy::priority::StagePriority;
use sys::scheduling::{Thread, attributes, set_affinity, set_clamp, set_io_priority, set_nice, set_policy, set_slice};

use crate::interval::span;

pub use self::effective::{EffectiveAttribute, SchedulingOutcome, add_if_new};
pub use self::read::SchedulingParseError;
pub use sys::scheduling::{Clamp, IoPriority, Policy};

/// The requested scheduling of a stage. Attributes that are not requested do not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scheduling {
    /// Its nice value, from -20 (highest priority) to 19.
    pub nice: Option<i32>,
    /// Its policy.
    pub policy: Option<Policy>,
    /// Its timeslice while other threads want the CPU. The kernel limits it to between 0.1 ms and
    /// 100 ms.
    pub slice: Option<Span>,
    /// The priority of its I/O at the device.
    pub ioprio: Option<IoPriority>,
    /// The CPUs on which it may run, ascending.
    pub affinity: Option<Vec<u32>>,
    /// The bounds of the utilization that the kernel assumes.
    pub clamp: Option<Clamp>,
    /// Whether it yields the CPU after each round.
    pub yield_each_round: bool,
}

/// How much a priority rule changes a nice value: it subtracts this to raise a thread, and adds
/// it to lower one.
///
/// Five steps triple the share of a contended CPU in current kernels (1.25 for each step), and a
/// woken thread preempts others sooner. More would take CPU time from other programs without need.
/// The effect of less is lost in noise.
pub const NICE_STEP: i32 = 5;

impl Scheduling {
    /// Each request as a key and a value in its text format. The value of `yield` is empty.
    pub fn requested(&self) -> Vec<(&'static str, String)> {
        let written = [
            ("nice", self.nice.map(|nice| nice.to_string())),
            ("policy", self.policy.map(|policy| policy.to_string())),
            ("slice", self.slice.map(read::without_blank)),
            ("ioprio", self.ioprio.map(|priority| priority.to_string())),
            ("affinity", self.affinity.as_deref().map(read::ranges)),
            ("clamp", self.clamp.map(|clamp| clamp.to_string())),
            ("yield", self.yield_each_round.then(String::new)),
        ];
        written.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    /// Requests this scheduling for the calling thread and returns the result of each request. The
    /// caller has to yield after each round itself.
    ///
    /// Never fails. Makes some system calls for each request.
    pub fn apply_to_this_thread(&self) -> Vec<EffectiveAttribute> {
        use EffectiveAttribute as Effective;
        let thread = Thread::current();
        // The policy comes first because the other attributes depend on it.
        let policy = self.policy.map(|policy| Effective::new("policy", policy, set_policy(thread, policy)));
        let nice = self.nice.map(|nice| request_nice(thread, nice));
        let slice = self.slice.map(|slice| {
            let got = set_slice(thread, Duration::from_nanos(slice.as_nanos())).map(|got| match got {
                Some(got) => read::without_blank(span(got)),
                None => "the kernel's own: it ignores the request, as all kernels before Linux 6.12".to_owned(),
            });
            Effective::new("slice", read::without_blank(slice), got)
        });
        let ioprio = self.ioprio.map(|priority| Effective::new("ioprio", priority, set_io_priority(thread, priority)));
        let affinity = self.affinity.as_ref().map(|cpus| {
            let got = set_affinity(thread, cpus).map(|got| read::ranges(&got));
            Effective::new("affinity", read::ranges(cpus), got)
        });
        let clamp = self.clamp.map(|clamp| Effective::new("clamp", clamp, set_clamp(thread, clamp)));
        let yields = self.yield_each_round.then_some(SchedulingOutcome::Granted);
        let yields = yields.map(|outcome| Effective { requested: "yield".to_owned(), outcome });
        [policy, nice, slice, ioprio, affinity, clamp, yields].into_iter().flatten().collect()
    }

    /// Raises or lowers a thread by [`NICE_STEP`] from `base`, its nice value without a rule.
    ///
    /// Raising requires a permission, and so does the return from a lower priority. Without it the
    /// kernel refuses every time; [`add_if_new`] keeps one result of many.
    pub fn adjust_nice(thread: Thread, base: i32, priority: StagePriority) -> EffectiveAttribute {
        let (nice, change) = match priority {
            StagePriority::Lowered => (base + NICE_STEP, "lowered"),
            StagePriority::Neutral => (base, "as before"),
            StagePriority::Raised => (base - NICE_STEP, "raised"),
        };
        let mut attribute = request_nice(thread, nice.clamp(-20, 19));
        attribute.requested.push_str(&format!(" ({change})"));
        attribute
    }
}

/// Requests a nice value. The result mentions if the policy ignores it.
fn request_nice(thread: Thread, nice: i32) -> EffectiveAttribute {
    let policy = attributes(thread).map_or(Policy::Other, |now| now.policy);
    let got = set_nice(thread, nice).map(|got| match policy {
        Policy::Other | Policy::Batch => got.to_string(),
        other => format!("{got}, which has no effect under {other}"),
    });
    EffectiveAttribute::new("nice", nice, got)
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.requested().into_iter().map(|(key, value)| match value.as_str() {
            "" => key.to_owned(),
            value => format!("{key}={value}"),
        });
        f.pad(&words.collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests;
