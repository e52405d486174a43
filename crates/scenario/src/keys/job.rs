//! The keys of a `[[job]]` table.

pub use super::machine::{BOOST, LEVELS, RUNNING_TIME};
use super::{
    GRANULARITIES, JobKind, Key, KeyDefault, MOST_BUFFERS, MOST_CPUS, MOST_ROUNDS, MOST_THREADS, STRUCTURES, Value,
    count, key, required,
};

/// `name`
pub const NAME: Key = required("name", Value::Name, "\"crew\"", "the name, unique among jobs");
/// `kind`
pub const KIND: Key =
    required("kind", Value::OneOf(&JobKind::NAMES), "\"barrier\"", "the kind of work that its threads do");
/// `copies`
pub const COPIES: Key = key(
    "copies",
    count(0, MOST_THREADS),
    KeyDefault::Is("1"),
    "4",
    "the number of jobs like this, named `crew.0`, `crew.1`, ... if there are several; with 0 it is left out",
);
/// `nice`
pub const NICE: Key = key("nice", Value::Nice, KeyDefault::Is("0"), "5", "the nice value of its threads");
/// `cpus`
pub const CPUS: Key = key(
    "cpus",
    Value::Cpus,
    KeyDefault::Is("all"),
    "\"0-3,8\"",
    "the CPUs that its threads may run on, numbered from 0",
);
/// `slice`
pub const SLICE: Key = key(
    "slice",
    Value::Time,
    KeyDefault::Is("that of the machine"),
    "\"500 us\"",
    "the slice that its threads request, if the scheduler supports it",
);
/// `arrival`
pub const ARRIVAL: Key =
    key("arrival", Value::Span, KeyDefault::Is("0 ns"), "\"10 ms\"", "when it arrives, from the beginning of the run");
/// `every`
pub const EVERY: Key = key(
    "every",
    Value::Compute,
    KeyDefault::Is("all at once"),
    "{ distribution = \"exponential\", mean = \"5 ms\" }",
    "the time between the arrivals of its copies",
);
/// `threads` of a `barrier` job
pub const PARTIES: Key = required("threads", count(1, MOST_THREADS), "11", "the number of threads that meet");
/// `compute`
pub const COMPUTE: Key = key(
    "compute",
    Value::Compute,
    KeyDefault::Is("required without `granularity`"),
    "{ mean = \"5.32 us\", sd = \"0.532 us\" }",
    "the time between two barriers",
);
/// `granularity`
pub const GRANULARITY: Key = key(
    "granularity",
    Value::OneOf(&GRANULARITIES),
    KeyDefault::Is("required without `compute`"),
    "\"fine\"",
    "the time between two barriers in relation to CS: 90 % are shorter than 1, 5 or 20 CS",
);
/// `rounds`
pub const ROUNDS: Key =
    key("rounds", count(1, MOST_ROUNDS), KeyDefault::Is("required without `work`"), "8000", "the number of rounds");
/// `work` of a `barrier` or a `lock` job
pub const IN_PLACE_OF_ROUNDS: Key = key(
    "work",
    Value::Time,
    KeyDefault::Is("none"),
    "\"2 s\"",
    "instead of `rounds`: the CPU time that each thread computes, based on the mean of the drawn times",
);
/// `waiting`
pub const WAITING: Key = required("waiting", Value::Waiting, "\"2cs+\"", "the rule by which they wait for each other");
/// `threads` of a `lock` job
pub const CONTENDERS: Key =
    required("threads", count(1, MOST_THREADS), "4", "the number of threads that contend for the lock");
/// `compute` of a `lock` job
pub const OUTSIDE: Key =
    required("compute", Value::Compute, "{ mean = \"20 us\", sd = \"5 us\" }", "the time without the lock");
/// `critical`
pub const CRITICAL: Key =
    required("critical", Value::Compute, "{ mean = \"2 us\", sd = \"0.5 us\" }", "the time with the lock");
/// `rounds` of a `lock` job
pub const TURNS: Key = key(
    "rounds",
    count(1, MOST_ROUNDS),
    KeyDefault::Is("required without `work`"),
    "10000",
    "how often each of them acquires the lock",
);
/// `threads` of a `cpu` job
pub const THREADS: Key = key("threads", count(1, MOST_THREADS), KeyDefault::Is("1"), "85", "the number of threads");
/// `work` of a `cpu` job
pub const WORK: Key = key(
    "work",
    Value::Work,
    KeyDefault::Is("endless: until the other jobs have ended"),
    "\"200 ms\"",
    "the time that each thread computes, drawn for each of them",
);
/// `argv`
pub const ARGV: Key = required("argv", Value::Words, "[\"xz\", \"-k\", \"big.tar\"]", "the program and its arguments");
/// `threads` of a `command` job
pub const SPREAD: Key = key(
    "threads",
    count(1, MOST_THREADS),
    KeyDefault::Is("1"),
    "2",
    "the number of threads to which the simulator distributes the program's CPU time",
);
/// `work` of a `command` job
pub const CPU_TIME: Key =
    key("work", Value::Time, KeyDefault::Is("measured"), "\"1.5 s\"", "the program's CPU time in the simulator");

