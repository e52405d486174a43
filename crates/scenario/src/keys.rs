//! The table of all keys of a scenario file. The reader takes its limits and its hints from it and docs/scenario.md is
//! held against it, so that a key cannot exist for one of them only.

use std::fmt;

use policy::Span;

use policy::wakeup::Scheme;

use crate::model::{Accounting, Granularity, Kind, Scheduler, Tie};

/// A file is no longer than this: 1 MiB.
pub const LONGEST_FILE: usize = 1 << 20;
/// No span in a file is longer than this: 30 days.
pub const LONGEST_SPAN: Span = Span::from_millis(30 * 24 * 3600 * 1000);
/// No bound on spinning is a larger multiple of CS than this, in thousandths.
pub const LARGEST_MULTIPLE: u64 = 1_000_000 * 1000;
/// All jobs of an arm together have no more threads than this.
pub const MOST_THREADS: u64 = 1_000_000;
/// All threads of an arm together compute no longer than this: 100 years. Sums of CPU time stay far within a [`Span`].
pub const MOST_WORK: Span = Span::from_millis(100 * 365 * 24 * 3600 * 1000);
/// No more paths are swept than this.
pub const MOST_FACTORS: usize = 32;
/// There are no more arms than this.
pub const MOST_ARMS: usize = 100_000;
/// The length of the file times the number of arms is no more than this, which keeps all arms in memory: 256 MiB.
pub const MOST_TEXT: usize = 1 << 28;
/// Arms times repeats are no more than this.
pub const MOST_RUNS: u64 = 1_000_000;
/// What is counted in ticks is no more than this.
pub const MOST_TICKS: u64 = 1_000_000;
/// A job's name has no more characters than this.
pub const LONGEST_NAME: usize = 64;

/// One key: what may be written for it and what that means.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What may be written for it.
    pub value: Value,
    /// What holds where it is not written.
    pub default: Default,
    /// A value for it as it stands in a file.
    pub example: &'static str,
    /// What it means, in one sentence.
    pub meaning: &'static str,
}

/// What may be written for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text in one line.
    Text,
    /// The name of a job: letters, digits, `-` and `_`.
    Name,
    /// A list of texts, at least one.
    Words,
    /// `true` or `false`.
    Flag,
    /// A whole number in a range.
    Count {
        /// The least that is allowed.
        least: u64,
        /// The most that is allowed.
        most: u64,
    },
    /// A span of time, zero included.
    Span,
    /// A span of time that is longer than nothing.
    Time,
    /// A span of time or a multiple of CS.
    Margin,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A waiting rule.
    Waiting,
    /// A span of time, or a table of a mean and a standard deviation.
    Compute,
    /// One of the swept paths.
    Path,
    /// A table of swept paths, each with a list of values.
    Sweep,
    /// A table of further keys.
    Table,
    /// A list of tables of further keys.
    Tables,
}

impl fmt::Display for Value {
    /// What it is in a sentence, as in "`threads` is ...".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Text => f.write_str("a text in one line"),
            Value::Name => write!(f, "a text of letters, digits, `-` and `_`, at most {LONGEST_NAME}"),
            Value::Words => f.write_str("a list of texts, at least one"),
            Value::Flag => f.write_str("`true` or `false`"),
            Value::Count { least, most } => write!(f, "a whole number, {least} to {most}"),
            Value::Span => f.write_str("a span of time"),
            Value::Time => f.write_str("a span of time above zero"),
            Value::Margin => f.write_str("a span of time or a multiple of CS"),
            Value::OneOf(names) => {
                for (index, name) in names.iter().enumerate() {
                    write!(f, "{}`\"{name}\"`", if index == 0 { "" } else { " or " })?;
                }
                Ok(())
            }
            Value::Waiting => f.write_str("a waiting rule"),
            Value::Compute => f.write_str("a span of time, or a table of `mean` and `sd`"),
            Value::Path => f.write_str("one of the swept paths"),
            Value::Sweep => f.write_str("a table of paths, each with a list of values"),
            Value::Table => f.write_str("a table"),
            Value::Tables => f.write_str("a list of tables"),
        }
    }
}

