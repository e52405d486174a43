//! Ranks that are not there, leave or die.

use policy::waiting::WaitingRule;
use rowlock_message::{Error, JoinError, Source, Tag};
use sys::cpus::{current, pin};
use wait::Waiting;

use super::{run, run_by};

#[test]
fn ranks_out_of_range_are_errors() {
    run(2, |world| {
        let error = Error::NoSuchRank { rank: 2, ranks: 2 };
        assert_eq!(world.send(2, 0, &[0_u8]), Err(error.clone()));
        assert_eq!(world.receive(2, 0, &mut [0_u8]), Err(error.clone()));
        assert_eq!(world.isend(2, 0, vec![0_u8]).map(drop), Err(error.clone()));
        assert_eq!(world.ireceive::<u8>(2, 0).map(drop), Err(error.clone()));
        assert_eq!(world.iprobe::<u8>(2, 0), Err(error));
    });
    for ranks in [0, 257, u32::MAX] {
        let why = rowlock_message::threads(ranks, Waiting::default()).unwrap_err();
        assert!(matches!(why, JoinError::Ranks { .. }), "{why}");
    }
}

#[test]
fn a_wait_for_a_rank_that_has_left_is_an_error_after_its_last_message() {
    run(2, |world| {
        if world.rank() == 0 {
            return world.send(1, 0, &[7_u8]).unwrap();
        }
        let mut value = [0_u8];
        world.receive(0, 0, &mut value).unwrap();
        assert_eq!(value, [7]);
        assert_eq!(world.receive(0, 0, &mut value), Err(Error::Left { rank: 0 }));
        assert_eq!(world.receive(Source::Any, Tag::Any, &mut value), Err(Error::Left { rank: 0 }));
        assert_eq!(world.barrier(), Err(Error::Left { rank: 0 }));
        assert_eq!(world.probe::<u8>(0, 0), Err(Error::Left { rank: 0 }));
    });
}

#[test]
fn a_rank_does_not_spin_for_one_that_may_need_its_cpu() {
    for (cpus, spins) in [(1, false), (2, true)] {
        run_by(2, Waiting::by(WaitingRule::OwnerRunning).with_cpus(cpus), |world| {
            let _here = pin(current());
            if world.rank() == 1 {
                assert_eq!(world.receive(0, 0, &mut [0_u8]), Err(Error::Left { rank: 0 }));
                let found = world.statistics();
                assert_eq!((found.spins > 0, found.blocks > 0), (spins, true), "{cpus} CPUs: {found:?}");
            }
        });
    }
}

#[test]
fn calls_that_do_not_wait_find_that_a_rank_has_left() {
    run(3, |world| {
        let mut value = [0_u8];
        match world.rank() {
            0 => {
                let (stays, leaves) = (world.ireceive::<u8>(2, 0).unwrap(), world.ireceive::<u8>(1, 0).unwrap());
                let left = Error::Left { rank: 1 };
                let why = loop {
                    assert_eq!(stays.test(), Ok(None));
                    if let Err(why) = leaves.test() {
                        break why;
                    }
                };
                assert_eq!(why, left);
                assert_eq!(world.iprobe::<u8>(1, 5), Err(left));
                assert_eq!(world.iprobe::<u8>(Source::Any, 5), Ok(None));
                world.send(2, 0, &[0_u8]).unwrap();
            }
            1 => {}
            _ => _ = world.receive(0, 0, &mut value).unwrap(),
        }
    });
}

#[test]
fn a_rank_that_leaves_sends_what_is_queued_for_those_that_stay() {
    // More than a ring holds.
    const MESSAGES: u32 = 2_000;
    run(3, |world| match world.rank() {
        0 => {
            for (number, to) in (0..MESSAGES).flat_map(|number| [1, 2].map(|to| (number, to))) {
                drop(world.isend(to, 0, vec![number; 100]).unwrap());
            }
        }
        1 => {}
        _ => {
            // Its ring is full as well until then.
            let last = world.probe::<u32>(0, 0).map(|_| std::thread::sleep(std::time::Duration::from_millis(200)));
            last.unwrap();
            let mut values = [0; 100];
            for number in 0..MESSAGES {
                world.receive(0, 0, &mut values).unwrap();
                assert_eq!(values, [number; 100]);
            }
        }
    });
}

#[test]
fn a_long_message_of_a_rank_that_leaves_is_an_error_of_the_receiver() {
    run(2, |world| {
        if world.rank() == 0 {
            drop(world.isend(1, 4, vec![0_u8; 1 << 20]).unwrap());
            return;
        }
        while world.receive(0, 5, &mut [0_u8]) != Err(Error::Left { rank: 0 }) {}
        let why = world.receive(0, 4, &mut vec![0_u8; 1 << 20]);
        // It was fetched before the rank left, or withdrawn.
        assert!(matches!(why, Ok(_) | Err(Error::Withdrawn { rank: 0, tag: 4, length: 1_048_576 })), "{why:?}");
    });
}

#[test]
fn a_full_ring_to_a_rank_that_leaves_is_an_error_of_the_sender() {
    run(2, |world| {
        if world.rank() == 1 {
            return;
        }
        let why = loop {
            if let Err(why) = world.send(1, 0, &[0_u64; 1_000]) {
                break why;
            }
        };
        assert_eq!(why, Error::Left { rank: 1 });
    });
}

#[test]
fn a_thread_that_panics_is_a_rank_that_has_died() {
    let mut world = rowlock_message::threads(3, Waiting::default()).unwrap();
    let (other, waiting, panicking) = (world.remove(0), world.remove(0), world.remove(0));
    let thread = std::thread::spawn(move || {
        let _panicking = panicking;
        std::panic::resume_unwind(Box::new("in the middle"));
    });
    assert!(thread.join().is_err());
    let lost = Error::Lost { rank: 2, pid: std::process::id() };
    assert_eq!(waiting.receive(0, 0, &mut [0_u8]), Err(lost.clone()));
    assert_eq!(other.barrier(), Err(lost));
}
