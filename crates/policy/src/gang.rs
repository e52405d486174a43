//! The scheduling of jobs that are not active.
//!
//! Source: Suzaki and Walsh, "Scheduling on AP/Linux for Fine and Coarse Grain Parallel Processes".
//!
//! * `moderate` is the paper's own (section 3). The active job has its ordinary priority, and all
//!   others have a lower one. No job is raised, so that daemons can run, and none is stopped, so
//!   that another job runs if the active one blocks.
//! * `strict` stops all jobs but the active one: Ousterhout's co-scheduling ("Scheduling Techniques
//!   for Concurrent Systems", 1982), which the paper calls gang scheduling (section 1).
//! * `implicit` (section 5) has no turns. The local schedulers decide alone, and every wait spins
//!   for a bounded time and then blocks: a thread that waits for another one gives up its CPU if
//!   that one does not run, and keeps it if it does, so that jobs co-schedule themselves. Without a
//!   bound this fails (Dusseau, Arpaci and Culler, "Effective Distributed Scheduling of Parallel
//!   Workloads", 1996). The bound here is `2cs+`: twice the cost of a switch, and a margin.
//! * `dynamic` (section 5) has no turns, either. A message that arrives preempts in favour of its
//!   receiver, because its sender is running (Sobalvarro and Weihl, "Demand-based Coscheduling of
//!   Parallel Jobs on Multiprogrammed Multiprocessors", 1995; Sobalvarro, Pakin, Weihl and Chien,
//!   "Dynamic Coscheduling on Workstation Clusters", 1998).
//! * `cellos` (sections 2 and 4.1) and `original`, the first scheduler of AP/Linux (section 2), are
//!   what the paper compares itself with.
//! * `adaptive` is our own: *jobs that block are not gang-scheduled*. Jobs that wait by spinning
//!   need the other ranks to run at the same time, and while they spin, no other job can use their
//!   CPU. So they take turns, and the others are stopped. Jobs that block leave their CPU to
//!   others, which a turn can only disturb. So they run at any time, beside the active job. A job
//!   whose behaviour is unknown takes turns, which costs it no more than its share; see
//!   [`classify()`]. If the preloaded library lets it wait, it may need no turns: see
//!   [`LibraryWaits`]. If it polls for a while and then blocks, it may need some: see
//!   [`TurnTrial`].
//!
//! Measured on two CPUs, with slices of 50 ms, as the work done per second, where the work that a
//! job does alone is one: two jobs that spin and one that blocks reach 1.07 without turns, 1.15 by
//! `moderate`, 0.95 by `strict` and 1.50 by `adaptive`. Two jobs that block reach 1.90 without
//! turns and 0.86 by `strict`.
//!
//! An `adaptive` job that [idles](Idling) in its turns is accompanied by the next one.
//!
//! A deviation: `lower` says how far jobs are lowered. The paper has "15 less", whose unit depends
//! on the kernel.

mod classify;
mod evidence;
mod idling;
mod library_waits;
mod lowering;
mod turn_trial;

pub use self::classify::{Class, IntervalCounters, classify};
pub use self::evidence::{ThreadCounters, classify_threads};
pub use self::idling::Idling;
pub use self::library_waits::LibraryWaits;
pub use self::lowering::Lowering;
pub use self::turn_trial::TurnTrial;

use crate::waiting::{Bound, WaitingRule};

/// How jobs share the machine in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Gang {
    /// The local schedulers decide alone.
    None,
    /// The active job has its ordinary priority, all others a lower one.
    Moderate,
    /// All jobs but the active one are stopped.
    Strict,
    /// The local schedulers decide alone, and every wait is bounded: it spins, then blocks.
    Implicit,
    /// The local schedulers decide, and prefer a thread whose message arrives.
    Dynamic,
    /// Jobs that wait by spinning take turns, by being stopped. All others run at any time.
    #[default]
    Adaptive,
    /// One job at a time has the whole machine, until it ends.
    CellOs,
    /// As `moderate`, but all jobs are laid out from the first cell, whose local scheduler decides
    /// which of them is active.
    Original,
}

crate::parse::named!(
    Gang {
        None = "none", Moderate = "moderate", Strict = "strict", Implicit = "implicit", Dynamic = "dynamic",
        Adaptive = "adaptive", CellOs = "cellos", Original = "original",
    }
    |text| text, format!("`{text}` is not a way to schedule gangs")
);

