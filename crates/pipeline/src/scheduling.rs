//! How a stage's thread is scheduled: what is wished for, and what became of each wish.
//!
//! Nothing here fails. A wish that the kernel does not grant is told with the right that is missing, and the stage runs without. So a program
//! asks for all that would be good, and gets what its user may have.
//!
//! Wishes are written as in a [structure](crate::structure), without the stage's name:
//!
//! ```
//! # use rowlock_pipeline as pipeline;
//! use pipeline::scheduling::{Policy, Scheduling};
//! use std::time::Duration;
//!
//! let requested: Scheduling = "policy=batch slice=3ms affinity=0-1+3 yield".parse()?;
//! assert_eq!(requested.policy, Some(Policy::Batch));
//! assert_eq!(requested.to_string(), "policy=batch slice=3ms affinity=0-1+3 yield");
//! assert_eq!(requested, Scheduling::default().policy(Policy::Batch).slice(Duration::from_millis(3)).affinity(&[3, 1, 0]).yield_each_round());
//! # Ok::<(), pipeline::scheduling::SchedulingParseError>(())
//! ```

mod effective;
mod read;

use std::fmt;
use std::time::Duration;

use policy::Span;
use policy::priority::StagePriority;
use sys::scheduling::{Thread, attributes};

pub use self::effective::{EffectiveAttribute, SchedulingOutcome, add_if_new};
pub use self::read::SchedulingParseError;
pub use sys::scheduling::{Clamp, IoPriority, Policy};

/// How a stage is to be scheduled. What is not wished for stays as the program has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scheduling {
    /// Its nice value, from -20, the best, to 19.
    pub nice: Option<i32>,
    /// Its policy.
    pub policy: Option<Policy>,
    /// How long it runs at a time while others want the CPU. The kernel gives 0.1 ms at least and 100 ms at the most.
    pub slice: Option<Span>,
    /// How urgent what it reads and writes is to the device.
    pub ioprio: Option<IoPriority>,
    /// The CPUs that it may run on, ascending.
    pub affinity: Option<Vec<u32>>,
    /// Between what utilisations the kernel takes it to be.
    pub clamp: Option<Clamp>,
    /// Whether it yields the CPU after each round.
    pub yield_each_round: bool,
}

/// By how much a rule's favour changes a nice value: raised is so much less, lowered so much more.
///
/// To the kernels of today five steps are three times the share of a CPU that is fought for (1.25 for each step), and the awakened thread interrupts the
/// others sooner. More would take from other programs what this one does not need; less is lost in the noise.
pub const NICE_STEP: i32 = 5;

impl Scheduling {
    /// With this nice value.
    #[must_use]
    pub fn nice(self, nice: i32) -> Scheduling {
        Scheduling { nice: Some(nice), ..self }
    }

