//! A schedule fuzzer for tests: draws schedules from a seed. The same seed gives the same order of
//! everything.
//!
//! A *deterministic* runtime has one worker and its own clock. The clock advances by [`STEP`] at
//! each safepoint and each turn's end, and jumps to the next deadline if no fiber is ready. Nothing
//! else moves it. At each safepoint the fuzzer draws whether the fiber continues, and at each
//! turn's end which fiber is next. How often fibers are interrupted is drawn for the whole run,
//! because some defects need many switches and others few.
//!
//! Events from outside are not drawn, and differ between runs: other threads, files and sockets,
//! the real clock, addresses, the order in a `HashMap`.

use std::cell::Cell;

use policy::feedback::{FeedbackQueue, Level};
use policy::{Span, ThreadId};

/// The step of a deterministic runtime's clock.
pub(crate) const STEP: Span = Span::from_micros(1);

/// The next fiber is drawn from this many ready ones: the first.
const DRAWN_FROM: u64 = 64;

/// Draws a runtime's schedule from a seed; see
/// [`Config::deterministic`](crate::Config::deterministic).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RandomSchedule {
    /// Runs with the same seed have the same schedule.
    pub seed: u64,
    /// The fibers from which the next one is drawn.
    pub candidates: Candidates,
}

/// The fibers from which the next one is drawn; if there are very many, the 64 that have been ready
/// longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Candidates {
    /// Those at the highest level of the feedback queue at which a fiber is ready: what happens
    /// could happen in a normal run.
    Highest,
    /// All that are ready: finds also what otherwise needs other levels or several workers.
    All,
}

pub(crate) struct ScheduleFuzzer {
    candidates: Candidates,
    state: Cell<u64>,
    /// A fiber is interrupted at one safepoint of so many.
    odds: u64,
}

impl ScheduleFuzzer {
    pub(crate) fn new(deterministic: RandomSchedule) -> ScheduleFuzzer {
        let RandomSchedule { seed, candidates } = deterministic;
        let fuzzer = ScheduleFuzzer { candidates, state: Cell::new(seed), odds: 1 };
        ScheduleFuzzer { odds: 2 << fuzzer.below(5), ..fuzzer }
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn draw(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Draws a number below `end`, which is not 0.
    fn below(&self, end: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(end)) >> 64) as u64
    }

    /// Draws whether a fiber is interrupted at a safepoint.
    pub(crate) fn should_preempt(&self) -> bool {
        self.below(self.odds) == 0
    }

    pub(crate) fn take(&self, ready: &mut FeedbackQueue) -> Option<ThreadId> {
        let lowest = match self.candidates {
            Candidates::Highest => ready.highest()?,
            Candidates::All => Level(u32::MAX),
        };
        let count = Cell::new(0);
        ready.highest_if(|thread| {
            let is_candidate = ready.level(thread) <= lowest && count.get() < DRAWN_FROM;
            count.set(count.get() + u64::from(is_candidate));
            !is_candidate
        });
        let before = Cell::new((count.get() > 0).then(|| self.below(count.get()))?);
        ready.take_if(|_| before.replace(before.get().wrapping_sub(1)) == 0)
    }
}

#[cfg(test)]
mod tests {
    use policy::feedback::FeedbackRules;

    use super::*;

    /// The order in which so many fibers are taken, of which all but the first three are at the
    /// next level.
    fn order(seed: u64, candidates: Candidates, fibers: u32) -> Vec<u32> {
        let mut ready = FeedbackQueue::new(FeedbackRules::default());
        for thread in (0..fibers).map(ThreadId) {
            ready.add(thread);
            if thread.0 >= 3 {
                ready.charge(thread, FeedbackRules::default().running_time);
            }
            ready.enqueue(thread);
        }
        let fuzzer = ScheduleFuzzer::new(RandomSchedule { seed, candidates });
        std::iter::from_fn(|| fuzzer.take(&mut ready)).map(|thread| thread.0).collect()
    }

    #[test]
    fn only_fibers_of_the_highest_level_are_drawn_unless_all_are() {
        let mut firsts = [[0; 6]; 2];
        for seed in 0..200 {
            for (candidates, firsts) in [Candidates::Highest, Candidates::All].into_iter().zip(&mut firsts) {
                let mut order = order(seed, candidates, 6);
                assert!(candidates == Candidates::All || order[..3].iter().all(|thread| *thread < 3));
                firsts[order[0] as usize] += 1;
                order.sort_unstable();
                assert_eq!(order, [0, 1, 2, 3, 4, 5]);
            }
        }
        assert!(firsts[0][..3].iter().all(|count| *count > 40) && firsts[0][3..] == [0; 3], "{firsts:?}");
        assert!(firsts[1].iter().all(|count| *count > 10), "{firsts:?}");
    }

    #[test]
    fn of_very_many_fibers_one_of_the_first_is_taken() {
        let order = order(1, Candidates::All, 1000);
        assert!(order[0] < 64 && order.len() == 1000, "{order:?}");
    }
}
