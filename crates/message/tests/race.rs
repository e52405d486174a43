//! Plain memory that only messages order, for the thread sanitizer. Without it these are ordinary
//! tests.
//!
//! The ranks are threads of one process. The sanitizer sees no locks of the standard library that
//! threads wait for, and no last owner of an `Arc`. So each rank is one thread, and the ranks live
//! as long as the program.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "ranks access plain memory in turn")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::cell::UnsafeCell;
use std::thread;
use std::time::Duration;

use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rowlock_message::{Communicator, Source, Tag, Waiting};
use wait::Barrier;

const RANKS: u32 = 3;

/// A value of each rank, in plain memory.
struct Board([UnsafeCell<u64>; RANKS as usize]);

// SAFETY: messages and collective calls separate the accesses of the ranks: see each use.
unsafe impl Sync for Board {}

/// Runs each rank in a thread, by every rule.
fn run(rank: fn(&Communicator, &Board, u64)) {
    for entry in WAITING {
        // Rules that never block are slow with more ranks than CPUs.
        let never_blocks = matches!(entry.example, WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield);
        let rounds = if never_blocks { 20 } else { 200 };
        // Determine what a process determines once before there are threads: a race detector does
        // not see how the standard library shares it.
        let waiting = Waiting::by(entry.example).with_cpus(2);
        assert!(Barrier::with(2, waiting).anonymous().wait_timeout(Duration::ZERO).is_err());
        let world = rowlock_message::threads(RANKS, waiting).unwrap();
        let board: &Board = Box::leak(Box::new(Board([const { UnsafeCell::new(0) }; RANKS as usize])));
        let start = |world| thread::spawn(move || rank(world, board, rounds));
        let ranks: Vec<_> = world.leak().iter().map(start).collect();
        for rank in ranks {
            if rank.join().is_err() {
                panic!("a rank panicked");
            }
        }
    }
}

/// The ranks add to the first value in turn. A token of so many words says whose turn it is.
fn pass_token(world: &Communicator, board: &Board, rounds: u64, words: usize) {
    let (rank, next) = (world.rank(), (world.rank() + 1) % RANKS);
    let mut token = vec![0; words];
    for round in 0..rounds {
        if (rank, round) != (0, 0) {
            world.receive(Source::Any, Tag::Any, &mut token).unwrap();
        }
        // SAFETY: it is the turn of this rank, and the others wait for theirs.
        let value = unsafe { &mut *board.0[0].get() };
        assert_eq!(*value, round * u64::from(RANKS) + u64::from(rank), "what was done in earlier turns");
        *value += 1;
        let is_last = (next, round + 1) == (0, rounds);
        if !is_last && round % 2 == 0 {
            world.send(next, 0, &token).unwrap();
        } else if !is_last {
            world.isend(next, 0, token.clone()).unwrap().wait().unwrap();
        }
    }
}

#[test]
fn a_rank_sees_what_was_done_before_a_short_message_was_sent() {
    run(|world, board, rounds| pass_token(world, board, rounds, 1));
}

#[test]
fn a_rank_sees_what_was_done_before_a_long_message_was_sent() {
    run(|world, board, rounds| pass_token(world, board, rounds / 10, 3_000));
}

/// All ranks write their value and read those of all, in turn.
fn write_and_read(world: &Communicator, board: &Board, rounds: u64, wait: impl Fn()) {
    for round in 1..=rounds {
        // SAFETY: no other rank accesses this value before the wait below.
        unsafe { *board.0[world.rank() as usize].get() = round };
        wait();
        for value in &board.0 {
            // SAFETY: all ranks have written, and will wait again before they write next.
            assert_eq!(unsafe { *value.get() }, round, "what a rank wrote before the wait");
        }
        wait();
    }
}

#[test]
fn a_rank_sees_after_a_barrier_what_all_did_before_it() {
    run(|world, board, rounds| write_and_read(world, board, rounds, || world.barrier().unwrap()));
}

#[test]
fn a_rank_sees_after_a_fence_what_all_did_before_it() {
    run(|world, board, rounds| {
        let window = world.window(1).unwrap();
        write_and_read(world, board, rounds, || window.fence().unwrap());
    });
}
