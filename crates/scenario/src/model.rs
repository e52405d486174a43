//! The model of a scenario: a machine, the jobs that run on it, and the experiment around them.

use policy::feedback::{Boost, FeedbackRules};
use policy::waiting::{Bound, Costs, WaitingRule};
use policy::wakeup::Scheme;
use policy::{CpuSet, Span};

use crate::arrival::Arrival;
use crate::distribution::Distribution;
use crate::draw::{Law, Normal};
use crate::fibers::Fibers;
pub use crate::linux_2_4::{Accounting, Linux24};
use crate::pipeline::Pipeline;

/// A valid scenario file.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// A description for readers.
    pub title: String,
    /// Every combination of the swept values, in the order of the file (the last factor varies
    /// fastest). Without swept values there is one arm without factors. Never empty.
    pub arms: Vec<Arm>,
    /// How it is run and compared.
    pub experiment: Experiment,
}

/// One combination of the swept values, and the resulting setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The swept dotted paths and their values in this arm, in the order of the file. Paths that
    /// vary together are one factor: its name is all of them, joined by
    /// [`crate::keys::PATH_SEPARATOR`], and its value is a list.
    pub factors: Vec<(String, toml::Value)>,
    /// The machine and the jobs.
    pub setting: Setting,
}

/// A machine and the jobs on it: the input of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The machine, as far as the file specifies it.
    pub machine: MachineKeys,
    /// The jobs, in the order of the file; their names are unique.
    pub jobs: Vec<Job>,
    /// Whether jobs that have finished continue until all have finished once (and count once).
    pub keep_running: bool,
}

impl Setting {
    /// The number of threads of all jobs together on a machine with this many CPUs.
    pub fn threads(&self, cpus: u32) -> u64 {
        self.jobs.iter().map(|job| u64::from(job.copies) * u64::from(job.kind.threads(cpus))).sum()
    }

    /// The jobs with one item for each copy: `crew`, or `crew.0`, `crew.1`, ... if there are
    /// several.
    pub fn jobs_with_copies(&self) -> impl Iterator<Item = (String, &Job)> {
        self.jobs.iter().flat_map(|job| {
            (0..job.copies).map(move |copy| match job.copies {
                1 => (job.name.clone(), job),
                _ => (format!("{}.{copy}", job.name), job),
            })
        })
    }
}

/// The `[machine]` table as written, before [`MachineKeys::complete`] fills in the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineKeys {
    /// `like = "host"`: keys that are not written are detected and calibrated on the machine that
    /// rowlock runs on.
    pub like_host: bool,
    /// Number of CPUs.
    pub cpus: Option<u32>,
    /// Granularity of simulated time.
    pub step: Option<Span>,
    /// CS: the time that a CPU takes to switch from one thread to another, or to or from idleness.
    pub context_switch: Option<Span>,
    /// The time beyond a context switch that an idle CPU takes to start.
    pub wakeup_cost: Option<Span>,
    /// The time that a `sched_yield` takes when no other thread is ready.
    pub yield_cost: Option<Span>,
    /// The "+" of `cs+` and `2cs+`.
    pub spin_margin: Option<Bound>,
    /// How many requests the device serves at the same time.
    pub device_depth: Option<u32>,
    /// The kernel's scheduler.
    pub scheduler: Option<Scheduler>,
    /// The order of events if a spin ends in the very step of the arrival that it waits for.
    pub tie: Option<Tie>,
    /// `rr`: the quantum.
    pub quantum: Option<Span>,
    /// `eevdf`, `cfs`, `linux-2.4`, `linux-o1`: the period of the timer interrupt.
    pub tick: Option<Span>,
    /// `eevdf`: the base slice, the virtual time that a thread requests.
    pub slice: Option<Span>,
    /// `eevdf`: whether every job is a group.
    pub groups: Option<bool>,
    /// `cfs`: the period in which every thread should run once.
    pub latency: Option<Span>,
    /// `cfs`: the least time that a thread runs in that period.
    pub granularity: Option<Span>,
    /// `cfs`: how far behind a woken thread must be to preempt another.
    pub wakeup_granularity: Option<Span>,
    /// `cfs`: how long a thread's cache is hot after it ran.
    pub migration_cost: Option<Span>,
    /// `feedback`: the number of levels.
    pub levels: Option<u32>,
    /// `feedback`: how long a thread may run at each level.
    pub running_time: Option<Span>,
    /// `feedback`: how often all threads move to the highest level.
    pub boost: Option<Boost>,
    /// `linux-2.4`: the ticks that a thread may run in an epoch.
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
    /// `linux-o1`: the ticks that a thread with nice value 0 may run.
    pub timeslice: Option<u32>,
}