/// What holds where a key is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// Nothing: it must be written.
    Required,
    /// This, in words.
    Is(&'static str),
}

const fn key(name: &'static str, value: Value, default: Default, example: &'static str, meaning: &'static str) -> Key {
    Key { name, value, default, example, meaning }
}

const fn required(name: &'static str, value: Value, example: &'static str, meaning: &'static str) -> Key {
    key(name, value, Default::Required, example, meaning)
}

const fn count(least: u64, most: u64) -> Value {
    Value::Count { least, most }
}

/// The whole file.
pub mod file {
    use super::{Default, Key, Value, key, required};

    /// `title`
    pub const TITLE: Key =
        key("title", Value::Text, Default::Is("none"), "\"Eleven threads against a crowd\"", "what it is about");
    /// `machine`
    pub const MACHINE: Key = required("machine", Value::Table, "{ cpus = 32 }", "the machine");
    /// `job`
    pub const JOB: Key =
        required("job", Value::Tables, "[{ name = \"crowd\", kind = \"cpu\", work = \"1 s\" }]", "what runs on it");
    /// `experiment`
    pub const EXPERIMENT: Key =
        key("experiment", Value::Table, Default::Is("as below"), "{ repeat = 3 }", "how it is run and compared");

    /// All of them.
    pub const ALL: &[Key] = &[TITLE, MACHINE, JOB, EXPERIMENT];
}

/// The `[machine]` table.
pub mod machine {
    use super::{ACCOUNTINGS, Default, Key, MOST_TICKS, SCHEDULERS, SCHEMES, TIES, Value, count, key};

