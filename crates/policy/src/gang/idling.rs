//! Whether a job idles in its turns, so that the next one can use them.
//!
//! Source: our own. A job that spins in one phase and waits for input in the next one keeps its
//! class, since it hardly blocks, and its turns would be idle. So it is *accompanied*: in its turns
//! the next job runs as well. It keeps all of its turns, and competes in them, on each of its
//! cells, with at most one job that does not idle as well, until the turn in which it wants its
//! CPUs again has ended.
//!
//! The measure is the time for which its threads wanted a CPU, whether they had one or waited for
//! it. So a job that is accompanied is not taken for one that idles because the other one runs.
//! But a thread that is woken has to wait a moment for its CPU then, so more is needed to end it.

use crate::units::Span;

/// A job idles that wants less than this part of its CPU time in its last turns, in thousandths.
const IDLES: u64 = 500;
/// It idles on unless it wants at least this part.
const IDLES_ON: u64 = 750;
/// So many turns tell that a job idles.
const TURNS: u8 = 2;

/// How a job has used its last turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idling {
    /// How many of the last turns it has left unused, up to [`TURNS`].
    unused: u8,
    /// How long it could run since the end of its last turn.
    allowed: Span,
}

impl Idling {
    /// It could run for so long: in its turn, or because it accompanies another job.
    pub fn allow(&mut self, time: Span) {
        self.allowed += time;
    }

    /// A turn of it has ended. Since the last one its threads, of which there are so many, wanted
    /// CPUs for so long, all together, and it has so many CPUs. Returns whether it idles.
    ///
    /// A turn in which it could not run says nothing. CPUs for which it has no threads do not
    /// count: a job with fewer threads than CPUs may spin nevertheless.
    pub fn end_turn(&mut self, wanted: Span, threads: u32, cpus: u32) -> bool {
        let allowed = std::mem::take(&mut self.allowed).scaled(1_000 * u64::from(cpus.min(threads).max(1)));
        let is_unused = wanted < allowed.scaled(if self.idles() { IDLES_ON } else { IDLES });
        if !allowed.is_zero() {
            self.unused = if is_unused { (self.unused + 1).min(TURNS) } else { 0 };
        }
        self.idles()
    }

    /// Whether it has left most of its last turn unused.
    pub const fn has_left_turn(&self) -> bool {
        self.unused > 0
    }

    /// Whether it idles in its turns.
    pub const fn idles(&self) -> bool {
        self.unused >= TURNS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUS: u32 = 2;

    /// Whether a job idles after each turn of 20 ms in which it wanted CPUs for so many
    /// milliseconds.
    fn idles(wanted: &[u64]) -> Vec<bool> {
        let mut job = Idling::default();
        let turn = |&millis: &u64| {
            job.allow(Span::from_millis(15));
            job.allow(Span::from_millis(5));
            job.end_turn(Span::from_millis(millis), CPUS, CPUS)
        };
        wanted.iter().map(turn).collect()
    }

    #[test]
    fn a_job_idles_that_wants_under_half_of_its_time_in_two_turns_until_it_wants_three_quarters() {
        assert_eq!(idles(&[40, 19, 19, 40]), [false, false, true, false]);
        assert_eq!(idles(&[0, 20, 0, 19]), [false, false, false, true]);
        assert_eq!(idles(&[0, 0, 29, 20, 29, 30, 0, 0]), [false, true, true, true, true, false, false, true]);
    }

    #[test]
    fn a_turn_in_which_it_could_not_run_says_nothing() {
        let mut job = Idling::default();
        assert!(!job.end_turn(Span::ZERO, CPUS, CPUS) && !job.end_turn(Span::ZERO, CPUS, CPUS));
        job.allow(Span::from_millis(20));
        assert!(!job.end_turn(Span::ZERO, CPUS, CPUS));
        job.allow(Span::MAX);
        assert!(job.end_turn(Span::ZERO, u32::MAX, u32::MAX) && job.end_turn(Span::from_millis(1), CPUS, CPUS));
        job.allow(Span::MAX);
        assert!(!job.end_turn(Span::MAX, u32::MAX, u32::MAX));
    }

    #[test]
    fn a_job_with_fewer_threads_than_cpus_idles_only_if_its_threads_do() {
        for (millis, idles) in [(40, false), (19, true)] {
            let mut job = Idling::default();
            for _ in 0..3 {
                job.allow(Span::from_millis(20));
                job.end_turn(Span::from_millis(millis), 2, 8);
            }
            assert_eq!(job.idles(), idles, "{millis} ms");
        }
    }
}
