//! The keys of a `[[job]]` table.

use super::KeyDefault::{Is, Required};
pub use super::machine::{BOOST, LEVELS, RUNNING_TIME};
use super::{Key, LARGEST_WEIGHT, LONGEST_MESSAGE, MOST_BUFFERS, MOST_CPUS, MOST_ROUNDS, MOST_THREADS, Value, count};
use crate::message::Pattern;
use crate::named::{Granularity, Structure};

/// The names of all kinds of jobs, in the order of the documentation.
pub const KINDS: [&str; 7] = ["barrier", "lock", "cpu", "command", "pipeline", "fibers", "message"];

keys! {
    NAME = "name", Value::Name, Required, r#""crew""#, "the name, unique among jobs";
    KIND = "kind", Value::OneOf(&KINDS), Required, r#""barrier""#, "the kind of work that its threads do";
    COPIES = "copies", count(0, MOST_THREADS), Is("1"), "4",
        "the number of jobs like this, named `crew.0`, `crew.1`, ... if there are several; with 0 it is left out";
    NICE = "nice", Value::Nice, Is("0"), "5", "the nice value of its threads";
    CPUS = "cpus", Value::Cpus, Is("all"), r#""0-3,8""#, "the CPUs that its threads may run on, numbered from 0";
    SLICE = "slice", Value::Time, Is("that of the machine"), r#""500 us""#,
        "the slice that its threads request, if the scheduler supports it";
    ARRIVAL = "arrival", Value::Span, Is("0 ns"), r#""10 ms""#, "when it arrives, from the beginning of the run";
    EVERY = "every", Value::Compute, Is("all at once"), r#"{ distribution = "exponential", mean = "5 ms" }"#,
        "the time between the arrivals of its copies";
    /// of a `barrier` job
    PARTIES = "threads", count(1, MOST_THREADS), Required, "11", "the number of threads that meet";
    COMPUTE = "compute", Value::Compute, Is("required without `granularity`"),
        r#"{ mean = "5.32 us", sd = "0.532 us" }"#, "the time between two barriers";
    GRANULARITY = "granularity", Value::OneOf(&Granularity::NAMES), Is("required without `compute`"), r#""fine""#,
        "the time between two barriers in relation to CS: 90 % are shorter than 1, 5 or 20 CS";
    ROUNDS = "rounds", count(1, MOST_ROUNDS), Is("required without `work`"), "8000", "the number of rounds";
    /// of a `barrier` or a `lock` job
    IN_PLACE_OF_ROUNDS = "work", Value::Time, Is("none"), r#""2 s""#,
        "instead of `rounds`: the CPU time that each thread computes, based on the mean of the drawn times";
    WAITING = "waiting", Value::Waiting, Required, r#""2cs+""#, "the rule by which they wait for each other";
    /// of a `lock` job
    CONTENDERS = "threads", count(1, MOST_THREADS), Required, "4", "the number of threads that contend for the lock";
    /// of a `lock` job
    OUTSIDE = "compute", Value::Compute, Required, r#"{ mean = "20 us", sd = "5 us" }"#, "the time without the lock";
    CRITICAL = "critical", Value::Compute, Required, r#"{ mean = "2 us", sd = "0.5 us" }"#, "the time with the lock";
    /// of a `lock` job
    TURNS = "rounds", count(1, MOST_ROUNDS), Is("required without `work`"), "10000",
        "how often each of them acquires the lock";
    /// of a `cpu` job
    THREADS = "threads", count(1, MOST_THREADS), Is("1"), "85", "the number of threads";
    /// of a `cpu` job
    WORK = "work", Value::Work, Is("endless: until the other jobs have ended"), r#""200 ms""#,
        "the time that each thread computes, drawn for each of them";
    ARGV = "argv", Value::Words, Required, r#"["xz", "-k", "big.tar"]"#, "the program and its arguments";
    /// of a `command` job
    SPREAD = "threads", count(1, MOST_THREADS), Is("1"), "2",
        "the number of threads to which the simulator distributes the program's CPU time";
    /// of a `command` job
    CPU_TIME = "work", Value::Time, Is("measured"), r#""1.5 s""#, "the program's CPU time in the simulator";

    STAGES = "stages", Value::Stages, Required, r#"[{ name = "read", kind = "io", device = "1 ms" }]"#,
        "the stages, in the order in which buffers go through them";
    BUFFERS = "buffers", count(1, MOST_BUFFERS), Required, "8",
        "the number of buffers, and so the maximum number of concurrent rounds";
    /// of a `pipeline` job
    PASSES = "rounds", count(1, MOST_ROUNDS), Required, "1000", "how often a buffer goes through all stages";
    STRUCTURE = "structure", Value::OneOf(&Structure::NAMES), Is("workers"), r#""threads""#,
        "whether as many workers as CPUs run the computing stages, or each has its own threads like the others";
    THREAD = "thread", Value::Threads, Is("none"), r#"[["read*2", "write*2"]]"#,
        "stages that share a thread: N rounds of one, then as many of the next";
    PRIORITY = "priority", Value::Priority, Is("default"), r#""nice-up-io""#, "the stages that are raised or lowered, and when";
    /// of a `pipeline` job
    QUEUEING = "waiting", Value::Waiting, Is("adaptive"), r#""always-block""#,
        "the rule by which threads wait for buffers";

    GROUPS = "groups", Value::Groups, Required, r#"[{ name = "all", fibers = 2000, compute = "1 us" }]"#,
        "the fibers, in the order in which they are spawned";
    WORKERS = "workers", count(1, MOST_CPUS as u64), Is("1"), "2", "the number of kernel threads that run them";
    LOCKS = "locks", count(1, MOST_THREADS), Is("1"), "2",
        "the number of locks: fiber i of the job uses lock i modulo this number";
    PREEMPTIBLE = "preemptible", Value::Flag, Is("false"), "true",
        "whether a fiber whose running time is used up is preempted anywhere, and not only at safepoints";
    CREATE_COST = "create_cost", Value::Span, Is("45 ns"), r#""1 us""#,
        "the simulated cost of spawning, starting, ending and joining a fiber";
    SWITCH_COST = "switch_cost", Value::Span, Is("14 ns"), r#""250 ns""#, "the simulated cost of resuming a fiber";
    LOCK_COST = "lock_cost", Value::Span, Is("2 ns"), r#""20 ns""#,
        "the simulated cost of acquiring and releasing a lock";

    RANKS = "ranks", count(2, MOST_THREADS), Is("required without `mesh`"), "4",
        "the number of ranks: rank i is on cell i of the job, modulo the number of its cells";
    MESH = "mesh", Value::Shape, Is("required without `ranks`"), r#""2x2""#,
        "the cells of the job, as written or turned by 90 degrees, with a rank on each";
    PATTERN = "pattern", Value::OneOf(&Pattern::NAMES), Required, r#""ring""#,
        "the order in which ranks send and receive in a round";
    BYTES = "bytes", count(1, LONGEST_MESSAGE), Required, "2000", "the length of a message";
    /// of a `message` job
    EXCHANGES = "rounds", count(1, MOST_ROUNDS), Required, "1000", "the number of rounds";
    /// of a `message` job
    BEFORE_SENDING = "compute", Value::Compute, Is("none"), r#""20 us""#, "the time that a rank computes before it sends";
    SLEEP = "sleep", Value::Compute, Is("none"), r#""2 ms""#,
        "the time that a rank sleeps after its computation, for example for I/O";
    /// of a `message` job
    RECEIVING = "waiting", Value::Waiting, Required, r#""50 us""#, "the rule by which a rank waits for messages";
    WEIGHT = "weight", count(1, LARGEST_WEIGHT), Is("1"), "3", "its share of the turns";
}

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
/// The further keys of `message`.
pub const MESSAGE: &[Key] = &[RANKS, MESH, PATTERN, BYTES, EXCHANGES, BEFORE_SENDING, SLEEP, RECEIVING, WEIGHT];
/// The keys of each kind, besides the common ones.
pub const OF_KINDS: [(&str, &[Key]); 7] = [
    (KINDS[0], BARRIER),
    (KINDS[1], LOCK),
    (KINDS[2], CPU),
    (KINDS[3], COMMAND),
    (KINDS[4], PIPELINE),
    (KINDS[5], FIBERS),
    (KINDS[6], MESSAGE),
];