    /// `like`
    pub const LIKE: Key = key(
        "like",
        Value::OneOf(&["host"]),
        Default::Is("none"),
        "\"host\"",
        "what is not written is as found on the machine that rowlock runs on",
    );
    /// `cpus`
    pub const CPUS: Key =
        key("cpus", count(1, 8_192), Default::Is("required without `like`"), "32", "how many CPUs there are");
    /// `step`
    pub const STEP: Key = key(
        "step",
        Value::Time,
        Default::Is("1 ns"),
        "\"1 us\"",
        "granularity of simulated time: drawn durations are rounded down to it",
    );
    /// `context_switch`
    pub const CONTEXT_SWITCH: Key = key(
        "context_switch",
        Value::Span,
        Default::Is("6 us"),
        "\"6 us\"",
        "CS: what a CPU pays to go from one thread to another, or to or from idleness",
    );
    /// `wakeup_cost`
    pub const WAKEUP_COST: Key = key(
        "wakeup_cost",
        Value::Span,
        Default::Is("0 ns"),
        "\"50 us\"",
        "what it costs beyond a context switch to get an idle CPU going",
    );
    /// `yield_cost`
    pub const YIELD_COST: Key = key(
        "yield_cost",
        Value::Span,
        Default::Is("500 ns"),
        "\"300 ns\"",
        "what a `sched_yield` costs that finds nobody else",
    );
    /// `spin_margin`
    pub const SPIN_MARGIN: Key =
        key("spin_margin", Value::Margin, Default::Is("0.5 cs"), "\"3 us\"", "the \"+\" of `cs+` and `2cs+`");
    /// `scheduler`
    pub const SCHEDULER: Key =
        key("scheduler", Value::OneOf(&SCHEDULERS), Default::Is("eevdf"), "\"rr\"", "the kernel's scheduler");
    /// `tie`
    pub const TIE: Key = key(
        "tie",
        Value::OneOf(&TIES),
        Default::Is("arrive"),
        "\"timeout\"",
        "what comes first when a spin ends in the very step of the arrival that it waits for",
    );
    /// `quantum`
    pub const QUANTUM: Key = key(
        "quantum",
        Value::Time,
        Default::Is("100 us"),
        "\"100 us\"",
        "how long a thread runs before the next one has its turn",
    );
    /// `tick`
    pub const TICK: Key =
        key("tick", Value::Time, Default::Is("4 ms"), "\"1 ms\"", "the period of the timer interrupt");
    /// `slice`
    pub const SLICE: Key = key(
        "slice",
        Value::Time,
        Default::Is("700 us with 1 CPU, 1.4 ms from 2, 2.1 ms from 4, 2.8 ms from 8"),
        "\"3 ms\"",
        "the base slice: the virtual time that a thread asks for",
    );
    /// `tick` of `linux-2.4`
    pub const SHORT_TICK: Key = key(
        "tick",
        Value::Time,
        Default::Is("10 us"),
        "\"10 us\"",
        "the period of the timer interrupt: the unit of the next four keys",
    );
    /// `allocation`
    pub const ALLOCATION: Key = key(
        "allocation",
        count(1, MOST_TICKS),
        Default::Is("20"),
        "5",
        "ticks that a thread may run in an epoch; half of what it has not used is added in the next one",
    );
    /// `penalty`
    pub const PENALTY: Key = key(
        "penalty",
        count(0, MOST_TICKS),
        Default::Is("15"),
        "0",
        "how many ticks of its counter it is worth to a thread to stay on its CPU",
    );
    /// `bonus`
    pub const BONUS: Key = key(
        "bonus",
        count(0, MOST_TICKS),
        Default::Is("1"),
        "0",
        "how many ticks it is worth to follow a thread of the same job on a CPU",
    );
    /// `threshold`
    pub const THRESHOLD: Key = key(
        "threshold",
        count(0, MOST_TICKS),
        Default::Is("1"),
        "0",
        "an awakened thread preempts another only if it is better by more than so many ticks",
    );
    /// `accounting`
    pub const ACCOUNTING: Key = key(
        "accounting",
        Value::OneOf(&ACCOUNTINGS),
        Default::Is("exact"),
        "\"tick\"",
        "whether running time is charged to the step, or by whole ticks to whoever runs when the timer interrupts",
    );
    /// `charge_switch`
    pub const CHARGE_SWITCH: Key = key(
        "charge_switch",
        Value::Flag,
        Default::Is("true"),
        "false",
        "whether a thread's counter is charged for the switch to it",
    );
    /// `tail`
    pub const TAIL: Key = key(
        "tail",
        Value::Flag,
        Default::Is("true"),
        "false",
        "whether a preempted thread is offered to other CPUs when its switch is over",
    );
    /// `wakeup`
    pub const WAKEUP: Key = key(
        "wakeup",
        Value::OneOf(&SCHEMES),
        Default::Is("original"),
        "\"ap\"",
        "the wakeup scheme: which CPUs awakened threads go to",
    );

    /// What every scheduler reads.
    pub const COMMON: &[Key] =
        &[LIKE, CPUS, STEP, CONTEXT_SWITCH, WAKEUP_COST, YIELD_COST, SPIN_MARGIN, TIE, SCHEDULER];
    /// What `rr` reads besides.
    pub const RR: &[Key] = &[QUANTUM];
    /// What `linux-2.4` reads besides.
    pub const LINUX_2_4: &[Key] =
        &[SHORT_TICK, ALLOCATION, PENALTY, BONUS, THRESHOLD, ACCOUNTING, CHARGE_SWITCH, TAIL, WAKEUP];
    /// What `eevdf` reads besides.
    pub const EEVDF: &[Key] = &[TICK, SLICE];
    /// All of them: a key that the chosen scheduler does not read is legal, so that schedulers can be swept.
    pub const ALL: &[&[Key]] = &[COMMON, RR, LINUX_2_4, EEVDF];
}

