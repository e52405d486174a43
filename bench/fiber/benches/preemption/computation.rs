//! The cost of preemption for computations: the same work in preemptible fibers and in others.
//!
//! The interrupts and signals of a timer have a cost even if its handler does nothing. It is
//! measured too.
#![allow(unsafe_code, reason = "the C library sets the timer")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use policy::Span;
use rowlock_fiber::{preemptions, spawn};

use crate::process::{Measured, or_stop};
use crate::runtime::runtime;

/// Running times and their names.
pub(crate) const QUANTA: [(&str, Span); 4] = [
    ("0.1 ms", Span::from_micros(100)),
    ("0.5 ms", Span::from_micros(500)),
    ("1 ms", Span::from_millis(1)),
    ("10 ms", Span::from_millis(10)),
];

/// Passes over some words in the first-level cache.
pub(crate) fn compute(passes: u64) -> u64 {
    let mut words = [1_u64; 1 << 10];
    for pass in 0..passes {
        let mut last = pass;
        for word in &mut words {
            *word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(last);
            last = *word;
        }
    }
    words.iter().fold(0, |sum, word| sum ^ word)
}

/// The number of passes that take this long.
pub(crate) fn passes(time: Duration) -> u64 {
    const SOME: u64 = 1000;
    let once = || {
        let began = Instant::now();
        black_box(compute(black_box(SOME)));
        began.elapsed()
    };
    let best = (0..20).map(|_| once()).min().unwrap_or(Duration::MAX);
    (time.as_nanos() * u128::from(SOME) / best.as_nanos().max(1)) as u64
}

/// The duration of this many passes in each fiber, in milliseconds, and the number of preemptions.
fn once(quantum: Span, preemptible: bool, fibers: usize, passes: u64) -> (f64, f64) {
    or_stop(runtime(quantum, preemptible, 1).run(|| {
        let began = Instant::now();
        let fibers: Vec<_> = (0..fibers).map(|_| spawn(move || black_box(compute(black_box(passes))))).collect();
        fibers.into_iter().for_each(|fiber| _ = or_stop(fiber.join()));
        (began.elapsed().as_secs_f64() * 1e3, preemptions().taken as f64)
    }))
}

/// A timer without effect, which runs until this is dropped.
struct IdleTimer;

impl IdleTimer {
    fn start(interval: Span) -> IdleTimer {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: the signal is not used otherwise here, and its handler does nothing.
        unsafe { libc::signal(libc::SIGALRM, nothing as *const () as libc::sighandler_t) };
        IdleTimer::set(interval);
        IdleTimer
    }

    fn set(interval: Span) {
        let time = libc::timeval { tv_sec: 0, tv_usec: (interval.as_nanos() / 1000) as libc::suseconds_t };
        let timer = libc::itimerval { it_interval: time, it_value: time };
        // SAFETY: the call only reads the timer.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
    }
}

impl Drop for IdleTimer {
    fn drop(&mut self) {
        IdleTimer::set(Span::ZERO);
    }
}

/// Measures all cases in sequence, repeatedly: two fibers of each kind, of which one waits while
/// the other computes; one without a waiting fiber; and two non-preemptible ones with a timer. The
/// best time of each counts, because all disturbances make it longer.
pub(crate) fn computation(each: Duration, times: usize) -> Measured {
    let passes = passes(each / 2);
    let quantum = Span::from_millis(1);
    let mut best = Measured::new();
    let mut say = |name: String, (took, taken): (f64, f64)| match best.iter().position(|(of, _)| *of == name) {
        Some(at) if best[at].1 <= took => (),
        Some(at) => (best[at].1, best[at + 1].1) = (took, taken),
        None => best.extend([(name.clone(), took), (format!("{name}: taken"), taken)]),
    };
    for _ in 0..times {
        say("two".to_owned(), once(quantum, false, 2, passes));
        say("one".to_owned(), once(quantum, false, 1, 2 * passes));
        say("one preemptible".to_owned(), once(quantum, true, 1, 2 * passes));
        for (name, quantum) in QUANTA {
            say(format!("two preemptible, {name}"), once(quantum, true, 2, passes));
            let _timer = IdleTimer::start(quantum);
            say(format!("two, idle timer of {name}"), once(quantum, false, 2, passes));
        }
    }
    best
}