/// A fully specified machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Number of CPUs, at least one.
    pub cpus: u32,
    /// Granularity of simulated time, at least one nanosecond.
    pub step: Span,
    /// CS: the time that a CPU takes to switch from one thread to another, or to or from idleness.
    pub context_switch: Span,
    /// The time beyond a context switch that an idle CPU takes to start.
    pub wakeup_cost: Span,
    /// The time that a `sched_yield` takes when no other thread is ready.
    pub yield_cost: Span,
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
    /// `eevdf`: the base slice.
    pub slice: Span,
    /// `eevdf`: whether every job is a group; groups share the machine by their number, not by that
    /// of their threads.
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

/// The order of events if a spin ends in the very step of the arrival that it waits for.
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

    /// The name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Tie::Arrive => "arrive",
            Tie::Timeout => "timeout",
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
            device_depth: 1,
            scheduler: Scheduler::Eevdf,
            tie: Tie::default(),
            quantum: Span::from_micros(100),
            tick: Span::from_millis(4),
            slice: default_slice(cpus),
            groups: false,
            cfs: Cfs::with_cpus(cpus),
            linux_2_4: Linux24::default(),
            timeslice: 100,
            feedback: FeedbackRules::default(),
        }
    }

    /// The costs for waiting rules: CS is the cost of getting a blocked sibling running again, so
    /// it includes the cost of waking an idle CPU.
    pub fn costs(&self) -> Costs {
        let cs = self.context_switch + self.wakeup_cost;
        let margin = self.spin_margin.on(Costs { cs, ..Costs::default() });
        Costs { cs, margin, lone_yield: self.yield_cost, tick: self.tick }
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

impl MachineKeys {
    /// Completes the machine from `base`: the twin of this machine for `like = "host"`, else
    /// [`Machine::with_cpus`]. `linux-2.4` and `linux-o1` have their own ticks, independent of that
    /// of the base.
    pub fn complete(&self, base: &Machine) -> Machine {
        let cpus = self.cpus.unwrap_or(base.cpus);
        let slice = if cpus == base.cpus { base.slice } else { default_slice(cpus) };
        let scheduler = self.scheduler.unwrap_or(base.scheduler);
        let tick = scheduler.own_tick().unwrap_or(base.tick);
        Machine {
            cpus,
            step: self.step.unwrap_or(base.step),
            context_switch: self.context_switch.unwrap_or(base.context_switch),
            wakeup_cost: self.wakeup_cost.unwrap_or(base.wakeup_cost),
            yield_cost: self.yield_cost.unwrap_or(base.yield_cost),
            spin_margin: self.spin_margin.unwrap_or(base.spin_margin),
            device_depth: self.device_depth.unwrap_or(base.device_depth),
            scheduler,
            tie: self.tie.unwrap_or(base.tie),
            quantum: self.quantum.unwrap_or(base.quantum),
            tick: self.tick.unwrap_or(tick),
            slice: self.slice.unwrap_or(slice),
            groups: self.groups.unwrap_or(base.groups),
            cfs: self.complete_cfs(if cpus == base.cpus { base.cfs } else { Cfs::with_cpus(cpus) }),
            linux_2_4: self.complete_linux_2_4(&base.linux_2_4),
            timeslice: self.timeslice.unwrap_or(base.timeslice),
            feedback: FeedbackRules {
                levels: self.levels.unwrap_or(base.feedback.levels),
                running_time: self.running_time.unwrap_or(base.feedback.running_time),
                boost: self.boost.unwrap_or(base.feedback.boost),
            },
        }
    }

    fn complete_cfs(&self, base: Cfs) -> Cfs {
        Cfs {
            latency: self.latency.unwrap_or(base.latency),
            granularity: self.granularity.unwrap_or(base.granularity),
            wakeup_granularity: self.wakeup_granularity.unwrap_or(base.wakeup_granularity),
            migration_cost: self.migration_cost.unwrap_or(base.migration_cost),
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

    /// Whether this is exactly the machine that rowlock runs on: `like = "host"` without other
    /// keys, except for the margin, which belongs to the rules, and the depth of the device, which
    /// the host follows.
    pub fn is_host(&self) -> bool {
        let written = MachineKeys { spin_margin: None, device_depth: None, ..self.clone() };
        written == MachineKeys { like_host: true, ..MachineKeys::default() }
    }
}

/// A kernel scheduler of the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// First in, first out: the real-time policy with one priority, without a quantum or
    /// preemption.
    Fifo,
    /// Round robin: one queue and a quantum. A woken thread preempts no other, and no thread
    /// prefers a CPU.
    Rr,
    /// Linux 2.2 to 2.4: one queue, epochs, goodness.
    Linux24,
    /// Linux 2.6 before 2.6.23: a queue for each CPU, priorities, active and expired threads.
    LinuxO1,
    /// Linux 2.6.23 to 6.5: the completely fair scheduler.
    Cfs,
    /// Linux since 6.6: earliest eligible virtual deadline first.
    Eevdf,
    /// A multi-level feedback queue for all CPUs: threads that compute for long move down.
    Feedback,
}

impl Scheduler {
    /// All schedulers, in the order of the documentation.
    pub const ALL: [Scheduler; 7] = [
        Scheduler::Fifo,
        Scheduler::Rr,
        Scheduler::Linux24,
        Scheduler::LinuxO1,
        Scheduler::Cfs,
        Scheduler::Eevdf,
        Scheduler::Feedback,
    ];

    /// Whether every ready thread runs eventually, independent of the others. Not without
    /// preemption: there, threads that compute or spin without end keep the others from running.
    pub const fn shares_time(self) -> bool {
        !matches!(self, Scheduler::Fifo)
    }

    /// The name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Scheduler::Fifo => "fifo",
            Scheduler::Rr => "rr",
            Scheduler::Linux24 => "linux-2.4",
            Scheduler::LinuxO1 => "linux-o1",
            Scheduler::Cfs => "cfs",
            Scheduler::Eevdf => "eevdf",
            Scheduler::Feedback => "feedback",
        }
    }

    /// The default tick of a kernel whose other times are counted in ticks.
    const fn own_tick(self) -> Option<Span> {
        match self {
            Scheduler::Linux24 => Some(Linux24::TICK),
            // HZ = 1000.
            Scheduler::LinuxO1 => Some(Span::from_millis(1)),
            _ => None,
        }
    }
}

