//! How ranks join and end.

use std::process::Command;

use rowlock_message::{Error, Waiting, is_launched, mpi};
use testing::Output;

use super::{run, run_all, run_in};

#[test]
fn a_process_joins_once() {
    run(2, |world| {
        let expected = "cannot join by MPI: this process has joined before, or tried to, and that is possible once";
        assert_eq!(mpi::join(Waiting::default()).unwrap_err().to_string(), expected);
        drop(world);
        assert_eq!(mpi::join(Waiting::default()).unwrap_err().to_string(), expected);
    });
}

#[test]
fn a_rank_of_a_launcher_finds_its_job_as_that_of_prun() {
    let rank = || {
        assert!(is_launched());
        let world = rowlock_message::join(Waiting::default()).unwrap();
        let mut sum = [world.rank()];
        world.all_reduce(&mut sum, |before, after| before + after).unwrap();
        assert_eq!(sum, [3]);
    };
    run_all(3, |_| (), rank);
}

#[test]
fn the_last_communicator_may_be_dropped_by_another_thread() {
    run(2, |world| std::thread::spawn(move || world.barrier().unwrap()).join().unwrap());
}

fn expect_failure(mut command: Command) -> Output {
    let output = testing::run(&mut command);
    let has_failed = !output.status.success() && output.killed.is_none();
    output.expect(has_failed, "the launcher reports that a rank has failed")
}

#[test]
fn a_rank_that_panics_is_one_that_has_died() {
    let rank = || {
        let world = mpi::join(Waiting::default()).unwrap();
        assert_ne!(world.rank(), 1, "in the middle");
        let why = world.receive(1, 0, &mut [0_u8]).unwrap_err();
        assert!(matches!(why, Error::Lost { rank: 1, .. }), "{why}");
    };
    run_in(2, expect_failure, rank);
}

#[test]
fn a_rank_that_is_killed_ends_the_job() {
    let rank = || {
        let world = mpi::join(Waiting::default()).unwrap();
        if world.rank() == 1 {
            std::process::abort();
        }
        let result = world.receive(1, 0, &mut [0_u8]);
        panic!("the launcher ends this rank: {result:?}");
    };
    run_in(2, expect_failure, rank);
}
