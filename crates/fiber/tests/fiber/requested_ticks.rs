//! Ticks for what comes from outside while fibers compute. The clock is scripted, so no tick comes
//! at the end of a running time unless the test says so.

use std::io::{Read, Write, pipe};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use policy::feedback::Boost;
use rowlock_fiber::{Pollable, ThreadControlBlocks, preemptions, remote, spawn, yield_now};

use crate::scripted::{self, TURN};

/// Requested ticks are this far apart.
const APART: Duration = Duration::from_micros(50);

/// Runs a function in a fiber that computes at the lowest level, while another one is always ready
/// there: so the next tick comes at the end of a running time.
fn compute(scripted: &scripted::Scripted, then: impl FnOnce() + Send + 'static) {
    let lower = || {
        let clock = scripted.clock.clone();
        move || clock.advance(TURN)
    };
    let (lower, lower_other) = (lower(), lower());
    scripted
        .run(|| {
            let computes = spawn(move || {
                lower();
                then();
            });
            spawn(move || {
                lower_other();
                loop {
                    yield_now();
                }
            })
            .detach();
            computes.join().unwrap();
        })
        .unwrap();
}

#[test]
fn a_fiber_from_another_thread_gets_its_turn_long_before_the_end_of_a_running_time() {
    let scripted = scripted::runtime(ThreadControlBlocks::Auto, 2, Boost::Never);
    let clock = scripted.clock.clone();
    compute(&scripted, move || {
        let began = clock.elapsed();
        let ran = Arc::new(AtomicUsize::new(0));
        let (runs, remote) = (Arc::clone(&ran), remote());
        let sender = std::thread::spawn(move || {
            remote.spawn(move || runs.store(1, Relaxed)).unwrap().detach();
        });
        sender.join().unwrap();
        clock.advance(APART);
        assert_eq!((ran.load(Relaxed), clock.elapsed() - began), (1, APART));
    });
}

#[test]
fn a_flood_of_fibers_from_another_thread_brings_one_tick_at_a_time() {
    const MANY: usize = 1000;
    let scripted = scripted::runtime(ThreadControlBlocks::Auto, 2, Boost::Never);
    let clock = scripted.clock.clone();
    compute(&scripted, move || {
        let before = preemptions();
        let ran = Arc::new(AtomicUsize::new(0));
        for rounds in 1..=5 {
            let (runs, remote) = (Arc::clone(&ran), remote());
            let send = move |_| {
                let runs = Arc::clone(&runs);
                remote.spawn(move || runs.fetch_add(1, Relaxed)).unwrap().detach();
            };
            let sender = std::thread::spawn(move || (0..MANY).for_each(send));
            // To join it would let other fibers run.
            while !sender.is_finished() {
                std::hint::spin_loop();
            }
            clock.advance(APART);
            assert_eq!(ran.load(Relaxed), rounds * MANY);
        }
        let after = preemptions();
        assert_eq!((after.taken - before.taken, after.in_runtime - before.in_runtime), (5, 0));
    });
}

#[test]
fn a_fiber_that_waits_for_a_descriptor_gets_its_turn_when_data_come() {
    let scripted = scripted::runtime(ThreadControlBlocks::Auto, 2, Boost::Never);
    let clock = scripted.clock.clone();
    let (output, mut input) = pipe().unwrap();
    let read = Arc::new(AtomicUsize::new(0));
    let reads = Arc::clone(&read);
    compute(&scripted, move || {
        let mut output = Pollable::new(output).unwrap();
        let reader = move || while output.read(&mut [0]).is_ok_and(|many| reads.fetch_add(many, Release) < 2) {};
        spawn(reader).detach();
        yield_now();
        let began = clock.elapsed();
        // The first check finds that this fiber computes.
        clock.advance(APART);
        for many in 1..=3 {
            input.write_all(b"!").unwrap();
            // The time has come for another tick, which only the event brings.
            clock.advance(APART);
            while read.load(Acquire) < many {
                std::thread::yield_now();
            }
        }
        assert!(clock.elapsed() - began < TURN);
    });
}
