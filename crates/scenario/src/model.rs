//! What a scenario says: a machine, jobs that run on it, and the experiment around them.

use policy::Span;
use policy::waiting::{Bound, Costs, Rule};
use policy::wakeup::Scheme;

use crate::draw::Normal;

/// A scenario file, read and found valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it is about, for people.
    pub title: String,
    /// Every combination of the swept values, in the order of the file (the last factor turns fastest); one arm without
    /// factors where nothing is swept. Never empty.
    pub arms: Vec<Arm>,
    /// How it is run and compared.
    pub experiment: Experiment,
}

/// One combination of the swept values, and what the scenario is with them.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The swept dotted paths and their values here, in the order of the file.
    pub factors: Vec<(String, toml::Value)>,
    /// The machine and the jobs.
    pub setting: Setting,
}

/// A machine and the jobs on it: what one run executes.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The machine, as far as the file says.
    pub machine: MachineKeys,
    /// The jobs, in the order of the file; their names differ.
    pub jobs: Vec<Job>,
    /// Whether jobs that have finished go on until all have finished once (and count once).
    pub keep_running: bool,
}

impl Setting {
    /// The jobs with their copies counted out: `crew`, or `crew.0`, `crew.1`, ... where there are several.
    pub fn jobs_with_copies(&self) -> impl Iterator<Item = (String, &Job)> {
        self.jobs.iter().flat_map(|job| {
            (0..job.copies).map(move |copy| match job.copies {
                1 => (job.name.clone(), job),
                _ => (format!("{}.{copy}", job.name), job),
            })
        })
    }
}

/// The `[machine]` table: what is written, before the rest is filled in by [`MachineKeys::complete`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineKeys {
    /// `like = "host"`: what is not written is as found and calibrated on the machine that we run on.
    pub like_host: bool,
    /// Number of CPUs.
    pub cpus: Option<u32>,
    /// Granularity of simulated time.
    pub step: Option<Span>,
    /// CS: what a CPU pays to go from one thread to another, or to or from idleness.
    pub context_switch: Option<Span>,
    /// What it costs beyond a context switch to get an idle CPU going.
    pub wakeup_cost: Option<Span>,
    /// What a `sched_yield` costs that finds nobody else.
    pub yield_cost: Option<Span>,
    /// The "+" of `cs+` and `2cs+`.
    pub spin_margin: Option<Bound>,
    /// The kernel's scheduler.
    pub scheduler: Option<Scheduler>,
    /// What comes first when a spin ends in the very step of the arrival that it waits for.
    pub tie: Option<Tie>,
    /// `rr`: the quantum.
    pub quantum: Option<Span>,
    /// `eevdf`, `linux-2.4`: the period of the timer interrupt.
    pub tick: Option<Span>,
    /// `eevdf`: the base slice, the virtual time that a thread asks for.
    pub slice: Option<Span>,
    /// `linux-2.4`: ticks that a thread may run in an epoch.
    pub allocation: Option<u32>,
    /// `linux-2.4`: `PROC_CHANGE_PENALTY`, in ticks.
    pub penalty: Option<u32>,
    /// `linux-2.4`: `SAME_ADDRESS_SPACE_BONUS`, in ticks.
    pub bonus: Option<u32>,
    /// `linux-2.4`: the threshold of preemption, in ticks.
    pub threshold: Option<u32>,
    /// `linux-2.4`: how running time is charged.
    pub accounting: Option<Accounting>,
    /// `linux-2.4`: whether a thread is charged for the switch to it.
    pub charge_switch: Option<bool>,
    /// `linux-2.4`: whether a preempted thread is offered to other CPUs.
    pub tail: Option<bool>,
    /// `linux-2.4`: the wakeup scheme.
    pub wakeup: Option<Scheme>,
}

