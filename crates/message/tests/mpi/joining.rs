//! How ranks join and end.

use rowlock_message::{Error, Waiting, mpi};

use super::{run, run_and_check};

#[test]
fn a_process_joins_once() {
    run(2, |world| {
        let why = mpi::join(Waiting::default()).unwrap_err();
        let expected = "cannot join by MPI: this process has joined before, and that is possible once";
        assert_eq!(why.to_string(), expected);
        drop(world);
        assert!(mpi::join(Waiting::default()).is_err());
    });
}

#[test]
fn ranks_of_a_launcher_are_found_without_naming_it() {
    run_and_check(
        3,
        |mut command| testing::run(&mut command).expect_success(),
        || {
            let world = rowlock_message::join(Waiting::default()).unwrap();
            let mut sum = [world.rank()];
            world.all_reduce(&mut sum, |before, after| before + after).unwrap();
            assert_eq!(sum, [3]);
        },
    );
}

#[test]
fn a_rank_that_panics_ends_the_job_and_the_others_know() {
    run_and_check(
        2,
        |mut command| {
            let output = testing::run(&mut command);
            assert!(!output.status.success(), "{output}");
            output
        },
        || {
            let world = mpi::join(Waiting::default()).unwrap();
            if world.rank() == 1 {
                panic!("in the middle");
            }
            let why = world.receive(1, 0, &mut [0_u8]).unwrap_err();
            assert!(matches!(why, Error::Lost { rank: 1, .. }), "{why}");
        },
    );
}

#[test]
fn a_rank_that_is_killed_ends_the_job() {
    run_and_check(
        2,
        |mut command| {
            let output = testing::run(&mut command);
            assert!(!output.status.success(), "{output}");
            output
        },
        || {
            let world = mpi::join(Waiting::default()).unwrap();
            if world.rank() == 1 {
                std::process::abort();
            }
            let result = world.receive(1, 0, &mut [0_u8]);
            panic!("the launcher ends this rank: {result:?}");
        },
    );
}

#[test]
fn the_last_communicator_may_be_dropped_by_another_thread() {
    run(2, |world| std::thread::spawn(move || world.barrier().unwrap()).join().unwrap());
}
