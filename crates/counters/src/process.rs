//! Statistics of one process, in shared memory.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

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
    name: [AtomicU8; 16],
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
            name: [const { AtomicU8::new(0) }; 16],
            cs: AtomicU64::new(0),
            counts: [const { [const { WaitCounts::new() }; SHARDS] }; WaitKind::ALL.len()],
            passed_through: [const { [const { AtomicU64::new(0) }; Reason::ALL.len()] }; WaitKind::ALL.len()],
        }
    }

    /// Records the process that counts here and the context-switch cost `cs` that it assumes.
    pub fn begin(&self, pid: u32, name: &[u8], cs: Span) {
        let name = name.iter().take(15).chain(&[0]);
        self.name.iter().zip(name).for_each(|(to, from)| to.store(*from, Relaxed));
        self.cs.store(cs.as_nanos(), Relaxed);
        self.pid.store(pid, Relaxed);
    }

    /// Records that the process has exited.
    pub fn end(&self) {
        self.ended.store(1, Relaxed);
    }

    /// The counts of a kind for a thread with this number.
    pub fn counts(&self, kind: WaitKind, thread: usize) -> &WaitCounts {
        &self.counts[kind as usize][thread % SHARDS]
    }

    /// Counts a wait, or an object to wait at, that is passed through to the real symbol.
    pub fn count_pass_through(&self, kind: WaitKind, reason: Reason) {
        self.passed_through[kind as usize][reason as usize].fetch_add(1, Relaxed);
    }

    /// The statistics written so far. `None` if no process has begun.
    pub(crate) fn report(&self) -> Option<ProcessReport> {
        let pid = self.pid.load(Relaxed);
        let name: Vec<u8> = self.name.iter().map(|byte| byte.load(Relaxed)).take_while(|&byte| byte != 0).collect();
        (pid != 0).then(|| ProcessReport {
            pid,
            name: String::from_utf8_lossy(&name).into_owned(),
            ended: self.ended.load(Relaxed) != 0,
            cs: Span::from_nanos(self.cs.load(Relaxed)),
            waits: WaitKind::ALL.into_iter().filter_map(|kind| self.waits(kind)).collect(),
        })
    }

    /// How many waits there were so far, of all kinds together. It wraps around.
    pub(crate) fn waits_of_all_kinds(&self) -> u64 {
        let counts = self.counts.iter().flatten();
        counts.fold(0, |sum: u64, counts| sum.wrapping_add(counts.waits.load(Relaxed)))
    }

    /// The waits of one kind. `None` if there were none.
    fn waits(&self, kind: WaitKind) -> Option<Waits> {
        let mut statistics = Statistics::default();
        for counts in &self.counts[kind as usize] {
            statistics.waits = statistics.waits.wrapping_add(counts.waits.load(Relaxed));
            counts.counters.add_to(&mut statistics);
        }
        let times = self.passed_through[kind as usize].iter().map(|times| times.load(Relaxed));
        let passed_through: Vec<_> = Reason::ALL.into_iter().zip(times).filter(|&(_, times)| times > 0).collect();
        let is_used = statistics != Statistics::default() || !passed_through.is_empty();
        is_used.then_some(Waits { kind, statistics, passed_through })
    }
}

impl Default for ProcessStatistics {
    fn default() -> ProcessStatistics {
        ProcessStatistics::new()
    }
}

/// Statistics of one process, as read from a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessReport {
    /// The process ID.
    pub pid: u32,
    /// The name of the program, as the kernel knows it: at most 15 bytes of its file name.
    pub name: String,
    /// Whether the process exited. If not, it is still running, was killed, or executed another
    /// program.
    pub ended: bool,
    /// The cost of a context switch that the process assumed.
    pub cs: Span,
    /// Its waits by kind, without the kinds at which it never waited.
    pub waits: Vec<Waits>,
}

/// Statistics of the waits of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The kind of object or call.
    pub kind: WaitKind,
    /// Waits that followed a waiting rule.
    pub statistics: Statistics,
    /// The number of waits or objects that were passed through to the real symbol, by reason.
    pub passed_through: Vec<(Reason, u64)>,
}

impl Waits {
    /// Estimates the time saved: every successful spin avoids blocking the thread and waking it.
    pub fn time_saved(&self, cs: Span) -> Span {
        Span::from_nanos(self.statistics.successful_spins.saturating_mul(cs.as_nanos()))
    }
}
