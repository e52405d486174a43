//! How long each fiber has run, for less than it would cost to read the clock at every turn.
//!
//! To measure each turn would take too long: a yield would take 17 ns instead of 7, and creating
//! and joining a fiber 125 instead of 52. So while turns are *quick*, the clock is read once for a
//! window of [`WINDOW`] turns, which are charged equal parts. Turns count as quick after [`CALM`]
//! measured ones in a row that were shorter than [`QUICK`], until a window takes longer; then each
//! turn is measured.
//!
//! The error is bounded: the first long turn after [`CALM`] quick ones is charged an eighth of its
//! time, and the other turns in its window are charged the rest. If a fiber has ended, its part is
//! lost, or charged to the next fiber with its record.
//!
//! Between turns, at *safepoints* (a lock, a spawn, a [checkpoint](crate::checkpoint)), the clock
//! is read at intervals of 1 to [`SAFEPOINTS`] of them. The interval doubles while it takes less
//! than a sixteenth of the running time.

use std::cell::Cell;

use policy::Span;

use crate::clock::Clock;
use crate::record::Fiber;

/// How many quick turns share one reading.
const WINDOW: usize = 8;

/// A turn is quick if it is shorter.
const QUICK: Span = Span::from_nanos(250);

/// After this many quick turns in a row, the next ones count as quick.
const CALM: u32 = 32;

/// The maximum number of safepoints between two readings.
const SAFEPOINTS: u32 = 64;

/// A worker's accounting of its turns. Times are in ticks.
pub(crate) struct TimeAccounting {
    /// When the clock was last read.
    since: Cell<u64>,
    /// How many turns in a row have been quick.
    calm: Cell<u32>,
    /// How many turns are in the window.
    turns: Cell<usize>,
    window: [Cell<Option<Fiber>>; WINDOW],
    /// [`QUICK`]; 0 if each turn is measured.
    quick: u64,
    /// The interval of readings at safepoints, and how much of it is left.
    interval: Cell<u32>,
    left: Cell<u32>,
    /// The interval doubles if it took less.
    sixteenth: u64,
    /// A running time.
    pub(crate) whole: u32,
}

impl TimeAccounting {
    pub(crate) fn new(clock: &Clock, running_time: Span) -> TimeAccounting {
        let whole = u32::try_from(clock.in_ticks(running_time)).unwrap_or(u32::MAX).max(1);
        let is_exact = clock.scripted().is_some();
        TimeAccounting {
            since: Cell::new(clock.ticks()),
            calm: Cell::new(0),
            turns: Cell::new(0),
            window: [const { Cell::new(None) }; WINDOW],
            quick: if is_exact { 0 } else { clock.in_ticks(QUICK) },
            interval: Cell::new(1),
            left: Cell::new(1),
            sixteenth: if is_exact { 0 } else { u64::from(whole) / 16 },
            whole,
        }
    }

    /// Ends a turn of this fiber, or of one that has ended. Returns whether the clock must be read
    /// now.
    #[inline(always)]
    pub(crate) fn end_turn(&self, fiber: Option<Fiber>) -> bool {
        let turns = self.turns.get();
        self.window[turns % WINDOW].set(fiber);
        self.turns.set(turns + 1);
        turns + 1 == WINDOW || self.calm.get() < CALM
    }

    /// Charges the fibers that have run since the clock was last read. The clock says `now`, at the
    /// end of a turn, or with `going_on` during that fiber's turn.
    #[inline]
    pub(crate) fn read(&self, now: u64, going_on: Option<Fiber>) {
        if going_on.is_some() {
            self.end_turn(going_on);
        }
        let passed = now.saturating_sub(self.since.replace(now));
        let turns = self.turns.replace(0);
        // The compiler knows the first divisor, so it needs no division.
        let each = if turns == WINDOW { passed / WINDOW as u64 } else { passed / turns.max(1) as u64 };
        let ticks = u32::try_from(each).unwrap_or(u32::MAX);
        for fiber in self.window.iter().take(turns).filter_map(Cell::get) {
            fiber.spent.set(fiber.spent.get().saturating_add(ticks));
        }
        self.calm.set(if each < self.quick { (self.calm.get() + 1).min(CALM) } else { 0 });
        let interval = self.interval.get() << u32::from(going_on.is_some());
        self.interval.set(if passed < self.sixteenth { interval.min(SAFEPOINTS) } else { 1 });
        self.left.set(self.interval.get());
    }