/// `stages`
pub const STAGES: Key = required(
    "stages",
    Value::Stages,
    "[{ name = \"read\", kind = \"io\", device = \"1 ms\" }]",
    "the stages, in the order in which buffers go through them",
);
/// `buffers`
pub const BUFFERS: Key = required(
    "buffers",
    count(1, MOST_BUFFERS),
    "8",
    "the number of buffers, and so the maximum number of concurrent rounds",
);
/// `rounds` of a `pipeline` job
pub const PASSES: Key = required("rounds", count(1, MOST_ROUNDS), "1000", "how often a buffer goes through all stages");
/// `structure`
pub const STRUCTURE: Key = key(
    "structure",
    Value::OneOf(&STRUCTURES),
    KeyDefault::Is("workers"),
    "\"threads\"",
    "whether as many workers as CPUs run the computing stages, or each has its own threads like the others",
);
/// `thread`
pub const THREAD: Key = key(
    "thread",
    Value::Threads,
    KeyDefault::Is("none"),
    "[[\"read*2\", \"write*2\"]]",
    "stages that share a thread: N rounds of one, then as many of the next",
);
/// `priority`
pub const PRIORITY: Key = key(
    "priority",
    Value::Priority,
    KeyDefault::Is("default"),
    "\"nice-up-io\"",
    "the stages that are favoured, and when",
);
/// `waiting` of a `pipeline` job
pub const QUEUEING: Key = key(
    "waiting",
    Value::Waiting,
    KeyDefault::Is("adaptive"),
    "\"always-block\"",
    "the rule by which threads wait for buffers",
);

/// `groups`
pub const GROUPS: Key = required(
    "groups",
    Value::Groups,
    "[{ name = \"all\", fibers = 2000, compute = \"1 us\" }]",
    "the fibers, in the order in which they are spawned",
);
/// `workers`
pub const WORKERS: Key =
    key("workers", count(1, MOST_CPUS as u64), KeyDefault::Is("1"), "2", "the number of kernel threads that run them");
/// `locks`
pub const LOCKS: Key = key(
    "locks",
    count(1, MOST_THREADS),
    KeyDefault::Is("1"),
    "2",
    "the number of locks: fiber i of the job uses lock i modulo this number",
);
/// `preemptible`
pub const PREEMPTIBLE: Key = key(
    "preemptible",
    Value::Flag,
    KeyDefault::Is("false"),
    "true",
    "whether a fiber whose running time is used up is preempted anywhere, and not only at safepoints",
);
/// `create_cost`
pub const CREATE_COST: Key = key(
    "create_cost",
    Value::Span,
    KeyDefault::Is("45 ns"),
    "\"1 us\"",
    "the simulated cost of spawning, starting, ending and joining a fiber",
);
/// `switch_cost`
pub const SWITCH_COST: Key =
    key("switch_cost", Value::Span, KeyDefault::Is("14 ns"), "\"250 ns\"", "the simulated cost of resuming a fiber");
/// `lock_cost`
pub const LOCK_COST: Key = key(
    "lock_cost",
    Value::Span,
    KeyDefault::Is("2 ns"),
    "\"20 ns\"",
    "the simulated cost of acquiring and releasing a lock",
);

/// The keys of every kind.
pub const COMMON: &[Key] = &[NAME, KIND, COPIES, ARRIVAL, EVERY, NICE, CPUS, SLICE];
/// The further keys of `barrier`.
pub const BARRIER: &[Key] = &[PARTIES, COMPUTE, GRANULARITY, ROUNDS, IN_PLACE_OF_ROUNDS, WAITING];
/// The further keys of `lock`.
pub const LOCK: &[Key] = &[CONTENDERS, OUTSIDE, CRITICAL, TURNS, IN_PLACE_OF_ROUNDS, WAITING];
/// The further keys of `cpu`.
pub const CPU: &[Key] = &[THREADS, WORK];
/// The further keys of `command`.
pub const COMMAND: &[Key] = &[ARGV, SPREAD, CPU_TIME];
/// The further keys of `pipeline`.
pub const PIPELINE: &[Key] = &[STAGES, BUFFERS, PASSES, STRUCTURE, THREAD, PRIORITY, QUEUEING];
/// The further keys of `fibers`.
pub const FIBERS: &[Key] =
    &[GROUPS, WORKERS, LEVELS, RUNNING_TIME, BOOST, LOCKS, PREEMPTIBLE, CREATE_COST, SWITCH_COST, LOCK_COST];
/// The keys of each kind, besides the common ones.
pub const OF_KINDS: [(&str, &[Key]); 6] = [
    (JobKind::NAMES[0], BARRIER),
    (JobKind::NAMES[1], LOCK),
    (JobKind::NAMES[2], CPU),
    (JobKind::NAMES[3], COMMAND),
    (JobKind::NAMES[4], PIPELINE),
    (JobKind::NAMES[5], FIBERS),
];