/// A `[[job]]` table.
pub mod job {
    use super::{Default, GRANULARITIES, Key, Kind, MOST_THREADS, Value, count, key, required};

    /// `name`
    pub const NAME: Key = required("name", Value::Name, "\"crew\"", "its name; no two jobs have the same");
    /// `kind`
    pub const KIND: Key = required("kind", Value::OneOf(&Kind::NAMES), "\"barrier\"", "what its threads do");
    /// `copies`
    pub const COPIES: Key = key(
        "copies",
        count(1, MOST_THREADS),
        Default::Is("1"),
        "4",
        "so many jobs like this, named `crew.0`, `crew.1`, ... where there are several",
    );
    /// `threads` of a `barrier` job
    pub const PARTIES: Key = required("threads", count(1, MOST_THREADS), "11", "how many threads meet");
    /// `compute`
    pub const COMPUTE: Key = key(
        "compute",
        Value::Compute,
        Default::Is("required without `granularity`"),
        "{ mean = \"5.32 us\", sd = \"0.532 us\" }",
        "the time between two barriers: normally distributed, or always the same",
    );
    /// `granularity`
    pub const GRANULARITY: Key = key(
        "granularity",
        Value::OneOf(&GRANULARITIES),
        Default::Is("required without `compute`"),
        "\"fine\"",
        "the time between two barriers by its relation to CS: nine in ten are shorter than 1, 5 or 20 CS",
    );
    /// `rounds`
    pub const ROUNDS: Key = required("rounds", count(1, 1_000_000_000_000), "8000", "how often the threads meet");
    /// `waiting`
    pub const WAITING: Key = required("waiting", Value::Waiting, "\"2cs+\"", "how they wait for each other");
    /// `threads` of a `lock` job
    pub const CONTENDERS: Key =
        required("threads", count(1, MOST_THREADS), "4", "how many threads contend for the lock");
    /// `compute` of a `lock` job
    pub const OUTSIDE: Key =
        required("compute", Value::Compute, "{ mean = \"20 us\", sd = \"5 us\" }", "the time without the lock");
    /// `critical`
    pub const CRITICAL: Key =
        required("critical", Value::Compute, "{ mean = \"2 us\", sd = \"0.5 us\" }", "the time with the lock");
    /// `rounds` of a `lock` job
    pub const TURNS: Key =
        required("rounds", count(1, 1_000_000_000_000), "10000", "how often each of them takes the lock");
    /// `threads` of a `cpu` job
    pub const THREADS: Key = key("threads", count(1, MOST_THREADS), Default::Is("1"), "85", "how many threads compute");
    /// `work` of a `cpu` job
    pub const WORK: Key = key(
        "work",
        Value::Time,
        Default::Is("endless: until the other jobs have ended"),
        "\"200 ms\"",
        "how much each thread computes",
    );
    /// `argv`
    pub const ARGV: Key =
        required("argv", Value::Words, "[\"xz\", \"-k\", \"big.tar\"]", "the program and its arguments");
    /// `threads` of a `command` job
    pub const SPREAD: Key = key(
        "threads",
        count(1, MOST_THREADS),
        Default::Is("1"),
        "2",
        "on how many threads the simulator spreads the program's CPU time",
    );
    /// `work` of a `command` job
    pub const CPU_TIME: Key = key(
        "work",
        Value::Time,
        Default::Is("measured"),
        "\"1.5 s\"",
        "the program's CPU time, which the simulator puts in its place",
    );

    /// What every kind reads.
    pub const COMMON: &[Key] = &[NAME, KIND, COPIES];
    /// What `barrier` reads besides.
    pub const BARRIER: &[Key] = &[PARTIES, COMPUTE, GRANULARITY, ROUNDS, WAITING];
    /// What `lock` reads besides.
    pub const LOCK: &[Key] = &[CONTENDERS, OUTSIDE, CRITICAL, TURNS, WAITING];
    /// What `cpu` reads besides.
    pub const CPU: &[Key] = &[THREADS, WORK];
    /// What `command` reads besides.
    pub const COMMAND: &[Key] = &[ARGV, SPREAD, CPU_TIME];
    /// The keys of each kind, besides the common ones.
    pub const OF_KINDS: [(&str, &[Key]); 4] =
        [(Kind::NAMES[0], BARRIER), (Kind::NAMES[1], LOCK), (Kind::NAMES[2], CPU), (Kind::NAMES[3], COMMAND)];
}

