//! Measures the costs of this machine, for rules that are multiples of CS.
//!
//! A hand-over is timed as it happens at a barrier: one thread changes a word, wakes the other one,
//! which sleeps on it, and goes to sleep itself. On one CPU this costs a context switch. On two
//! CPUs the CPU of the sleeper is idle and has to be woken as well. This cost of a blocked sibling
//! can be ten times as high.
//!
//! Other programs may run meanwhile. So each cost is a median of many short samples.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use policy::Span;
use policy::waiting::Costs;
use rustix::time::{ClockId, clock_getres};
use sys::futex::Scope;
use sys::{cpus, futex};

use crate::sync::{now, yield_now};

/// The costs of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// A context switch: a hand-over between two threads on one CPU.
    pub switch: Measured,
    /// Waking a waiter that sleeps on another CPU: a hand-over between two CPUs.
    pub wake: Measured,
    /// A `sched_yield` on a CPU without other ready threads.
    pub lone_yield: Measured,
    /// A reading of the clock.
    pub clock: Measured,
    /// The time between two timer interrupts: the step of `CLOCK_MONOTONIC_COARSE`.
    pub tick: Measured,
    /// Remarks on the costs, in sentences.
    pub notes: Vec<String>,
    /// Whether the machine seems to have been quiet. If not, the costs are not worth storing.
    pub quiet: bool,
}

impl Calibration {
    /// The costs for waiting rules. CS is that of waking a sleeping sibling, the margin half of it.
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
    /// The number of samples, at least one.
    pub samples: u32,
}

impl Measured {
    /// The quartiles of the samples. `None` without samples.
    fn of(mut samples: Vec<f64>) -> Option<Measured> {
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1)?;
        let quartile = |quarters: usize| samples[(last * quarters + 2) / 4];
        Some(Measured { median: quartile(2), low: quartile(1), high: quartile(3), samples: samples.len() as u32 })
    }

    /// A known value that was not measured.
    const fn exactly(nanos: f64) -> Measured {
        Measured { median: nanos, low: nanos, high: nanos, samples: 1 }
    }
}

