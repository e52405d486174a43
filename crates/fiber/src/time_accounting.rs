//! How long each fiber has run, for less than it would cost to read the clock at every turn.
//!
//! Reading a processor's clock takes longer (11 ns) than switching between fibers (5 ns). So while
//! turns are *quick*, the clock is read once for a window of [`WINDOW`] turns, and each of them
//! counts as an equal part. Turns count as quick after [`CALM`] measured ones in a row that were
//! shorter than [`QUICK`], until a window takes longer; then each turn is measured.
//!
//! The error is bounded. The window into which the first long turn after [`CALM`] quick ones falls
//! is charged in equal parts. So the fiber that had this turn is charged an eighth of it, and the
//! others in the window are charged that much too much, once. A fiber that makes others take
//! [`CALM`] quick turns before each of its long ones has this advantage each time, but always pays
//! the eighth. If it reaches safepoints in its long turns, the advantage ends when the clock is
//! read at one of them.
//!
//! A fiber that ends is not charged any more: the time of its last turns is charged to no fiber.
//!
//! Between turns, at *safepoints* (a lock, a spawn, a [checkpoint](crate::checkpoint)), the clock
//! is read now and then: after as many safepoints as took an eighth of the running time when it was
//! last read, at most [`SAFEPOINTS`].

use std::cell::Cell;

use policy::Span;

use crate::clock::Clock;
use crate::record::Fiber;

/// How many quick turns share one reading.
pub(crate) const WINDOW: usize = 8;

/// A turn is quick if it is shorter.
pub(crate) const QUICK: Span = Span::from_nanos(250);

/// After this many quick turns in a row, the next ones count as quick.
pub(crate) const CALM: u32 = 32;

/// The maximum number of safepoints between two readings.
pub(crate) const SAFEPOINTS: u32 = 64;

/// A worker's accounting of its turns.
pub(crate) struct TimeAccounting {
    /// When the clock was last read.
    since: Cell<u64>,
    /// How many turns in a row have been quick.
    calm: Cell<u32>,
    /// How many turns are in the window.
    turns: Cell<usize>,
    window: [Cell<Option<Fiber>>; WINDOW],
    /// The window's number. The fibers in it [know](crate::record::Record::window) it, so a fiber
    /// that ends sees immediately if it is in no window. Numbers are reused, so now and then it
    /// searches unnecessarily.
    number: Cell<u8>,
    /// [`QUICK`] in ticks; if it is 0, no turn is quick.
    quick: u64,
    /// How many safepoints may still pass.
    safepoints: Cell<u32>,
    /// How many safepoints were allowed at the last reading.
    asked: Cell<u32>,
    /// An eighth of a running time, in ticks.
    eighth: u64,
    /// A running time, in ticks.
    pub(crate) whole: u32,
}

impl TimeAccounting {
    pub(crate) fn new(clock: &Clock, running_time: Span) -> TimeAccounting {
        let exact = matches!(clock, Clock::Scripted { .. });
        let whole = u32::try_from(clock.in_ticks(running_time)).unwrap_or(u32::MAX).max(1);
        TimeAccounting {
            since: Cell::new(clock.ticks()),
            calm: Cell::new(0),
            turns: Cell::new(0),
            window: [const { Cell::new(None) }; WINDOW],
            number: Cell::new(0),
            quick: if exact { 0 } else { clock.in_ticks(QUICK) },
            safepoints: Cell::new(1),
            asked: Cell::new(1),
            eighth: u64::from(whole) / 8,
            whole,
        }
    }

    /// Ends a turn of this fiber, or of one that has ended. Returns whether the clock must be read
    /// now.
    #[inline(always)]
    pub(crate) fn end_turn(&self, fiber: Option<Fiber>) -> bool {
        if let Some(fiber) = fiber {
            fiber.window.set(self.number.get());
        }
        let turns = self.turns.get();
        self.window[turns & (WINDOW - 1)].set(fiber);
        self.turns.set(turns + 1);
        turns + 1 == WINDOW || self.calm.get() < CALM
    }

    /// Charges the fibers that have run since the clock was last read, by calling `ran`. The clock
    /// says `now`, at the end of a turn, or with `going_on` during that fiber's turn.
    #[inline]
    pub(crate) fn read(&self, now: u64, going_on: Option<Fiber>, mut ran: impl FnMut(Fiber, u64)) {
        if going_on.is_some() {
            self.end_turn(going_on);
        }
        let passed = now.saturating_sub(self.since.replace(now));
        // The compiler knows this divisor, so it needs no division.
        let each = match self.turns.replace(0) {
            WINDOW => {
                let each = passed / WINDOW as u64;
                self.window.iter().filter_map(Cell::get).for_each(|fiber| ran(fiber, each));
                each
            }
            turns => {
                let each = passed / turns.max(1) as u64;
                self.window[..turns & (WINDOW - 1)].iter().filter_map(Cell::get).for_each(|fiber| ran(fiber, each));
                each
            }
        };
        self.number.set(self.number.get().wrapping_add(1));
        self.calm.set(if each < self.quick { (self.calm.get() + 1).min(CALM) } else { 0 });
        let asked = u64::from(self.asked.get() - self.safepoints.get()).max(1);
        let may_take = self.eighth * asked;
        let safepoints = match self.quick {
            0 => 1,
            _ if may_take >= passed * u64::from(SAFEPOINTS) => SAFEPOINTS,
            _ => (may_take / passed.max(1)).max(1) as u32,
        };
        self.asked.set(safepoints);
        self.safepoints.set(safepoints);
    }

