//! What each party did before a round is visible to all after it. Only the barrier orders the
//! accesses to plain memory.
#![allow(unsafe_code, reason = "threads access plain memory in turn")]

use std::cell::UnsafeCell;
use std::time::Duration;

use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rowlock_wait::Barrier;

use crate::costs::by;

const THREADS: u32 = 3;

/// Each party writes its round here.
struct Board([UnsafeCell<u64>; THREADS as usize]);

// SAFETY: between two waits, a cell is either written by its own party or only read. The barrier
// separates the two.
unsafe impl Sync for Board {}

fn meet(board: &Board, barrier: &Barrier, number: u32, rounds: u64) {
    let mut party = barrier.party(number);
    for round in 1..=rounds {
        // SAFETY: no other party accesses this cell before the wait below.
        unsafe { *board.0[number as usize].get() = round };
        party.wait();
        for cell in &board.0 {
            // SAFETY: all parties have written, and will wait again before they write next.
            let seen = unsafe { *cell.get() };
            assert_eq!(seen, round, "what a party wrote before the barrier");
        }
        party.wait();
    }
}

#[test]
fn each_party_sees_what_the_others_did_before_the_round() {
    for entry in WAITING {
        // A rule that never gives up its CPU is slow with more threads than CPUs.
        let rounds = if entry.example == WaitingRule::AlwaysSpin { 20 } else { 500 };
        // Determine what a process determines once before there are threads: a race detector does
        // not see how the standard library shares it.
        let waiting = by(entry.example).with_cpus(2);
        assert!(Barrier::with(2, waiting).anonymous().wait_timeout(Duration::ZERO).is_err());
        // They live as long as the program, so no thread is the last to drop them.
        let barrier: &Barrier = Box::leak(Box::new(Barrier::with(THREADS, waiting)));
        let board: &Board = Box::leak(Box::new(Board([const { UnsafeCell::new(0) }; THREADS as usize])));
        let threads = [0, 1, 2].map(|number| std::thread::spawn(move || meet(board, barrier, number, rounds)));
        for thread in threads {
            if thread.join().is_err() {
                panic!("a thread panicked");
            }
        }
    }
}
