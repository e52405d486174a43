//! The ways to see whether another thread is on a CPU.

use std::fmt;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::subjects::Subject;

/// A way to see whether a thread is on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Its CPU clock, read twice, with this many nanoseconds between: it runs if the clock moves.
    Clock(u64),
    /// The CPU that the kernel notes in its `rseq` area whenever it returns to user mode: it does
    /// not run if that is the caller's CPU.
    Rseq,
    /// Its state in `/proc/self/task/TID/stat`: it runs if that is R.
    Stat,
    /// The same, unless the CPU is the caller's.
    StatAndCpu,
    /// The CPU time in `/proc/self/task/TID/schedstat`, read twice, with this many nanoseconds
    /// between.
    Schedstat(u64),
    /// The last record of its context switches, which the kernel writes into a ring of perf.
    SwitchRecord,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Clock(pause) => write!(f, "its CPU clock twice, {pause} ns between"),
            Method::Rseq => f.write_str("`cpu_id` of its `rseq` area is not one's own"),
            Method::Stat => f.write_str("`stat`: state R"),
            Method::StatAndCpu => f.write_str("`stat`: state R on another CPU"),
            Method::Schedstat(pause) => write!(f, "`schedstat` twice, {pause} ns between"),
            Method::SwitchRecord => f.write_str("the last record of a perf ring"),
        }
    }
}

impl Method {
    pub fn all() -> [Method; 10] {
        [
            Method::Clock(0),
            Method::Clock(500),
            Method::Clock(2_000),
            Method::Clock(10_000),
            Method::Rseq,
            Method::Stat,
            Method::StatAndCpu,
            Method::Schedstat(0),
            Method::Schedstat(10_000),
            Method::SwitchRecord,
        ]
    }

    /// Whether the thread runs; `None` if the method cannot tell.
    pub fn ask(self, subject: &Subject) -> Option<bool> {
        match self {
            Method::Clock(pause) => moves(pause, || clock(subject.clock)),
            Method::Rseq => Some(subject.rseq_cpu()? != own_cpu()),
            Method::Stat => Some(read(&subject.stat, state_and_cpu).0 == b'R'),
            Method::StatAndCpu => {
                let (state, cpu) = read(&subject.stat, state_and_cpu);
                Some(state == b'R' && cpu != own_cpu())
            }
            Method::Schedstat(pause) => moves(pause, || Some(read(&subject.schedstat, number))),
            Method::SwitchRecord => subject.last_switch.as_ref()?.is_on_cpu(),
        }
    }
}

/// Whether a value changes within so many nanoseconds.
fn moves<T: PartialEq>(pause: u64, value: impl Fn() -> Option<T>) -> Option<bool> {
    let first = value()?;
    if pause > 0 {
        crate::spin_for(Duration::from_nanos(pause));
    }
    Some(value()? != first)
}

/// The time of a clock, by its kernel number.
pub fn clock(id: libc::clockid_t) -> Option<(i64, i64)> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec` to the address, or fails.
    (unsafe { libc::clock_gettime(id, &raw mut time) } == 0).then_some((time.tv_sec, time.tv_nsec))
}

fn own_cpu() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::sched_getcpu() }.unsigned_abs()
}

/// Reads a short file of `/proc` again.
fn read<T>(file: &std::fs::File, parse: impl Fn(&[u8]) -> T) -> T {
    let mut text = [0; 1024];
    let length = file.read_at(&mut text, 0).unwrap();
    parse(&text[..length])
}

fn number(text: &[u8]) -> u64 {
    text.iter().take_while(|digit| digit.is_ascii_digit()).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
}

/// The state and the CPU: the first field after the name in parentheses, and the 37th.
fn state_and_cpu(text: &[u8]) -> (u8, u32) {
    let name = text.iter().rposition(|byte| *byte == b')').unwrap();
    let fields = &text[name + 2..];
    let cpu = fields.split(|byte| *byte == b' ').nth(36).unwrap();
    (fields[0], number(cpu) as u32)
}
