//! The table of all keys of a scenario file.
//!
//! The reader takes its limits and hints from it, and a test compares docs/scenario.md with it, so
//! that no key can exist for only one of them.
//!
//! Apart from its row here, in the list of its table, a new key needs:
//!
//! * for `[machine]`: a row and a field in `machine.rs`; for other tables: a field of its struct
//!   (`coscheduling.rs`, or that of the job: `model.rs`, `pipeline.rs`, `fibers.rs`, `message.rs`),
//!   read in `read/` and written in `write.rs`;
//! * its row in docs/scenario.md (`tests/scenario/document.rs` prints the expected table);
//! * a value in `tests/scenario/drawn.rs`, which draws every field;
//! * for an option of a simulated scheduler: a value in `sim/tests/sim/reference/` (`settings.rs`
//!   or `properties.rs`).

/// Declares keys, one in each row: the constant and the fields of its [`Key`] in their order. The
/// constant is documented by the key's name and by a comment above the row, if any.
macro_rules! keys {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $value:expr, $default:expr, $example:literal, $meaning:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`")]
            $(#[$doc])*
            pub const $id: Key =
                Key { name: $name, value: $value, default: $default, example: $example, meaning: $meaning };
        )*
    };
}

pub mod compute;
pub mod coscheduling;
pub mod group;
pub mod job;
pub mod stage;

use std::fmt;

use policy::Span;
use policy::gang::Gang;
use policy::layout::Partitioner;
use policy::priority::StageKind;
use policy::slices::Movement;
use policy::wakeup::Scheme;

use crate::named::{Accounting, Arrivals, Scheduler, TickPhase, Tie};

/// The largest size of a file: 1 MiB.
pub const LONGEST_FILE: usize = 1 << 20;
/// The longest span in a file: 30 days.
pub const LONGEST_SPAN: Span = Span::from_millis(30 * 24 * 3600 * 1000);
/// The largest multiple of CS as a bound on spinning, in thousandths.
pub const LARGEST_MULTIPLE: u64 = 1_000_000 * 1000;
/// The most threads that all jobs of an arm may have together.
pub const MOST_THREADS: u64 = 1_000_000;
/// The most time that all threads of an arm may compute together: 100 years. Sums of CPU time stay
/// far within a [`Span`].
pub const MOST_WORK: Span = Span::from_millis(100 * 365 * 24 * 3600 * 1000);
/// The most swept paths.
pub const MOST_FACTORS: usize = 32;
/// The most arms.
pub const MOST_ARMS: usize = 100_000;
/// The largest product of the size of the file and the number of arms, so that all arms fit into
/// memory: 256 MiB.
pub const MOST_TEXT: usize = 1 << 28;
/// The largest product of arms and repeats.
pub const MOST_RUNS: u64 = 1_000_000;
/// The most CPUs of a machine.
pub const MOST_CPUS: u32 = 8_192;
/// The most CPUs of all cells of a machine together.
pub const MOST_CPUS_OF_CELLS: u32 = 65_536;
/// The most rounds.
pub const MOST_ROUNDS: u64 = 1_000_000_000_000;
/// The largest number of ticks.
pub const MOST_TICKS: u64 = 1_000_000;
/// The most buffers of a pipeline, and the most rounds of a stage in a row on a shared thread.
pub const MOST_BUFFERS: u64 = 1_000_000;
/// The most bursts of all fibers of a job together.
pub const MOST_BURSTS: u64 = 10_000_000;
/// The longest message, in bytes: 1 GiB.
pub const LONGEST_MESSAGE: u64 = 1 << 30;
/// The largest weight of a job.
pub const LARGEST_WEIGHT: u64 = policy::turn::LARGEST_WEIGHT as u64;
/// The longest name, in characters.
pub const LONGEST_NAME: usize = 64;

/// The separator of paths that are swept together.
pub const PATH_SEPARATOR: &str = ", ";

/// One key: its allowed values and its meaning.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name in the file.
    pub name: &'static str,
    /// The allowed values.
    pub value: Value,
    /// The default.
    pub default: KeyDefault,
    /// An example of a value, as written in a file.
    pub example: &'static str,
    /// The meaning, in one sentence.
    pub meaning: &'static str,
}

/// Declares the allowed values of a key: those whose description is constant in one row each, and
/// the others.
macro_rules! values {
    ($($id:ident = $description:literal,)*) => {
        /// The allowed values of a key; its `Display` describes them in a sentence, as in
        /// "`threads` is ...".
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Value {
            $(#[doc = $description] $id,)*
            /// the name of a job or of a part of it
            Name,
            /// a whole number in a range
            Count {
                /// its lower end
                least: u64,
                /// its upper end
                most: u64,
            },
            /// one of these texts
            OneOf(&'static [&'static str]),
        }

        impl fmt::Display for Value {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Value::$id => f.write_str($description),)*
                    Value::Name => write!(f, "a text of letters, digits, `-` and `_`, at most {LONGEST_NAME}"),
                    Value::Count { least, most } => write!(f, "a whole number, {least} to {most}"),
                    Value::OneOf(names) => write!(f, "`\"{}\"`", names.join("\"` or `\"")),
                }
            }
        }
    };
}

