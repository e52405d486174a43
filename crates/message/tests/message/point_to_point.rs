//! Messages between two ranks, or a few.

use policy::table::WAITING;
use rowlock_message::{Error, Source, Status, Tag};
use wait::Waiting;

use super::{run, run_by};

/// Longer than a record.
const LONG: usize = 300_000;

fn values(length: usize, seed: u64) -> Vec<u64> {
    (0..length as u64).map(|place| place.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed).collect()
}

#[test]
fn messages_of_any_length_go_there_and_back_by_every_rule() {
    for entry in WAITING {
        run_by(2, Waiting::by(entry.example), |world| {
            for (tag, length) in (0..).zip([0, 1, 7, 8, 2_045, 2_046, 2_047, 40_000]) {
                let (sent, mut received) = (values(length, tag.into()), vec![0; length]);
                if world.rank() == 0 {
                    world.send(1, tag, &sent).unwrap();
                    let status = world.receive(1, tag, &mut received).unwrap();
                    assert_eq!(status, Status { source: 1, tag, count: length }, "{}", entry.form);
                    assert_eq!(received, sent);
                } else {
                    world.receive(0, tag, &mut received).unwrap();
                    world.send(0, tag, &received).unwrap();
                }
            }
        });
    }
}

#[test]
fn a_long_message_that_no_call_receives_yet_does_not_delay_a_later_one() {
    run(2, |world| {
        let long = values(100_000, 3);
        if world.rank() == 0 {
            let request = world.isend(1, 1, long.clone()).unwrap();
            world.send(1, 2, &[7_u8]).unwrap();
            assert_eq!(request.wait(), Ok(long));
        } else {
            // These calls do not wait, so they read no long message.
            let short = world.ireceive::<u8>(0, 2).unwrap();
            while short.test().unwrap().is_none() {}
            let mut received = vec![0; long.len()];
            world.receive(0, 1, &mut received).unwrap();
            assert_eq!(received, long);
            short.wait(&mut [0]).unwrap();
        }
    });
}

#[test]
fn a_call_that_waits_is_counted_by_every_rule() {
    for entry in WAITING {
        let world = rowlock_message::threads(2, Waiting::by(entry.example)).unwrap();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| world[1].receive(0, 0, &mut [0_u8]).unwrap());
            // It has no message until it waits.
            while world[1].statistics().waits == 0 {
                std::thread::yield_now();
            }
            world[0].send(1, 0, &[1_u8]).unwrap();
            receiver.join().unwrap();
        });
        let waits: Vec<u64> = world.iter().map(|world| world.statistics().waits).collect();
        assert_eq!(waits, [0, 1], "{}", entry.form);
    }
}

#[test]
fn order_holds_for_each_pair_and_tag() {
    run(2, |world| {
        if world.rank() == 0 {
            (0..1_000_u32).for_each(|number| world.send(1, number % 2, &[number]).unwrap());
        } else {
            let mut value = [0];
            for tag in [1, 0] {
                for number in 0..500 {
                    world.receive(0, tag, &mut value).unwrap();
                    assert_eq!(value, [number * 2 + tag]);
                }
            }
        }
    });
}

#[test]
fn any_source_and_any_tag_are_received_with_their_status() {
    run(4, |world| {
        let rank = world.rank();
        if rank > 0 {
            return world.send(0, rank * 10, &[f64::from(rank)]).unwrap();
        }
        let mut sources: Vec<u32> = (1..4)
            .map(|_| {
                let mut value = [0.0; 2];
                let status = world.receive(Source::Any, Tag::Any, &mut value).unwrap();
                assert_eq!((status.tag, status.count), (status.source * 10, 1));
                assert_eq!(value, [f64::from(status.source), 0.0]);
                status.source
            })
            .collect();
        sources.sort_unstable();
        assert_eq!(sources, [1, 2, 3]);
    });
}

/// Both send more than the ring holds before they receive.
fn exchange(length: usize, times: u32) {
    run(2, |world| {
        let other = 1 - world.rank();
        for number in 0..times {
            world.send(other, 0, &values(length, number.into())).unwrap();
        }
        let mut received = vec![0; length];
        for number in 0..times {
            world.receive(other, 0, &mut received).unwrap();
            assert_eq!(received, values(length, number.into()));
        }
    });
}

#[test]
fn two_ranks_that_fill_their_rings_do_not_lock_up() {
    exchange(1_000, 200);
}

#[test]
fn two_ranks_that_send_each_other_long_messages_do_not_lock_up() {
    exchange(LONG, 2);
}

#[test]
fn a_rank_sends_to_itself() {
    run(1, |world| {
        world.send(0, 3, &values(LONG, 1)).unwrap();
        world.isend(0, 4, vec![1_u8]).unwrap().wait().unwrap();
        let mut received = vec![0; LONG];
        world.receive(0, 3, &mut received).unwrap();
        assert_eq!(received, values(LONG, 1));
        assert_eq!(world.receive(0, 4, &mut [0_u8]).unwrap().count, 1);
    });
}

