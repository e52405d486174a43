//! The table of all policies.
//!
//! The parser of scenarios, `rowlock policies`, docs/scenario.md and the tests that run every
//! policy in both worlds all use it, so that no policy can exist for only one of them.
//!
//! These tests iterate over it or draw from it, so they need no change for a new policy:
//!
//! * `sim/tests/sim/` (`rules.rs`, `lock.rs`, `laws.rs`, `pipeline.rs`), and
//!   `papers/tests/papers/trace/simulation.rs`, in the simulator;
//! * `host/tests/host/` (`runs.rs`, `pipelines.rs`) on the host, and `wait/tests/` (`wait`, `race`,
//!   `shared`) with the objects of `rowlock-wait`;
//! * `scenario/tests/scenario/drawn.rs` and `cli/tests/cli/command.rs`.
//!
//! `scenario/tests/scenario/document.rs` compares its rows with the tables in docs/scenario.md.
//!
//! "Tsafrir and Feitelson" is their paper "Barrier Synchronization on a Loaded SMP using Two-Phase
//! Waiting Algorithms", "Roysden" is "Scheduling Pipelined, Multi-Threaded Programs in Linux",
//! Dartmouth TR2004-500, 2004, and "Suzaki and Walsh" is "Scheduling on AP/Linux for Fine and
//! Coarse Grain Parallel Processes".

use crate::gang::Gang;
use crate::layout::Partitioner;
use crate::priority::{PriorityRule, StageKind};
use crate::units::Span;
use crate::waiting::{Bound, WaitingRule};
use crate::wakeup::Scheme;

type Text = &'static str;

/// One policy, or one family of policies with a parameter.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry<P> {
    /// The decision that it makes: the scenario key for which it is written.
    pub decision: &'static str,
    /// The form in which it is written.
    pub form: &'static str,
    /// Its effect, in one sentence.
    pub meaning: &'static str,
    /// Its source.
    pub source: &'static str,
    /// The policy, if the form has no parameter.
    pub rule: Option<P>,
    /// A policy of this form to run: the policy itself, or one with a typical parameter.
    pub example: P,
}

const fn named(form: Text, rule: WaitingRule, meaning: Text, source: Text) -> PolicyEntry<WaitingRule> {
    PolicyEntry { decision: "waiting", form, meaning, source, rule: Some(rule), example: rule }
}

const fn family(form: Text, example: WaitingRule, meaning: Text, source: Text) -> PolicyEntry<WaitingRule> {
    PolicyEntry { decision: "waiting", form, meaning, source, rule: None, example }
}

const fn of_cs(thousandths: u64, plus: bool) -> Bound {
    Bound::OfCs { thousandths, plus }
}

const fn scheme(scheme: Scheme, meaning: Text, source: Text) -> PolicyEntry<Scheme> {
    PolicyEntry { decision: "wakeup", form: scheme.name(), meaning, source, rule: Some(scheme), example: scheme }
}

const fn priority(rule: PriorityRule, meaning: Text, source: Text) -> PolicyEntry<PriorityRule> {
    PolicyEntry { decision: "priority", form: rule.name(), meaning, source, rule: Some(rule), example: rule }
}

const fn gang(gang: Gang, meaning: Text, source: Text) -> PolicyEntry<Gang> {
    PolicyEntry { decision: "how", form: gang.name(), meaning, source, rule: Some(gang), example: gang }
}

const fn partition(partitioner: Partitioner, meaning: Text, source: Text) -> PolicyEntry<Partitioner> {
    let (form, rule) = (partitioner.name(), Some(partitioner));
    PolicyEntry { decision: "partition", form, meaning, source, rule, example: partitioner }
}

