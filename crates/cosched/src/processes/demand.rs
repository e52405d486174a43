//! For how long the threads of a job have had CPUs, and have wanted them.

use std::collections::BTreeMap;
use std::fs;

use policy::Span;
use sys::identity::Identity;

use super::threads;

/// Observes threads, one interval after the other.
#[derive(Debug, Default)]
pub struct Demand {
    /// The times of each thread so far. The key has the start time of its process.
    threads: BTreeMap<(u32, u64, u32), CpuTimes>,
}

/// The times of threads, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// For how long they had a CPU.
    pub ran: Span,
    /// For how long they had one or awaited one.
    pub wanted: Span,
}

impl Demand {
    /// The times of all threads of these processes since the last call. `None` if they are unknown:
    /// one of the threads has ended, or the kernel does not tell.
    pub fn observe(&mut self, processes: impl IntoIterator<Item = Identity>) -> Option<CpuTimes> {
        let before = std::mem::take(&mut self.threads);
        for process in processes {
            for thread in threads(process).unwrap_or_default() {
                let text = fs::read(format!("/proc/{}/task/{thread}/schedstat", process.pid));
                if let Some(times) = text.ok().and_then(|text| CpuTimes::parse(&text)) {
                    self.threads.insert((process.pid, process.started, thread), times);
                }
            }
        }
        let ends_before = |now: &CpuTimes, then: &CpuTimes| now.ran < then.ran || now.wanted < then.wanted;
        let has_ended = |(thread, then)| self.threads.get(thread).is_none_or(|now| ends_before(now, then));
        // A thread that exists has run, so the kernel does not count if none has.
        let is_untold = self.threads.values().all(|times| times.wanted.is_zero());
        if is_untold || before.iter().any(has_ended) {
            return None;
        }
        let add = |sum: CpuTimes, (thread, now): (_, &CpuTimes)| {
            let then = before.get(thread).copied().unwrap_or_default();
            CpuTimes { ran: sum.ran + (now.ran - then.ran), wanted: sum.wanted + (now.wanted - then.wanted) }
        };
        Some(self.threads.iter().fold(CpuTimes::default(), add))
    }

    /// The number of threads at the last call.
    pub fn threads(&self) -> u32 {
        self.threads.len().try_into().unwrap_or(u32::MAX)
    }
}

impl CpuTimes {
    /// The first two fields of `schedstat`: the times on a CPU and waiting for one, in nanoseconds.
    fn parse(text: &[u8]) -> Option<CpuTimes> {
        let mut fields = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
        let [ran, waited] = [fields.next()?.parse().ok()?, fields.next()?.parse().ok()?].map(Span::from_nanos);
        Some(CpuTimes { ran, wanted: ran + waited })
    }
}

#[cfg(test)]
mod tests {
    use testing::Child;

    use super::*;
    use crate::processes::tests::{identity, state, until};

    #[test]
    fn a_process_that_sleeps_wants_nothing_and_one_that_has_ended_makes_it_unknown() {
        let sleep = Child::start(testing::command("sleep").arg("1000"));
        let sleeps = identity(sleep.id());
        let name = || sys::identity::Stat::of(sleep.id()).unwrap().name() == b"sleep";
        until(|| name() && state(sleep.id()) == b'S');
        let mut demand = Demand::default();
        assert!(demand.observe([sleeps]).is_some_and(|times| !times.ran.is_zero()), "since it began");
        let nothing = Some(CpuTimes::default());
        assert_eq!(demand.observe([sleeps]), nothing);
        let spin = Child::start(testing::command("sh").args(["-c", "while :; do :; done"]));
        let spins = identity(spin.id());
        demand.observe([sleeps, spins]).unwrap();
        let (mut ran, mut wanted) = (Span::ZERO, Span::ZERO);
        until(|| {
            let times = demand.observe([sleeps, spins]).unwrap();
            (ran, wanted) = (ran + times.ran, wanted + times.wanted);
            ran >= Span::from_millis(50)
        });
        assert!(wanted >= ran);
        assert_eq!(demand.observe([sleeps]), None);
        assert_eq!(demand.observe([sleeps]), nothing);
        assert_eq!(demand.observe([Identity { started: sleeps.started + 1, ..sleeps }]), None);
    }

    #[test]
    fn a_thread_wants_a_cpu_while_it_has_one_and_while_it_waits_for_one() {
        let [ran, wanted] = [196_653, 196_653 + 2_238_460].map(Span::from_nanos);
        assert_eq!(CpuTimes::parse(b"196653 2238460 2\n"), Some(CpuTimes { ran, wanted }));
        for text in [&b""[..], b"1", b"x 1 2", b"1 -1 2", b"\xff 1"] {
            assert_eq!(CpuTimes::parse(text), None);
        }
    }
}
