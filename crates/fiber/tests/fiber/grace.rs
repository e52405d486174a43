//! The grace period: for how many turns preemptible fibers may continue when their runtime ends.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber::{ScriptedClock, ThreadControlBlocks, sleep, spawn, yield_now};

use crate::preemption::tests;
use crate::scripted::{self, TURN};

tests! {
    a_fiber_of_a_low_level_is_orphaned_when_its_runtime_ends,
    many_slow_fibers_all_end_with_their_runtime,
    if_none_ends_all_are_orphaned_before_each_has_used_its_turns,
    when_a_runtime_ends_turns_last_one_tick_even_if_running_times_are_long,
}

fn a_fiber_of_a_low_level_is_orphaned_when_its_runtime_ends(blocks: ThreadControlBlocks) {
    let rules = FeedbackRules { levels: 2, running_time: Span::from_millis(1_000), boost: Boost::Never };
    let scripted = scripted::with(blocks, rules);
    let (rounds, clock) = (Arc::new(AtomicU64::new(0)), scripted.clock.clone());
    let (tell, told) = std::sync::mpsc::channel();
    let theirs = Arc::clone(&rounds);
    scripted
        .run(|| {
            spawn(move || {
                while !scripted::is_orphaned() {
                    theirs.fetch_add(1, Relaxed);
                    clock.advance(Duration::from_millis(100));
                }
                tell.send(()).unwrap();
            })
            .detach();
            // By then it has sunk, and this fiber has not.
            sleep(Duration::from_millis(1_200));
            assert_eq!(rounds.load(Relaxed), 12);
        })
        .unwrap();
    told.recv().unwrap();
    assert_eq!(rounds.load(Relaxed), 12 + GRACE);
}

/// How many turns a preemptible fiber has to reach a safepoint when its runtime ends.
const GRACE: u64 = 50;

/// If no preemptible fiber ends within this many turns, all are orphaned.
const MAX_TICKS: u64 = 2_000;

fn many_slow_fibers_all_end_with_their_runtime(blocks: ThreadControlBlocks) {
    const MANY: u64 = 100;
    /// Ends after it has computed for a number of turns: each for one more than the one before it.
    struct Slow(ScriptedClock, Arc<[AtomicU64; 2]>, u64);
    impl Drop for Slow {
        fn drop(&mut self) {
            (0..self.2).take_while(|_| !scripted::is_orphaned()).for_each(|_| self.0.advance(TURN));
            self.1[usize::from(scripted::is_orphaned())].fetch_add(1, Relaxed);
        }
    }
    let scripted = scripted::runtime(blocks, 1, Boost::Never);
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
            // All have started.
            sleep(TURN);
        })
        .unwrap();
    // A fiber that needs all of its turns is orphaned when it would continue after the last one.
    assert_eq!(ended[0].load(Relaxed), GRACE - 1);
    while ended[1].load(Relaxed) < MANY - (GRACE - 1) {
        std::thread::yield_now();
    }
}

fn if_none_ends_all_are_orphaned_before_each_has_used_its_turns(blocks: ThreadControlBlocks) {
    const MANY: usize = 100;
    let scripted = scripted::runtime(blocks, 1, Boost::Never);
    let turns = Arc::new([const { AtomicU64::new(0) }; MANY]);
    scripted
        .run(|| {
            for number in 0..MANY {
                let (clock, turns) = (scripted.clock.clone(), Arc::clone(&turns));
                let loops = move || {
                    while !scripted::is_orphaned() {
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
    assert_eq!(turns.each_ref().map(|turns| turns.load(Relaxed)), [1 + MAX_TICKS / MANY as u64; MANY]);
}

fn when_a_runtime_ends_turns_last_one_tick_even_if_running_times_are_long(blocks: ThreadControlBlocks) {
    struct Loops(ScriptedClock, Arc<AtomicU64>);
    impl Drop for Loops {
        fn drop(&mut self) {
            while !scripted::is_orphaned() {
                self.1.fetch_add(1, Relaxed);
                self.0.advance(TURN);
            }
        }
    }
    let rules = FeedbackRules { levels: 1, running_time: Span::from_millis(1_000_000), boost: Boost::Never };
    let scripted = scripted::with(blocks, rules);
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
            // Both have started.
            yield_now();
        })
        .unwrap();
    assert_eq!(turns.each_ref().map(|turns| turns.load(Relaxed)), [GRACE; 2]);
}