/// A group of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// How many jobs like this there are; zero in an arm without it.
    pub copies: u32,
    /// The work of its threads.
    pub kind: JobKind,
    /// How the kernel schedules its threads.
    pub attributes: Attributes,
    /// When it arrives.
    pub arrival: Arrival,
}

impl Job {
    /// A job with this many copies that arrives at the start of the run, with default scheduling
    /// attributes.
    pub fn new(name: impl Into<String>, copies: u32, kind: JobKind) -> Job {
        Job { name: name.into(), copies, kind, attributes: Attributes::default(), arrival: Arrival::default() }
    }
}

/// The scheduling attributes of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Their nice value, -20 to 19.
    pub nice: i8,
    /// The CPUs on which they may run; `None` for all.
    pub cpus: Option<CpuSet>,
    /// The slice that they request, if it is not that of the machine.
    pub slice: Option<Span>,
}

/// The work of a job's threads.
#[derive(Clone, Debug, PartialEq)]
pub enum JobKind {
    /// Every thread computes, then all meet at a barrier, repeatedly.
    Barrier {
        /// How many threads meet, at least one.
        threads: u32,
        /// The time between two barriers.
        compute: Compute,
        /// How often they meet, at least once.
        rounds: u64,
        /// How they wait for each other.
        waiting: WaitingRule,
    },
    /// Every thread computes, then acquires the job's lock, computes with it and releases it,
    /// repeatedly.
    Lock {
        /// How many threads contend, at least one.
        threads: u32,
        /// The time that a thread computes without the lock.
        compute: Distribution,
        /// The time that it computes with the lock.
        critical: Distribution,
        /// How often each thread acquires the lock, at least once.
        rounds: u64,
        /// How they wait for each other.
        waiting: WaitingRule,
    },
    /// Every thread only computes.
    Cpu {
        /// The number of threads, at least one.
        threads: u32,
        /// How long each of them computes, drawn for each; without it, until the other jobs have
        /// ended.
        work: Option<Distribution>,
    },
    /// A real program. The simulator replaces it by a `cpu` job of its CPU time.
    Command {
        /// The program and its arguments; never empty.
        argv: Vec<String>,
        /// On how many threads the simulator spreads its CPU time.
        threads: u32,
        /// Its CPU time, if the file states it; else it is measured.
        work: Option<Span>,
    },
    /// Buffers pass through stages that read, compute, communicate and write.
    Pipeline(Pipeline),
    /// User-level threads under a feedback queue.
    Fibers(Fibers),
}

