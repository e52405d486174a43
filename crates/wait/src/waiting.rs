//! How the threads at one object wait: by which rule, and on what a machine.

use policy::Span;
use policy::waiting::{Costs, Inputs, Waiter, WaitingRule};

use crate::machine;

/// How the threads at one object wait.
///
/// The default is the adaptive rule on this machine: its costs are measured once in a process, in a few milliseconds, when
/// a barrier is made, or a thread first has to wait elsewhere by another rule that needs them, and its CPUs are counted by the affinity mask and the CPU quota, again
/// every now and then.
///
/// ```
/// # use policy::waiting::WaitingRule;
/// # use rowlock_wait::Waiting;
/// let patient = Waiting::by("2cs+".parse()?);
/// assert_eq!(patient.rule().to_string(), "2cs+");
/// assert_eq!(Waiting::default(), Waiting::by(WaitingRule::Adaptive));
/// # Ok::<(), policy::waiting::ParseRuleError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    rule: WaitingRule,
    costs: Option<Costs>,
    cpus: Option<u32>,
    stays: bool,
}

impl Waiting {
    /// The adaptive rule on this machine.
    pub const ADAPTIVE: Waiting = Waiting::by(WaitingRule::Adaptive);

    /// This rule on this machine.
    pub const fn by(rule: WaitingRule) -> Waiting {
        Waiting { rule, costs: None, cpus: None, stays: false }
    }

    /// On a machine with these costs: nothing is measured.
    pub const fn with_costs(self, costs: Costs) -> Waiting {
        Waiting { costs: Some(costs), ..self }
    }

    /// With so many CPUs for the threads to use: none are counted.
    pub const fn with_cpus(self, cpus: u32) -> Waiting {
        Waiting { cpus: Some(cpus), ..self }
    }

    /// Without moving threads from CPU to CPU, as the adaptive rule may do for a while where other programs keep the CPUs busy:
    /// for programs that watch the affinity of their threads, which is one CPU for an instant while a thread moves.
    pub const fn without_moves(self) -> Waiting {
        Waiting { stays: true, ..self }
    }

    /// The rule.
    pub const fn rule(&self) -> WaitingRule {
        self.rule
    }

    pub(crate) const fn cpus(&self) -> Option<u32> {
        self.cpus
    }

    pub(crate) const fn movable(&self) -> bool {
        !self.stays
    }

    /// What the rule wants to know.
    pub(crate) const fn inputs(&self) -> Inputs {
        self.rule
            .waiter(Costs { cs: Span::ZERO, margin: Span::ZERO, lone_yield: Span::ZERO, tick: Span::ZERO })
            .inputs()
    }

    /// A waiter for one wait where nobody knows who will come, in the middle of which is no time for measuring. So the adaptive rule,
    /// for which an order of magnitude will do there, goes by what is typical until somebody has measured.
    pub(crate) fn waiter_without_measuring(&self) -> Waiter {
        match (self.rule, self.costs) {
            (WaitingRule::Adaptive, None) => self.rule.waiter(machine::known_costs()),
            _ => self.waiter(),
        }
    }

    /// What the waiters of an object are copies of. Measures what the machine costs, if nobody has said or asked that before.
    pub(crate) fn waiter(&self) -> Waiter {
        let costs = match self.costs {
            Some(costs) => costs,
            None if self.rule.needs_costs() => machine::costs(),
            None => Costs::default(),
        };
        self.rule.waiter(costs)
    }
}