    /// How long the turn has lasted that goes on `now`. Quick turns before it may count, too.
    pub(crate) fn turn(&self, now: u64) -> u64 {
        now.saturating_sub(self.since.get())
    }

    /// Passes a safepoint. Returns whether the clock must be read.
    #[inline(always)]
    pub(crate) fn safepoint(&self) -> bool {
        self.left.set(self.left.get().wrapping_sub(1));
        self.left.get() == 0
    }

    /// Makes the next safepoint read the clock.
    pub(crate) fn read_clock_soon(&self) {
        self.left.set(1);
    }

    /// Restarts the time at `now`, because no fiber ran before.
    pub(crate) fn restart(&self, now: u64) {
        self.since.set(now);
        self.turns.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Records;

    /// A time accounting with two fibers, and its own time.
    struct World {
        accounting: TimeAccounting,
        fibers: [Fiber; 2],
        /// Keeps the fibers' memory.
        _records: Records,
        now: u64,
        readings: u32,
    }

    impl World {
        fn new() -> World {
            let records = Records::new(2).unwrap();
            // SAFETY: no other thread makes any.
            #[allow(unsafe_code)]
            let first = unsafe { records.make() }.unwrap();
            let fibers = [first, first.next.take().unwrap()];
            let accounting = TimeAccounting::new(&Clock::Real { multiplier: 1 << 24 }, Span::from_micros(100));
            accounting.restart(0);
            World { accounting, fibers, _records: records, now: 0, readings: 0 }
        }

        /// Each fiber in turn runs for such a time, and stops.
        fn turns(&mut self, turns: impl IntoIterator<Item = (usize, u64)>) {
            for (fiber, ticks) in turns {
                self.now += ticks;
                if self.accounting.end_turn(Some(self.fibers[fiber])) {
                    self.accounting.read(self.now, None);
                    self.readings += 1;
                }
            }
        }

        /// How often the clock was read since the last call, and what the fibers have been charged.
        fn take(&mut self) -> (u32, [u32; 2]) {
            (std::mem::take(&mut self.readings), self.fibers.map(|fiber| fiber.spent.get()))
        }
    }

    #[test]
    fn long_turns_are_measured_one_by_one_and_quick_ones_in_a_row_share_readings() {
        let mut world = World::new();
        world.turns((0..100).map(|turn| (turn % 2, 250 + turn as u64 % 2)));
        assert_eq!(world.take(), (100, [12_500, 12_550]));
        world.turns((0..32).map(|turn| (turn % 2, 10)));
        assert_eq!(world.take(), (32, [12_660, 12_710]));
        world.turns((0..80).map(|turn| (turn % 2, 10)));
        assert_eq!(world.take(), (10, [13_060, 13_110]));
    }

    #[test]
    fn the_first_long_turn_after_quick_ones_is_shared_and_the_second_is_charged_to_its_fiber() {
        let mut world = World::new();
        world.turns([(1, 0); 32]);
        world.turns([(0, 8_000)].into_iter().chain([(1, 0); 7]));
        assert_eq!(world.take(), (33, [1_000, 7_000]));
        world.turns([(0, 8_000), (1, 10)]);
        assert_eq!(world.take(), (2, [9_000, 7_010]));
    }

    #[test]
    fn at_most_an_eighth_of_a_running_time_passes_unseen_between_equal_safepoints() {
        for apart in [1, 7, 100, 1_000, 10_000, 100_000] {
            let mut world = World::new();
            let mut unseen = 0;
            for _ in 0..10_000 {
                (world.now, unseen) = (world.now + apart, unseen + apart);
                if world.accounting.safepoint() {
                    world.accounting.read(world.now, Some(world.fibers[0]));
                    assert!(unseen <= apart.max(100_000 / 8), "{unseen} with a safepoint each {apart}");
                    (unseen, world.readings) = (0, world.readings + 1);
                }
            }
            assert_eq!(u64::from(world.take().1[0]) + unseen, world.now);
            assert!(apart > 100 || world.readings < 10_000 / 50, "{}", world.readings);
        }
    }
}
