//! How long preemptible fibers may go on when their runtime ends: a number of turns.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber::{PreemptBy, ScriptedClock, sleep, spawn, yield_now};

use crate::preemption::tests;
use crate::scripted::{self, TURN};

tests! {
    one_of_a_low_level_goes_on_elsewhere_when_its_runtime_ends,
    many_that_take_their_time_all_end_with_their_runtime,
    where_none_ends_all_go_on_elsewhere_before_each_has_had_its_time,
    turns_last_for_a_tick_when_a_runtime_ends_however_long_running_times_are,
}

fn one_of_a_low_level_goes_on_elsewhere_when_its_runtime_ends(by: PreemptBy) {
    let rules = FeedbackRules { levels: 2, running_time: Span::from_millis(1_000), boost: Boost::Never };
    let scripted = scripted::with(by, rules);
    let (rounds, clock) = (Arc::new(AtomicU64::new(0)), scripted.clock.clone());
    let (tell, told) = std::sync::mpsc::channel();
    let theirs = Arc::clone(&rounds);
    scripted
        .run(|| {
            spawn(move || {
                while !scripted::is_elsewhere() {
                    theirs.fetch_add(1, Relaxed);
                    clock.advance(Duration::from_millis(100));
                }
                tell.send(()).unwrap();
            })
            .detach();
            // By then it has come down, and this one has not.
            sleep(Duration::from_millis(1_200));
            assert_eq!(rounds.load(Relaxed), 12);
        })
        .unwrap();
    told.recv().unwrap();
    assert_eq!(rounds.load(Relaxed), 12 + GRACE);
}

/// In so many turns a guest is to come to a point when its runtime ends.
const GRACE: u64 = 50;

/// In so many turns one of all guests is to end.
const PATIENCE: u64 = 2_000;

fn many_that_take_their_time_all_end_with_their_runtime(by: PreemptBy) {
    const MANY: u64 = 100;
    /// Who ends, and for how many turns it computes before: each for one more than the one before
    /// it.
    struct Slow(ScriptedClock, Arc<[AtomicU64; 2]>, u64);
    impl Drop for Slow {
        fn drop(&mut self) {
            (0..self.2).take_while(|_| !scripted::is_elsewhere()).for_each(|_| self.0.advance(TURN));
            self.1[usize::from(scripted::is_elsewhere())].fetch_add(1, Relaxed);
        }
    }
    let scripted = scripted::runtime(by, 1, Boost::Never);
    let ended: Arc<[AtomicU64; 2]> = Arc::default();
    scripted
        .run(|| {
            for number in 0..MANY {
                let slow = Slow(scripted.clock.clone(), Arc::clone(&ended), number + 1);
                let waits = move || {
                    let _slow = slow;
                    sleep(Duration::from_secs(1_000));
                };
                spawn(waits).detach();
            }
            // All have begun.
            sleep(TURN);
        })
        .unwrap();
    // Who needs all of its turns has been sent away when it would go on after the last one.
    assert_eq!(ended[0].load(Relaxed), GRACE - 1);
    while ended[1].load(Relaxed) < MANY - (GRACE - 1) {
        std::thread::yield_now();
    }
}

fn where_none_ends_all_go_on_elsewhere_before_each_has_had_its_time(by: PreemptBy) {
    const MANY: usize = 100;
    let scripted = scripted::runtime(by, 1, Boost::Never);
    let turns = Arc::new([const { AtomicU64::new(0) }; MANY]);
    scripted
        .run(|| {
            for number in 0..MANY {
                let (clock, turns) = (scripted.clock.clone(), Arc::clone(&turns));
                let loops = move || {
                    while !scripted::is_elsewhere() {
                        turns[number].fetch_add(1, Relaxed);
                        clock.advance(TURN);
                    }
                };
                spawn(loops).detach();
            }
            // Each has one turn.
            yield_now();
        })
        .unwrap();
    assert_eq!(turns.each_ref().map(|turns| turns.load(Relaxed)), [1 + PATIENCE / MANY as u64; MANY]);
}

fn turns_last_for_a_tick_when_a_runtime_ends_however_long_running_times_are(by: PreemptBy) {
    struct Loops(ScriptedClock, Arc<AtomicU64>);
    impl Drop for Loops {
        fn drop(&mut self) {
            while !scripted::is_elsewhere() {
                self.1.fetch_add(1, Relaxed);
                self.0.advance(TURN);
            }
        }
    }
    let rules = FeedbackRules { levels: 1, running_time: Span::from_millis(1_000_000), boost: Boost::Never };
    let scripted = scripted::with(by, rules);
    let turns: [Arc<AtomicU64>; 2] = Default::default();
    scripted
        .run(|| {
            for turns in &turns {
                let loops = Loops(scripted.clock.clone(), Arc::clone(turns));
                let waits = move || {
                    let _loops = loops;
                    sleep(Duration::from_secs(1_000));
                };
                spawn(waits).detach();
            }
            // Both have begun.
            yield_now();
        })
        .unwrap();
    assert_eq!(turns.each_ref().map(|turns| turns.load(Relaxed)), [GRACE; 2]);
}
