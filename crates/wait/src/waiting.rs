//! How the threads at one object wait: the rule, and the machine it assumes.

use policy::waiting::{Costs, Inputs, Waiter, WaitingRule};
use policy::{Instant, Span};

use crate::machine;

/// How the threads at one object wait.
///
/// The default is the adaptive rule on this machine. A process measures the costs of the machine
/// once, in a few milliseconds: when it creates a barrier, or when a thread first waits elsewhere
/// by another rule that needs them. It counts the CPUs by affinity and quota from time to time.
///
/// ```
/// # use policy::waiting::WaitingRule;
/// # use rowlock_wait::Waiting;
/// let longer = Waiting::by("2cs+".parse()?);
/// assert_eq!(longer.rule().to_string(), "2cs+");
/// assert_eq!(Waiting::default(), Waiting::by(WaitingRule::Adaptive));
/// # Ok::<(), policy::waiting::ParseRuleError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    rule: WaitingRule,
    costs: Option<Costs>,
    cpus: Option<u32>,
    pub(crate) no_moves: bool,
}

impl Waiting {
    /// The adaptive rule on this machine.
    pub const ADAPTIVE: Waiting = Waiting::by(WaitingRule::Adaptive);

    /// By this rule, on this machine.
    pub const fn by(rule: WaitingRule) -> Waiting {
        Waiting { rule, costs: None, cpus: None, no_moves: false }
    }

    /// Assumes these costs instead of measuring them.
    pub const fn with_costs(self, costs: Costs) -> Waiting {
        Waiting { costs: Some(costs), ..self }
    }

    /// Assumes this number of CPUs instead of counting them.
    pub const fn with_cpus(self, cpus: u32) -> Waiting {
        Waiting { cpus: Some(cpus), ..self }
    }

    /// Assumes this number of CPUs, unless one is assumed already.
    pub const fn or_cpus(self, cpus: u32) -> Waiting {
        if self.cpus.is_some() { self } else { self.with_cpus(cpus) }
    }

    /// Disables migrations, which the adaptive rule may do for a while if other programs keep the
    /// CPUs busy. For programs that read the affinity of their threads, which is one CPU meanwhile.
    pub const fn without_moves(self) -> Waiting {
        Waiting { no_moves: true, ..self }
    }

    /// The rule.
    pub const fn rule(&self) -> WaitingRule {
        self.rule
    }

    /// The number of CPUs: the assumed one, or counted shortly before now.
    pub(crate) fn cpus_at(&self, now: Instant) -> u32 {
        self.cpus.unwrap_or_else(|| machine::cpus(now))
    }

    /// The inputs that the rule needs.
    pub(crate) const fn inputs(&self) -> Inputs {
        self.rule
            .waiter(Costs { cs: Span::ZERO, margin: Span::ZERO, lone_yield: Span::ZERO, tick: Span::ZERO })
            .inputs()
    }

    /// A waiter for one wait at an object with unknown participants, if there is no time for
    /// measurements. Until then an adaptive rule uses typical costs: the magnitude suffices.
    pub(crate) fn waiter_without_measuring(&self) -> Waiter {
        if self.rule.is_adaptive() && self.costs.is_none() {
            self.rule.waiter(machine::known_costs())
        } else {
            self.waiter()
        }
    }

    /// The initial waiter of a thread. Measures the costs of the machine, unless given or known.
    pub(crate) fn waiter(&self) -> Waiter {
        let costs = match self.costs {
            Some(costs) => costs,
            None if self.rule.needs_costs() => machine::costs(),
            None => Costs::default(),
        };
        self.rule.waiter(costs)
    }
}