values! {
    Text = "a text on one line",
    Words = "a list of texts, at least one",
    Flag = "`true` or `false`",
    Span = "a span of time",
    Time = "a span of time above zero",
    Period = r#"a span of time above zero or `"never"`"#,
    Margin = "a span of time or a multiple of CS",
    Nice = "a whole number, -20 to 19",
    Cpus = "a text of CPUs and ranges of them",
    Shape = "a text of columns and rows",
    Topology = "a text of nodes, cores and threads",
    Bandwidth = "a bandwidth",
    Lowering = r#"`"nice 1"` to `"nice 39"`, or `"weight 2"` to `"weight 1023"`"#,
    Waiting = "a waiting rule",
    Priority = "a priority rule",
    Stages = "a list of tables, one per stage",
    Groups = "a list of tables, one per group",
    Threads = r#"a list of lists of stages, each `"STAGE"` or `"STAGE*N"`"#,
    Compute = "a span of time, or a table of a distribution",
    Work = "a span of time above zero, or a table of a distribution",
    Spans = "a list of spans of time, at least one",
    Weights = "a list of numbers, none below zero",
    Path = "one of the swept paths",
    Axis = r#"one of the swept paths, `"threads"` or `"load"`"#,
    Sweep = "a table of paths, each with a list of values",
    Table = "a table",
    Tables = "a list of tables",
}

/// The value of a key that is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDefault {
    /// None: the key is required.
    Required,
    /// This, in words.
    Is(&'static str),
}

const fn count(least: u64, most: u64) -> Value {
    Value::Count { least, most }
}

/// The whole file.
pub mod file {
    use super::KeyDefault::{Is, Required};
    use super::{Key, Value};

    keys! {
        TITLE = "title", Value::Text, Is("none"), r#""Eleven threads against a crowd""#, "the title";
        MACHINE = "machine", Value::Table, Required, "{ cpus = 32 }", "the machine";
        COSCHEDULING = "coscheduling", Value::Table, Is("no turns"), r#"{ how = "moderate" }"#,
            "how jobs share the cells of the machine";
        JOB = "job", Value::Tables, Required, r#"[{ name = "crowd", kind = "cpu", work = "1 s" }]"#,
            "the jobs that run on it";
        EXPERIMENT = "experiment", Value::Table, Is("as below"), "{ repeat = 3 }", "how the jobs are run and compared";
    }

    /// All of them.
    pub const ALL: &[Key] = &[TITLE, MACHINE, COSCHEDULING, JOB, EXPERIMENT];
}

/// The `[machine]` table.
pub mod machine {
    use policy::feedback::FeedbackRules;

    use super::KeyDefault::Is;
    use super::{Accounting, Arrivals, Key, MOST_CPUS, MOST_TICKS, SCHEMES, Scheduler, TickPhase, Tie, Value, count};

