//! For how long the threads of a job have wanted CPUs.

use std::collections::BTreeMap;
use std::fs;

use policy::Span;
use sys::identity::Identity;

use super::threads;

/// Observes threads, one interval after the other.
#[derive(Debug, Default)]
pub struct Demand {
    /// What each thread has wanted so far. The key has the start time of its process.
    threads: BTreeMap<(u32, u64, u32), Span>,
}

impl Demand {
    /// For how long all threads of these processes have had or awaited a CPU since the last call,
    /// together. `None` if that is unknown: one of them has ended, or the kernel does not tell.
    pub fn observe(&mut self, processes: impl IntoIterator<Item = Identity>) -> Option<Span> {
        let before = std::mem::take(&mut self.threads);
        for process in processes {
            for thread in threads(process).unwrap_or_default() {
                let text = fs::read(format!("/proc/{}/task/{thread}/schedstat", process.pid));
                if let Some(wanted) = text.ok().and_then(|text| wanted(&text)) {
                    self.threads.insert((process.pid, process.started, thread), wanted);
                }
            }
        }
        let has_ended = |(thread, wanted)| self.threads.get(thread).is_none_or(|now| now < wanted);
        // A thread that exists has run, so the kernel does not count if none has.
        let is_untold = self.threads.values().all(|wanted| wanted.is_zero());
        if is_untold || before.iter().any(has_ended) {
            return None;
        }
        let since = |(thread, &now): (_, &Span)| now - before.get(thread).copied().unwrap_or(Span::ZERO);
        Some(self.threads.iter().map(since).sum())
    }

    /// The number of threads at the last call.
    pub fn threads(&self) -> u32 {
        self.threads.len().try_into().unwrap_or(u32::MAX)
    }
}

/// The first two fields of `schedstat`: the times on a CPU and waiting for one, in nanoseconds.
fn wanted(text: &[u8]) -> Option<Span> {
    let mut fields = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let [ran, waited] = [fields.next()?.parse().ok()?, fields.next()?.parse().ok()?].map(Span::from_nanos);
    Some(ran + waited)
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
        assert!(demand.observe([sleeps]).is_some_and(|wanted| !wanted.is_zero()), "since it began");
        assert_eq!(demand.observe([sleeps]), Some(Span::ZERO));
        let spin = Child::start(testing::command("sh").args(["-c", "while :; do :; done"]));
        let spins = identity(spin.id());
        demand.observe([sleeps, spins]).unwrap();
        let mut sum = Span::ZERO;
        until(|| {
            sum += demand.observe([sleeps, spins]).unwrap();
            sum >= Span::from_millis(50)
        });
        assert_eq!(demand.observe([sleeps]), None);
        assert_eq!(demand.observe([sleeps]), Some(Span::ZERO));
        assert_eq!(demand.observe([Identity { started: sleeps.started + 1, ..sleeps }]), None);
    }

    #[test]
    fn a_thread_wants_a_cpu_while_it_has_one_and_while_it_waits_for_one() {
        assert_eq!(wanted(b"196653 2238460 2\n"), Some(Span::from_nanos(196_653 + 2_238_460)));
        for text in [&b""[..], b"1", b"x 1 2", b"1 -1 2", b"\xff 1"] {
            assert_eq!(wanted(text), None);
        }
    }
}
