//! The page of one process.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use policy::Span;
use sys::shared_memory::Plain;
use wait::{Counters, Statistics};

use crate::subject::{Reason, Subject};

/// How many threads count without sharing cache lines.
const SHARDS: usize = 4;

/// What the waits of some threads at one subject came to.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Tally {
    waits: AtomicU64,
    /// All that is not their number.
    pub counters: Counters,
}

impl Tally {
    const fn new() -> Tally {
        Tally { waits: AtomicU64::new(0), counters: Counters::new() }
    }

    /// One more wait, or as many.
    pub fn waited(&self, times: u64) {
        self.waits.fetch_add(times, Relaxed);
    }
}

/// What the waits of one process came to.
///
/// It is valid as zeros, which is the page of nobody.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Page {
    /// Zero for nobody.
    pid: AtomicU32,
    ended: AtomicU32,
    /// The program's name, as the kernel knows it: up to 15 bytes and a zero.
    name: [AtomicU64; 2],
    cs: AtomicU64,
    tallies: [[Tally; SHARDS]; Subject::ALL.len()],
    left: [[AtomicU64; Reason::ALL.len()]; Subject::ALL.len()],
}

// SAFETY: atomic integers and padding, in a fixed layout; so are `Tally` and what it is made of.
unsafe impl Plain for Page {}

impl Page {
    /// An empty page.
    pub const fn new() -> Page {
        Page {
            pid: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            name: [const { AtomicU64::new(0) }; 2],
            cs: AtomicU64::new(0),
            tallies: [const { [const { Tally::new() }; SHARDS] }; Subject::ALL.len()],
            left: [const { [const { AtomicU64::new(0) }; Reason::ALL.len()] }; Subject::ALL.len()],
        }
    }

    /// The process has this page from now on, and believes that waking a sleeper costs `cs`.
    pub fn begin(&self, pid: u32, name: &[u8], cs: Span) {
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(name.iter().take(15)).for_each(|(to, from)| *to = *from);
        for (word, bytes) in self.name.iter().zip(bytes.chunks_exact(8)) {
            word.store(bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)), Relaxed);
        }
        self.cs.store(cs.as_nanos(), Relaxed);
        self.pid.store(pid, Relaxed);
    }

    /// This process has come to its end by itself. Children of forks, who write here too, are not whom the page is of.
    pub fn end(&self, pid: u32) {
        if self.pid() == pid {
            self.ended.store(1, Relaxed);
        }
    }

    /// Where the threads with numbers like this count their waits at a subject.
    pub fn tally(&self, subject: Subject, thread: usize) -> &Tally {
        &self.tallies[subject as usize][thread % SHARDS]
    }

    /// So many more waits, or objects to wait at, are left to the original.
    pub fn leave(&self, subject: Subject, reason: Reason, times: u64) {
        self.left[subject as usize][reason as usize].fetch_add(times, Relaxed);
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

    pub(crate) fn statistics(&self, subject: Subject) -> Statistics {
        let mut sum = Statistics::default();
        for tally in &self.tallies[subject as usize] {
            sum.waits = sum.waits.wrapping_add(tally.waits.load(Relaxed));
            tally.counters.add_to(&mut sum);
        }
        sum
    }

    pub(crate) fn left(&self, subject: Subject, reason: Reason) -> u64 {
        self.left[subject as usize][reason as usize].load(Relaxed)
    }
}

impl Default for Page {
    fn default() -> Page {
        Page::new()
    }
}
