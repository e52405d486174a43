//! The scheduler's data of a thread: its priorities, its timeslice, and its bonus for sleep.

use policy::{CpuId, Instant, Span};
use scenario::Machine;

/// There are forty priorities below the real-time ones. A lower number is better.
pub(super) const PRIORITIES: u8 = 40;
/// The priority of idleness, which every thread preempts (`MAX_PRIO`).
pub(super) const IDLENESS: u8 = PRIORITIES;
/// The bonus for the maximal sleep (`MAX_BONUS`).
const MAX_BONUS: u64 = 10;
/// No thread, at the ends of lists.
pub(super) const NONE: u32 = u32::MAX;

/// The kernel's tuning parameters, for any tick and timeslice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    pub(super) tick: Span,
    /// Ticks of a thread with nice value 0 (`DEF_TIMESLICE`).
    timeslice: u64,
    /// The sleep for a bonus of one, in nanoseconds: a timeslice.
    sleep_for_one: u64,
    cpus: u64,
    /// A thread that ran within this time has a hot cache (`cache_hot_time`).
    hot: Span,
}

impl Tuning {
    pub(super) fn new(machine: &Machine) -> Tuning {
        let (tick, timeslice) = (machine.tick, u64::from(machine.timeslice.max(1)));
        Tuning {
            tick,
            timeslice,
            sleep_for_one: tick.as_nanos().saturating_mul(timeslice),
            cpus: u64::from(machine.cpus),
            hot: Span::from_nanos(tick.as_nanos().saturating_mul(5) / 2),
        }
    }

    /// The number of ticks up to a moment: the kernel's `jiffies`.
    #[inline]
    pub(super) fn ticks(&self, now: Instant) -> u64 {
        now.as_nanos() / self.tick.as_nanos()
    }

    pub(super) fn last_tick(&self, now: Instant) -> Instant {
        Instant::from_nanos(self.ticks(now) * self.tick.as_nanos())
    }

    /// The maximal sleep that counts, in nanoseconds (`NS_MAX_SLEEP_AVG`).
    fn most_sleep(&self) -> u64 {
        self.sleep_for_one.saturating_mul(MAX_BONUS)
    }

    /// How many ticks expired threads may wait, for each thread of the queue (`STARVATION_LIMIT`).
    pub(super) fn starvation_limit(&self) -> u64 {
        self.timeslice * MAX_BONUS
    }

    /// The timeslice of a nice value, in ticks (`task_timeslice`).
    pub(super) fn timeslice_of(&self, nice: i8) -> u32 {
        let base = if nice < 0 { 4 * self.timeslice } else { self.timeslice };
        let share = base * (20 - i64::from(nice)) as u64 / 20;
        share.max(self.timeslice / 20).max(1) as u32
    }

    /// After this many ticks an interactive thread lets an equal one run (`TIMESLICE_GRANULARITY`).
    fn granularity(&self, bonus: u64) -> u64 {
        let doublings = (MAX_BONUS - bonus).max(1) - 1;
        ((self.timeslice / 10).max(1) << doublings) * self.cpus
    }
}

/// By how much a priority must be better than that of the nice value for the thread to be
/// interactive (`DELTA`).
fn delta(nice: i8) -> i64 {
    i64::from(nice) * MAX_BONUS as i64 / 40 + 2
}

/// The kernel's `task_t`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// Its sleep in nanoseconds, less its running time (`sleep_avg`).
    pub(super) sleep: u64,
    /// When it last began to run, stopped running, or was woken (`timestamp`).
    pub(super) since: Instant,
    /// When its cache becomes cold: `last_ran` plus the time that the cache stays hot.
    cold_from: Instant,
    pub(super) slice: u32,
    /// Its neighbours in its list.
    pub(super) before: u32,
    pub(super) after: u32,
    /// The CPU on which it runs, waits, or last was.
    pub(super) cpu: CpuId,
    pub(super) nice: i8,
    pub(super) priority: u8,
    /// Whether it was woken and has had no CPU since, so that part of its time in the queue counts
    /// as sleep (`activated`).
    pub(super) is_woken: bool,
    /// The array of its queue that it is in, if any.
    pub(super) array: Option<u8>,
    /// Whether a CPU is switching away from it while it is already in its queue.
    pub(super) leaving: bool,
}

impl Task {
    pub(super) fn new(nice: i8, tuning: &Tuning) -> Task {
        let nice = nice.clamp(-20, 19);
        let mut task = Task {
            sleep: 0,
            since: Instant::ZERO,
            cold_from: Instant::ZERO,
            slice: tuning.timeslice_of(nice),
            before: NONE,
            after: NONE,
            cpu: CpuId(0),
            nice,
            priority: 0,
            is_woken: false,
            array: None,
            leaving: false,
        };
        task.update_priority(tuning);
        task
    }