/// A machine with nothing left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Number of CPUs, at least one.
    pub cpus: u32,
    /// Granularity of simulated time, at least one nanosecond.
    pub step: Span,
    /// CS: what a CPU pays to go from one thread to another, or to or from idleness.
    pub context_switch: Span,
    /// What it costs beyond a context switch to get an idle CPU going.
    pub wakeup_cost: Span,
    /// What a `sched_yield` costs that finds nobody else.
    pub yield_cost: Span,
    /// The "+" of `cs+` and `2cs+`.
    pub spin_margin: Bound,
    /// The kernel's scheduler.
    pub scheduler: Scheduler,
    /// What comes first when a spin ends in the very step of the arrival that it waits for.
    pub tie: Tie,
    /// `rr`: the quantum.
    pub quantum: Span,
    /// `eevdf`, `linux-2.4`: the period of the timer interrupt.
    pub tick: Span,
    /// `eevdf`: the base slice.
    pub slice: Span,
    /// `linux-2.4`: what it has besides.
    pub linux_2_4: Linux24,
}

/// What comes first when a spin ends in the very step of the arrival that it waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tie {
    /// The arrival: the spin has succeeded.
    #[default]
    Arrive,
    /// The end of the spin: it has failed.
    Timeout,
}

impl Tie {
    /// Both, the default first.
    pub const ALL: [Tie; 2] = [Tie::Arrive, Tie::Timeout];

    /// As it is written in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Tie::Arrive => "arrive",
            Tie::Timeout => "timeout",
        }
    }
}

/// How running time is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Accounting {
    /// To the step.
    #[default]
    Exact,
    /// A whole tick to whoever runs when the timer interrupts.
    Tick,
}

impl Accounting {
    /// Both, the default first.
    pub const ALL: [Accounting; 2] = [Accounting::Exact, Accounting::Tick];

    /// As it is written in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Accounting::Exact => "exact",
            Accounting::Tick => "tick",
        }
    }
}

/// The options of `linux-2.4`, those of all schedulers aside. Source of the defaults: Tsafrir and Feitelson, appendix A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linux24 {
    /// Ticks that a thread may run in an epoch, at least one.
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
    /// The tick of `linux-2.4` where none is written: 10 steps of 1 us, beside a context switch of 6.
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

impl Machine {
    /// A machine of `cpus` CPUs with the defaults of docs/scenario.md.
    pub fn with_cpus(cpus: u32) -> Machine {
        Machine {
            cpus,
            step: Span::from_nanos(1),
            context_switch: Span::from_micros(6),
            wakeup_cost: Span::ZERO,
            yield_cost: Span::from_nanos(500),
            spin_margin: Bound::OfCs { thousandths: 500, plus: false },
            scheduler: Scheduler::Eevdf,
            tie: Tie::default(),
            quantum: Span::from_micros(100),
            tick: Span::from_millis(4),
            slice: default_slice(cpus),
            linux_2_4: Linux24::default(),
        }
    }

    /// What waiting rules are told about costs here: CS is what it costs to get a blocked sibling running again, so the cost of
    /// waking an idle CPU is part of it.
    pub fn costs(&self) -> Costs {
        let cs = self.context_switch + self.wakeup_cost;
        let margin = self.spin_margin.on(Costs { cs, ..Costs::default() });
        Costs { cs, margin, lone_yield: self.yield_cost, tick: self.tick }
    }
}

/// Linux's base slice for so many CPUs: 0.7 ms times (1 + log2 of the CPUs, of which it counts no more than eight).
/// Source: `kernel/sched/fair.c` of Linux 6.18, `sysctl_sched_base_slice` and `get_update_sysctl_factor`.
pub fn default_slice(cpus: u32) -> Span {
    Span::from_micros(700).scaled(1000 * u64::from(1 + cpus.clamp(1, 8).ilog2()))
}

