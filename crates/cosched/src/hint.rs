//! Whether the ranks of a job give way by themselves when they read that it is not their turn.
//!
//! No rank has to declare that. What counts is what they do: the agent of the job reads at the
//! beginning and at the end of the turns of others how long its threads have run. If that is more
//! than 5 % of a CPU, the job is stopped by its mechanism from then on. After a second it gets
//! another chance, since many programs begin with work that does not wait. Each next pause is twice
//! as long.
//!
//! Two times on each CPU do not count. The kernel notes the running time of a thread at its tick,
//! so that of the own turn may come late by one. And the agent reads the counters a little after
//! the boundary at which the own turn has begun.

use policy::{Instant, Span};

use crate::restraint::Hint;

/// How long a job is observed out of its turn before that is judged.
const INTERVAL: Span = Span::from_millis(100);
/// One in so many parts of a CPU is left to a job out of its turn: 5 %.
const PART: u64 = 20;
/// The longest tick of usual kernels.
const TICK: Span = Span::from_millis(4);
/// How long a job is stopped before it gets another chance.
const FIRST_PAUSE: Span = Span::from_millis(1_000);

/// A watch over a job out of its turn.
#[derive(Debug)]
pub(crate) struct HintWatch {
    /// When the turn of others has begun, and how many there have been. `None` in the own turn.
    left: Option<(Instant, u32)>,
    /// How long others have had their turn, and the own threads have run in it.
    time: Span,
    used: Span,
    /// When the job was found to ignore its turn.
    ignored: Option<Instant>,
    pause: Span,
}

/// The next step after a look at a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing.
    Pass,
    /// The turn of others has begun: note the running times.
    Begin,
    /// It has ended: say how long each thread has run since.
    End,
}

impl HintWatch {
    pub(crate) const fn new() -> HintWatch {
        HintWatch { left: None, time: Span::ZERO, used: Span::ZERO, ignored: None, pause: FIRST_PAUSE }
    }

    /// Looks at a job that gives way now or not, and for which others have had so many turns.
    pub(crate) fn look(&mut self, gives_way: bool, turns: u32, now: Instant) -> Look {
        let left = self.left.take_if(|(_, before)| *before == turns);
        self.left = left.or(gives_way.then_some((now, turns)));
        match (left.is_some(), gives_way) {
            // If it was not the last turn, the agent has missed one of its own in between.
            (false, true) => Look::Begin,
            (true, false) => Look::End,
            _ => Look::Pass,
        }
    }

    /// The turn of others has ended at `boundary`, and this is the running time of all threads, on
    /// so many CPUs, from its beginning to `now`. Returns whether the job has ignored it for too
    /// long.
    pub(crate) fn end(&mut self, boundary: Instant, now: Instant, ran: Span, cpus: u64) -> bool {
        let Some((left, _)) = self.left.take() else { return false };
        let uncounted = TICK + now.since(boundary);
        self.used += ran - Span::from_nanos(uncounted.as_nanos().saturating_mul(cpus));
        self.time += boundary.since(left);
        if self.time < INTERVAL {
            return false;
        }
        let (time, used) = (std::mem::take(&mut self.time), std::mem::take(&mut self.used));
        let is_too_long = used.as_nanos().saturating_mul(PART) > time.as_nanos();
        if is_too_long {
            self.ignored = Some(now);
        }
        is_too_long
    }

    /// Whether a job that is stopped gets another chance. Then the next pause is longer.
    pub(crate) fn tries_again(&mut self, hint: Hint, now: Instant) -> bool {
        let pause = self.pause;
        let tries = hint == Hint::Ignored && self.ignored.take_if(|ignored| now.since(*ignored) >= pause).is_some();
        if tries {
            self.pause = pause + pause;
        }
        tries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    /// Gives way for 20 ms of each 40, in which it runs for so long. Returns when it was found to
    /// ignore that.
    fn found(watch: &mut HintWatch, from: u64, ran: Span) -> Option<u64> {
        (0..20).map(|round| from + round * 40).find(|&begin| {
            let (turns, ends) = (begin as u32, at(begin + 20));
            assert_eq!(watch.look(true, turns, at(begin)), Look::Begin);
            assert_eq!(watch.look(true, turns, at(begin + 1)), Look::Pass);
            assert_eq!(watch.look(false, turns, ends), Look::End);
            watch.end(at(begin + 20), at(begin + 21), ran, 2)
        })
    }

    #[test]
    fn a_job_that_uses_more_than_a_twentieth_of_a_cpu_out_of_its_turn_ignores_it() {
        // In each turn of others, 5 ms on each CPU do not count.
        assert_eq!(found(&mut HintWatch::new(), 0, MS.scaled(11_000)), None);
        assert_eq!(found(&mut HintWatch::new(), 0, MS.scaled(11_001)), Some(160), "after 100 ms of others");
        assert!(!HintWatch::new().end(at(0), at(0), Span::MAX, 1), "it was not observed");
    }

    #[test]
    fn a_turn_of_others_that_is_not_observed_from_its_beginning_to_its_end_does_not_count() {
        let mut watch = HintWatch::new();
        assert_eq!(watch.look(false, 0, at(0)), Look::Pass);
        assert_eq!(watch.look(true, 1, at(20)), Look::Begin);
        assert_eq!(watch.look(true, 2, at(60)), Look::Begin, "there was an own turn");
        assert_eq!(watch.look(false, 3, at(120)), Look::Pass);
        assert!(!watch.end(at(120), at(120), Span::MAX, 1));
    }

    #[test]
    fn a_job_that_ignores_its_turn_gets_other_chances_after_longer_and_longer_pauses() {
        let mut watch = HintWatch::new();
        assert!(!watch.tries_again(Hint::Ignored, at(1_000_000)));
        let mut begin = 0;
        for pause in [1_000, 2_000, 4_000] {
            let found = found(&mut watch, begin, Span::from_millis(20)).unwrap() + 21;
            assert!(!watch.tries_again(Hint::Ignored, at(found + pause - 1)));
            assert!(!watch.tries_again(Hint::Obeyed, at(found + pause)));
            assert!(watch.tries_again(Hint::Ignored, at(found + pause)));
            assert!(!watch.tries_again(Hint::Ignored, at(found + pause)));
            begin = found + pause;
        }
    }
}