#[test]
fn requests_complete_in_any_order_and_give_their_values_back() {
    run(2, |world| {
        if world.rank() == 0 {
            let requests: Vec<_> =
                (0..50).map(|tag| world.isend(1, tag, values(tag as usize * 1_000, tag.into())).unwrap()).collect();
            for (tag, request) in (0..50_u32).zip(requests).rev() {
                assert_eq!(request.wait().unwrap(), values(tag as usize * 1_000, tag.into()));
            }
        } else {
            let requests: Vec<_> = (0..50).map(|tag| (tag, world.ireceive::<u64>(0, tag).unwrap())).collect();
            for (tag, request) in requests.into_iter().rev() {
                let length = tag as usize * 1_000;
                let mut received = vec![0; length];
                let status = loop {
                    if let Some(status) = request.test().unwrap() {
                        break status;
                    }
                };
                assert_eq!(status, Status { source: 0, tag, count: length });
                request.wait(&mut received).unwrap();
                assert_eq!(received, values(length, tag.into()));
            }
        }
    });
}

#[test]
fn requests_may_be_leaked_or_dropped() {
    run(2, |world| {
        if world.rank() == 0 {
            std::mem::forget(world.isend(1, 0, values(LONG, 1)).unwrap());
            drop(world.isend(1, 1, values(LONG, 2)).unwrap());
            // The sender makes progress in other calls.
            world.receive(1, 9, &mut [0_u8]).unwrap();
        } else {
            // The first of two receives, if it is dropped, leaves the message to the second.
            let first = world.ireceive::<u64>(0, 0).unwrap();
            let second = world.ireceive::<u64>(0, 0).unwrap();
            while first.test().unwrap().is_none() {}
            assert_eq!(second.test().unwrap(), None);
            drop(first);
            let mut received = vec![0; LONG];
            second.wait(&mut received).unwrap();
            assert_eq!(received, values(LONG, 1));
            world.receive(0, 1, &mut received).unwrap();
            assert_eq!(received, values(LONG, 2));
            world.send(0, 9, &[1_u8]).unwrap();
        }
    });
}

#[test]
fn a_probe_tells_what_a_receive_will_get() {
    run(2, |world| {
        if world.rank() == 0 {
            assert_eq!(world.iprobe::<u8>(1, Tag::Any).unwrap(), None);
            world.send(1, 7, &[1_u32, 2, 3]).unwrap();
        } else {
            let status = world.probe::<u32>(Source::Any, Tag::Any).unwrap();
            assert_eq!(status, Status { source: 0, tag: 7, count: 3 });
            let mut received = vec![0; status.count];
            assert_eq!(world.receive(status.source, status.tag, &mut received).unwrap(), status);
            assert_eq!(received, [1, 2, 3]);
        }
    });
}

#[test]
fn ranks_send_and_receive_long_messages_at_the_same_time() {
    run(3, |world| {
        let (to, from) = ((world.rank() + 1) % 3, (world.rank() + 2) % 3);
        let (sent, mut received) = (values(LONG, world.rank().into()), vec![0_u64; LONG]);
        world.send_receive((to, 0, &sent), (from, Tag::Any, &mut received)).unwrap();
        assert_eq!(received, values(LONG, from.into()));
    });
}

#[test]
fn threads_of_a_rank_send_and_receive_at_the_same_time() {
    run(2, |world| {
        let other = 1 - world.rank();
        std::thread::scope(|scope| {
            for tag in 0..3 {
                let world = &world;
                scope.spawn(move || {
                    for number in 0..300_u64 {
                        world.send(other, tag, &[number; 40]).unwrap();
                    }
                    world.send(other, tag, &values(LONG, tag.into())).unwrap();
                });
                scope.spawn(move || {
                    let mut received = [0_u64; 40];
                    for number in 0..300 {
                        world.receive(other, tag, &mut received).unwrap();
                        assert_eq!(received, [number; 40]);
                    }
                    let mut long = vec![0; LONG];
                    world.receive(other, tag, &mut long).unwrap();
                    assert_eq!(long, values(LONG, tag.into()));
                });
            }
        });
    });
}

#[test]
fn a_message_that_does_not_fit_is_kept() {
    run(2, |world| {
        if world.rank() == 0 {
            world.send(1, 5, &[1_u8, 2, 3]).unwrap();
            world.send(1, 5, &[4_u8]).unwrap();
            return world.send(1, 6, &values(LONG, 1)).unwrap();
        }
        let short = world.receive(0, 5, &mut [0_u8; 2]).unwrap_err();
        assert_eq!(short, Error::TooShort { rank: 0, tag: 5, length: 3, room: 2 });
        let other = world.receive(0, 5, &mut [0_u16; 2]).unwrap_err();
        assert_eq!(other, Error::OtherType { rank: 0, tag: 5, length: 3, size: 2 });
        let mut received = [0_u8; 3];
        for expected in [[1, 2, 3], [4, 2, 3]] {
            world.receive(0, 5, &mut received).unwrap();
            assert_eq!(received, expected);
        }
        let short = world.receive(0, 6, &mut [0_u64; 2]).unwrap_err();
        assert_eq!(short, Error::TooShort { rank: 0, tag: 6, length: LONG as u64 * 8, room: 16 });
        world.receive(0, 6, &mut vec![0_u64; LONG]).unwrap();
    });
}
