//! What things cost on this machine: the figures behind the rules that are written as multiples of CS.
//!
//! A hand-over is timed as it happens at a barrier: one thread changes a word, wakes the other, which sleeps on it, and
//! goes to sleep itself. On one CPU that costs a context switch. With each thread on a CPU of its own, the CPU of the
//! sleeper is idle and has to be woken as well, which can cost ten times as much and more, and is what a blocked
//! sibling costs.
//!
//! Other programs may run meanwhile. So each figure is a median over many short samples, and comes with its quartiles.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use policy::Span;
use policy::waiting::Costs;
use rustix::time::{ClockId, clock_getres};
use sys::futex::Scope;
use sys::{cpus, futex};

use crate::sync::{now, yield_now};

/// What things cost on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// A context switch: a hand-over between two threads on one CPU.
    pub switch: Measured,
    /// Waking a waiter that sleeps on another CPU: a hand-over between two CPUs.
    pub wake: Measured,
    /// A `sched_yield` on a CPU that nobody else wants.
    pub lone_yield: Measured,
    /// Reading the clock.
    pub clock: Measured,
    /// The time between two timer interrupts, as the kernel itself states it: the step of `CLOCK_MONOTONIC_COARSE`.
    pub tick: Measured,
    /// What to know about the figures, in sentences.
    pub notes: Vec<String>,
    /// Whether other programs left the machine alone meanwhile, as far as the figures tell. Where they did not, the
    /// figures are the best to be had at that moment, and not worth keeping.
    pub quiet: bool,
}

impl Calibration {
    /// What waiting rules are told about costs. CS is what waking a sleeping sibling costs; the margin is half of it.
    pub fn costs(&self) -> Costs {
        let span = |cost: &Measured| Span::from_nanos(cost.median.round() as u64);
        let cs = span(&self.wake);
        Costs { cs, margin: cs.scaled(500), lone_yield: span(&self.lone_yield), tick: span(&self.tick) }
    }
}

/// A cost in nanoseconds, with fractions: reading a clock takes some 20.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The median of the samples.
    pub median: f64,
    /// The lower quartile.
    pub low: f64,
    /// The upper quartile.
    pub high: f64,
    /// How many samples there were, at least one.
    pub samples: u32,
}

impl Measured {
    /// The quartiles of the samples; nothing without any.
    fn of(mut samples: Vec<f64>) -> Option<Measured> {
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1)?;
        let quartile = |quarters: usize| samples[(last * quarters + 2) / 4];
        Some(Measured { median: quartile(2), low: quartile(1), high: quartile(3), samples: samples.len() as u32 })
    }

    /// What is known and not measured.
    const fn exactly(nanos: f64) -> Measured {
        Measured { median: nanos, low: nanos, high: nanos, samples: 1 }
    }
}

