//! The table of keys, which parser, error messages and command use.

/// A key of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructureKey {
    /// Its name.
    pub name: &'static str,
    /// An example.
    pub example: &'static str,
    /// The meaning of the example.
    pub meaning: &'static str,
    /// Whether it may appear more than once.
    pub is_repeatable: bool,
    /// Whether it requests scheduling for a single stage.
    pub is_scheduling_attribute: bool,
}

const fn once(name: &'static str, example: &'static str, meaning: &'static str) -> StructureKey {
    StructureKey { name, example, meaning, is_repeatable: false, is_scheduling_attribute: false }
}

const fn repeated(name: &'static str, example: &'static str, meaning: &'static str) -> StructureKey {
    StructureKey { name, example, meaning, is_repeatable: true, is_scheduling_attribute: false }
}

const fn attribute(name: &'static str, example: &'static str, meaning: &'static str) -> StructureKey {
    StructureKey { name, example, meaning, is_repeatable: true, is_scheduling_attribute: true }
}

/// All keys, in the order in which they are printed.
pub const KEYS: &[StructureKey] = &[
    once("buffers", "buffers=16", "the number of buffers, which limits the work in flight"),
    once("block", "block=64KiB", "the size of a buffer: a number of bytes, KiB or MiB"),
    once("workers", "workers=2", "the number of workers that run the compute stages"),
    once("threads", "threads=each", "a thread for `each` stage, or only for `blocking` ones"),
    repeated("thread", "thread=read*2,write*2", "stages that share a thread, with turns of so many buffers"),
    repeated("fork", "fork=hash*2:unordered", "the copies of a stage, which keep the order without `:unordered`"),
    repeated("fuse", "fuse=parse+count", "neighbours that run as one stage"),
    repeated("split", "split=count", "a stage that is separated from the one before it"),
    once("priority", "priority=dynamic-up", "which stages are raised, and when: a rule of `rowlock policies`"),
    attribute("nice", "nice=read:-5", "the nice value of a stage"),
    attribute("policy", "policy=write:batch", "its scheduling policy: other, batch, idle, fifo/NUMBER or rr/NUMBER"),
    attribute("slice", "slice=work:3ms", "its timeslice"),
    attribute("ioprio", "ioprio=read:best-effort/2", "its I/O priority: real-time/N, best-effort/N or idle"),
    attribute("affinity", "affinity=work:0-1", "the CPUs on which it may run"),
    attribute("clamp", "clamp=work:0-512", "the bounds of its utilization, out of 1024"),
    attribute("yield", "yield=work", "it yields the CPU after each buffer"),
    once("waiting", "waiting=adaptive", "how threads wait: a rule of `rowlock policies`, `:` for blanks"),
    once("double", "double=io", "the stages of this kind do their work twice, as a test"),
];