    keys! {
        LIKE = "like", Value::OneOf(&["host"]), Is("none"), r#""host""#,
            "missing keys are detected on the machine that rowlock runs on";
        CPUS = "cpus", count(1, MOST_CPUS as u64), Is("required without `like`, `topology` or `cells`"), "32",
            "the number of CPUs, with `cells` that of each cell";
        TOPOLOGY = "topology", Value::Topology, Is("one node, cores with one thread"), r#""2x8x2""#,
            "the nodes, the cores of each node and the hardware threads of each core, which are the CPUs";
        CACHE_REFILL = "cache_refill", Value::Span, Is("0 ns"), r#""20 us""#,
            "how much longer the switch to a thread takes that has last run on another core";
        NODE_REFILL = "node_refill", Value::Span, Is("0 ns"), r#""50 us""#,
            "how much longer yet it takes if that core is one of another node";
        SMT_SPEED = "smt_speed", count(1, 100), Is("100"), "65",
            "how fast a CPU computes while another CPU of its core is not idle, in percent";
        STEP = "step", Value::Time, Is("1 ns"), r#""1 us""#,
            "the granularity of simulated time: drawn durations are rounded down to it";
        CONTEXT_SWITCH = "context_switch", Value::Span, Is("6 us"), r#""6 us""#,
            "CS: the cost for a CPU to switch from one thread to another, or to or from idle";
        WAKEUP_COST = "wakeup_cost", Value::Span, Is("0 ns"), r#""50 us""#,
            "the cost of starting an idle CPU in addition to a context switch";
        YIELD_COST = "yield_cost", Value::Span, Is("500 ns"), r#""300 ns""#,
            "the cost of a `sched_yield` without another ready thread";
        LINE_TRANSFER = "line_transfer", Value::Span, Is("0 ns"), r#""100 ns""#,
            "how long a CPU that arrives at a barrier waits for a cache line that another one wrote last; of one line, one CPU at a time";
        ARRIVALS = "arrivals", Value::OneOf(&Arrivals::NAMES), Is("by-size"), r#""tree""#,
            "whether arrivals at a barrier are counted by one counter or by a tree: with `by-size`, by a tree from 32 threads on";
        SPIN_MARGIN = "spin_margin", Value::Margin, Is("0.5 cs"), r#""3 us""#, "the \"+\" of `cs+` and `2cs+`";
        DEVICE_DEPTH = "device_depth", count(1, 1_000_000), Is("1"), "32",
            "how many requests the device serves at a time; the others wait in order of arrival";
        SCHEDULER = "scheduler", Value::OneOf(&Scheduler::NAMES), Is("eevdf"), r#""rr""#, "the kernel's scheduler";
        TIE = "tie", Value::OneOf(&Tie::NAMES), Is("arrive"), r#""timeout""#,
            "which comes first if a spin ends in the same step as the awaited arrival";
        CELLS = "cells", Value::Shape, Is("none"), r#""8x2""#,
            "the cells, each of which has a kernel, a clock and `cpus` CPUs of its own (by default one)";
        NETWORK_LATENCY = "network_latency", Value::Span, Is("5 us"), r#""20 us""#,
            "how long a message travels between cells, besides the time of its bytes";
        BANDWIDTH = "bandwidth", Value::Bandwidth, Is("25 MB/s"), r#""10 GB/s""#,
            "how fast a cell sends, one message at a time";
        BARRIER_LATENCY = "barrier_latency", Value::Span, Is("1 us"), r#""200 ns""#,
            "how long the hardware barrier takes after the last arrival";
        QUANTUM = "quantum", Value::Time, Is("100 us"), r#""100 us""#, "how long a thread runs before the next one";
        TICK = "tick", Value::Time, Is("4 ms"), r#""1 ms""#, "the period of the timer interrupt";
        TICK_PHASE = "tick_phase", Value::OneOf(&TickPhase::NAMES), Is("common"), r#""drawn""#,
            "when the CPUs tick, in relation to each other and to the beginning of the run";
        SLICE = "slice", Value::Time, Is("700 us with 1 CPU, 1.4 ms from 2, 2.1 ms from 4, 2.8 ms from 8"), r#""3 ms""#,
            "the base slice: the virtual time that a thread requests";
        LATENCY = "latency", Value::Time, Is("6 ms with 1 CPU, 12 ms from 2, 18 ms from 4, 24 ms from 8"), r#""6 ms""#,
            "the period in which every thread of a CPU should run once";
        GRANULARITY = "granularity", Value::Time, Is("750 us with 1 CPU, 1.5 ms from 2, 2.25 ms from 4, 3 ms from 8"),
            r#""750 us""#, "the minimum time that a thread runs in that period, which grows if many threads share it";
        WAKEUP_GRANULARITY = "wakeup_granularity", Value::Span, Is("1 ms with 1 CPU, 2 ms from 2, 3 ms from 4, 4 ms from 8"),
            r#""1 ms""#, "how far behind a woken thread must be to preempt another";
        MIGRATION_COST = "migration_cost", Value::Span, Is("500 us"), r#""100 us""#,
            "how long a thread's cache is hot after it ran: other CPUs do not take it, and CPUs that expect to idle for a shorter time do not look for threads";
        GROUPS = "groups", Value::Flag, Is("false"), "true",
            "whether every job is a group, and groups have equal shares of the machine regardless of their numbers of threads";

        /// of `linux-2.4`
        SHORT_TICK = "tick", Value::Time, Is("10 us"), r#""10 us""#,
            "the period of the timer interrupt: the unit of the next four keys";
        ALLOCATION = "allocation", count(1, MOST_TICKS), Is("20"), "5",
            "the ticks that a thread may run in an epoch; half of the unused ones are added in the next epoch";
        PENALTY = "penalty", count(0, MOST_TICKS), Is("15"), "0",
            "what staying on its CPU is worth to a thread, in ticks of its counter";
        BONUS = "bonus", count(0, MOST_TICKS), Is("1"), "0",
            "what following a thread of the same job on a CPU is worth, in ticks";
        THRESHOLD = "threshold", count(0, MOST_TICKS), Is("1"), "0",
            "a woken thread preempts another only if it is better by more than this many ticks";
        ACCOUNTING = "accounting", Value::OneOf(&Accounting::NAMES), Is("exact"), r#""tick""#,
            "whether running time is charged exactly, or in whole ticks to the thread that runs at the timer interrupt";
        CHARGE_SWITCH = "charge_switch", Value::Flag, Is("true"), "false",
            "whether a thread's counter is charged for the switch to it";
        TAIL = "tail", Value::Flag, Is("true"), "false",
            "whether a preempted thread is offered to other CPUs when its switch is over";
        WAKEUP = "wakeup", Value::OneOf(&SCHEMES), Is("original"), r#""ap""#,
            "the wakeup scheme, which chooses the CPUs of woken threads";
        /// of `linux-o1`
        TICK_OF_O1 = "tick", Value::Time, Is("1 ms"), r#""100 us""#,
            "the period of the timer interrupt; times that the kernel counts in ticks or milliseconds scale with it";
        TIMESLICE = "timeslice", count(1, MOST_TICKS), Is("100"), "4",
            "the ticks that a thread with nice value 0 may run before it expires";
        LEVELS = "levels", count(1, FeedbackRules::MOST_LEVELS as u64), Is("10"), "50", "the number of levels";
        RUNNING_TIME = "running_time", Value::Time, Is("100 us"), r#""50 us""#,
            "how long a thread may run at a level, in total over its turns, before it goes down by one";
        BOOST = "boost", Value::Period, Is("10 ms"), r#""never""#,
            "how often all threads move to the highest level, so that none starves";
    }