/// How a thread waits: spin, yield or block, and how long. In the order of the documentation.
pub const WAITING: &[PolicyEntry<WaitingRule>] = &[
    named(
        "adaptive",
        WaitingRule::Adaptive,
        "spin while the missing threads run, yield while only siblings use the CPU, else block",
        "our own, on two-phase waiting",
    ),
    named(
        "adaptive-1",
        WaitingRule::Adaptive1,
        "spin unless a missing thread was last on this CPU, then yield while only siblings use the CPU, else block",
        "our own, the former `adaptive`",
    ),
    named("always-block", WaitingRule::AlwaysBlock, "block immediately", "Tsafrir and Feitelson, section 5.2"),
    named(
        "always-spin",
        WaitingRule::AlwaysSpin,
        "spin until the others arrive, without a bound",
        "Tsafrir and Feitelson, section 2.2",
    ),
    named(
        "always-yield",
        WaitingRule::AlwaysYield,
        "yield the CPU repeatedly until the others arrive",
        "the fallback of libstdc++, libc++ and libomp",
    ),
    named(
        "colocate",
        WaitingRule::Colocate,
        "move to the CPU where the team meets, and yield there until the others arrive",
        "our own",
    ),
    named(
        "cs",
        WaitingRule::TwoPhase(of_cs(1000, false)),
        "spin for the cost of a context switch, then block",
        "Tsafrir and Feitelson, section 4.1",
    ),
    named(
        "cs+",
        WaitingRule::TwoPhase(of_cs(1000, true)),
        "spin for slightly more than one switch, then block",
        "Tsafrir and Feitelson, section 4.2",
    ),
    named(
        "2cs+",
        WaitingRule::TwoPhase(of_cs(2000, true)),
        "spin for slightly more than two switches, then block",
        "Tsafrir and Feitelson, section 4.2",
    ),
    named(
        "0.54 cs",
        WaitingRule::TwoPhase(of_cs(540, false)),
        "spin for ln(e - 1) switches, the best bound for exponentially distributed waits, as at locks; then block",
        "Lim and Agarwal (1993); Tsafrir and Feitelson, section 1",
    ),
    named(
        "0.62 cs",
        WaitingRule::TwoPhase(of_cs(620, false)),
        "spin for (sqrt(5) - 1) / 2 switches, the best bound for uniformly distributed waits, as at barriers; then block",
        "Lim and Agarwal (1993); Tsafrir and Feitelson, section 1",
    ),
    named(
        "randomized",
        WaitingRule::Randomized,
        "spin for a random time up to the cost of a switch, long times being more likely, then block",
        "Karlin, Manasse, McGeoch and Owicki (1990); Tsafrir and Feitelson, section 1",
    ),
    named(
        "variable-competitive",
        WaitingRule::VariableCompetitive,
        "spin for the time that would have cost least over the last eight waits, at most one switch, then block",
        "Karlin, Li, Manasse and Owicki (1991); Tsafrir and Feitelson, section 6",
    ),
    named(
        "owner-running",
        WaitingRule::OwnerRunning,
        "spin while the awaited threads run, else block",
        "Karlin, Li, Manasse and Owicki (1991); Tsafrir and Feitelson, section 6",
    ),
    named(
        "grain-aware",
        WaitingRule::GrainAware,
        "spin for slightly more than two switches unless the last four computations took five switches or more, then block",
        "Tsafrir and Feitelson, section 6",
    ),
    named(
        "load-aware",
        WaitingRule::LoadAware { thousandths: 2000 },
        "spin for slightly more than two switches if there are fewer than two threads for each CPU, then block",
        "Tsafrir and Feitelson, section 6",
    ),
    family(
        "load-aware K",
        WaitingRule::LoadAware { thousandths: 1500 },
        "the same with K threads for each CPU",
        "Tsafrir and Feitelson, section 6",
    ),
    family(
        "N cs",
        WaitingRule::TwoPhase(of_cs(5000, false)),
        "spin for N times the cost of a switch, then block; \"N cs+\" adds the margin",
        "Tsafrir and Feitelson, section 1",
    ),
    family(
        "SPAN",
        WaitingRule::TwoPhase(Bound::Fixed(Span::from_micros(44))),
        "spin for a fixed time such as \"44 us\", then block",
        "Tsafrir and Feitelson, section 1",
    ),
];

/// The CPU that a woken thread goes to, in a simulated kernel with one queue. In the order of the
/// documentation.
pub const WAKEUP: &[PolicyEntry<Scheme>] = &[
    scheme(
        Scheme::Original,
        "the last CPU if idle, else the longest idle, else the CPU with the largest gain; each thread separately, ignoring marks",
        "Linux 2.4.5, reschedule_idle; Tsafrir and Feitelson, appendix A",
    ),
    scheme(Scheme::Ap, "the same, but marked CPUs are skipped", "Tsafrir and Feitelson, section 4.3"),
    scheme(
        Scheme::Gv,
        "all woken threads are paired with CPUs together, for the largest total gain",
        "Tsafrir and Feitelson, section 4.3",
    ),
];

/// The stages of a pipeline that are raised or lowered, and when. In the order of the
/// documentation.
pub const PRIORITY: &[PolicyEntry<PriorityRule>] = &[
    priority(PriorityRule::Default, "all stages have equal priority", "Roysden, section 4"),
    priority(
        PriorityRule::NiceDown(StageKind::Io),
        "stages that do I/O are raised, so that the device does not idle",
        "Roysden, section 4, fixed scheduling",
    ),
    priority(
        PriorityRule::NiceUp(StageKind::Io),
        "stages that do I/O are lowered, so that they interrupt computations less often",
        "Roysden, section 4, fixed scheduling",
    ),
    priority(
        PriorityRule::NiceDown(StageKind::Compute),
        "stages that compute are raised",
        "Roysden, section 1, fixed scheduling",
    ),
    priority(PriorityRule::NiceUp(StageKind::Compute), "stages that compute are lowered", "our own, by symmetry"),
    priority(
        PriorityRule::NiceDown(StageKind::Communicate),
        "stages that communicate are raised",
        "Roysden, section 1, fixed scheduling",
    ),
    priority(
        PriorityRule::NiceUp(StageKind::Communicate),
        "stages that communicate are lowered",
        "our own, by symmetry",
    ),
    priority(
        PriorityRule::DynamicUp,
        "a stage that finds another buffer in its output queue when it conveys lowers itself permanently",
        "Roysden, section 4, adjusting scheduling",
    ),
    priority(
        PriorityRule::DynamicUpDown,
        "the same, but a stage that finds no other buffer there returns to normal",
        "Roysden, section 4, adjusting scheduling",
    ),
    priority(
        PriorityRule::InputQueue,
        "a stage with two or more buffers in its input queue is raised until the queue is empty",
        "Roysden, section 1",
    ),
    priority(
        PriorityRule::LimitingResource,
        "the limiting resource is found while the program runs, and the stages that use it are raised",
        "our own, after Roysden, section 1",
    ),
];

