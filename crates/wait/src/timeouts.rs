//! Tests of timed waits with every rule, on a scripted clock.

use std::rc::Rc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use policy::Span;
use policy::table::WAITING;
use policy::waiting::{Costs, WaitingRule};

use crate::sync::script::{READING, ScriptedClock, YIELD};
use crate::{Barrier, Condvar, Event, Latch, Mutex, Parker, Reset, RwLock, Semaphore, Statistics, Waiting, word};

const COSTS: Costs = Costs {
    cs: Span::from_micros(10),
    margin: Span::from_micros(5),
    lone_yield: Span::from_nanos(500),
    tick: Span::from_millis(4),
};

const TIMEOUT: Duration = Duration::from_millis(3);

fn by(rule: WaitingRule) -> Waiting {
    Waiting::by(rule).with_costs(COSTS).with_cpus(2)
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

/// Passes `each` the name of each kind of object, and an endless wait, which tells if it timed out.
fn for_each_endless_wait(waiting: Waiting, timeout: Duration, mut each: impl FnMut(&str, &mut dyn FnMut() -> bool)) {
    let word = AtomicU32::new(7);
    each("word", &mut || word::wait_timeout(&word, 7, timeout, &waiting).is_err());
    for reset in [Reset::Auto, Reset::Manual] {
        let event = Event::with(reset, waiting);
        each("event", &mut || event.wait_timeout(timeout).is_err());
    }
    let semaphore = Semaphore::with(0, waiting);
    each("semaphore", &mut || semaphore.down_timeout(timeout).is_err());
    let latch = Latch::with(1, waiting);
    each("latch", &mut || latch.wait_timeout(timeout).is_err());
    let parker = Parker::with(waiting);
    each("parker", &mut || parker.park_timeout(timeout).is_err());
    let mutex = Mutex::with((), waiting);
    let guard = mutex.lock();
    each("mutex", &mut || mutex.lock_timeout(timeout).is_err());
    drop(guard);
    let lock = RwLock::with((), waiting);
    let guard = lock.write();
    each("reader", &mut || lock.read_timeout(timeout).is_err());
    drop(guard);
    let guard = lock.read();
    each("writer", &mut || lock.write_timeout(timeout).is_err());
    drop(guard);
    let changed = Condvar::with(waiting);
    each("condition variable", &mut || changed.wait_timeout(mutex.lock(), timeout).1.timed_out());
    let barrier = Barrier::with(2, waiting);
    let mut party = barrier.party(0);
    let mut arrival = party.wait_timeout(Duration::ZERO).err();
    each("barrier", &mut || {
        arrival = arrival.take().and_then(|arrival| party.complete_timeout(arrival, timeout).err());
        arrival.is_some()
    });
}

#[test]
fn every_wait_by_every_rule_gives_up_at_its_deadline_and_not_before() {
    let clock = ScriptedClock::start();
    for entry in WAITING {
        for timeout in [0, 1, 50, 3_000].map(Span::from_micros) {
            for_each_endless_wait(by(entry.example), duration(timeout), |object, wait| {
                let began = clock.time();
                assert!(wait(), "{object} by {}", entry.form);
                let waited = clock.time().since(began);
                // The first reading sets the deadline and the second begins the wait. A yield that
                // begins just before the deadline ends with a third.
                let longest = timeout + READING + READING + YIELD + READING;
                assert!(timeout <= waited && waited <= longest, "{object} by {}: {waited}", entry.form);
            });
        }
    }
}

#[test]
fn an_event_that_has_occurred_ends_a_wait_even_after_its_deadline() {
    let past = Instant::now();
    for reset in [Reset::Auto, Reset::Manual] {
        let event = Event::new(reset);
        event.set();
        assert_eq!((event.wait_timeout(past), event.statistics()), (Ok(()), Statistics::default()));
    }
    let (semaphore, latch) = (Semaphore::new(1), Latch::new(0));
    assert_eq!((semaphore.down_timeout(past), semaphore.statistics()), (Ok(0), Statistics::default()));
    assert_eq!((latch.wait_timeout(past), latch.statistics()), (Ok(()), Statistics::default()));
    assert_eq!(word::wait_timeout(&AtomicU32::new(7), 6, past, &Waiting::ADAPTIVE), Ok(7));
}

/// Waits up to 3 ms for an event that is set after `delay`, or never. Returns the time spent
/// spinning, the number of yields and the time asleep.
fn wait_for(clock: &ScriptedClock, rule: WaitingRule, delay: Option<Span>) -> (Span, u64, Span) {
    let event = Rc::new(Event::with(Reset::Auto, by(rule)));
    let setter = event.clone();
    if let Some(delay) = delay {
        clock.after(delay, move || setter.set());
    }
    let result = event.wait_timeout(TIMEOUT);
    assert_eq!(result.is_ok(), delay.is_some(), "{rule}");
    let Statistics { waits, spins, successful_spins, spin_time, yields, blocks, block_time, .. } = event.statistics();
    assert_eq!((waits, spins), (1, u64::from(spin_time > Span::ZERO)), "{rule}");
    assert_eq!(blocks, u64::from(block_time > Span::ZERO), "{rule}: it sleeps once");
    assert_eq!(successful_spins, u64::from(delay.is_some() && spins > 0 && blocks == 0), "{rule}");
    (spin_time, yields, block_time)
}

/// For how many nanoseconds each rule spins before it sleeps.
const SPINS: [(&str, u64); 16] = [
    ("adaptive", 2_500),
    ("adaptive-1", 2_500),
    ("always-block", 0),
    ("always-spin", u64::MAX),
    ("cs", 10_000),
    ("cs+", 15_000),
    ("2cs+", 25_000),
    ("0.54 cs", 5_500),
    ("0.62 cs", 6_500),
    ("variable-competitive", 10_000),
    ("owner-running", 10_000),
    ("grain-aware", 25_000),
    ("load-aware", 25_000),
    ("load-aware 1.5", 25_000),
    ("5 cs", 50_000),
    ("44 us", 44_000),
];

#[test]
fn a_rule_spins_for_its_bound_and_sleeps_for_the_rest_exactly() {
    let clock = ScriptedClock::start();
    for (form, bound) in SPINS {
        let (rule, bound) = (form.parse().unwrap(), Span::from_nanos(bound));
        let timeout = Span::from_nanos(TIMEOUT.as_nanos() as u64);
        // A reading for the deadline comes before the first of the wait.
        let set_after = |micros| (Some(Span::from_micros(micros)), Span::from_micros(micros) - READING);
        for (delay, all) in [set_after(5), set_after(40), (None, timeout)] {
            // A spin without a bound sees the deadline one reading before a sleep would end.
            let all = if delay.is_none() && bound == Span::MAX { all - READING } else { all };
            // A check reads the clock.
            let all =
                if matches!(rule, WaitingRule::Adaptive | WaitingRule::OwnerRunning) { all - READING } else { all };
            let spun = bound.min(all);
            assert_eq!(wait_for(&clock, rule, delay), (spun, 0, all - spun), "{form} {delay:?}");
        }
    }
}

#[test]
fn always_yield_does_nothing_else_until_its_deadline() {
    let clock = ScriptedClock::start();
    // A yield with its reading of the clock takes 1.5 us.
    for (delay, yields) in [(Some(5), 3), (Some(40), 26), (None, 2_000)] {
        let outcome = wait_for(&clock, WaitingRule::AlwaysYield, delay.map(Span::from_micros));
        assert_eq!(outcome, (Span::ZERO, yields, Span::ZERO), "{delay:?}");
    }
}