    /// The keys of every scheduler.
    pub const COMMON: &[Key] = &[
        LIKE,
        CPUS,
        TOPOLOGY,
        CACHE_REFILL,
        NODE_REFILL,
        SMT_SPEED,
        STEP,
        CONTEXT_SWITCH,
        WAKEUP_COST,
        YIELD_COST,
        LINE_TRANSFER,
        ARRIVALS,
        SPIN_MARGIN,
        TIE,
        DEVICE_DEPTH,
        SCHEDULER,
    ];
    /// The further keys of a machine with cells.
    pub const OF_CELLS: &[Key] = &[CELLS, NETWORK_LATENCY, BANDWIDTH, BARRIER_LATENCY];
    /// The further keys of `rr`.
    pub const RR: &[Key] = &[QUANTUM];
    /// The further keys of `linux-2.4`.
    pub const LINUX_2_4: &[Key] =
        &[SHORT_TICK, ALLOCATION, PENALTY, BONUS, THRESHOLD, ACCOUNTING, CHARGE_SWITCH, TAIL, WAKEUP];
    /// The further keys of `linux-o1`.
    pub const LINUX_O1: &[Key] = &[TICK_OF_O1, TIMESLICE];
    /// The further keys of `cfs`.
    pub const CFS: &[Key] = &[TICK, TICK_PHASE, LATENCY, GRANULARITY, WAKEUP_GRANULARITY, MIGRATION_COST];
    /// The further keys of `eevdf`.
    pub const EEVDF: &[Key] = &[TICK, TICK_PHASE, SLICE, GROUPS];
    /// The further keys of `feedback`.
    pub const FEEDBACK: &[Key] = &[LEVELS, RUNNING_TIME, BOOST];
    /// All keys. A key that the chosen scheduler does not use is allowed, so that schedulers can be
    /// swept.
    pub const ALL: &[&[Key]] = &[COMMON, OF_CELLS, RR, LINUX_2_4, LINUX_O1, CFS, EEVDF, FEEDBACK];
}