impl JobKind {
    /// The names of all kinds, in the order of the documentation.
    pub const NAMES: [&str; 6] = ["barrier", "lock", "cpu", "command", "pipeline", "fibers"];

    /// How many threads it has on a machine with this many CPUs.
    pub fn threads(&self, cpus: u32) -> u32 {
        match self {
            JobKind::Barrier { threads, .. }
            | JobKind::Lock { threads, .. }
            | JobKind::Cpu { threads, .. }
            | JobKind::Command { threads, .. } => *threads,
            JobKind::Pipeline(pipeline) => pipeline.threads(cpus),
            JobKind::Fibers(fibers) => fibers.workers,
        }
    }

    /// Whether the job runs until the others have ended.
    pub const fn is_endless(&self) -> bool {
        matches!(self, JobKind::Cpu { work: None, .. })
    }

    /// The name in scenario files.
    pub const fn name(&self) -> &'static str {
        match self {
            JobKind::Barrier { .. } => JobKind::NAMES[0],
            JobKind::Lock { .. } => JobKind::NAMES[1],
            JobKind::Cpu { .. } => JobKind::NAMES[2],
            JobKind::Command { .. } => JobKind::NAMES[3],
            JobKind::Pipeline(_) => JobKind::NAMES[4],
            JobKind::Fibers(_) => JobKind::NAMES[5],
        }
    }
}

/// The time that a thread computes between two barriers.
#[derive(Clone, Debug, PartialEq)]
pub enum Compute {
    /// Drawn from this distribution.
    Drawn(Distribution),
    /// Relative to CS.
    Granularity(Granularity),
}

impl Compute {
    /// The law to draw from on a machine with this CS.
    pub fn on(&self, cs: Span) -> Law {
        match self {
            Compute::Drawn(distribution) => distribution.law(),
            Compute::Granularity(granularity) => Law::Normal(granularity.on(cs)),
        }
    }

    /// The mean on a machine with this CS, in nanoseconds.
    pub fn mean(&self, cs: Span) -> f64 {
        match self {
            Compute::Drawn(distribution) => distribution.mean(),
            Compute::Granularity(granularity) => granularity.on(cs).mean,
        }
    }
}

/// The paper's classes of computation: nine intervals in ten are shorter than one CS (fine), five
/// (medium) or twenty (coarse), and the standard deviation is a tenth of the mean. Source: Tsafrir
/// and Feitelson, section 2.1.
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

    /// The name in scenario files.
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
        /// Nine tenths of a normal distribution lie below the mean plus this many deviations.
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
    /// Repeat `r` of every arm uses `seed + r`, so that all arms face equal draws.
    pub seed: u64,
    /// The factor that is compared, or a path of one; its first value is the baseline of speed-ups.
    pub compare: Option<String>,
    /// The plots' axis: a factor, a path of one, [`X_THREADS`] or [`X_LOAD`].
    ///
    /// [`X_THREADS`]: crate::keys::experiment::X_THREADS
    ///
    /// [`X_LOAD`]: crate::keys::experiment::X_LOAD
    pub x: Option<String>,
}