/// Why a machine could not be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// A thread could not be bound to a CPU.
    #[error(transparent)]
    Cpus(#[from] cpus::AffinityError),
    /// There is no second thread to hand over to.
    #[error("cannot start a second thread to hand over to: {0}")]
    Thread(#[source] std::io::Error),
}

/// Measures what things cost here. Takes about half a second, and no more than 2.5 on a machine that is busy.
///
/// The calling thread is bound to single CPUs meanwhile and has its affinity back afterwards, whatever happens. No
/// privileges are needed.
///
/// # Errors
///
/// When threads cannot be bound to CPUs or no further thread can be started.
pub fn calibrate() -> Result<Calibration, CalibrationError> {
    calibrate_by(THOROUGH)
}

/// What waiting rules are told about costs, measured in a few milliseconds: for a program that cannot wait for half a
/// second before it waits for the first time.
///
/// Other programs distort costs: those that wait for a CPU make everything look dearer, and those that keep the CPUs awake
/// make waking look cheaper than it will be when they are gone. So each cost is the lower quartile of the few samples, CS
/// is held between what waking has been seen to cost on any machine, and where the machine was evidently busy, what is
/// typical counts instead if it is further on the safe side.
///
/// A thread of its own measures, so that the affinity of the caller is never touched.
pub fn briefly() -> Costs {
    let measuring = std::thread::Builder::new().name("calibration".into()).spawn(|| calibrate_by(BRIEF));
    let Some(Ok(Ok(calibration))) = measuring.ok().map(std::thread::JoinHandle::join) else { return TYPICAL };
    cautious_costs(&calibration)
}

/// Costs on the safe side, for few samples: see [`briefly`].
fn cautious_costs(calibration: &Calibration) -> Costs {
    let low = |cost: &Measured| Span::from_nanos(cost.low.round() as u64);
    let mut cs = low(&calibration.wake).clamp(LOWEST_CS, HIGHEST_CS);
    let mut lone_yield = low(&calibration.lone_yield);
    if !calibration.quiet {
        cs = cs.max(TYPICAL.cs);
        lone_yield = lone_yield.min(TYPICAL.lone_yield);
    }
    Costs { cs, margin: cs.scaled(500), lone_yield, tick: low(&calibration.tick) }
}

/// What things cost on a machine that does not let itself be measured: a virtual one of our day.
pub(crate) const TYPICAL: Costs = Costs {
    cs: Span::from_micros(15),
    margin: Span::from_nanos(7_500),
    lone_yield: Span::from_nanos(500),
    tick: Span::from_millis(4),
};
const LOWEST_CS: Span = Span::from_micros(2);
const HIGHEST_CS: Span = Span::from_micros(50);

/// How long samples of one cost are taken at the most, but for the last, and how many.
#[derive(Clone, Copy)]
struct Effort {
    limit: Span,
    samples: usize,
}

/// The four costs that are timed take no more than 2.5 s.
const THOROUGH: Effort = Effort { limit: Span::from_millis(400), samples: 400 };
const BRIEF: Effort = Effort { limit: Span::from_millis(3), samples: 5 };

fn calibrate_by(effort: Effort) -> Result<Calibration, CalibrationError> {
    let here = cpus::current();
    let elsewhere = cpus::allowed()?.into_iter().find(|&cpu| cpu != here);
    let clock = samples(effort, CLOCK_READINGS, || {
        std::hint::black_box(now());
        true
    });
    let switch = time_hand_overs(effort, here, here)?;
    let wake = elsewhere.map(|there| time_hand_overs(effort, here, there)).transpose()?;
    Ok(Samples { clock, switch, wake, yields: time_yields(effort, here)?, tick: tick() }.judge())
}

/// The times of single repetitions in nanoseconds, sample by sample.
#[derive(Clone, Debug, Default)]
struct Samples {
    /// Readings of the clock.
    clock: Vec<f64>,
    /// Hand-overs on one CPU.
    switch: Vec<f64>,
    /// Hand-overs to another CPU; `None` if only one is allowed.
    wake: Option<Vec<f64>>,
    /// Yields, with those during which another thread ran.
    yields: Vec<f64>,
    /// The timer tick, if the kernel tells it.
    tick: Option<f64>,
}

impl Samples {
    /// Computes the costs, and whether the samples show a busy machine.
    fn judge(self) -> Calibration {
        let (mut notes, mut quiet) = (Vec::new(), true);
        let clock = Measured::of(self.clock).unwrap_or(Measured::exactly(0.0));
        let switch = Measured::of(self.switch).unwrap_or(clock);
        let one_cpu = self.wake.is_none();
        let wake = self.wake.and_then(Measured::of).unwrap_or_else(|| {
            let why = if one_cpu { "Only one CPU is allowed" } else { "No thread fell asleep on another CPU" };
            notes.push(format!("{why}: what waking costs is taken to be what a switch costs."));
            quiet &= one_cpu;
            switch
        });
        for (what, cost) in [("switching", switch), ("waking", wake)] {
            if cost.high > UNSTEADY * cost.low {
                quiet = false;
                let (low, high) = (cost.low / 1e3, cost.high / 1e3);
                notes.push(format!(
                    "What {what} costs is unsteady, {low:.1} us to {high:.1} us in half of the samples: the machine is busy."
                ));
            }
        }
        let lone = self.yields.into_iter().filter(|&nanos| nanos < LONE).collect();
        let lone_yield = Measured::of(lone).unwrap_or_else(|| {
            quiet = false;
            notes.push("The CPU was never free for a lone yield, which counts as a switch instead.".to_owned());
            switch
        });
        let tick = Measured::exactly(self.tick.unwrap_or_else(|| {
            notes.push("The kernel does not tell its tick, which is taken to be 4 ms.".to_owned());
            4e6
        }));
        Calibration { switch, wake, lone_yield, clock, tick, notes, quiet }
    }
}

/// Quartiles farther apart than by this factor are worth a note: a quiet machine stays below 1.3.
const UNSTEADY: f64 = 1.5;

/// How often one sample repeats what it times. Enough for the clock not to show, and few enough for a sample to end soon
/// even if each repetition loses the CPU for a timeslice of several milliseconds.
const ROUND_TRIPS: u32 = 20;
const YIELDS: u32 = 10;
const CLOCK_READINGS: u32 = 1_000;

/// How long a thread stays away so that the other one falls asleep.
const OUT_OF_STEP: Duration = Duration::from_micros(100);

/// Beyond this a yield was not alone: somebody else ran for a while. A lone one takes less than a microsecond.
const LONE: f64 = 20_000.0;

/// The time of one repetition of `work` in nanoseconds, sample by sample. A sample counts only if each repetition says
/// that it went as it should.
fn samples(effort: Effort, repetitions: u32, mut work: impl FnMut() -> bool) -> Vec<f64> {
    let mut samples = Vec::with_capacity(effort.samples);
    let start = now();
    for _ in 0..effort.samples {
        let begin = now();
        let counts = (0..repetitions).fold(true, |counts, _| work() && counts);
        let end = now();
        if counts {
            samples.push(end.since(begin).as_nanos() as f64 / f64::from(repetitions));
        }
        if end.since(start) >= effort.limit {
            break;
        }
    }
    samples
}

/// Whose turn it is.
const OURS: u32 = 0;
const THEIRS: u32 = 1;
const OVER: u32 = 2;

/// The word that two threads hand to and fro, away from everything else in memory.
#[repr(align(128))]
struct HandOverWord {
    word: AtomicU32,
    /// How many hand-overs did not find the other thread asleep.
    missed: AtomicU32,
}

impl HandOverWord {
    fn hand_to(&self, to: u32) {
        self.word.store(to, Release);
        if futex::wake(&self.word, 1, Scope::Process) == 0 {
            self.missed.fetch_add(1, Relaxed);
        }
    }

    /// Sleeps while it is the turn of `whose`, and returns whose it is then.
    fn wait_while(&self, whose: u32) -> u32 {
        loop {
            let turn = self.word.load(Acquire);
            if turn != whose {
                return turn;
            }
            futex::wait(&self.word, whose, None, Scope::Process);
        }
    }
}

/// Times hand-overs from a thread on CPU `here` to one on CPU `there`. Leaves out those that did not
/// find the other thread asleep.
fn time_hand_overs(effort: Effort, here: u32, there: u32) -> Result<Vec<f64>, CalibrationError> {
    let turn = HandOverWord { word: AtomicU32::new(OURS), missed: AtomicU32::new(0) };
    std::thread::scope(|scope| {
        let partner = std::thread::Builder::new().spawn_scoped(scope, || {
            let pinned = cpus::pin(there);
            // Where it cannot be pinned it plays its part nevertheless, for somebody waits for it.
            while turn.wait_while(OURS) != OVER {
                turn.hand_to(OURS);
            }
            pinned.map(drop)
        });
        let partner = partner.map_err(CalibrationError::Thread)?;
        let round_trip = || {
            turn.hand_to(THEIRS);
            turn.wait_while(THEIRS);
            // Two threads on two CPUs can fall into step, each answering before the other is asleep, and stay so: the
            // figure would be the time of a system call. On one CPU there is a switch in any case.
            let in_step = here != there && turn.missed.swap(0, Relaxed) > 0;
            if in_step {
                std::thread::sleep(OUT_OF_STEP);
            }
            !in_step
        };
        let samples = cpus::pin(here).map(|_pinned| samples(effort, ROUND_TRIPS, round_trip));
        turn.hand_to(OVER);
        partner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        // A round trip is two hand-overs.
        Ok(samples?.into_iter().map(|nanos| nanos / 2.0).collect())
    })
}

/// Times yields on CPU `here`.
fn time_yields(effort: Effort, here: u32) -> Result<Vec<f64>, CalibrationError> {
    let _pinned = cpus::pin(here)?;
    Ok(samples(effort, YIELDS, || {
        yield_now();
        true
    }))
}

/// The tick. Timing the steps of the coarse clock instead would miss those in which the thread was off its CPU, and on a
/// busy machine that is every other one.
fn tick() -> Option<f64> {
    let step = clock_getres(ClockId::MonotonicCoarse);
    let nanos = step.tv_sec as f64 * 1e9 + step.tv_nsec as f64;
    // Linux ticks at 1000 Hz at the most; a kernel that claims more has no coarse clock.
    (nanos >= 900_000.0).then_some(nanos)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::script::{READING, ScriptedClock, YIELD};

    #[test]
    fn quartiles_are_those_of_the_sorted_samples() {
        let measured = Measured::of(vec![50.0, 10.0, 30.0, 20.0, 40.0]).unwrap();
        assert_eq!(measured, Measured { median: 30.0, low: 20.0, high: 40.0, samples: 5 });
        assert_eq!(Measured::of(vec![7.5]), Some(Measured::exactly(7.5)));
        assert_eq!(Measured::of(Vec::new()), None);
    }

    /// What a quiet machine with two CPUs might give.
    fn quiet() -> Samples {
        Samples {
            clock: vec![20.0; 5],
            switch: vec![2_000.0, 2_200.0, 2_100.0, 2_400.0, 2_300.0],
            wake: Some(vec![18_000.0, 19_000.0, 20_000.0, 21_000.0, 22_000.0]),
            // One lost the CPU.
            yields: vec![500.0, 510.0, 900_000.0, 520.0],
            tick: Some(1e6),
        }
    }

    #[test]
    fn a_quiet_machine_costs_what_its_samples_say() {
        let calibration = quiet().judge();
        let expected = Calibration {
            switch: Measured { median: 2_200.0, low: 2_100.0, high: 2_300.0, samples: 5 },
            wake: Measured { median: 20_000.0, low: 19_000.0, high: 21_000.0, samples: 5 },
            lone_yield: Measured { median: 510.0, low: 510.0, high: 520.0, samples: 3 },
            clock: Measured { median: 20.0, low: 20.0, high: 20.0, samples: 5 },
            tick: Measured::exactly(1e6),
            notes: Vec::new(),
            quiet: true,
        };
        assert_eq!(calibration, expected);
        let [cs, margin, lone_yield, tick] = [19_000, 9_500, 510, 1_000_000].map(Span::from_nanos);
        assert_eq!(cautious_costs(&calibration), Costs { cs, margin, lone_yield, tick });
    }

    #[test]
    fn on_one_cpu_waking_is_switching_and_a_note_says_so() {
        let calibration = Samples { wake: None, ..quiet() }.judge();
        assert_eq!((calibration.wake, calibration.quiet), (calibration.switch, true));
        assert!(calibration.notes[0].starts_with("Only one CPU is allowed"), "{:?}", calibration.notes);
    }

    #[test]
    fn a_busy_machine_is_told_from_a_quiet_one_and_its_costs_are_on_the_safe_side() {
        let typical = |cost: Span| cost.as_nanos() as f64;
        let switch = vec![2_000.0, 3_000.0, 3_001.0, 4_600.0, 4_600.0];
        let busy = [
            (Samples { switch, ..quiet() }, "What switching costs is unsteady, 3.0 us to 4.6 us"),
            (Samples { wake: Some(Vec::new()), ..quiet() }, "No thread fell asleep on another CPU"),
            (Samples { wake: Some(vec![5_000.0, 9_000.0]), ..quiet() }, "What waking costs is unsteady"),
            (Samples { yields: vec![LONE; 9], ..quiet() }, "The CPU was never free for a lone yield"),
        ];
        for (samples, note) in busy {
            let calibration = samples.judge();
            assert!(!calibration.quiet && calibration.notes[0].starts_with(note), "{:?}", calibration.notes);
            let costs = cautious_costs(&calibration);
            assert!(costs.cs >= TYPICAL.cs && costs.cs <= HIGHEST_CS, "{note}: {costs:?}");
            assert!(costs.lone_yield <= TYPICAL.lone_yield, "{note}: {costs:?}");
            assert!(calibration.wake.low < typical(HIGHEST_CS));
        }
    }

    #[test]
    fn a_machine_that_gives_no_samples_has_costs_all_the_same() {
        let calibration = Samples { wake: Some(Vec::new()), ..Samples::default() }.judge();
        assert_eq!((calibration.wake.samples, calibration.tick.median, calibration.quiet), (1, 4e6, false));
        assert_eq!(cautious_costs(&calibration).cs, TYPICAL.cs);
    }

    #[test]
    fn samples_are_taken_until_the_limit_and_those_that_went_wrong_do_not_count() {
        let clock = ScriptedClock::start();
        let began = clock.time();
        let yield_once = |counts: bool| {
            yield_now();
            counts
        };
        let effort = Effort { limit: YIELD.scaled(1_000_000), samples: 20 };
        let expected = (YIELD + YIELD + READING).as_nanos() as f64 / 2.0;
        assert_eq!(samples(effort, 2, || yield_once(true)), [expected; 20]);
        // Two readings a sample, and one before the first.
        assert_eq!(clock.time().since(began), (YIELD + YIELD + READING + READING).scaled(20_000) + READING);
        let mut number = 0;
        let every_third_fails = || {
            number += 1;
            yield_once(number % 3 != 0)
        };
        assert_eq!(samples(effort, 1, every_third_fails).len(), 14);
        assert_eq!(samples(Effort { limit: Span::ZERO, ..effort }, 2, || yield_once(true)), [expected]);
    }

    #[test]
    fn a_calibration_of_this_machine_leaves_the_affinity_as_it_was() {
        let before = cpus::allowed().unwrap();
        let calibration = calibrate().unwrap();
        assert_eq!(cpus::allowed().unwrap(), before);
        let Calibration { switch, wake, lone_yield, clock, tick, .. } = calibration;
        for cost in [switch, wake, lone_yield, clock, tick] {
            assert!(cost.low <= cost.median && cost.median <= cost.high && cost.samples >= 1, "{cost:?}");
        }
    }

    #[test]
    fn a_hand_over_to_a_cpu_that_is_not_there_fails_and_nobody_waits_for_ever() {
        let here = cpus::current();
        assert!(matches!(time_hand_overs(BRIEF, here, 1_024), Err(CalibrationError::Cpus(_))));
        assert!(matches!(time_hand_overs(BRIEF, 1_024, here), Err(CalibrationError::Cpus(_))));
    }

    #[test]
    fn cs_is_what_waking_costs_and_the_margin_half_of_it() {
        let cost = Measured::exactly;
        let calibration = Calibration {
            switch: cost(2_220.0),
            wake: cost(18_400.4),
            lone_yield: cost(510.0),
            clock: cost(18.4),
            tick: cost(4e6),
            notes: Vec::new(),
            quiet: true,
        };
        assert_eq!(
            calibration.costs(),
            Costs {
                cs: Span::from_nanos(18_400),
                margin: Span::from_nanos(9_200),
                lone_yield: Span::from_nanos(510),
                tick: Span::from_millis(4),
            }
        );
    }
}