/// The table of `compute`, and of `critical`.
pub mod compute {
    use super::{Default, Key, Value, key, required};

    /// `mean`
    pub const MEAN: Key = required("mean", Value::Span, "\"5.32 us\"", "the mean");
    /// `sd`
    pub const SD: Key = key(
        "sd",
        Value::Span,
        Default::Is("0 ns"),
        "\"0.532 us\"",
        "the standard deviation, no larger than the mean; a draw below one step counts as one step",
    );

    /// All of them.
    pub const ALL: &[Key] = &[MEAN, SD];
}

/// The `[experiment]` table.
pub mod experiment {
    use super::{Default, Key, MOST_RUNS, Value, count, key};

    /// `repeat`
    pub const REPEAT: Key = key("repeat", count(1, MOST_RUNS), Default::Is("3"), "10", "how often every arm is run");
    /// `seed`
    pub const SEED: Key = key(
        "seed",
        count(0, i64::MAX as u64),
        Default::Is("1"),
        "42",
        "repeat r of every arm draws by seed + r, so that arms face equal draws",
    );
    /// `keep_running`
    pub const KEEP_RUNNING: Key = key(
        "keep_running",
        Value::Flag,
        Default::Is("false"),
        "true",
        "whether jobs that have finished go on until all have finished once (and count once)",
    );
    /// `sweep`
    pub const SWEEP: Key = key(
        "sweep",
        Value::Sweep,
        Default::Is("one arm"),
        "{ \"job.crew.waiting\" = [\"cs\", \"2cs+\"] }",
        "every combination of the values is an arm; the last path turns fastest",
    );
    /// `compare`
    pub const COMPARE: Key = key(
        "compare",
        Value::Path,
        Default::Is("none"),
        "\"job.crew.waiting\"",
        "what is compared: its first value is the baseline of speed-ups",
    );
    /// `x`
    pub const X: Key = key("x", Value::Path, Default::Is("none"), "\"job.crowd.threads\"", "the axis of plots");

    /// All of them.
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

const SCHEDULERS: [&str; Scheduler::ALL.len()] = names!(Scheduler);
const GRANULARITIES: [&str; Granularity::ALL.len()] = names!(Granularity);
const TIES: [&str; Tie::ALL.len()] = names!(Tie);
const ACCOUNTINGS: [&str; Accounting::ALL.len()] = names!(Accounting);
const SCHEMES: [&str; Scheme::ALL.len()] = names!(Scheme);

/// Every table of a scenario file with the keys that may stand in it, in the order of docs/scenario.md.
pub const TABLES: &[(&str, &[Key])] = &[
    ("The file", file::ALL),
    ("`[machine]`", machine::COMMON),
    ("`[machine]`, `scheduler = \"rr\"`", machine::RR),
    ("`[machine]`, `scheduler = \"linux-2.4\"`", machine::LINUX_2_4),
    ("`[machine]`, `scheduler = \"eevdf\"`", machine::EEVDF),
    ("`[[job]]`", job::COMMON),
    ("`[[job]]`, `kind = \"barrier\"`", job::BARRIER),
    ("`compute`", compute::ALL),
    ("`[[job]]`, `kind = \"lock\"`", job::LOCK),
    ("`[[job]]`, `kind = \"cpu\"`", job::CPU),
    ("`[[job]]`, `kind = \"command\"`", job::COMMAND),
    ("`[experiment]`", experiment::ALL),
];