    /// The priority of its nice value (`static_prio`).
    pub(super) fn static_priority(&self) -> u8 {
        (self.nice + 20) as u8
    }

    /// The bonus for its sleep, 0 to 10 (`CURRENT_BONUS`).
    fn bonus(&self, tuning: &Tuning) -> u64 {
        self.sleep / tuning.sleep_for_one
    }

    /// Computes the dynamic priority (`effective_prio`).
    pub(super) fn update_priority(&mut self, tuning: &Tuning) {
        let priority = i64::from(self.static_priority()) + 5 - self.bonus(tuning) as i64;
        self.priority = priority.clamp(0, i64::from(PRIORITIES) - 1) as u8;
    }

    /// Whether it is interactive (`TASK_INTERACTIVE`).
    pub(super) fn is_interactive(&self) -> bool {
        i64::from(self.priority) <= i64::from(self.static_priority()) - delta(self.nice)
    }

    /// Counts a sleep, or a wait for a CPU that counts as sleep (`recalc_task_prio`).
    pub(super) fn slept(&mut self, span: Span, tuning: &Tuning) {
        let (slept, most) = (span.as_nanos().min(tuning.most_sleep()), tuning.most_sleep());
        // A thread that sleeps for longer than this is idle, and becomes just interactive
        // (`INTERACTIVE_SLEEP`).
        let timeslices = (MAX_BONUS as i64 / 2 + delta(self.nice) + 1) as u64;
        let long = tuning.tick.as_nanos().saturating_mul(timeslices * tuning.timeslice - 1);
        if slept > long {
            self.sleep = most - tuning.sleep_for_one;
        } else {
            let weight = (MAX_BONUS - self.bonus(tuning)).max(1);
            self.sleep = self.sleep.saturating_add(slept.saturating_mul(weight)).min(most);
        }
        self.update_priority(tuning);
    }

    /// Charges the time until now, including the switch to it (the charge of `schedule`).
    pub(super) fn ran(&mut self, now: Instant, tuning: &Tuning) {
        let ran = now.since(self.since).as_nanos().min(tuning.most_sleep());
        self.sleep = self.sleep.saturating_sub(ran / self.bonus(tuning).max(1));
        self.since = now;
        self.cold_from = now + tuning.hot;
    }

    /// Whether its cache was hot at the last tick (`task_hot`).
    pub(super) fn is_hot(&self, last_tick: Instant) -> bool {
        last_tick < self.cold_from
    }

    /// Whether it has run for as long as an interactive thread may beside equals.
    pub(super) fn should_let_equals_run(&self, tuning: &Tuning) -> bool {
        if !self.is_interactive() {
            return false;
        }
        let granularity = tuning.granularity(self.bonus(tuning));
        // In the kernel's 32 bits: the rest may exceed a whole timeslice after a change of the nice
        // value.
        let used = u64::from(tuning.timeslice_of(self.nice).wrapping_sub(self.slice));
        used % granularity == 0 && u64::from(self.slice) >= granularity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuning() -> Tuning {
        Tuning::new(&Machine { tick: Span::from_millis(1), ..Machine::with_cpus(1) })
    }

    #[test]
    fn timeslices_equal_those_of_the_kernel() {
        let slices = [-20, -10, -1, 0, 10, 19].map(|nice| tuning().timeslice_of(nice));
        assert_eq!(slices, [800, 600, 420, 100, 50, 5]);
        let short = Tuning::new(&Machine { timeslice: 4, ..Machine::with_cpus(1) });
        assert_eq!([-20, 0, 19].map(|nice| short.timeslice_of(nice)), [32, 4, 1]);
    }

    #[test]
    fn the_sleep_that_makes_a_thread_interactive_depends_on_its_nice_value() {
        // How many of the bonuses from 0 to 10 are enough. The comment at the macro
        // TASK_INTERACTIVE has one more for -10, but the division rounds towards zero.
        for (nice, interactive) in [(-20, 9), (-10, 6), (0, 4), (10, 2), (19, 0)] {
            let is_interactive = |bonus: u64| {
                let mut task = Task { sleep: bonus * 100_000_000, ..Task::new(nice, &tuning()) };
                task.update_priority(&tuning());
                task.is_interactive()
            };
            assert_eq!((0..=10).filter(|bonus| is_interactive(*bonus)).count(), interactive, "nice {nice}");
        }
    }

    #[test]
    fn a_task_fits_into_a_cache_line() {
        assert!(size_of::<Task>() <= 64);
    }
}