/// The reason why a machine could not be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// A thread could not be bound to a CPU.
    #[error(transparent)]
    Cpus(#[from] cpus::AffinityError),
    /// No second thread could be started.
    #[error("cannot start a second thread to hand over to: {0}")]
    Thread(#[source] std::io::Error),
}

/// Measures the costs of this machine. Takes half a second, or up to 2.5 s if it is busy.
///
/// The calling thread is bound to single CPUs only meanwhile. No privileges are needed.
///
/// # Errors
///
/// If threads cannot be bound to CPUs or no second thread can be started.
pub fn calibrate() -> Result<Calibration, CalibrationError> {
    calibrate_by(THOROUGH)
}

/// Costs for waiting rules, measured in a few milliseconds before the first wait of a program.
///
/// Other programs distort costs. Those that wait for a CPU increase all of them. Those that keep
/// the CPUs awake make waking cheaper than it will be later. So each cost is the lower quartile of
/// the few samples, and typical costs replace them if the machine was evidently busy.
///
/// A separate thread measures, so the affinity of the caller does not change.
pub fn briefly() -> Costs {
    let measuring = std::thread::Builder::new().name("calibration".into()).spawn(|| calibrate_by(BRIEF));
    let Some(Ok(Ok(calibration))) = measuring.ok().map(std::thread::JoinHandle::join) else { return TYPICAL };
    cautious_costs(&calibration)
}

/// Cautious costs for few samples. See [`briefly`].
fn cautious_costs(calibration: &Calibration) -> Costs {
    let low = |cost: &Measured| Span::from_nanos(cost.low.round() as u64);
    let tick = low(&calibration.tick);
    if !calibration.quiet {
        return Costs { tick, ..TYPICAL };
    }
    let cs = low(&calibration.wake).clamp(LOWEST_CS, HIGHEST_CS);
    Costs { cs, margin: cs.scaled(500), lone_yield: low(&calibration.lone_yield), tick }
}

/// Costs if measuring fails: those of a current virtual machine.
pub(crate) const TYPICAL: Costs = Costs {
    cs: Span::from_micros(15),
    margin: Span::from_nanos(7_500),
    lone_yield: Span::from_nanos(500),
    tick: Span::from_millis(4),
};
/// The range of CS on the machines known so far, to which few samples are limited.
const LOWEST_CS: Span = Span::from_micros(2);
const HIGHEST_CS: Span = Span::from_micros(50);

/// Costs above this come from other programs, in nanoseconds. The deepest idle state of a desktop
/// processor takes 890 us to leave (C10 of Skylake in Linux' `drivers/idle/intel_idle.c`).
pub const HIGHEST_PLAUSIBLE: f64 = 1e6;

/// The maximum time for the samples of one cost, without the last sample, their maximum number, and
/// the round trips in a sample of hand-overs. The fewer, the more samples lose no CPU to others.
#[derive(Clone, Copy)]
struct Effort {
    limit: Span,
    samples: usize,
    round_trips: u32,
}

/// Four costs are timed, which takes at most 2.5 s.
const THOROUGH: Effort = Effort { limit: Span::from_millis(400), samples: 400, round_trips: 20 };
const BRIEF: Effort = Effort { limit: Span::from_millis(3), samples: 9, round_trips: 4 };

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

/// The times of single repetitions in nanoseconds, one for each sample.
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
    /// The timer tick, if the kernel states it.
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
            let Measured { low, high, samples, .. } = cost;
            let why = if samples < FEWEST {
                format!("is known from {samples} of at least {FEWEST} samples")
            } else if low > HIGHEST_PLAUSIBLE {
                format!("is {:.1} us or more in most samples, which is not plausible", low / 1e3)
            } else if high > UNSTEADY * low {
                format!("is unsteady, {:.1} us to {:.1} us in half of the samples", low / 1e3, high / 1e3)
            } else {
                continue;
            };
            quiet = false;
            notes.push(format!("What {what} costs {why}: the machine is busy."));
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

/// Fewer samples do not show whether costs are steady.
const FEWEST: u32 = 3;

/// Quartiles that differ by more than this factor are worth a note. Quiet machines have below 1.3.
const UNSTEADY: f64 = 1.5;

/// Repetitions in one sample. Enough to hide the cost of reading the clock, and few enough for a
/// short sample even if each repetition loses the CPU for a timeslice of several milliseconds.
const YIELDS: u32 = 10;
const CLOCK_READINGS: u32 = 1_000;

/// How long a thread pauses so that the other one falls asleep.
const OUT_OF_STEP: Duration = Duration::from_micros(100);

/// During a longer yield another thread ran. A lone yield takes less than a microsecond.
const LONE: f64 = 20_000.0;

/// The nanoseconds of one repetition of `work`, for each sample without a `false`.
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

/// The thread whose turn it is.
const OURS: u32 = 0;
const THEIRS: u32 = 1;
const OVER: u32 = 2;

/// The word that two threads hand to each other, on its own cache lines.
#[repr(align(128))]
struct HandOverWord {
    word: AtomicU32,
    /// The number of hand-overs that did not find the other thread asleep.
    missed: AtomicU32,
}

impl HandOverWord {
    fn hand_to(&self, to: u32) {
        self.word.store(to, Release);
        if futex::wake(&self.word, 1, Scope::Process) == 0 {
            self.missed.fetch_add(1, Relaxed);
        }
    }

    /// Sleeps while it is the turn of `whose`. Returns whose turn it is then.
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

/// Times hand-overs from a thread on CPU `here` to one that is asleep on CPU `there`.
fn time_hand_overs(effort: Effort, here: u32, there: u32) -> Result<Vec<f64>, CalibrationError> {
    let turn = HandOverWord { word: AtomicU32::new(OURS), missed: AtomicU32::new(0) };
    std::thread::scope(|scope| {
        let partner = std::thread::Builder::new().spawn_scoped(scope, || {
            let pinned = cpus::pin(there);
            // The other thread waits for it even if it cannot be pinned.
            while turn.wait_while(OURS) != OVER {
                turn.hand_to(OURS);
            }
            pinned.map(drop)
        });
        let partner = partner.map_err(CalibrationError::Thread)?;
        let round_trip = || {
            turn.hand_to(THEIRS);
            turn.wait_while(THEIRS);
            // Two threads on two CPUs can fall into step: each answers before the other one is
            // asleep. Then only a system call would be timed. On one CPU there is always a switch.
            let in_step = here != there && turn.missed.swap(0, Relaxed) > 0;
            if in_step {
                std::thread::sleep(OUT_OF_STEP);
            }
            !in_step
        };
        let samples = cpus::pin(here).map(|_pinned| samples(effort, effort.round_trips, round_trip));
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

/// The tick. Timing the steps of the coarse clock instead would miss those during which the thread
/// was preempted, which is every other one on a busy machine.
fn tick() -> Option<f64> {
    let step = clock_getres(ClockId::MonotonicCoarse);
    let nanos = step.tv_sec as f64 * 1e9 + step.tv_nsec as f64;
    // Linux ticks at most at 1000 Hz. A kernel that claims more has no coarse clock.
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

    /// Typical samples of a quiet machine with two CPUs.
    fn quiet() -> Samples {
        Samples {
            clock: vec![20.0; 5],
            switch: vec![2_000.0, 2_200.0, 2_100.0, 2_400.0, 2_300.0],
            wake: Some(vec![18_000.0, 19_000.0, 20_000.4, 21_000.0, 22_000.0]),
            // One yield lost the CPU.
            yields: vec![500.0, 510.0, 900_000.0, 520.0],
            tick: Some(1e6),
        }
    }

    #[test]
    fn the_costs_of_a_quiet_machine_are_those_of_its_samples() {
        let calibration = quiet().judge();
        let expected = Calibration {
            switch: Measured { median: 2_200.0, low: 2_100.0, high: 2_300.0, samples: 5 },
            wake: Measured { median: 20_000.4, low: 19_000.0, high: 21_000.0, samples: 5 },
            lone_yield: Measured { median: 510.0, low: 510.0, high: 520.0, samples: 3 },
            clock: Measured { median: 20.0, low: 20.0, high: 20.0, samples: 5 },
            tick: Measured::exactly(1e6),
            notes: Vec::new(),
            quiet: true,
        };
        assert_eq!(calibration, expected);
        // CS is the cost of waking, and the margin is half of it.
        let costs = |cs, margin| {
            let [cs, margin, lone_yield, tick] = [cs, margin, 510, 1_000_000].map(Span::from_nanos);
            Costs { cs, margin, lone_yield, tick }
        };
        assert_eq!(calibration.costs(), costs(20_000, 10_000));
        assert_eq!(cautious_costs(&calibration), costs(19_000, 9_500));
    }

    #[test]
    fn on_one_cpu_waking_costs_a_switch_and_a_note_says_so() {
        let calibration = Samples { wake: None, ..quiet() }.judge();
        assert_eq!((calibration.wake, calibration.quiet), (calibration.switch, true));
        assert!(calibration.notes[0].starts_with("Only one CPU is allowed"), "{:?}", calibration.notes);
    }

    #[test]
    fn a_busy_machine_is_detected_and_its_costs_are_cautious() {
        let switch = vec![2_000.0, 3_000.0, 3_001.0, 4_600.0, 4_600.0];
        let busy = [
            (Samples { switch, ..quiet() }, "What switching costs is unsteady, 3.0 us to 4.6 us"),
            (Samples { wake: Some(Vec::new()), ..quiet() }, "No thread fell asleep on another CPU"),
            (
                Samples { wake: Some(vec![5_000.0, 5_000.0, 9_000.0, 9_000.0]), ..quiet() },
                "What waking costs is unsteady",
            ),
            (Samples { yields: vec![LONE; 9], ..quiet() }, "The CPU was never free for a lone yield"),
            // Beside 16 busy threads, a sample of waking takes as long as all others.
            (Samples { wake: Some(vec![2.3e7]), ..quiet() }, "What waking costs is known from 1 of at least 3 samples"),
            (Samples { wake: Some(vec![2.3e7; 9]), ..quiet() }, "What waking costs is 23000.0 us or more"),
        ];
        for (samples, note) in busy {
            let calibration = samples.judge();
            assert!(!calibration.quiet && calibration.notes[0].starts_with(note), "{note}: {:?}", calibration.notes);
            assert_eq!(cautious_costs(&calibration), Costs { tick: Span::from_millis(1), ..TYPICAL });
        }
    }

    #[test]
    fn slow_wakeups_of_a_quiet_machine_are_limited_to_what_is_known_if_they_are_measured_briefly() {
        let calibration = Samples { wake: Some(vec![300_000.0; 3]), ..quiet() }.judge();
        assert!(calibration.quiet);
        assert_eq!(calibration.costs().cs, Span::from_micros(300));
        assert_eq!(cautious_costs(&calibration).cs, HIGHEST_CS);
    }

    #[test]
    fn a_machine_without_samples_has_costs_nevertheless() {
        let calibration = Samples { wake: Some(Vec::new()), ..Samples::default() }.judge();
        assert_eq!((calibration.wake.samples, calibration.tick.median, calibration.quiet), (1, 4e6, false));
        assert_eq!(cautious_costs(&calibration).cs, TYPICAL.cs);
    }

    #[test]
    fn sampling_stops_at_the_limit_and_omits_failed_samples() {
        let clock = ScriptedClock::start();
        let began = clock.time();
        let yield_once = |counts: bool| {
            yield_now();
            counts
        };
        let effort = Effort { limit: YIELD.scaled(1_000_000), samples: 20, round_trips: 1 };
        let expected = (YIELD + YIELD + READING).as_nanos() as f64 / 2.0;
        assert_eq!(samples(effort, 2, || yield_once(true)), [expected; 20]);
        // Two readings for each sample, and one before the first.
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
    fn a_hand_over_to_a_missing_cpu_fails_and_does_not_hang() {
        let here = cpus::current();
        assert!(matches!(time_hand_overs(BRIEF, here, 1_024), Err(CalibrationError::Cpus(_))));
        assert!(matches!(time_hand_overs(BRIEF, 1_024, here), Err(CalibrationError::Cpus(_))));
    }
}
