//! Collective calls and communicators.

use rowlock_message::{Communicator, Error, Source, Tag};

use super::run;

#[test]
fn all_collective_calls_give_their_results_for_any_number_of_ranks() {
    for ranks in [1, 2, 3, 5, 8] {
        run(ranks, |world| {
            let rank = world.rank();
            for root in 0..ranks {
                for length in [0, 1, 3, 5_000] {
                    world.barrier().unwrap();
                    let mut values = vec![if rank == root { u64::from(root) + 7 } else { 0 }; length];
                    world.broadcast(root, &mut values).unwrap();
                    assert_eq!(values, vec![u64::from(root) + 7; length]);

                    let all: Vec<u64> = (0..length as u64 * u64::from(ranks)).collect();
                    let own = &all[rank as usize * length..][..length];
                    let mut part = vec![0; length];
                    world.scatter(root, if rank == root { &all } else { &[] }, &mut part).unwrap();
                    assert_eq!(part, own);
                    let mut gathered = vec![0; if rank == root { all.len() } else { 0 }];
                    world.gather(root, &part, &mut gathered).unwrap();
                    assert!(rank != root || gathered == all);
                    let mut everywhere = vec![0; all.len()];
                    world.all_gather(&part, &mut everywhere).unwrap();
                    assert_eq!(everywhere, all);

                    let parts: Vec<u64> = all.iter().map(|value| value + u64::from(rank) * 1_000_000).collect();
                    let mut received = vec![0; parts.len()];
                    world.all_to_all(&parts, &mut received).unwrap();
                    for from in 0..ranks {
                        let expected: Vec<u64> = own.iter().map(|value| value + u64::from(from) * 1_000_000).collect();
                        assert_eq!(&received[from as usize * length..][..length], expected);
                    }
                }
            }
        });
    }
}

/// Joins ranges of ranks. It is associative, and depends on the order.
fn join(before: u64, after: u64) -> u64 {
    let [(begin, middle), (next, end)] = [before, after].map(|range| (range >> 32, range & 0xffff_ffff));
    assert_eq!(middle, next, "neighbours in the order of ranks");
    begin << 32 | end
}

#[test]
fn values_are_combined_in_the_order_of_ranks() {
    for ranks in [1, 2, 3, 6, 7, 8] {
        run(ranks, |world| {
            let own = u64::from(world.rank()) << 32 | u64::from(world.rank() + 1);
            for root in 0..ranks {
                let mut values = [own; 3];
                world.reduce(root, &mut values, join).unwrap();
                assert!(world.rank() != root || values == [u64::from(ranks); 3]);
            }
            let mut values = [own];
            world.all_reduce(&mut values, join).unwrap();
            assert_eq!(values, [u64::from(ranks)]);
        });
    }
}

#[test]
fn a_communicator_is_divided_by_color_and_ordered_by_key() {
    run(7, |world| {
        let rank = world.rank();
        let color = (rank != 6).then_some(rank % 2);
        let part = world.split(color, -(rank as i32)).unwrap();
        assert_eq!(part.is_some(), rank != 6);
        let Some(part) = part else { return };
        assert_eq!((part.ranks(), part.rank()), (3, 2 - rank / 2));
        let mut ranks = [0; 3];
        part.all_gather(&[rank], &mut ranks).unwrap();
        assert_eq!(ranks, [4, 2, 0].map(|first| first + rank % 2));
    });
}

#[test]
fn messages_of_communicators_do_not_mix() {
    run(4, |world| {
        let [one, two] = [0, 0].map(|key| world.split(Some(0), key).unwrap().unwrap());
        let to = (world.rank() + 1) % 4;
        for (number, communicator) in [(1, &two), (2, &one), (3, &world)] {
            communicator.send(to, 0, &[number]).unwrap();
        }
        for (number, communicator) in [(3, &world), (2, &one), (1, &two)] {
            communicator.barrier().unwrap();
            let mut value = [0];
            communicator.receive(Source::Any, Tag::Any, &mut value).unwrap();
            assert_eq!(value, [number]);
        }
    });
}

#[test]
fn buffers_that_do_not_fit_together_are_errors() {
    run(2, |world| {
        let rank = world.rank();
        let wrong = Error::WrongLength { rank, found: 3, expected: 2 };
        assert_eq!(world.all_gather(&[1_u8], &mut [0; 3]), Err(wrong.clone()));
        assert_eq!(world.all_to_all(&[1_u8; 3], &mut [0; 2]), Err(wrong));
        assert_eq!(world.broadcast(2, &mut [0_u8]), Err(Error::NoSuchRank { rank: 2, ranks: 2 }));
        // The root has fewer values than the other rank expects.
        let result = world.broadcast(0, &mut vec![0_u8; if rank == 0 { 1 } else { 2 }]);
        let shorter = Error::OtherLength { rank: 0, found: 1, expected: 2 };
        assert_eq!(result, if rank == 0 { Ok(()) } else { Err(shorter) });
    });
}

#[test]
fn a_rank_with_another_number_of_values_is_named_whether_it_has_more_or_fewer() {
    for [own, other] in [[3, 5], [5, 3]] {
        run(2, |world| {
            let is_first = world.rank() == 0;
            let expect = |call: fn(&Communicator, usize) -> Result<(), Error>| {
                // A part that is too long stays in its communicator.
                let both = world.split(Some(0), 0).unwrap().unwrap();
                let result = call(&both, if is_first { own } else { other });
                let different = Error::OtherLength { rank: 1, found: other as u64, expected: own as u64 };
                assert!(!is_first || result == Err(different), "{result:?}");
            };
            expect(|both, length| both.broadcast(1, &mut vec![0_u64; length]));
            expect(|both, length| both.scatter(1, &vec![0_u64; 2 * length], &mut vec![0; length]));
            expect(|both, length| both.gather(0, &vec![0_u64; length], &mut vec![0; 2 * length]));
            expect(|both, length| both.reduce(0, &mut vec![0_u64; length], u64::max));
            expect(|both, length| both.all_to_all(&vec![0_u64; 2 * length], &mut vec![0; 2 * length]));
            // The other rank waits in this until the first one has left.
            expect(|both, length| both.all_reduce(&mut vec![0_u64; length], u64::max));
        });
    }
}

#[test]
fn a_rank_with_values_of_another_size_is_named() {
    run(2, |world| match world.rank() {
        0 => {
            let why = world.gather(0, &[0_u64], &mut [0; 2]);
            assert_eq!(why, Err(Error::OtherValues { rank: 1, length: 5, size: 8 }));
        }
        _ => world.gather(0, &[0_u8; 5], &mut []).unwrap(),
    });
}