/// The scheduler of a CPU, if a policy selects the threads rather than a kernel. In the order of
/// the documentation.
pub const SCHEDULER: &[PolicyEntry<&str>] = &[PolicyEntry {
    decision: "scheduler",
    form: "feedback",
    meaning: "the first thread at the highest level; a thread that uses up its running time moves down, and a boost moves all up; fibers use it, too",
    source: "Patel, Hidalgo and Ismail, \"Thread Scheduling\"; Corbató, Daggett and Daley (1962)",
    rule: Some("feedback"),
    example: "feedback",
}];

/// How parallel jobs share the cells of a machine in time. In the order of the documentation.
pub const GANG: &[PolicyEntry<Gang>] = &[
    gang(Gang::None, "the schedulers of the cells decide alone", "Suzaki and Walsh, section 1"),
    gang(
        Gang::Moderate,
        "jobs take turns: the active ones have their ordinary priority, all others a lower one",
        "Suzaki and Walsh, section 3",
    ),
    gang(
        Gang::Strict,
        "jobs take turns: all but the active ones are stopped",
        "Ousterhout (1982); Suzaki and Walsh, section 1",
    ),
    gang(
        Gang::Implicit,
        "the schedulers of the cells decide alone, and every wait is bounded: it spins, then blocks",
        "Dusseau, Arpaci and Culler (1996); Suzaki and Walsh, section 5",
    ),
    gang(
        Gang::Dynamic,
        "the schedulers of the cells decide, and prefer a thread whose message arrives",
        "Sobalvarro and Weihl (1995); Suzaki and Walsh, section 5",
    ),
    gang(
        Gang::Adaptive,
        "jobs that wait by spinning take turns, and are stopped meanwhile; jobs that block or compute run at any time",
        "our own, after Suzaki and Walsh, section 6",
    ),
    gang(
        Gang::CellOs,
        "one job at a time has the whole machine, until it ends",
        "CellOS; Suzaki and Walsh, sections 2 and 4.1",
    ),
    gang(
        Gang::Original,
        "all jobs are placed from the first cell, and its scheduler decides which one is active; the others have a lower priority",
        "the first AP/Linux; Suzaki and Walsh, section 2",
    ),
];

/// The algorithm that finds a rectangle of free cells for a parallel job. In the order of the
/// documentation.
pub const PARTITION: &[PolicyEntry<Partitioner>] = &[
    partition(
        Partitioner::AdaptiveScan,
        "row by row, past each task that it meets; as asked for, then turned by 90 degrees",
        "Ding and Bhuyan (1993); Suzaki and Walsh, section 3.2",
    ),
    partition(
        Partitioner::FirstFit,
        "the free rectangle at the lowest row, and there at the lowest column; as asked for, then turned by 90 degrees",
        "Zhu (1992)",
    ),
    partition(
        Partitioner::BestFit,
        "the free rectangle with the fewest free cells beside it, as asked for or turned by 90 degrees",
        "Zhu (1992)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_parses_back_to_its_example() {
        for entry in WAITING {
            assert_eq!(entry.example.to_string().parse(), Ok(entry.example), "{}", entry.form);
            if entry.rule.is_some() {
                assert_eq!(entry.form.parse(), Ok(entry.example));
            }
        }
        assert!(WAKEUP.iter().all(|entry| entry.form.parse() == Ok(entry.example)));
        assert_eq!(WAKEUP.len(), Scheme::ALL.len());
        assert!(PRIORITY.iter().all(|entry| entry.form.parse() == Ok(entry.example)));
        assert!(PRIORITY.iter().map(|entry| entry.example).eq(PriorityRule::ALL));
        assert!(GANG.iter().all(|entry| entry.form.parse() == Ok(entry.example)));
        assert!(GANG.iter().map(|entry| entry.example).eq(Gang::ALL));
        assert!(PARTITION.iter().all(|entry| entry.form.parse() == Ok(entry.example)));
        assert!(PARTITION.iter().map(|entry| entry.example).eq(Partitioner::ALL));
    }
}