impl MachineKeys {
    /// The machine with what is not written taken from `base`: the twin of this machine for `like = "host"`, else
    /// [`Machine::with_cpus`]. The tick of `linux-2.4` is its own, whatever that of the base is.
    pub fn complete(&self, base: &Machine) -> Machine {
        let cpus = self.cpus.unwrap_or(base.cpus);
        let slice = if cpus == base.cpus { base.slice } else { default_slice(cpus) };
        let scheduler = self.scheduler.unwrap_or(base.scheduler);
        let tick = if scheduler == Scheduler::Linux24 { Linux24::TICK } else { base.tick };
        Machine {
            cpus,
            step: self.step.unwrap_or(base.step),
            context_switch: self.context_switch.unwrap_or(base.context_switch),
            wakeup_cost: self.wakeup_cost.unwrap_or(base.wakeup_cost),
            yield_cost: self.yield_cost.unwrap_or(base.yield_cost),
            spin_margin: self.spin_margin.unwrap_or(base.spin_margin),
            scheduler,
            tie: self.tie.unwrap_or(base.tie),
            quantum: self.quantum.unwrap_or(base.quantum),
            tick: self.tick.unwrap_or(tick),
            slice: self.slice.unwrap_or(slice),
            linux_2_4: self.complete_linux_2_4(&base.linux_2_4),
        }
    }

    fn complete_linux_2_4(&self, base: &Linux24) -> Linux24 {
        Linux24 {
            allocation: self.allocation.unwrap_or(base.allocation),
            penalty: self.penalty.unwrap_or(base.penalty),
            bonus: self.bonus.unwrap_or(base.bonus),
            threshold: self.threshold.unwrap_or(base.threshold),
            accounting: self.accounting.unwrap_or(base.accounting),
            charge_switch: self.charge_switch.unwrap_or(base.charge_switch),
            tail: self.tail.unwrap_or(base.tail),
            wakeup: self.wakeup.unwrap_or(base.wakeup),
        }
    }

    /// Whether this is the machine that we run on and no other: `like = "host"` with nothing written over it but the
    /// margin, which is the rules' and not the machine's.
    pub fn is_the_host(&self) -> bool {
        let written = MachineKeys { spin_margin: None, ..self.clone() };
        written == MachineKeys { like_host: true, ..MachineKeys::default() }
    }
}

/// A kernel scheduler that the simulator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// Round robin: one queue, a quantum, no affinity and no preemption on wakeup.
    Rr,
    /// Linux 2.2 to 2.4: one queue, epochs, goodness.
    Linux24,
    /// Linux since 6.6: earliest eligible virtual deadline first.
    Eevdf,
}

impl Scheduler {
    /// All of them, in the order in which they are listed to people.
    pub const ALL: [Scheduler; 3] = [Scheduler::Rr, Scheduler::Linux24, Scheduler::Eevdf];

    /// As it is written in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Scheduler::Rr => "rr",
            Scheduler::Linux24 => "linux-2.4",
            Scheduler::Eevdf => "eevdf",
        }
    }
}

/// Threads that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// How many jobs of this kind there are, at least one.
    pub copies: u32,
    /// What its threads do.
    pub kind: Kind,
}

/// What the threads of a job do.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Every thread computes, then all meet at a barrier, again and again.
    Barrier {
        /// How many threads meet, at least one.
        threads: u32,
        /// The time between two barriers.
        compute: Compute,
        /// How often they meet, at least once.
        rounds: u64,
        /// How they wait for each other.
        waiting: Rule,
    },
    /// Every thread computes, then takes the job's lock, computes while it has it and gives it back, again and again.
    Lock {
        /// How many threads contend, at least one.
        threads: u32,
        /// The time that a thread computes without the lock.
        compute: Lengths,
        /// The time that it computes with it.
        critical: Lengths,
        /// How often each thread takes the lock, at least once.
        rounds: u64,
        /// How they wait for each other.
        waiting: Rule,
    },
    /// Every thread only computes.
    Cpu {
        /// How many threads, at least one.
        threads: u32,
        /// How much each of them computes; without it, until the other jobs have ended.
        work: Option<Span>,
    },
    /// A real program. The simulator puts a `cpu` job of its CPU time in its place.
    Command {
        /// The program and its arguments; never empty.
        argv: Vec<String>,
        /// On how many threads the simulator spreads its CPU time.
        threads: u32,
        /// Its CPU time where the file says it; else it is measured.
        work: Option<Span>,
    },
}

