//! The table of what can be said, which parser, errors and command read.

/// One thing that can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructureKey {
    /// How it is called.
    pub name: &'static str,
    /// A word that says it.
    pub example: &'static str,
    /// What that means.
    pub meaning: &'static str,
    /// Whether it may be said more than once.
    pub is_repeatable: bool,
    /// Whether it says how a single stage is to be scheduled.
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

/// All that a structure can say, in the order in which it is printed.
pub const KEYS: &[StructureKey] = &[
    once("buffers", "buffers=16", "so many buffers, which bounds what is in flight"),
    once("block", "block=64KiB", "the size of a buffer: a number of bytes, KiB or MiB"),
    once("workers", "workers=2", "so many workers carry the compute stages"),
    once("threads", "threads=each", "a thread for `each` stage, or for `blocking` ones only"),
    repeated("thread", "thread=read*2,write*2", "these share a thread, by turns of so many buffers"),
    repeated("fork", "fork=hash*2:unordered", "so many copies of a stage, which keep the order but with `:unordered`"),
    repeated("fuse", "fuse=parse+count", "neighbours run as one stage"),
    repeated("split", "split=count", "a stage is separated from the one before it"),
    once("priority", "priority=dynamic-up", "which stages are favoured: a rule of `rowlock policies`"),
    attribute("nice", "nice=read:-5", "the nice value of a stage"),
    attribute("policy", "policy=write:batch", "its scheduling policy: other, batch, idle, fifo/NUMBER or rr/NUMBER"),
    attribute("slice", "slice=work:3ms", "how long it runs at a time"),
    attribute("ioprio", "ioprio=read:best-effort/2", "its input's and output's: real-time/N, best-effort/N or idle"),
    attribute("affinity", "affinity=work:0-1", "the CPUs that it may run on"),
    attribute("clamp", "clamp=work:0-512", "the bounds of its utilisation, out of 1024"),
    attribute("yield", "yield=work", "it yields the CPU after each buffer"),
    once("waiting", "waiting=adaptive", "how threads wait: a rule of `rowlock policies`, `:` for blanks"),
    once("double", "double=io", "the stages of this kind do their work twice, as a test"),
];

impl StructureKey {
    /// The key of this name.
    pub(super) fn named(name: &str) -> Option<&'static StructureKey> {
        KEYS.iter().find(|key| key.name == name)
    }
}