/// The scheduling of a job on a cell at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Its threads run with their ordinary priority.
    Run,
    /// They run with a lower priority.
    Lower,
    /// They do not run.
    Stop,
}

impl Gang {
    /// Whether jobs take turns by a table of slices.
    pub const fn has_table(self) -> bool {
        matches!(self, Gang::Moderate | Gang::Strict | Gang::Adaptive)
    }

    /// Whether jobs are active in turn, by a table or as the first cell decides.
    pub const fn has_turns(self) -> bool {
        self.has_table() || matches!(self, Gang::Original)
    }

    /// Whether it lowers or raises the priority of threads.
    pub const fn changes_priorities(self) -> bool {
        matches!(self, Gang::Moderate | Gang::Original | Gang::Dynamic)
    }

    /// Whether a job with this behaviour is entered in the table.
    pub const fn takes_turns(self, class: Class) -> bool {
        match self {
            Gang::Moderate | Gang::Strict => true,
            Gang::Adaptive => matches!(class, Class::Spins | Class::Unknown),
            Gang::None | Gang::Implicit | Gang::Dynamic | Gang::CellOs | Gang::Original => false,
        }
    }

    /// The scheduling of a job that takes turns.
    pub const fn action(self, is_active: bool) -> Action {
        match self {
            Gang::Moderate | Gang::Original if !is_active => Action::Lower,
            Gang::Strict | Gang::Adaptive if !is_active => Action::Stop,
            _ => Action::Run,
        }
    }

    /// The waiting rule of jobs that are to wait by `rule`. Under `implicit` a rule that never
    /// blocks becomes `2cs+`.
    pub const fn waiting(self, rule: WaitingRule) -> WaitingRule {
        match (self, rule) {
            (Gang::Implicit, WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield) => {
                WaitingRule::TwoPhase(Bound::TWO_CS_PLUS)
            }
            _ => rule,
        }
    }

    /// Whether a thread whose message arrives is preferred to the one that runs.
    pub const fn prefers_receiver(self) -> bool {
        matches!(self, Gang::Dynamic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_share_the_machine_has_its_actions() {
        use Action::{Lower, Run, Stop};
        // Has a table; jobs that spin, block and compute take turns; action if active and if not.
        let expected = [
            (Gang::None, false, [false; 3], [Run, Run]),
            (Gang::Moderate, true, [true; 3], [Run, Lower]),
            (Gang::Strict, true, [true; 3], [Run, Stop]),
            (Gang::Implicit, false, [false; 3], [Run, Run]),
            (Gang::Dynamic, false, [false; 3], [Run, Run]),
            (Gang::Adaptive, true, [true, false, false], [Run, Stop]),
            (Gang::CellOs, false, [false; 3], [Run, Run]),
            (Gang::Original, false, [false; 3], [Run, Lower]),
        ];
        assert_eq!(expected.map(|(gang, ..)| gang), Gang::ALL);
        for (gang, has_table, take_turns, actions) in expected {
            assert_eq!(gang.has_table(), has_table, "{gang}");
            assert_eq!(
                [Class::Spins, Class::Blocks, Class::Computes].map(|class| gang.takes_turns(class)),
                take_turns,
                "{gang}"
            );
            assert_eq!(gang.takes_turns(Class::Unknown), gang.takes_turns(Class::Spins), "{gang}");
            assert_eq!([true, false].map(|is_active| gang.action(is_active)), actions, "{gang}");
            assert_eq!(gang.prefers_receiver(), gang == Gang::Dynamic, "{gang}");
            assert_eq!(gang.has_turns(), actions != [Run, Run], "{gang}");
            assert_eq!(gang.changes_priorities(), actions[1] == Lower || gang.prefers_receiver(), "{gang}");
        }
    }

    #[test]
    fn every_wait_is_bounded_under_implicit_coscheduling_and_unchanged_otherwise() {
        use crate::table::WAITING;
        for gang in Gang::ALL {
            for rule in WAITING.iter().map(|entry| entry.example) {
                let is_unbounded = matches!(rule, WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield);
                let expected = if gang == Gang::Implicit && is_unbounded { "2cs+".parse() } else { Ok(rule) };
                assert_eq!(Ok(gang.waiting(rule)), expected, "{gang} {rule}");
            }
        }
    }
}
