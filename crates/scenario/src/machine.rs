//! The machine of a scenario: as written, and completed.

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use policy::layout::Mesh;
use policy::waiting::{Bound, Costs};
use policy::wakeup::Scheme;

use crate::keys::machine;
use crate::named::{Accounting, Arrivals, Scheduler, TickPhase, Tie};
use crate::network::{Bandwidth, Network};
use crate::read::table::Table;
use crate::read::value;
use crate::topology::Topology;
use crate::write::optional;

/// Defines [`MachineKeys`]. Each row has a key, its field and type, its reader, and its place in a
/// [`Machine`]. The rows are in the order in which keys are written.
macro_rules! machine_keys {
    ($($key:ident $field:ident: $type:ty, $read:expr, $($place:ident).+;)*) => {
        /// The `[machine]` table as written, before [`MachineKeys::complete`] fills in the rest.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct MachineKeys {
            /// `like = "host"`: keys that are not written are detected and calibrated on the
            /// machine that rowlock runs on.
            pub like_host: bool,
            $(
                #[doc = concat!("[`", stringify!($key), "`](machine::", stringify!($key), "), if it is written.")]
                pub $field: Option<$type>,
            )*
        }

        impl MachineKeys {
            pub(crate) fn read(table: &Table<'_, '_>) -> MachineKeys {
                MachineKeys {
                    like_host: table.read(&machine::LIKE, value::one_of).is_some(),
                    $($field: table.read(&machine::$key, $read),)*
                }
            }

            pub(crate) fn write(&self, out: &mut String) {
                optional(out, &machine::LIKE, self.like_host.then_some("host"));
                $(optional(out, &machine::$key, self.$field);)*
            }

            /// Overwrites the machine's values with those that are written.
            fn apply(&self, machine: &mut Machine) {
                $(if let Some(value) = self.$field { machine.$($place).+ = value.into(); })*
            }
        }
    };
}

machine_keys! {
    CPUS cpus: u32, value::count, cpus;
    TOPOLOGY topology: Topology, value::topology, topology;
    CACHE_REFILL cache_refill: Span, value::span, cache_refill;
    NODE_REFILL node_refill: Span, value::span, node_refill;
    SMT_SPEED smt_speed: u32, value::count, smt_speed;
    CELLS cells: Mesh, value::mesh, cells;
    NETWORK_LATENCY network_latency: Span, value::span, network.latency;
    BANDWIDTH bandwidth: Bandwidth, value::bandwidth, network.bandwidth;
    BARRIER_LATENCY barrier_latency: Span, value::span, network.barrier;
    STEP step: Span, value::span, step;
    CONTEXT_SWITCH context_switch: Span, value::span, context_switch;
    WAKEUP_COST wakeup_cost: Span, value::span, wakeup_cost;
    YIELD_COST yield_cost: Span, value::span, yield_cost;
    LINE_TRANSFER line_transfer: Span, value::span, line_transfer;
    ARRIVALS arrivals: Arrivals, value::named(&Arrivals::ALL, Arrivals::name), arrivals;
    SPIN_MARGIN spin_margin: Bound, value::margin, spin_margin;
    DEVICE_DEPTH device_depth: u32, value::count, device_depth;
    SCHEDULER scheduler: Scheduler, value::named(&Scheduler::ALL, Scheduler::name), scheduler;
    QUANTUM quantum: Span, value::span, quantum;
    TICK tick: Span, value::span, tick;
    TICK_PHASE tick_phase: TickPhase, value::named(&TickPhase::ALL, TickPhase::name), tick_phase;
    SLICE slice: Span, value::span, slice;
    GROUPS groups: bool, value::flag, groups;
    LATENCY latency: Span, value::span, cfs.latency;
    GRANULARITY granularity: Span, value::span, cfs.granularity;
    WAKEUP_GRANULARITY wakeup_granularity: Span, value::span, cfs.wakeup_granularity;
    MIGRATION_COST migration_cost: Span, value::span, cfs.migration_cost;
    LEVELS levels: u32, value::count, feedback.levels;
    RUNNING_TIME running_time: Span, value::span, feedback.running_time;
    BOOST boost: Boost, value::period, feedback.boost;
    TIE tie: Tie, value::named(&Tie::ALL, Tie::name), tie;
    ALLOCATION allocation: u32, value::count, linux_2_4.allocation;
    PENALTY penalty: u32, value::count, linux_2_4.penalty;
    BONUS bonus: u32, value::count, linux_2_4.bonus;
    THRESHOLD threshold: u32, value::count, linux_2_4.threshold;
    ACCOUNTING accounting: Accounting, value::named(&Accounting::ALL, Accounting::name), linux_2_4.accounting;
    CHARGE_SWITCH charge_switch: bool, value::flag, linux_2_4.charge_switch;
    TAIL tail: bool, value::flag, linux_2_4.tail;
    WAKEUP wakeup: Scheme, value::named(&Scheme::ALL, Scheme::name), linux_2_4.wakeup;
    TIMESLICE timeslice: u32, value::count, timeslice;
}