/// The `[experiment]` table.
pub mod experiment {
    use super::KeyDefault::Is;
    use super::{Key, MOST_RUNS, Value, count};

    keys! {
        REPEAT = "repeat", count(1, MOST_RUNS), Is("3"), "10", "the number of runs of every arm";
        SEED = "seed", count(0, i64::MAX as u64), Is("1"), "42",
            "repetition r of every arm uses seed + r, so that all arms have equal draws";
        KEEP_RUNNING = "keep_running", Value::Flag, Is("false"), "true",
            "whether finished jobs run again until all have finished once (each counts once)";
        SWEEP = "sweep", Value::Sweep, Is("one arm"), r#"{ "job.crew.waiting" = ["cs", "2cs+"] }"#,
            "every combination of the values is an arm; the last path varies fastest";
        COMPARE = "compare", Value::Path, Is("none"), r#""job.crew.waiting""#,
            "the path that is compared; its first value is the baseline of speed-ups";
        X = "x", Value::Axis, Is("none"), r#""job.crowd.threads""#,
            "the axis of plots: `threads` is the number of threads of all jobs, `load` is this number over that of the CPUs";
    }
    /// All threads of an arm, as `x`.
    pub const X_THREADS: &str = "threads";
    /// All threads of an arm over the CPUs that they run on, as `x`.
    pub const X_LOAD: &str = "load";
    /// Axes that are counted rather than swept.
    pub const COUNTED_AXES: &[&str] = &[X_THREADS, X_LOAD];

    /// All keys.
    pub const ALL: &[Key] = &[REPEAT, SEED, KEEP_RUNNING, SWEEP, COMPARE, X];
}

/// The names of all values of a type, as a constant.
macro_rules! names {
    ($type:ty) => {{
        let mut names = [""; <$type>::ALL.len()];
        let mut index = 0;
        while index < names.len() {
            names[index] = <$type>::ALL[index].name();
            index += 1;
        }
        names
    }};
}

const STAGE_KINDS: [&str; StageKind::ALL.len()] = names!(StageKind);
const GANGS: [&str; Gang::ALL.len()] = names!(Gang);
const PARTITIONERS: [&str; Partitioner::ALL.len()] = names!(Partitioner);
const MOVEMENTS: [&str; Movement::ALL.len()] = names!(Movement);
const SCHEMES: [&str; Scheme::ALL.len()] = names!(Scheme);

/// Every table of a scenario file with its keys, in the order of docs/scenario.md.
pub const TABLES: &[(&str, &[Key])] = &[
    ("The file", file::ALL),
    ("`[machine]`", machine::COMMON),
    ("`[machine]` with `cells`", machine::OF_CELLS),
    ("`[machine]`, `scheduler = \"rr\"`", machine::RR),
    ("`[machine]`, `scheduler = \"linux-2.4\"`", machine::LINUX_2_4),
    ("`[machine]`, `scheduler = \"linux-o1\"`", machine::LINUX_O1),
    ("`[machine]`, `scheduler = \"cfs\"`", machine::CFS),
    ("`[machine]`, `scheduler = \"eevdf\"`", machine::EEVDF),
    ("`[machine]`, `scheduler = \"feedback\"`", machine::FEEDBACK),
    ("`[coscheduling]`", coscheduling::ALL),
    ("`[[job]]`", job::COMMON),
    ("`[[job]]`, `kind = \"barrier\"`", job::BARRIER),
    ("`compute`", compute::ALL),
    ("`[[job]]`, `kind = \"lock\"`", job::LOCK),
    ("`[[job]]`, `kind = \"cpu\"`", job::CPU),
    ("`[[job]]`, `kind = \"command\"`", job::COMMAND),
    ("`[[job]]`, `kind = \"pipeline\"`", job::PIPELINE),
    ("`stages`", stage::ALL),
    ("`[[job]]`, `kind = \"fibers\"`", job::FIBERS),
    ("`groups`", group::ALL),
    ("`[[job]]`, `kind = \"message\"`", job::MESSAGE),
    ("`[experiment]`", experiment::ALL),
];