    /// With this policy.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Scheduling {
        Scheduling { policy: Some(policy), ..self }
    }

    /// With a timeslice of its own.
    #[must_use]
    pub fn slice(self, slice: Duration) -> Scheduling {
        Scheduling { slice: Some(span(slice)), ..self }
    }

    /// With this I/O priority.
    #[must_use]
    pub fn ioprio(self, priority: IoPriority) -> Scheduling {
        Scheduling { ioprio: Some(priority), ..self }
    }

    /// On these CPUs only.
    #[must_use]
    pub fn affinity(self, cpus: &[u32]) -> Scheduling {
        Scheduling { affinity: Some(read::ascending(cpus.to_vec())), ..self }
    }

    /// With its utilisation between these bounds, out of 1024.
    #[must_use]
    pub fn clamp(self, min: u32, max: u32) -> Scheduling {
        Scheduling { clamp: Some(Clamp { min, max }), ..self }
    }

    /// And it yields the CPU after each round.
    #[must_use]
    pub fn yield_each_round(self) -> Scheduling {
        Scheduling { yield_each_round: true, ..self }
    }

    /// Whether nothing is wished for.
    pub fn is_empty(&self) -> bool {
        *self == Scheduling::default()
    }

    /// What both wish for, this one first.
    #[must_use]
    pub fn laid_over(&self, base: &Scheduling) -> Scheduling {
        Scheduling {
            nice: self.nice.or(base.nice),
            policy: self.policy.or(base.policy),
            slice: self.slice.or(base.slice),
            ioprio: self.ioprio.or(base.ioprio),
            affinity: self.affinity.clone().or_else(|| base.affinity.clone()),
            clamp: self.clamp.or(base.clamp),
            yield_each_round: self.yield_each_round || base.yield_each_round,
        }
    }

    /// Each wish as key and value, as they are written. That of `yield` is empty.
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

    /// Has the calling thread scheduled like this, as far as its user's rights go, and says what became of each wish: one grant for
    /// each. To yield is left to whoever runs the rounds.
    ///
    /// Never fails, and takes some system calls for each wish.
    pub fn apply_to_this_thread(&self) -> Vec<EffectiveAttribute> {
        let thread = Thread::current();
        let mut effective = Vec::new();
        // The policy comes first: what the others mean depends on it.
        if let Some(policy) = self.policy {
            let got = sys::scheduling::set_policy(thread, policy).map(|got| got.to_string());
            effective.push(EffectiveAttribute::new("policy", policy.to_string(), got));
        }
        if let Some(nice) = self.nice {
            effective.push(request_nice(thread, nice));
        }
        if let Some(slice) = self.slice {
            let got = sys::scheduling::set_slice(thread, Duration::from_nanos(slice.as_nanos()));
            let got = got.map(|got| match got {
                Some(got) => read::without_blank(span(got)),
                None => "the kernel's: it ignores the wish, as it did before Linux 6.12".to_owned(),
            });
            effective.push(EffectiveAttribute::new("slice", read::without_blank(slice), got));
        }
        if let Some(priority) = self.ioprio {
            let got = sys::scheduling::set_io_priority(thread, priority).map(|got| got.to_string());
            effective.push(EffectiveAttribute::new("ioprio", priority.to_string(), got));
        }
        if let Some(cpus) = &self.affinity {
            let got = sys::scheduling::set_affinity(thread, cpus).map(|got| read::ranges(&got));
            effective.push(EffectiveAttribute::new("affinity", read::ranges(cpus), got));
        }
        if let Some(clamp) = self.clamp {
            let got = sys::scheduling::set_clamp(thread, clamp).map(|got| got.to_string());
            effective.push(EffectiveAttribute::new("clamp", clamp.to_string(), got));
        }
        if self.yield_each_round {
            effective.push(EffectiveAttribute { requested: "yield".to_owned(), outcome: SchedulingOutcome::Granted });
        }
        effective
    }

    /// Favours a thread as a rule says, whose nice value is `base` without a rule: by [`NICE_STEP`], up or down. Says what became of that.
    ///
    /// To be raised takes a right, and so does the way back from being lowered. Who has none is refused every time; [`add_if_new`]
    /// notes it once.
    pub fn adjust_nice(thread: Thread, base: i32, favour: StagePriority) -> EffectiveAttribute {
        let (nice, favoured) = match favour {
            StagePriority::Lowered => (base + NICE_STEP, "lowered"),
            StagePriority::Neutral => (base, "as before"),
            StagePriority::Raised => (base - NICE_STEP, "raised"),
        };
        let mut attribute = request_nice(thread, nice.clamp(-20, 19));
        attribute.requested.push_str(&format!(" ({favoured})"));
        attribute
    }
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(duration.as_nanos().try_into().unwrap_or(u64::MAX))
}

/// Wishes a nice value, and says where it counts for nothing.
fn request_nice(thread: Thread, nice: i32) -> EffectiveAttribute {
    let policy = attributes(thread).map_or(Policy::Other, |now| now.policy);
    let got = sys::scheduling::set_nice(thread, nice).map(|got| match policy {
        Policy::Other | Policy::Batch => got.to_string(),
        other => format!("{got}, which counts for nothing under {other}"),
    });
    EffectiveAttribute::new("nice", nice.to_string(), got)
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