impl MachineKeys {
    /// Completes the machine from `base`: the twin of this machine for `like = "host"`, else
    /// [`Machine::with_cpus`]. `linux-2.4` and `linux-o1` have their own ticks, independent of that
    /// of the base.
    pub fn complete(&self, base: &Machine) -> Machine {
        let mut machine = *base;
        let cpus = self.written_cpus().or(self.cells.map(|_| 1));
        if let Some(cpus) = cpus.filter(|&cpus| cpus != base.cpus) {
            machine.cpus = cpus;
            machine.slice = default_slice(cpus);
            machine.cfs = Cfs::with_cpus(cpus);
        }
        machine.tick = own_tick(self.scheduler.unwrap_or(base.scheduler)).unwrap_or(base.tick);
        self.apply(&mut machine);
        machine
    }

    /// The number of CPUs, if it is written as such or as a topology.
    pub fn written_cpus(&self) -> Option<u32> {
        self.cpus.or(self.topology.map(Topology::cpus))
    }

    /// Whether this is exactly the machine that rowlock runs on: `like = "host"` without other
    /// keys, except for the margin, which belongs to the rules, and the depth of the device, which
    /// the host follows.
    pub fn is_host(&self) -> bool {
        let written = MachineKeys { spin_margin: None, device_depth: None, ..self.clone() };
        written == MachineKeys { like_host: true, ..MachineKeys::default() }
    }
}

/// A fully specified machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Number of CPUs, at least one.
    pub cpus: u32,
    /// The topology, if it is not [flat](Topology::flat). Ignored if it has another number of CPUs.
    pub topology: Option<Topology>,
    /// How much longer the switch to a thread takes that has last run on another core.
    pub cache_refill: Span,
    /// How much longer yet it takes if that core is one of another node.
    pub node_refill: Span,
    /// How fast a CPU computes while another CPU of its core is not idle, in percent: 1 to 100.
    pub smt_speed: u32,
    /// The cells, each of which has `cpus` CPUs, a clock and a kernel of its own. `None` for one
    /// kernel on all CPUs.
    pub cells: Option<Mesh>,
    /// The network between cells.
    pub network: Network,
    /// Granularity of simulated time, at least one nanosecond.
    pub step: Span,
    /// CS: the time that a CPU takes to switch from one thread to another, or to or from idleness.
    pub context_switch: Span,
    /// The time beyond a context switch that an idle CPU takes to start.
    pub wakeup_cost: Span,
    /// The time that a `sched_yield` takes when no other thread is ready.
    pub yield_cost: Span,
    /// The time that a CPU waits for the cache line of a barrier's counter that another CPU wrote
    /// last.
    pub line_transfer: Span,
    /// How the arrivals at barriers are counted, if that takes time.
    pub arrivals: Arrivals,
    /// The "+" of `cs+` and `2cs+`.
    pub spin_margin: Bound,
    /// How many requests the device serves at the same time, at least one.
    pub device_depth: u32,
    /// The kernel's scheduler.
    pub scheduler: Scheduler,
    /// The order of events if a spin ends in the very step of the arrival that it waits for.
    pub tie: Tie,
    /// `rr`: the quantum.
    pub quantum: Span,
    /// `eevdf`, `cfs`, `linux-2.4`, `linux-o1`: the period of the timer interrupt.
    pub tick: Span,
    /// `eevdf`, `cfs`: when the CPUs tick.
    pub tick_phase: TickPhase,
    /// `eevdf`: the base slice, the virtual time that a thread requests.
    pub slice: Span,
    /// `eevdf`: whether every job is a group. Groups have equal shares of the machine, regardless
    /// of their numbers of threads.
    pub groups: bool,
    /// The other options of `cfs`.
    pub cfs: Cfs,
    /// The other options of `linux-2.4`.
    pub linux_2_4: Linux24,
    /// `linux-o1`: the ticks that a thread with nice value 0 may run, at least one.
    pub timeslice: u32,
    /// `feedback`: the parameters of its queue.
    pub feedback: FeedbackRules,
}

