//! Statistics of one process, in shared memory.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use policy::Span;
use sys::shared_memory::Plain;
use wait::{Counters, Statistics};

use crate::kind::{Reason, WaitKind};

/// The number of shards of each kind, so that threads on different CPUs rarely share a cache line.
const SHARDS: usize = 4;

/// Counters of the waits of some threads at one kind of object.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct WaitCounts {
    waits: AtomicU64,
    /// All counters but the number of waits.
    pub counters: Counters,
}

impl WaitCounts {
    const fn new() -> WaitCounts {
        WaitCounts { waits: AtomicU64::new(0), counters: Counters::new() }
    }

    /// Counts a wait.
    pub fn count_wait(&self) {
        self.waits.fetch_add(1, Relaxed);
    }
}

/// Statistics of the waits of one process.
///
/// All zeros are a valid value: a slot that no process has claimed.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct ProcessStatistics {
    /// Zero if no process has begun.
    pid: AtomicU32,
    ended: AtomicU32,
    /// The name of the program, as the kernel knows it: up to 15 bytes and a NUL.
    name: [AtomicU64; 2],
    cs: AtomicU64,
    counts: [[WaitCounts; SHARDS]; WaitKind::ALL.len()],
    passed_through: [[AtomicU64; Reason::ALL.len()]; WaitKind::ALL.len()],
}

// SAFETY: it consists of atomic integers and padding in a fixed layout, and so does `WaitCounts`
// with its fields.
unsafe impl Plain for ProcessStatistics {}

impl ProcessStatistics {
    /// Statistics of no process.
    pub const fn new() -> ProcessStatistics {
        ProcessStatistics {
            pid: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            name: [const { AtomicU64::new(0) }; 2],
            cs: AtomicU64::new(0),
            counts: [const { [const { WaitCounts::new() }; SHARDS] }; WaitKind::ALL.len()],
            passed_through: [const { [const { AtomicU64::new(0) }; Reason::ALL.len()] }; WaitKind::ALL.len()],
        }
    }

    /// Records the process that counts here and the context-switch cost `cs` that it assumes.
    pub fn begin(&self, pid: u32, name: &[u8], cs: Span) {
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(name.iter().take(15)).for_each(|(to, from)| *to = *from);
        for (word, bytes) in self.name.iter().zip(bytes.chunks_exact(8)) {
            word.store(bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)), Relaxed);
        }
        self.cs.store(cs.as_nanos(), Relaxed);
        self.pid.store(pid, Relaxed);
    }

    /// Records that the process has exited. Does nothing in a forked child, which counts here too
    /// but does not own the slot.
    pub fn end(&self, pid: u32) {
        if self.pid() == pid {
            self.ended.store(1, Relaxed);
        }
    }

    /// The counts of a kind for a thread with this number.
    pub fn counts(&self, kind: WaitKind, thread: usize) -> &WaitCounts {
        &self.counts[kind as usize][thread % SHARDS]
    }

    /// Counts a wait, or an object to wait at, that is passed through to the real symbol.
    pub fn count_pass_through(&self, kind: WaitKind, reason: Reason) {
        self.passed_through[kind as usize][reason as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Relaxed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed) != 0
    }

    pub(crate) fn name(&self) -> String {
        let bytes: Vec<u8> = self.name.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    pub(crate) fn cs(&self) -> Span {
        Span::from_nanos(self.cs.load(Relaxed))
    }

    pub(crate) fn statistics(&self, kind: WaitKind) -> Statistics {
        let mut sum = Statistics::default();
        for counts in &self.counts[kind as usize] {
            sum.waits = sum.waits.wrapping_add(counts.waits.load(Relaxed));
            counts.counters.add_to(&mut sum);
        }
        sum
    }

    pub(crate) fn passed_through(&self, kind: WaitKind, reason: Reason) -> u64 {
        self.passed_through[kind as usize][reason as usize].load(Relaxed)
    }
}

impl Default for ProcessStatistics {
    fn default() -> ProcessStatistics {
        ProcessStatistics::new()
    }
}
