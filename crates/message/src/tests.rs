//! Ranks as threads of this process.

use std::thread;

use policy::waiting::WaitingRule;
use wait::Waiting;

use crate::{Communicator, MessageError, Source, Tag, Tested};

/// Runs each rank in a thread. Waits end: threads share CPUs.
fn run(ranks: u32, body: impl Fn(Communicator) + Sync) {
    run_by(Waiting::ADAPTIVE, ranks, body);
}

fn run_by(waiting: Waiting, ranks: u32, body: impl Fn(Communicator) + Sync) {
    let all = Communicator::threads(ranks, waiting).unwrap();
    thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = all.into_iter().map(|own| scope.spawn(move || body(own))).collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn messages_are_received_by_source_and_tag_in_their_order() {
    run(3, |own| match own.rank() {
        0 => {
            let mut word = [0_u32];
            let status = own.receive(2, 7, &mut word).unwrap();
            assert_eq!((status.source, status.tag, status.bytes, word), (2, 7, 4, [27]));
            for expected in [10, 11, 12] {
                own.receive(1, Tag::Any, &mut word).unwrap();
                assert_eq!(word, [expected]);
            }
            let status = own.receive(Source::Any, 9, &mut word).unwrap();
            assert_eq!((status.source, word), (2, [29]));
        }
        1 => (10..13_u32).for_each(|word| own.send(0, word, &[word]).unwrap()),
        _ => {
            own.send(0, 9, &[29_u32]).unwrap();
            own.send(0, 7, &[27_u32]).unwrap();
        }
    });
}

#[test]
fn messages_of_all_lengths_arrive_whole() {
    for rule in [WaitingRule::AlwaysBlock, WaitingRule::AlwaysYield, WaitingRule::Adaptive] {
        run_by(Waiting::by(rule), 2, |own| {
            let other = 1 - own.rank();
            for length in [0, 1, 7, 8, 9, 10_000, 16_000, 16_384, 70_000, 1 << 20] {
                let values: Vec<u8> = (0..length).map(|at: u32| (at * 7 + own.rank()) as u8).collect();
                let mut buffer = vec![0; length as usize + 1];
                // Both send first: neither has to receive for that.
                own.send(other, length, &values).unwrap();
                let status = own.receive(other, length, &mut buffer).unwrap();
                assert_eq!(status.bytes, length as usize);
                let expected = (0..length).map(|at| (at * 7 + other) as u8);
                assert!(expected.eq(buffer[..status.bytes].iter().copied()));
            }
        });
    }
}

#[test]
fn a_rank_sends_messages_to_itself() {
    run(1, |own| {
        own.send(0, 1, &[1_u64, 2]).unwrap();
        own.send(0, 2, &[3_u64]).unwrap();
        assert_eq!(own.receive_vec::<u64>(Source::Any, 2).unwrap().1, [3]);
        assert_eq!(own.try_probe(0, 1).unwrap().map(|status| status.bytes), Some(16));
        assert_eq!(own.receive_vec::<u64>(0, 1).unwrap().1, [1, 2]);
        assert_eq!(own.try_probe(0, 1).unwrap(), None);
        let request = own.begin_receive::<u64>(0, 5).unwrap();
        own.begin_send(0, 5, &[9_u64]).unwrap().wait().unwrap();
        assert_eq!(request.wait().unwrap().1, [9]);
    });
}

#[test]
fn a_message_that_does_not_fit_is_an_error_and_is_kept() {
    run(2, |own| {
        if own.rank() == 0 {
            own.send(1, 3, &[1_u32, 2, 3]).unwrap();
            own.send(1, 4, &vec![5_u8; 100_000]).unwrap();
            return;
        }
        let why = own.receive(0, 3, &mut [0_u32; 2]).unwrap_err();
        assert!(matches!(why, MessageError::TooLong { rank: 0, length: 12, room: 8 }), "{why}");
        let why = own.receive(0, 4, &mut [0_u8; 2]).unwrap_err();
        assert!(matches!(why, MessageError::TooLong { rank: 0, length: 100_000, room: 2 }), "{why}");
        assert_eq!(own.probe(Source::Any, 3).unwrap().bytes, 12);
        assert_eq!(own.receive_vec::<u32>(0, 3).unwrap().1, [1, 2, 3]);
        assert_eq!(own.receive_vec::<u8>(0, 4).unwrap().1, [5; 100_000]);
    });
}

#[test]
fn a_message_of_another_type_is_an_error() {
    run(1, |own| {
        own.send(0, 0, &[1_u8, 2, 3]).unwrap();
        let why = own.receive_vec::<u16>(0, 0).unwrap_err();
        assert!(matches!(why, MessageError::OtherType { rank: 0, length: 3 }), "{why}");
        assert!(own.send(7, 0, &[1_u8]).is_err_and(|why| why.to_string().contains("rank 7 does not exist")));
        assert!(own.receive_vec::<u8>(7, 0).is_err());
    });
}

#[test]
fn requests_complete_in_any_order_and_early_ones_take_precedence() {
    run(2, |own| {
        let other = 1 - own.rank();
        let requests: Vec<_> = (0..20).map(|tag| own.begin_receive::<u32>(other, tag).unwrap()).collect();
        let any = own.begin_receive::<u32>(Source::Any, Tag::Any).unwrap();
        let sends: Vec<_> = (0..21_u32)
            .rev()
            .map(|tag| own.begin_send(other, tag, &vec![tag; 3000 * tag as usize + 1]).unwrap())
            .collect();
        for (tag, mut request) in (0_u32..).zip(requests) {
            let values = loop {
                match request.test().unwrap() {
                    Tested::Received(status, values) => {
                        assert_eq!((status.source, status.tag), (other, tag));
                        break values;
                    }
                    Tested::Waits(again) => request = again,
                }
                thread::yield_now();
            };
            assert_eq!(values, vec![tag; 3000 * tag as usize + 1]);
        }
        assert_eq!(any.wait().unwrap().1, vec![20; 60_001]);
        sends.into_iter().for_each(|send| send.wait().unwrap());
    });
}

#[test]
fn a_request_that_is_dropped_leaves_the_next_message_to_others() {
    run(1, |own| {
        drop(own.begin_receive::<u8>(0, 1).unwrap());
        own.send(0, 1, &[4_u8]).unwrap();
        assert_eq!(own.receive_vec::<u8>(0, 1).unwrap().1, [4]);
    });
}

#[test]
fn a_rank_that_has_left_is_an_error_after_its_messages() {
    run(2, |own| {
        if own.rank() == 0 {
            own.send(1, 0, &[1_u8]).unwrap();
            return;
        }
        assert_eq!(own.receive_vec::<u8>(0, 0).unwrap().1, [1]);
        let why = own.receive_vec::<u8>(0, 0).unwrap_err();
        assert!(matches!(why, MessageError::Left { rank: 0 }), "{why}");
        assert!(matches!(own.send(0, 0, &[1_u8]), Err(MessageError::Left { rank: 0 })));
        assert!(matches!(own.barrier(), Err(MessageError::Left { rank: 0 })));
    });
}

#[test]
fn collective_calls_give_what_they_are_named_for() {
    for ranks in [1, 2, 3, 5, 8] {
        run(ranks, |own| {
            let rank = own.rank();
            for root in 0..ranks {
                own.barrier().unwrap();
                let mut values = if rank == root { [root, 7] } else { [0, 0] };
                own.broadcast(root, &mut values).unwrap();
                assert_eq!(values, [root, 7]);
                let gathered = own.gather(root, &[rank, rank * rank]).unwrap();
                let all: Vec<u32> = (0..ranks).flat_map(|rank| [rank, rank * rank]).collect();
                assert_eq!(gathered, if rank == root { all.clone() } else { vec![] });
                let mut part = [0; 2];
                own.scatter(root, &all, &mut part).unwrap();
                assert_eq!(part, [rank, rank * rank]);
                // Not commutative: the digits of all ranks in their order.
                let mut digits = [u64::from(rank), 1];
                own.reduce(root, &mut digits, |one, other| one * 10_u64.pow(u64::max(other, 1).ilog10() + 1) + other)
                    .unwrap();
                if rank == root {
                    assert_eq!(digits[0], (0..u64::from(ranks)).fold(0, |sum, rank| sum * 10 + rank));
                }
            }
            assert_eq!(own.all_gather(&[rank]).unwrap(), (0..ranks).collect::<Vec<_>>());
            let mut sum = [f64::from(rank), 1.0];
            own.all_reduce(&mut sum, |one, other| one + other).unwrap();
            assert_eq!(sum, [f64::from(ranks * (ranks - 1) / 2), f64::from(ranks)]);
            let sent: Vec<u32> = (0..ranks).flat_map(|to| [rank * 100 + to; 3]).collect();
            let expected: Vec<u32> = (0..ranks).flat_map(|from| [from * 100 + rank; 3]).collect();
            assert_eq!(own.all_to_all(&sent).unwrap(), expected);
        });
    }
}

#[test]
fn collective_calls_whose_arguments_do_not_fit_are_errors() {
    run(1, |own| {
        assert!(matches!(own.scatter(0, &[1_u8, 2], &mut [0]), Err(MessageError::Mismatch(_))));
        assert!(matches!(own.broadcast::<u8>(1, &mut []), Err(MessageError::NoSuchRank { rank: 1, ranks: 1 })));
    });
    run(2, |own| {
        let result = own.broadcast(0, &mut vec![1_u8; 2 - own.rank() as usize]);
        assert_eq!(result.is_ok(), own.rank() == 0);
        assert!(own.all_to_all(&[1_u8; 3]).is_err());
    });
}

#[test]
fn communicators_that_were_split_do_not_mix_their_messages() {
    run(6, |own| {
        let rank = own.rank();
        let odd = own.split(Some(rank % 2), 100 - rank).unwrap().unwrap();
        assert_eq!((odd.ranks(), odd.rank()), (3, 2 - rank / 2), "the keys turn the order round");
        let none = own.split((rank != 0).then_some(5), 0).unwrap();
        assert_eq!(none.as_ref().map(|none| (none.ranks(), none.rank())), (rank != 0).then(|| (5, rank - 1)));
        // The same source and tag in three communicators.
        if rank == 3 {
            own.send(5, 1, &[1_u8]).unwrap();
            odd.send(0, 1, &[2_u8]).unwrap();
            none.as_ref().unwrap().send(4, 1, &[3_u8]).unwrap();
        }
        if rank == 5 {
            let none = none.unwrap();
            let status = none.probe(Source::Any, 1).unwrap();
            assert_eq!((status.source, none.receive_vec::<u8>(Source::Any, Tag::Any).unwrap().1), (2, vec![3]));
            assert_eq!(odd.receive_vec::<u8>(Source::Any, Tag::Any).unwrap().1, [2]);
            assert_eq!(own.receive_vec::<u8>(Source::Any, Tag::Any).unwrap().1, [1]);
        }
        let mut sum = [rank];
        odd.all_reduce(&mut sum, |one, other| one + other).unwrap();
        assert_eq!(sum, [if rank % 2 == 0 { 6 } else { 9 }]);
    });
}

#[test]
fn threads_of_a_rank_send_and_receive_at_the_same_time() {
    run(2, |own| {
        let other = 1 - own.rank();
        thread::scope(|scope| {
            for tag in 0..4_u32 {
                let own = &own;
                scope.spawn(move || {
                    for round in 0..200_u32 {
                        let length = if round % 50 == 7 { 40_000 } else { round % 20 };
                        own.send(other, tag, &vec![round; length as usize]).unwrap();
                    }
                });
                scope.spawn(move || {
                    for round in 0..200_u32 {
                        let (_, values) = own.receive_vec::<u32>(other, tag).unwrap();
                        assert!(values.iter().all(|&value| value == round));
                    }
                });
            }
        });
    });
}
