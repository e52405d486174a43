//! The options of the simulated kernel `linux-2.4`, besides those of all schedulers.

use policy::Span;
use policy::wakeup::Scheme;

/// How running time is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Accounting {
    /// Exactly, to the step.
    #[default]
    Exact,
    /// A whole tick to the thread that runs when the timer interrupts.
    Tick,
}

impl Accounting {
    /// Both, the default first.
    pub const ALL: [Accounting; 2] = [Accounting::Exact, Accounting::Tick];

    /// The name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Accounting::Exact => "exact",
            Accounting::Tick => "tick",
        }
    }
}

/// The options of `linux-2.4`, besides those of all schedulers. Source of the defaults: Tsafrir and
/// Feitelson, appendix A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linux24 {
    /// The ticks that a thread may run in an epoch, at least one.
    pub allocation: u32,
    /// `PROC_CHANGE_PENALTY`, in ticks.
    pub penalty: u32,
    /// `SAME_ADDRESS_SPACE_BONUS`, in ticks.
    pub bonus: u32,
    /// The threshold of preemption, in ticks.
    pub threshold: u32,
    /// How running time is charged.
    pub accounting: Accounting,
    /// Whether a thread is charged for the switch to it.
    pub charge_switch: bool,
    /// Whether a preempted thread is offered to other CPUs.
    pub tail: bool,
    /// The wakeup scheme.
    pub wakeup: Scheme,
}

impl Linux24 {
    /// The default tick of `linux-2.4`: 10 steps of 1 us, beside a context switch of 6 us.
    pub const TICK: Span = Span::from_micros(10);
}

impl Default for Linux24 {
    fn default() -> Linux24 {
        Linux24 {
            allocation: 20,
            penalty: 15,
            bonus: 1,
            threshold: 1,
            accounting: Accounting::default(),
            charge_switch: true,
            tail: true,
            wakeup: Scheme::default(),
        }
    }
}
