//! Ranks as threads of one process, for the thread sanitizer, which cannot see across processes.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::thread;

use rowlock_message::{Communicator, Source, Tag};
use wait::{Waiting, WaitingRule};

#[test]
fn ranks_that_send_receive_and_meet_do_not_race() {
    for rule in [WaitingRule::AlwaysBlock, WaitingRule::AlwaysYield, WaitingRule::Adaptive] {
        let ranks = Communicator::threads(4, Waiting::by(rule)).unwrap();
        thread::scope(|scope| {
            ranks.iter().for_each(|own| drop(scope.spawn(|| exchange(own))));
        });
    }
}

/// Sends short and long messages to all others, from two threads, and receives theirs.
fn exchange(own: &Communicator) {
    let (rank, ranks) = (own.rank(), own.ranks());
    let others = || (0..ranks).filter(|&other| other != rank);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..20_u32 {
                others().for_each(|to| own.send(to, round, &vec![rank; round as usize * 97]).unwrap());
            }
        });
        let sends: Vec<_> = others().map(|to| own.begin_send(to, 100, &vec![rank; 20_000]).unwrap()).collect();
        for _ in 0..21 * (ranks - 1) {
            let (status, values) = own.receive_vec::<u32>(Source::Any, Tag::Any).unwrap();
            assert!(values.iter().all(|&value| value == status.source));
        }
        sends.into_iter().for_each(|send| send.wait().unwrap());
    });
    let mut sum = [rank; 3];
    own.all_reduce(&mut sum, |one, other| one + other).unwrap();
    assert_eq!(sum, [ranks * (ranks - 1) / 2; 3]);
    own.barrier().unwrap();
}