impl Machine {
    /// A machine of `cpus` CPUs with the defaults of docs/scenario.md.
    pub fn with_cpus(cpus: u32) -> Machine {
        Machine {
            cpus,
            topology: None,
            cache_refill: Span::ZERO,
            node_refill: Span::ZERO,
            smt_speed: 100,
            cells: None,
            network: Network::default(),
            step: Span::from_nanos(1),
            context_switch: Span::from_micros(6),
            wakeup_cost: Span::ZERO,
            yield_cost: Span::from_nanos(500),
            line_transfer: Span::ZERO,
            arrivals: Arrivals::default(),
            spin_margin: Bound::OfCs { thousandths: 500, plus: false },
            device_depth: 1,
            scheduler: Scheduler::Eevdf,
            tie: Tie::default(),
            quantum: Span::from_micros(100),
            tick: Span::from_millis(4),
            tick_phase: TickPhase::default(),
            slice: default_slice(cpus),
            groups: false,
            cfs: Cfs::with_cpus(cpus),
            linux_2_4: Linux24::default(),
            timeslice: 100,
            feedback: FeedbackRules::default(),
        }
    }

    /// The topology, that of each cell if there are cells.
    pub fn topology(&self) -> Topology {
        self.topology.filter(|topology| topology.cpus() == self.cpus).unwrap_or(Topology::flat(self.cpus))
    }

    /// The number of CPUs of all cells together.
    pub fn total_cpus(&self) -> u32 {
        self.cpus * self.cells.map_or(1, Mesh::cells)
    }

    /// Whether its jobs are groups, which have weights.
    pub const fn has_group_weights(&self) -> bool {
        matches!(self.scheduler, Scheduler::Eevdf) && self.groups
    }

    /// The costs for waiting rules: CS is the cost of getting a blocked sibling running again, so
    /// it includes the cost of waking an idle CPU.
    pub fn costs(&self) -> Costs {
        let cs = self.context_switch + self.wakeup_cost;
        let margin = self.spin_margin.on(Costs { cs, ..Costs::default() });
        Costs { cs, margin, lone_yield: self.yield_cost, tick: self.tick }
    }
}

/// The default tick of a kernel whose other times are counted in ticks.
const fn own_tick(scheduler: Scheduler) -> Option<Span> {
    match scheduler {
        Scheduler::Linux24 => Some(Linux24::TICK),
        // HZ = 1000.
        Scheduler::LinuxO1 => Some(Span::from_millis(1)),
        _ => None,
    }
}

/// Linux's base slice for this many CPUs: 0.7 ms times (1 + log2 of the CPUs, of which at most
/// eight count). Source: `kernel/sched/fair.c` of Linux 6.18, `sysctl_sched_base_slice` and
/// `get_update_sysctl_factor`.
pub fn default_slice(cpus: u32) -> Span {
    for_cpus(Span::from_micros(700), cpus)
}

/// Scales a span by the number of CPUs, as the kernel's fair schedulers do.
fn for_cpus(span: Span, cpus: u32) -> Span {
    span.scaled(1000 * u64::from(1 + cpus.clamp(1, 8).ilog2()))
}

/// The options of `cfs`, besides those of all schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cfs {
    /// The period in which every thread of a CPU should run once: `sched_latency`.
    pub latency: Span,
    /// The least time that a thread runs in that period, which grows if many threads share it:
    /// `sched_min_granularity`.
    pub granularity: Span,
    /// How far behind a woken thread must be to preempt another: `sched_wakeup_granularity`.
    pub wakeup_granularity: Span,
    /// How long a thread's cache is hot after it ran: `sched_migration_cost`.
    pub migration_cost: Span,
}

impl Cfs {
    /// The kernel's values for this many CPUs: 6, 0.75 and 1 ms times (1 + log2 of the CPUs, of
    /// which at most eight count), and 0.5 ms. Source: `kernel/sched/fair.c` of Linux 5.15,
    /// `get_update_sysctl_factor` and the variables that it scales.
    pub fn with_cpus(cpus: u32) -> Cfs {
        Cfs {
            latency: for_cpus(Span::from_millis(6), cpus),
            granularity: for_cpus(Span::from_micros(750), cpus),
            wakeup_granularity: for_cpus(Span::from_millis(1), cpus),
            migration_cost: Span::from_micros(500),
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