    /// Passes a safepoint. Returns whether the clock must be read.
    #[inline(always)]
    pub(crate) fn safepoint(&self) -> bool {
        let safepoints = self.safepoints.get().wrapping_sub(1);
        self.safepoints.set(safepoints);
        safepoints == 0
    }

    /// Makes the next safepoint read the clock.
    #[cold]
    pub(crate) fn read_clock_soon(&self) {
        self.asked.set(self.asked.get().wrapping_sub(self.safepoints.get()).wrapping_add(1));
        self.safepoints.set(1);
    }

    /// Removes a fiber that has ended: the time of its last turns is charged to no fiber.
    #[inline(always)]
    pub(crate) fn forget(&self, fiber: Fiber) {
        if fiber.window.get() == self.number.get() {
            self.remove_from_window(fiber);
        }
    }

    #[inline(never)]
    fn remove_from_window(&self, fiber: Fiber) {
        for entry in &self.window[..self.turns.get() & (WINDOW - 1)] {
            if entry.get() == Some(fiber) {
                entry.set(None);
            }
        }
    }

    /// Restarts the time at `now`: no fiber has run since the clock was last read.
    pub(crate) fn restart(&self, now: u64) {
        self.since.set(now);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::record::Records;

    /// A time accounting with fibers, and its own time.
    struct World {
        accounting: TimeAccounting,
        fibers: Vec<Fiber>,
        /// Keeps the fibers' memory.
        _records: Records,
        now: u64,
        /// The charge of each fiber, in ticks.
        charged: HashMap<u32, u64>,
        readings: u32,
    }

    impl World {
        fn new() -> World {
            let records = Records::new(8).unwrap();
            let numbers = records.more().unwrap();
            // SAFETY: each number is used once.
            #[allow(unsafe_code)]
            let fibers = numbers.map(|number| unsafe { records.make(number) }).collect();
            let accounting = TimeAccounting::new(&Clock::Real { multiplier: (1 << 24) / 3 }, Span::from_micros(100));
            accounting.restart(0);
            World { accounting, fibers, _records: records, now: 0, charged: HashMap::new(), readings: 0 }
        }

        fn read(&mut self, going_on: Option<usize>) {
            self.readings += 1;
            let going_on = going_on.map(|fiber| self.fibers[fiber]);
            self.accounting.read(self.now, going_on, |fiber, ticks| {
                *self.charged.entry(fiber.number.get()).or_default() += ticks;
            });
        }

        /// A fiber runs for this time, and stops.
        fn end_turn(&mut self, fiber: usize, ticks: u64) {
            self.now += ticks;
            if self.accounting.end_turn(Some(self.fibers[fiber])) {
                self.read(None);
            }
        }

        /// The same, and ends.
        fn last_turn(&mut self, fiber: usize, ticks: u64) {
            self.now += ticks;
            if self.accounting.end_turn(None) {
                self.read(None);
            }
            self.accounting.forget(self.fibers[fiber]);
        }

        /// As many quick turns as make the next ones count as quick. Forgets what they cost.
        fn calm(&mut self) {
            (0..CALM).for_each(|_| self.end_turn(7, 8));
            self.charged.clear();
            self.readings = 0;
        }

        fn charged(&self, fiber: u32) -> u64 {
            self.charged.get(&fiber).copied().unwrap_or(0)
        }
    }

    #[test]
    fn long_turns_are_measured_one_by_one() {
        let mut world = World::new();
        let long = world.accounting.quick;
        (0..100).for_each(|turn| world.end_turn(turn % 2, long + turn as u64 % 2));
        assert_eq!((world.readings, world.charged(0), world.charged(1)), (100, 50 * long, 50 * (long + 1)));
    }

    #[test]
    fn quick_turns_share_one_reading_after_enough_of_them_in_a_row() {
        let mut world = World::new();
        (0..CALM).for_each(|turn| world.end_turn(turn as usize % 2, 8));
        assert_eq!(world.readings, CALM);
        (0..10 * WINDOW).for_each(|turn| world.end_turn(turn % 2, 8));
        assert_eq!(world.readings, CALM + 10);
        assert_eq!(world.charged(0) + world.charged(1), world.now);
        assert_eq!(world.charged(0), world.charged(1));
    }

    #[test]
    fn the_first_long_turn_after_quick_ones_is_shared_and_the_second_is_charged_to_its_fiber() {
        let mut world = World::new();
        world.calm();
        let long = 1000 * world.accounting.quick;
        let eighth = long / WINDOW as u64;
        world.end_turn(0, long);
        (1..WINDOW).for_each(|_| world.end_turn(1, 8));
        assert!((eighth..eighth + 8).contains(&world.charged(0)), "{}", world.charged(0));
        assert!((7 * eighth..7 * (eighth + 8)).contains(&world.charged(1)), "{}", world.charged(1));
        let before = (world.charged(0), world.charged(1));
        world.end_turn(0, long);
        world.end_turn(1, 8);
        assert_eq!((world.charged(0), world.charged(1)), (before.0 + long, before.1 + 8));
    }

    #[test]
    fn a_fiber_that_ends_leaves_no_time_to_the_next_one_with_its_record() {
        let mut world = World::new();
        world.calm();
        world.end_turn(0, 8);
        world.end_turn(1, 8);
        world.last_turn(0, 8);
        // It is another fiber now.
        world.end_turn(0, 8);
        (4..WINDOW).for_each(|_| world.end_turn(1, 8));
        assert_eq!((world.readings, world.charged(0), world.charged(1)), (1, 8, 5 * 8));
        // The same if each turn is measured.
        let mut world = World::new();
        world.end_turn(0, 1000);
        world.last_turn(0, 1000);
        world.end_turn(0, 500);
        assert_eq!(world.charged(0), 1500);
    }

    #[test]
    fn a_fiber_of_an_earlier_window_is_not_searched() {
        let mut world = World::new();
        world.calm();
        (0..WINDOW).for_each(|_| world.end_turn(0, 8));
        assert_ne!(world.fibers[0].window.get(), world.accounting.number.get());
        world.end_turn(1, 8);
        world.last_turn(0, 8);
        (2..WINDOW).for_each(|_| world.end_turn(1, 8));
        assert_eq!((world.charged(0), world.charged(1)), (8 * 8, 7 * 8));
    }

    #[test]
    fn the_clock_is_read_at_safepoints_an_eighth_of_a_running_time_apart() {
        let mut world = World::new();
        assert!(world.accounting.safepoint(), "nothing is known yet");
        // One safepoint took a quarter of the eighth, so four may pass.
        world.now += world.accounting.eighth / 4;
        world.read(Some(0));
        assert_eq!([(); 4].map(|()| world.accounting.safepoint()), [false, false, false, true]);
        // Those four took no time.
        world.now += 1;
        world.read(Some(0));
        let until_read = |world: &World| (1..).find(|_| world.accounting.safepoint()).unwrap();
        assert_eq!(until_read(&world), SAFEPOINTS);
        // And these took more than everything.
        world.now += 100 * u64::from(world.accounting.whole);
        world.read(Some(0));
        assert_eq!(until_read(&world), 1);
        assert_eq!(world.charged(0), world.now);
    }

    #[test]
    fn at_most_two_eighths_of_a_running_time_pass_unseen_between_equal_safepoints() {
        for safepoint in [1_u64, 7, 100, 1_000, 10_000, 100_000] {
            let mut world = World::new();
            let (mut unseen, mut readings) = (0, 0);
            for _ in 0..10_000 {
                world.now += safepoint;
                unseen += safepoint;
                if world.accounting.safepoint() {
                    world.read(Some(0));
                    assert!(
                        unseen <= safepoint.max(2 * world.accounting.eighth),
                        "{unseen} with a safepoint each {safepoint}"
                    );
                    (unseen, readings) = (0, readings + 1);
                }
            }
            assert!(readings >= 10_000 / u64::from(SAFEPOINTS), "{readings}");
        }
    }

    proptest! {
        /// All time is charged, and a fiber that is charged an eighth of a window too little had a
        /// long turn after quick ones.
        #[test]
        fn all_time_is_charged(turns in prop::collection::vec((0_usize..6, prop_oneof![4 => 8_u64..64, 1 => 10_000_u64..100_000]), 1..400)) {
            let mut world = World::new();
            let mut ran = [0; 8];
            let mut surprises = 0;
            for (fiber, ticks) in turns {
                let is_calm = world.accounting.calm.get() == CALM;
                surprises += if is_calm && ticks >= 10_000 { ticks } else { 0 };
                world.end_turn(fiber, ticks);
                ran[fiber] += ticks;
            }
            world.read(None);
            let all: u64 = world.charged.values().sum();
            prop_assert!(all <= world.now && world.now - all <= u64::from(world.readings) * WINDOW as u64);
            for (fiber, ran) in (0_u32..).zip(ran) {
                let quick = u64::from(world.readings) * WINDOW as u64 * 64;
                prop_assert!(ran.abs_diff(world.charged(fiber)) <= surprises + quick);
            }
        }
    }
}