impl Kind {
    /// The names of all kinds, in the order in which they are listed to people.
    pub const NAMES: [&str; 4] = ["barrier", "lock", "cpu", "command"];

    /// How many threads compute.
    pub const fn threads(&self) -> u32 {
        match *self {
            Kind::Barrier { threads, .. }
            | Kind::Lock { threads, .. }
            | Kind::Cpu { threads, .. }
            | Kind::Command { threads, .. } => threads,
        }
    }

    /// Whether the job runs until the others have ended.
    pub const fn is_endless(&self) -> bool {
        matches!(self, Kind::Cpu { work: None, .. })
    }

    /// As it is written in a scenario.
    pub const fn name(&self) -> &'static str {
        match self {
            Kind::Barrier { .. } => Kind::NAMES[0],
            Kind::Lock { .. } => Kind::NAMES[1],
            Kind::Cpu { .. } => Kind::NAMES[2],
            Kind::Command { .. } => Kind::NAMES[3],
        }
    }
}

/// Normally distributed lengths; exact where the deviation is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// The mean.
    pub mean: Span,
    /// The standard deviation.
    pub sd: Span,
}

impl Lengths {
    /// The distribution to draw from.
    pub fn normal(self) -> Normal {
        Normal { mean: self.mean.as_nanos() as f64, sd: self.sd.as_nanos() as f64 }
    }
}

/// The time that a thread computes between two barriers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compute {
    /// Normally distributed; exact where the deviation is zero.
    Normal {
        /// The mean.
        mean: Span,
        /// The standard deviation.
        sd: Span,
    },
    /// By its relation to CS.
    Granularity(Granularity),
}

impl Compute {
    /// The distribution on a machine with this CS.
    pub fn on(self, cs: Span) -> Normal {
        match self {
            Compute::Normal { mean, sd } => Lengths { mean, sd }.normal(),
            Compute::Granularity(granularity) => granularity.on(cs),
        }
    }
}

/// The paper's classes of computation: nine intervals in ten are shorter than one CS (fine), five (medium) or twenty
/// (coarse), and the standard deviation is a tenth of the mean. Source: Tsafrir and Feitelson,
/// section 2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// Nine in ten shorter than CS.
    Fine,
    /// Nine in ten shorter than 5 CS.
    Medium,
    /// Nine in ten shorter than 20 CS.
    Coarse,
}

impl Granularity {
    /// All of them, finest first.
    pub const ALL: [Granularity; 3] = [Granularity::Fine, Granularity::Medium, Granularity::Coarse];

    /// As it is written in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Granularity::Fine => "fine",
            Granularity::Medium => "medium",
            Granularity::Coarse => "coarse",
        }
    }

    fn on(self, cs: Span) -> Normal {
        /// Standard deviation over mean.
        const VARIATION: f64 = 0.1;
        /// Nine tenths of a normal distribution lie below the mean plus so many deviations.
        const NINE_TENTHS: f64 = 1.2816;
        let multiple = match self {
            Granularity::Fine => 1.0,
            Granularity::Medium => 5.0,
            Granularity::Coarse => 20.0,
        };
        let mean = multiple * cs.as_nanos() as f64 / (1.0 + NINE_TENTHS * VARIATION);
        Normal { mean, sd: VARIATION * mean }
    }
}

/// How a scenario is run and compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// How often every arm is run, at least once.
    pub repeat: u32,
    /// Repeat `r` of every arm uses `seed + r`, so that arms face equal draws.
    pub seed: u64,
    /// The swept path that is compared; its first value is the baseline of speed-ups.
    pub compare: Option<String>,
    /// The swept path on the plots' axis.
    pub x: Option<String>,
}
